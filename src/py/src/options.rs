//! What a caller asked for, checked and made ready once per call: the request, its limits, the policy, the hooks.
//!
//! Runs with the GIL held; nothing is sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Uri};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use steadycall_net::transport::{Limits, Request, Route, SetupError, Url, Via};
use steadycall_net::{lane, proxy, url};

use crate::ending::{Elsewhere, Target, Whither};
use crate::errors;
use crate::{convert, json};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("steadycall/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_ALLOWED: &str = "visible ASCII text without spaces, or None";

/// What one call sends, and within which bounds.
#[derive(Clone)]
pub struct Options {
    /// What to send; replaced when a headers callable is asked.
    pub request: Arc<Request>,
    /// Which HTTP client.
    pub route: Arc<Route>,
    /// Which variable of the environment named the proxy.
    variable: Option<&'static str>,
    /// I/O timeouts and the size limit; the attempt's own end is set per attempt.
    pub limits: Limits,
    /// Where it goes, fit for errors and logs.
    pub target: Arc<Target>,
    /// Sent on every attempt.
    key: Option<HeaderValue>,
    /// What the caller's headers are laid over.
    base: HeaderMap,
    /// What is laid over the headers that a callable gives.
    over: HeaderMap,
}

impl Options {
    /// Everything about the request and its route.
    pub fn new(
        request: (&Bound<'_, PyAny>, &Bound<'_, PyAny>, &Bound<'_, PyAny>),
        limits: (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        route: (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        errors::guarded(payload.py(), "reading the arguments", || {
            Self::checked(request, limits, route, payload)
        })
    }

    fn checked(
        (url, headers, idempotency_key): (&Bound<'_, PyAny>, &Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (timeout, max_response_bytes): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (given_proxy, ca_bundle): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = url.py();
        let target = target(url)?;
        let most = convert::count("max_response_bytes", max_response_bytes, i64::MAX)?;
        let max_response_bytes = most.unsigned_abs();
        let limits = Limits { timeouts: convert::timeouts(timeout)?, attempt: None, max_response_bytes };
        let (route, variable) = route(&target, given_proxy, ca_bundle)?;
        let key = idempotency(idempotency_key)?;
        let body = json::write(py, payload)?.into();
        let (base, over) = (our_headers(true), HeaderMap::new());
        let all = all_headers(&base, headers, &over, key.as_ref())?;
        let request = Request { method: Method::POST, uri: target.uri.clone(), headers: all, body };
        Ok(Self { request: Arc::new(request), route, variable, limits, target, key, base, over })
    }

    /// The request of a client, whose own settings were checked when it was made.
    pub fn of_client(asked: Asked<'_, '_>) -> PyResult<Self> {
        let Asked { method, url, payload, defaults, headers, idempotency_key, limits, proxy, ca_bundle } =
            asked;
        let py = url.py();
        let target = target(url)?;
        let (route, variable) = route(&target, proxy, ca_bundle)?;
        let key = idempotency(idempotency_key)?;
        let body = payload.map(|payload| json::write(py, payload)).transpose()?;
        let mut base = our_headers(body.is_some());
        convert::lay(defaults, &mut base);
        let mut over = HeaderMap::new();
        convert::headers(headers, &mut over)?;
        let mut all = base.clone();
        convert::lay(&over, &mut all);
        add_key(py, &mut all, key.as_ref())?;
        let body = body.unwrap_or_default().into();
        let request = Request { method, uri: target.uri.clone(), headers: all, body };
        Ok(Self { request: Arc::new(request), route, variable, limits, target, key, base, over })
    }

    /// Where this call goes and through what, for errors.
    pub fn whither(&self) -> Whither<'_> {
        let via = match (&self.route.via, self.variable) {
            (Via::Proxy(_), Some(name)) => Some(format!("with {name} set")),
            (Via::Proxy(proxy), None) => Some(format!("through the proxy {}", host_of(proxy))),
            (Via::System | Via::Direct, _) => None,
        };
        Whither { to: &self.target, via }
    }

    /// The same, to be kept when the call goes another way.
    pub fn elsewhere(&self) -> Elsewhere {
        let via = self.whither().via;
        Elsewhere { to: Arc::clone(&self.target), via }
    }

    /// Lays the caller's headers over ours for the next attempt.
    pub fn set_headers(&mut self, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let headers = all_headers(&self.base, headers, &self.over, self.key.as_ref())?;
        self.request = Arc::new(Request { headers, ..Request::clone(&self.request) });
        Ok(())
    }
}

/// What one call of a client asks for.
pub struct Asked<'a, 'py> {
    /// How.
    pub method: Method,
    /// The whole URL.
    pub url: &'a Bound<'py, PyAny>,
    /// What to send as JSON; `None` for nothing at all.
    pub payload: Option<&'a Bound<'py, PyAny>>,
    /// The client's headers.
    pub defaults: &'a HeaderMap,
    /// The call's own, laid over those.
    pub headers: &'a Bound<'py, PyAny>,
    /// Sent on every attempt.
    pub idempotency_key: &'a Bound<'py, PyAny>,
    /// I/O timeouts and the size limit.
    pub limits: Limits,
    /// As for `route`.
    pub proxy: &'a Bound<'py, PyAny>,
    /// As for `route`.
    pub ca_bundle: &'a Bound<'py, PyAny>,
}

/// The way to a target, checked before anything is sent, and which variable of the environment named the proxy.
pub fn route(
    target: &Target,
    given_proxy: &Bound<'_, PyAny>,
    ca_bundle: &Bound<'_, PyAny>,
) -> PyResult<(Arc<Route>, Option<&'static str>)> {
    let py = ca_bundle.py();
    let given = convert::optional_text("proxy", given_proxy, "the URL of a proxy, or None")?;
    let wrong = |error: SetupError| {
        let allowed = match error.field {
            "proxy" => "the URL of an http or https proxy, or None",
            "ca_bundle" => "a readable PEM file with certificates, or None",
            "SSL_CERT_FILE" => "a readable PEM file with certificates, or unset",
            "SSL_CERT_DIR" => "directories of PEM files with certificates, or unset",
            _ => "the URL of an http or https proxy, or unset",
        };
        convert::config_error(py, error.field, &error.detail, allowed)
    };
    let (via, variable) = match given {
        Some(text) => (proxy::given(&text).map_err(wrong)?, None),
        None => proxy::of_environment(&target.parsed).map_err(wrong)?,
    };
    let route = Route { via, ca_bundle: path(ca_bundle)?, environment: environment() };
    lane::check_route(&route, &target.parsed).map_err(wrong)?;
    Ok((Arc::new(route), variable))
}

/// What a client's stream sends as headers: ours, the client's, the call's, each laid over those before.
#[pyfunction]
pub fn header_pairs<'py>(
    given: &Bound<'py, PyAny>,
    over: &Bound<'py, PyAny>,
    idempotency_key: &Bound<'py, PyAny>,
) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
    let py = given.py();
    let mut callers = HeaderMap::new();
    convert::headers(over, &mut callers)?;
    let key = idempotency(idempotency_key)?;
    let all = all_headers(&our_headers(true), given, &callers, key.as_ref())?;
    let bytes = |value: &[u8]| PyBytes::new(py, value);
    Ok(all.iter().map(|(name, value)| (bytes(name.as_str().as_bytes()), bytes(value.as_bytes()))).collect())
}

fn our_headers(has_body: bool) -> HeaderMap {
    let mut ours = HeaderMap::with_capacity(8);
    if has_body {
        ours.insert(CONTENT_TYPE, JSON);
    }
    ours.insert(ACCEPT, ANYTHING);
    ours.insert(USER_AGENT, AGENT);
    ours
}

/// Our headers with the caller's laid over them, for many requests with a body.
pub fn shared_headers(callers: &Bound<'_, PyAny>) -> PyResult<HeaderMap> {
    all_headers(&our_headers(true), callers, &HeaderMap::new(), None)
}

/// The caller's headers laid over the first, and the last over them.
fn all_headers(
    base: &HeaderMap,
    callers: &Bound<'_, PyAny>,
    over: &HeaderMap,
    key: Option<&HeaderValue>,
) -> PyResult<HeaderMap> {
    let mut all = base.clone();
    convert::headers(callers, &mut all)?;
    convert::lay(over, &mut all);
    add_key(callers.py(), &mut all, key)?;
    Ok(all)
}

fn add_key(py: Python<'_>, all: &mut HeaderMap, key: Option<&HeaderValue>) -> PyResult<()> {
    let Some(key) = key else { return Ok(()) };
    if all.contains_key(IDEMPOTENCY_KEY) {
        let allowed = "given once, as this argument or as a header";
        return Err(convert::config_error(py, "idempotency_key", "both", allowed));
    }
    all.insert(IDEMPOTENCY_KEY, key.clone());
    Ok(())
}

fn idempotency(key: &Bound<'_, PyAny>) -> PyResult<Option<HeaderValue>> {
    let Some(text) = convert::optional_text("idempotency_key", key, IDEMPOTENCY_ALLOWED)? else {
        return Ok(None);
    };
    // A header could carry more, but not in one way that every server reads alike.
    let checked = text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| HeaderValue::from_str(&text).ok());
    checked.flatten().map(Some).ok_or_else(|| {
        convert::config_error(key.py(), "idempotency_key", &convert::shown(key), IDEMPOTENCY_ALLOWED)
    })
}

fn host_of(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

impl Target {
    /// `None` for what a URL may hold and a request line may not.
    fn of(parsed: Url) -> Option<Self> {
        let host = host_of(&parsed);
        let uri = Uri::try_from(parsed.as_str()).ok()?;
        Some(Self { url: format!("{}://{host}{}", parsed.scheme(), parsed.path()), host, parsed, uri })
    }
}

/// Targets of late, because a service asks the same few URLs all day: parsing one costs more than any other argument.
static TARGETS: Mutex<Vec<(String, Arc<Target>)>> = Mutex::new(Vec::new());
const TARGETS_KEPT: usize = 16;

/// The target a URL names.
pub fn target(url: &Bound<'_, PyAny>) -> PyResult<Arc<Target>> {
    let text = url.cast::<PyString>().map_err(|_| bad_url(url.py(), "something that is no str"))?;
    let text = text.to_str().map_err(|_| bad_url(url.py(), "one with lone surrogates"))?;
    // Never waited for: in a child of fork the thread that held it may be gone.
    let kept = TARGETS.try_lock().ok().and_then(|targets| {
        targets.iter().find(|(known, _)| known == text).map(|(_, target)| Arc::clone(target))
    });
    if let Some(target) = kept {
        return Ok(target);
    }
    let unsendable = || bad_url(url.py(), "one that cannot be sent");
    let target = Arc::new(Target::of(http_url(url.py(), text)?).ok_or_else(unsendable)?);
    if let Ok(mut targets) = TARGETS.try_lock() {
        targets.insert(0, (text.to_owned(), Arc::clone(&target)));
        targets.truncate(TARGETS_KEPT);
    }
    Ok(target)
}

fn bad_url(py: Python<'_>, what: &str) -> PyErr {
    // A URL may hold a key, so it is not shown.
    convert::config_error(py, "url", what, "an http or https URL with a host and without credentials")
}

fn http_url(py: Python<'_>, text: &str) -> PyResult<Url> {
    let url = url::parse(text).map_err(|what| bad_url(py, &what))?;
    if url::authority(text).is_some_and(|authority| authority.contains('@')) {
        return Err(bad_url(py, "one with credentials (send an Authorization header)"));
    }
    Ok(url)
}

fn path(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_none() {
        return Ok(None);
    }
    let refuse = || convert::config_error(value.py(), "ca_bundle", &convert::shown(value), "a path, or None");
    value.extract().map(Some).map_err(|_| refuse())
}

/// What the environment says that the route does not: the roots, and what the system's own proxies leave out. As one
/// number: a client is shared only by calls that saw the same. Read with the GIL held, as `os.environ` is written.
fn environment() -> u64 {
    const NAMES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NO_PROXY", "no_proxy"];
    let mut hasher = DefaultHasher::new();
    for (at, name) in NAMES.iter().enumerate() {
        if let Some(value) = std::env::var_os(name) {
            (at, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}
