//! What a caller asked for, checked and made ready once per call: the request, its limits, the policy, the hooks.
//!
//! Runs with the GIL held; nothing is sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::Uri;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use pyo3::prelude::*;
use pyo3::types::PyString;
use steadycall_core::policy::{Fields, Policy};
use steadycall_net::dice::Dice;
use steadycall_net::transport::{Limits, Request, Route, SetupError, Url, Via};
use steadycall_net::{lane, proxy, url};

use crate::errors::{self, Target, Whither};
use crate::{convert, json, python};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("steadycall/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_ALLOWED: &str = "visible ASCII text without spaces, or None";

/// The callables a caller gave.
pub struct Hooks {
    /// Told each failed attempt that is followed by another.
    pub on_retry: Option<Py<PyAny>>,
    /// Told the whole call once.
    pub on_end: Option<Py<PyAny>>,
    /// Uniform draws in [0, 1); `None` is the operating system's.
    draw: Option<Py<PyAny>>,
    /// The clock in seconds; `None` is the monotonic one.
    pub now: Option<Py<PyAny>>,
}

impl Hooks {
    /// Checks that each is a callable or `None`.
    pub fn new(
        on_retry: &Bound<'_, PyAny>,
        on_end: &Bound<'_, PyAny>,
        draw: &Bound<'_, PyAny>,
        clock: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            on_retry: convert::optional_callable("on_retry", on_retry)?,
            on_end: convert::optional_callable("on_end", on_end)?,
            draw: convert::optional_callable("rng", draw)?,
            now: convert::optional_callable("clock", clock)?,
        })
    }

    /// Whether a good answer needs nobody's code but ours.
    pub fn is_empty(&self) -> bool {
        self.on_end.is_none() && self.now.is_none()
    }

    /// A number in [0, 1): the caller's, or the next of `dice`.
    pub fn draw(&self, py: Python<'_>, dice: &mut Dice) -> PyResult<f64> {
        match &self.draw {
            Some(draw) => {
                let drawn = draw.bind(py).call0()?;
                let uniform = drawn.extract().ok().filter(|number| (0.0..1.0).contains(number));
                uniform.ok_or_else(|| {
                    let allowed = "a generator whose random() is at least 0 and below 1";
                    convert::config_error(py, "rng", &format!("{} from it", convert::shown(&drawn)), allowed)
                })
            }
            None => Ok(dice.draw()),
        }
    }
}

/// What one call sends, and within which bounds.
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
}

impl Options {
    /// The policy, and whether the deadline that was handed down has already passed.
    pub fn policy(
        hooks: &mut Hooks,
        (tries, base, cap, max_wait): (
            &Bound<'_, PyAny>,
            &Bound<'_, PyAny>,
            &Bound<'_, PyAny>,
            &Bound<'_, PyAny>,
        ),
        (deadline, attempt_timeout): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (statuses, transport, maybe_processed): (&Bound<'_, PyAny>, &Bound<'_, PyAny>, &Bound<'_, PyAny>),
    ) -> PyResult<(Policy, bool)> {
        let py = tries.py();
        let (deadline, spent) = time_left(hooks, deadline)?;
        let wait = "a finite number of seconds, 0 or more";
        let fields = Fields {
            tries: convert::count("tries", tries, u32::MAX.into())?,
            base: convert::number("base", base, wait)?,
            cap: convert::number("cap", cap, wait)?,
            max_wait: convert::number("max_wait", max_wait, wait)?,
            deadline,
            attempt_timeout: convert::optional_seconds("attempt_timeout", attempt_timeout)?,
            retry_status: status_list(statuses)?,
            retry_transport: convert::flag("retry_transport", transport)?,
            retry_maybe_processed: convert::flag("retry_maybe_processed", maybe_processed)?,
        };
        Ok((Policy::new(fields).map_err(|error| convert::refused(py, &error))?, spent))
    }

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
        let key = idempotency(idempotency_key)?;
        let body = json::write(py, payload)?.into();
        let request = Request { uri: target.uri.clone(), headers: all_headers(key.as_ref(), headers)?, body };
        Ok(Self { request: Arc::new(request), route: Arc::new(route), variable, limits, target, key })
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

    /// Lays the caller's headers over ours for the next attempt.
    pub fn set_headers(&mut self, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let headers = all_headers(self.key.as_ref(), headers)?;
        let Request { uri, body, .. } = &*self.request;
        self.request = Arc::new(Request { uri: uri.clone(), headers, body: body.clone() });
        Ok(())
    }
}

/// Our headers with the caller's laid over them.
fn all_headers(key: Option<&HeaderValue>, callers: &Bound<'_, PyAny>) -> PyResult<HeaderMap> {
    let mut all = HeaderMap::with_capacity(8);
    all.insert(CONTENT_TYPE, JSON);
    all.insert(ACCEPT, ANYTHING);
    all.insert(USER_AGENT, AGENT);
    convert::headers(callers, &mut all)?;
    if let Some(key) = key {
        if all.contains_key(IDEMPOTENCY_KEY) {
            let allowed = "given once, as this argument or as a header";
            return Err(convert::config_error(callers.py(), "idempotency_key", "both", allowed));
        }
        all.insert(IDEMPOTENCY_KEY, key.clone());
    }
    Ok(all)
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

fn target(url: &Bound<'_, PyAny>) -> PyResult<Arc<Target>> {
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

/// Seconds for the whole call, and whether a handed-down deadline has passed. Its clock becomes the call's when the
/// call was given none.
fn time_left(hooks: &mut Hooks, deadline: &Bound<'_, PyAny>) -> PyResult<(Option<f64>, bool)> {
    let py = deadline.py();
    if deadline.is_none() || !deadline.is_instance(python::deadline_class(py)?)? {
        return Ok((convert::optional_seconds("deadline", deadline)?, false));
    }
    let left: f64 = deadline.call_method0("remaining")?.extract()?;
    let its_clock = deadline.getattr("clock")?;
    if hooks.now.is_none() && !its_clock.is(python::monotonic(py)?) {
        hooks.now = Some(its_clock.unbind());
    }
    Ok(if left > 0.0 { (Some(left), false) } else { (None, true) })
}

fn status_list(statuses: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    if statuses.is_none() {
        return Ok(None);
    }
    let allowed = "HTTP statuses from 300 to 599, or None";
    let all = statuses.try_iter().map_err(|_| {
        convert::config_error(statuses.py(), "retry_status", &convert::shown(statuses), allowed)
    })?;
    all.map(|status| convert::whole("retry_status", &status?, allowed)).collect::<PyResult<_>>().map(Some)
}

fn path(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_none() {
        return Ok(None);
    }
    let refuse = || convert::config_error(value.py(), "ca_bundle", &convert::shown(value), "a path, or None");
    value.extract().map(Some).map_err(|_| refuse())
}

/// What the environment says about proxies and certificates, as one number: a client is shared only by calls that
/// saw the same. Read with the GIL held, as `os.environ` is written.
fn environment() -> u64 {
    const NAMES: [&str; 10] = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ];
    let mut hasher = DefaultHasher::new();
    for (at, name) in NAMES.iter().enumerate() {
        if let Some(value) = std::env::var_os(name) {
            (at, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}
