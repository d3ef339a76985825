//! What a caller asked for, checked and made ready once per call: the request, its limits, the policy, the hooks.
//!
//! Runs with the GIL held; nothing is sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use pyo3::prelude::*;
use steadycall_core::policy::{Fields, Policy};
use steadycall_net::dice::Dice;
use steadycall_net::lane;
use steadycall_net::transport::{Limits, Request, Route, Url};

use crate::errors::Target;
use crate::{convert, json, python};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("steadycall/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

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
            Some(draw) => draw.bind(py).call0()?.extract(),
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
    /// I/O timeouts and the size limit; the attempt's own end is set per attempt.
    pub limits: Limits,
    /// Where it goes, fit for errors and logs.
    pub target: Target,
    /// The headers of ours that a caller's set is laid over.
    ours: HeaderMap,
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
            tries: convert::whole("tries", tries, "a whole number of at least 1")?,
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
        (url, headers, idempotency_key): (&Bound<'_, PyAny>, &Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (timeout, max_response_bytes): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (proxy, ca_bundle): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = url.py();
        let parsed = http_url(url)?;
        let target = Target::of(&parsed);
        let allowed = "a whole number of at least 1";
        let most = convert::whole("max_response_bytes", max_response_bytes, allowed)?;
        let max_response_bytes = match u64::try_from(most) {
            Ok(most) if most >= 1 => most,
            _ => return Err(convert::config_error(py, "max_response_bytes", &most.to_string(), allowed)),
        };
        let limits = Limits { timeouts: convert::timeouts(timeout)?, attempt: None, max_response_bytes };
        let route = Route {
            proxy: convert::optional_text("proxy", proxy, "the URL of a proxy, or None")?,
            ca_bundle: path(ca_bundle)?,
            environment: environment(),
        };
        lane::check_route(&route).map_err(|error| {
            let allowed = match error.field {
                "proxy" => "the URL of a proxy, or None",
                _ => "a readable PEM file with certificates, or None",
            };
            convert::config_error(py, error.field, &error.detail, allowed)
        })?;
        let mut ours = HeaderMap::with_capacity(8);
        ours.insert(CONTENT_TYPE, JSON);
        ours.insert(ACCEPT, ANYTHING);
        ours.insert(USER_AGENT, AGENT);
        if let Some(key) = convert::optional_text("idempotency_key", idempotency_key, "a text, or None")? {
            let value = HeaderValue::from_str(&key).map_err(|_| {
                let allowed = "visible ASCII text, or None";
                convert::config_error(py, "idempotency_key", "a text that no header can carry", allowed)
            })?;
            ours.insert(HeaderName::from_static("idempotency-key"), value);
        }
        let body = json::write(py, payload)?.into();
        let mut all = ours.clone();
        convert::headers(headers, &mut all)?;
        let request = Arc::new(Request { url: parsed, headers: all, body });
        Ok(Self { request, route: Arc::new(route), limits, target, ours })
    }

    /// Lays the caller's headers over ours for the next attempt.
    pub fn set_headers(&mut self, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut all = self.ours.clone();
        convert::headers(headers, &mut all)?;
        let Request { url, body, .. } = &*self.request;
        self.request = Arc::new(Request { url: url.clone(), headers: all, body: body.clone() });
        Ok(())
    }
}

impl Target {
    fn of(url: &Url) -> Self {
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let host = format!("{}{port}", url.host_str().unwrap_or_default());
        Self { url: format!("{}://{host}{}", url.scheme(), url.path()), host }
    }
}

fn http_url(value: &Bound<'_, PyAny>) -> PyResult<Url> {
    let py = value.py();
    let allowed = "an http or https URL with a host and without credentials";
    // A URL may hold a key, so it is not shown.
    let refuse = |what: &str| convert::config_error(py, "url", what, allowed);
    let text: String = value.extract().map_err(|_| refuse("something that is no str"))?;
    if text.chars().any(char::is_control) {
        return Err(refuse("one with control characters"));
    }
    let url = Url::parse(&text).map_err(|_| refuse("one that cannot be read"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse(&format!("one with the scheme {:?}", url.scheme())));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("one without a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("one with credentials (send an Authorization header)"));
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
    let all = statuses
        .try_iter()
        .map_err(|_| convert::config_error(statuses.py(), "retry_status", &statuses.to_string(), allowed))?;
    all.map(|status| convert::whole("retry_status", &status?, allowed)).collect::<PyResult<_>>().map(Some)
}

fn path(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_none() {
        return Ok(None);
    }
    let refuse = || convert::config_error(value.py(), "ca_bundle", &value.to_string(), "a path, or None");
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
    for name in NAMES {
        std::env::var_os(name).hash(&mut hasher);
    }
    hasher.finish()
}
