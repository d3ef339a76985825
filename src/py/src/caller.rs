//! The settings of a client, read once, and the calls it begins by them. Every method runs with the GIL held and
//! returns at once.

use std::sync::Arc;

use http::{HeaderMap, Method};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use steadycall_core::call::Call;
use steadycall_core::policy::Policy;
use steadycall_core::time;
use steadycall_net::clock::Duration;
use steadycall_net::transport::{Limits, Timeouts};

use crate::around::Around;
use crate::exit::Inside;
use crate::gates::Gates;
use crate::hooks::{Clock, Draws};
use crate::http_call::{HttpCall, Steps};
use crate::membership::Client;
use crate::options::{self, Asked, Options};
use crate::policy::CheckedPolicy;
use crate::python::{self, name};
use crate::telling::Telling;
use crate::work::Work;
use crate::{convert, errors};

/// What all calls of a client share. Made by `Client` and `AsyncClient`; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Caller {
    gates: Py<Gates>,
    policy: Arc<Policy>,
    headers: HeaderMap,
    timeouts: Timeouts,
    max_response_bytes: u64,
    proxy: Py<PyAny>,
    ca_bundle: Py<PyAny>,
    on_retry: Option<Py<PyAny>>,
    on_end: Option<Py<PyAny>>,
    on_event: Option<Py<PyAny>>,
    draw: Option<Py<PyAny>>,
}

#[pymethods]
impl Caller {
    #[new]
    #[allow(clippy::too_many_arguments)] // a client's own settings, passed on in order
    fn new(
        gates: Py<Gates>,
        policy: &Bound<'_, CheckedPolicy>,
        headers: &Bound<'_, PyAny>,
        timeout: &Bound<'_, PyAny>,
        max_response_bytes: &Bound<'_, PyAny>,
        proxy: Py<PyAny>,
        ca_bundle: Py<PyAny>,
        on_retry: &Bound<'_, PyAny>,
        on_end: &Bound<'_, PyAny>,
        on_event: &Bound<'_, PyAny>,
        draw: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mut all = HeaderMap::new();
        convert::headers(headers, &mut all)?;
        let most = convert::count("max_response_bytes", max_response_bytes, i64::MAX)?;
        Ok(Self {
            gates,
            policy: Arc::clone(&policy.get().policy),
            headers: all,
            timeouts: convert::timeouts(timeout)?,
            max_response_bytes: most.unsigned_abs(),
            proxy,
            ca_bundle,
            on_retry: convert::optional_callable("on_retry", on_retry)?,
            on_end: convert::optional_callable("on_end", on_end)?,
            on_event: convert::optional_callable("on_event", on_event)?,
            draw: convert::optional_callable("rng", draw)?,
        })
    }

    /// Whether calls to a URL can go the way the settings say.
    fn check(&self, url: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = url.py();
        options::route(&*options::target(url)?, self.proxy.bind(py), self.ca_bundle.bind(py)).map(drop)
    }

    /// A call. `payload` is `(value,)`, or `None` to send no body; `lends_sleep` says that the front's sleep is one of
    /// the caller's, which then does all the waiting whose end is known.
    #[allow(clippy::too_many_arguments)] // passed on in order
    fn begin(
        &self,
        py: Python<'_>,
        method: &Bound<'_, PyAny>,
        url: &Bound<'_, PyAny>,
        payload: Option<(Bound<'_, PyAny>,)>,
        deadline: &Bound<'_, PyAny>,
        tokens: &Bound<'_, PyAny>,
        partition: &Bound<'_, PyAny>,
        idempotency_key: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
        around: &Bound<'_, PyAny>,
        validates: bool,
        lends_sleep: bool,
    ) -> PyResult<HttpCall> {
        let _inside = Inside::enter(py);
        let left = self.time_left(deadline)?;
        let (tokens, partition) = told_gates(tokens, partition)?;
        let limits =
            Limits { timeouts: self.timeouts, attempt: None, max_response_bytes: self.max_response_bytes };
        let bad = || convert::config_error(py, "method", &convert::shown(method), "an HTTP method");
        let method: String = method.extract().map_err(|_| bad())?;
        let payload = payload.as_ref().map(|(payload,)| payload);
        let options = errors::guarded(py, "reading the arguments", || {
            Options::of_client(Asked {
                method: Method::from_bytes(method.as_bytes()).map_err(|_| bad())?,
                url,
                payload,
                defaults: &self.headers,
                headers,
                idempotency_key,
                limits,
                proxy: self.proxy.bind(py),
                ca_bundle: self.ca_bundle.bind(py),
            })
        })?;
        let entrance = self.gates.get().entrance(py)?;
        let clock = Clock::Shared(Arc::clone(&entrance));
        let around = Around::new(around);
        let now = clock.now(py)?;
        let mut call = Call::new(Arc::clone(&self.policy), now);
        let unit = around.unit(py)?;
        // The time of a unit's call counts from its permit, with which it is asked for again.
        for left in left.into_iter().chain(around.longest(py)?) {
            call.end_within(left, now);
        }
        entrance.doorway.observe_call();
        let lent = |callable: &Option<Py<PyAny>>| callable.as_ref().map(|callable| callable.clone_ref(py));
        let mut work = Work::new(call, options, clock, Draws::given(lent(&self.draw)));
        let telling = lent(&self.on_event).map(Telling::new);
        let steps = match (lends_sleep, &telling) {
            (true, _) => Steps::Lent,
            (false, None) if unit.is_none() => Steps::One,
            (false, _) => Steps::Told,
        };
        let gates = (self.gates.clone_ref(py), entrance);
        work.client = Some(Client::new(gates, tokens, partition, model_of(payload)?, telling));
        Ok(HttpCall::of_client(
            work,
            (around, unit),
            (lent(&self.on_retry), lent(&self.on_end)),
            steps,
            validates,
        ))
    }
}

impl Caller {
    /// What the call's own deadline leaves.
    fn time_left(&self, deadline: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
        let py = deadline.py();
        if deadline.is_none() {
            return Ok(None);
        }
        if deadline.is_instance(python::deadline_class(py)?)? {
            let left: f64 = deadline.call_method0(name!(py, "remaining")?)?.extract()?;
            return Ok(Some(time::seconds(left.max(0.0)).unwrap_or(Duration::MAX)));
        }
        let given = convert::optional_seconds("deadline", deadline)?;
        steadycall_core::policy::limit("deadline", given).map_err(|error| convert::refused(py, &error))
    }
}

/// What a call tells its gates: the tokens it asks for, and which part of them it belongs to.
#[pyfunction]
pub fn told_gates(
    tokens: &Bound<'_, PyAny>,
    partition: &Bound<'_, PyAny>,
) -> PyResult<(Option<u64>, String)> {
    let py = tokens.py();
    let tokens = match tokens.is_none() {
        true => None,
        false => {
            let allowed = "a whole number of at least 0, or None";
            let whole = convert::whole("tokens", tokens, allowed)?;
            let shown = || convert::config_error(py, "tokens", &whole.to_string(), allowed);
            Some(u64::try_from(whole).map_err(|_| shown())?)
        }
    };
    Ok((tokens, convert::optional_text("partition", partition, "a str, or None")?.unwrap_or_default()))
}

/// The model a payload names, read where that costs least.
fn model_of(payload: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(Ok(fields)) = payload.map(|payload| payload.cast::<PyDict>()) else { return Ok(None) };
    let named = fields.get_item(name!(fields.py(), "model")?)?;
    Ok(named.and_then(|model| model.extract().ok()))
}
