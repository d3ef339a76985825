//! The gates of a client as Python sees them: their state to look at, and the way in. Every method runs with the GIL
//! held and returns at once.
//!
//! The gates belong to the process: a child of fork finds fresh ones, for what its parent has in flight is not its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use steadycall_core::backoff::Backoff;
use steadycall_core::breaker::{Hold, State};
use steadycall_core::bucket::{Ask, RateLimit};
use steadycall_core::failure::Kind;
use steadycall_core::gates::Config;
use steadycall_core::keys::Key;
use steadycall_core::passage::Keys;
use steadycall_core::time::{Deadline, seconds};
use steadycall_core::{choices, estimate, model};
use steadycall_net::clock::Duration;
use steadycall_net::doorway::Doorway;

use crate::hooks::{self, Entrance};
use crate::limits::{Checked, Limit};
use crate::passing::Passing;
use crate::policy::CheckedPolicy;
use crate::records::state_name;
use crate::runtime::Process;

/// The model a request is for, told by its path or its body; empty when neither names one.
#[pyfunction]
pub fn model_of(path: &str, body: &[u8]) -> String {
    model::of(path, body).unwrap_or_default().into_owned()
}

/// How many answers a request asks for; 1 where its body does not say.
#[pyfunction]
pub fn choices_of(body: &[u8]) -> usize {
    choices::of(body)
}

/// Headers that carry the key which a provider keeps limits by.
pub const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// The gates that the calls of one client and of its `with_options` copies share.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Gates {
    id: u64,
    config: Config,
    clock: Option<Py<PyAny>>,
}

#[pymethods]
impl Gates {
    /// `policy` tells how pauses grow that no hint gave; `now` is a fake clock, or `None`.
    #[new]
    fn new(limits: Vec<Bound<'_, Limit>>, policy: &Bound<'_, CheckedPolicy>, now: &Bound<'_, PyAny>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let pauses: Backoff = policy.get().policy.backoffs.of(Kind::RateLimited);
        let mut config = Config {
            concurrency: None,
            adaptive: None,
            rate: RateLimit::default(),
            ceiling: None,
            breaker: None,
            retry_budget: None,
            pauses,
        };
        for limit in limits {
            match limit.get().0 {
                Checked::Concurrency(limit, adaptive) => {
                    (config.concurrency, config.adaptive) = (Some(limit), adaptive);
                }
                Checked::Rate(rate) => config.rate = rate,
                Checked::Ceiling(ceiling) => config.ceiling = Some(ceiling),
                Checked::Breaker(breaker) => config.breaker = Some(breaker),
                Checked::Retries(budget) => config.retry_budget = Some(budget),
            }
        }
        let clock = (!now.is_none()).then(|| now.clone().unbind());
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), config, clock }
    }

    /// Calls in flight; `None` where they are not limited.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        Ok(self.entrance(py)?.doorway.with(|gates, _| gates.in_flight()))
    }

    /// Calls that wait at any gate.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.entrance(py)?.doorway.with(|gates, _| gates.waiting()))
    }

    /// Every circuit that was used: "host", or "host model", to its state and the seconds until it may try again.
    fn circuits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let entrance = self.entrance(py)?;
        let now = entrance.now(py)?;
        let found: Vec<(Key, State)> = entrance.doorway.with(|gates, _| {
            let states = gates
                .breakers()
                .map(|breakers| breakers.states().map(|(key, state)| (key.clone(), state)).collect());
            states.unwrap_or_default()
        });
        let told = PyDict::new(py);
        for (key, state) in found {
            let left = match state {
                State::Open(until) => Some(until.since(now).as_secs_f64()),
                _ => None,
            };
            told.set_item(&*key, (state_name(state), left))?;
        }
        Ok(told)
    }

    /// Holds a circuit "open" or "closed", or lets it judge for itself again: "released".
    fn hold(&self, py: Python<'_>, key: &str, how: &str) -> PyResult<()> {
        let hold = match how {
            "open" => Hold::Open,
            "closed" => Hold::Closed,
            _ => Hold::Released,
        };
        let entrance = self.entrance(py)?;
        entrance.now(py)?;
        entrance.doorway.with(|gates, now| {
            gates.breakers().map(|breakers| breakers.hold(&key.into(), hold, now));
        });
        Ok(())
    }

    /// Told that a call begins, by a front of Python's.
    fn observe_call(&self, py: Python<'_>) -> PyResult<()> {
        let entrance = self.entrance(py)?;
        entrance.now(py)?;
        entrance.doorway.observe_call();
        Ok(())
    }

    /// Whether anybody counts tokens here.
    #[getter]
    pub fn counts_tokens(&self) -> bool {
        self.config.rate.tokens.is_some() || self.config.ceiling.is_some()
    }

    /// Whether there is a circuit breaker.
    #[getter]
    fn has_breaker(&self) -> bool {
        self.config.breaker.is_some()
    }

    /// The way of one request of a front that sends by itself. `path` has no query, `headers` are pairs; `left` is what
    /// the deadline leaves in seconds, `max_wait` the longest pause to wait for; with `lends_sleep` the front does the
    /// waiting whose end is known.
    #[allow(clippy::too_many_arguments)] // passed on in order
    fn approach(
        &self,
        py: Python<'_>,
        host: &str,
        path: &str,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        body: &[u8],
        partition: &str,
        tokens: Option<u64>,
        left: Option<f64>,
        max_wait: f64,
        lends_sleep: bool,
    ) -> PyResult<Passing> {
        let entrance = self.entrance(py)?;
        let now = entrance.now(py)?;
        let deadline = Deadline::after(left.map(|left| seconds(left.max(0.0)).unwrap_or_default()), now);
        let max_pause = seconds(max_wait).unwrap_or(Duration::MAX);
        let model = model::of(path, body).unwrap_or_default();
        let named =
            |wanted: &&str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
        let credential = CREDENTIALS.iter().find_map(named).map_or(&[][..], |(_, value)| value);
        let keys = Keys::new(host, &model, credential, partition);
        let tokens = match tokens {
            Some(tokens) => tokens,
            None if self.counts_tokens() => estimate::tokens(body),
            None => 0,
        };
        let pass = entrance.doorway.approach(keys.clone(), Ask { tokens, deadline, max_pause });
        Ok(Passing::new(entrance, keys, pass, self.reads_remaining(), lends_sleep))
    }
}

impl Gates {
    /// The gates in this process.
    pub fn entrance(&self, py: Python<'_>) -> PyResult<Arc<Entrance>> {
        let process = Process::current();
        let held = || process.entrances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entrance) = held().get(&self.id) {
            return Ok(Arc::clone(entrance));
        }
        let given = self.clock.as_ref().map(|clock| clock.clone_ref(py));
        // Outside of the lock: it is the user's code.
        let first_reading = given.as_ref().map(|clock| hooks::read(py, clock)).transpose()?.unwrap_or(0.0);
        let doorway = if given.is_some() { Doorway::told(self.config) } else { Doorway::new(self.config) };
        let fresh = Arc::new(Entrance { doorway, given, first_reading });
        Ok(Arc::clone(held().entry(self.id).or_insert(fresh)))
    }

    /// Whether what answers say is left can lower anything here.
    pub fn reads_remaining(&self) -> bool {
        self.config.rate.requests.is_some() || self.config.rate.tokens.is_some()
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        let gone =
            Process::current().entrances.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        drop(gone);
    }
}
