//! The gates of a client as Python sees them: their limits checked, their state to look at, and a way through.
//!
//! Every method runs with the GIL held and returns at once, but for `Passing.go`, which releases it while it waits.
//! The gates belong to the process: a child of fork finds fresh ones, for what its parent has in flight is not its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use steadycall_core::adaptive::Adaptive;
use steadycall_core::backoff::Backoff;
use steadycall_core::breaker::{CircuitBreaker, Hold, State};
use steadycall_core::bucket::{Ask, Oversized, RateLimit};
use steadycall_core::budget::RetryBudget;
use steadycall_core::ceiling::{OnSpent, TokenBudget};
use steadycall_core::failure::Kind;
use steadycall_core::gates::Config;
use steadycall_core::keys::Key;
use steadycall_core::passage::{Keys, Refusal, Report, Step};
use steadycall_core::policy::ConfigError;
use steadycall_core::remaining::{Remaining, remaining};
use steadycall_core::slots::ConcurrencyLimit;
use steadycall_core::stop::StopReason;
use steadycall_core::time::{Deadline, seconds};
use steadycall_net::doorway::{Doorway, Pass, Surroundings};
use tokio::sync::Notify;

use crate::bridge::{self, Addressee, Parcel, Running};
use crate::exit::Inside;
use crate::hooks::{self, Draws, Entrance};
use crate::job::{Done, Job};
use crate::policy::CheckedPolicy;
use crate::runtime::{self, Process};
use crate::{convert, errors, records};

pyo3::create_exception!(
    steadycall._native,
    Barred,
    pyo3::exceptions::PyException,
    "A gate let the attempt not through: (stop_reason, stage, seconds to wait, why)."
);

/// One limit of a client, checked. Made by the classes of `steadycall._limits`.
#[pyclass(frozen, module = "steadycall._native")]
#[derive(Clone, Copy)]
pub struct Limit(Checked);

#[derive(Clone, Copy)]
enum Checked {
    Concurrency(ConcurrencyLimit, Option<Adaptive>),
    Rate(RateLimit),
    Ceiling(TokenBudget),
    Breaker(CircuitBreaker),
    Retries(RetryBudget),
}

/// What a call loses of the limit when there is a sign of overload.
const DECREASE: f64 = 0.5;

#[pymethods]
impl Limit {
    #[staticmethod]
    fn concurrency(
        max: &Bound<'_, PyAny>,
        queue: &Bound<'_, PyAny>,
        adaptive_from: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = max.py();
        let max = convert::count("max", max, u32::MAX.into())?;
        let allowed = "a whole number of at least 0";
        let queue = convert::whole("queue", queue, allowed)?;
        let limit = ConcurrencyLimit::new(max, queue).map_err(|error| convert::refused(py, &error))?;
        let adaptive = match adaptive_from.is_none() {
            true => None,
            false => {
                let least = convert::count("adaptive_from", adaptive_from, max)?;
                Some(Adaptive::new(least, max, DECREASE).map_err(|error| convert::refused(py, &error))?)
            }
        };
        Ok(Self(Checked::Concurrency(limit, adaptive)))
    }

    #[staticmethod]
    fn rate(
        requests_per_minute: &Bound<'_, PyAny>,
        tokens_per_minute: &Bound<'_, PyAny>,
        burst: &Bound<'_, PyAny>,
        oversized: &str,
    ) -> PyResult<Self> {
        let py = burst.py();
        let amount = |field: &'static str, given: &Bound<'_, PyAny>| match given.is_none() {
            true => Ok(None),
            false => convert::count(field, given, i64::MAX).map(Some),
        };
        let oversized = match oversized {
            "pass" => Oversized::Pass,
            "refuse" => Oversized::Refuse,
            other => {
                let shown = format!("{other:?}");
                return Err(convert::config_error(py, "oversized", &shown, "\"pass\" or \"refuse\""));
            }
        };
        let requests = amount("requests_per_minute", requests_per_minute)?;
        let tokens = amount("tokens_per_minute", tokens_per_minute)?;
        if requests.is_none() && tokens.is_none() {
            let allowed = "given, or tokens_per_minute is";
            return Err(convert::config_error(py, "requests_per_minute", "None", allowed));
        }
        checked(py, RateLimit::new(requests, tokens, amount("burst", burst)?, oversized), Checked::Rate)
    }

    #[staticmethod]
    fn ceiling(per_day: &Bound<'_, PyAny>, on_spent: &str) -> PyResult<Self> {
        let py = per_day.py();
        let on_spent = match on_spent {
            "refuse" => OnSpent::Refuse,
            "wait" => OnSpent::Wait,
            other => {
                let shown = format!("{other:?}");
                return Err(convert::config_error(py, "on_spent", &shown, "\"refuse\" or \"wait\""));
            }
        };
        let per_day = convert::count("per_day", per_day, i64::MAX)?;
        checked(py, TokenBudget::new(per_day, on_spent), Checked::Ceiling)
    }

    #[staticmethod]
    fn breaker(
        failure_threshold: Option<Bound<'_, PyAny>>,
        ratio: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        recovery_timeout: &Bound<'_, PyAny>,
        half_open_probes: &Bound<'_, PyAny>,
        slow_call: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = slow_call.py();
        let recovery = convert::seconds("recovery_timeout", recovery_timeout)?;
        let probes = convert::count("half_open_probes", half_open_probes, u32::MAX.into())?;
        let slow = convert::optional_seconds("slow_call", slow_call)?;
        let breaker = match (failure_threshold, ratio) {
            (Some(threshold), None) => {
                let threshold = convert::count("failure_threshold", &threshold, u32::MAX.into())?;
                CircuitBreaker::after(threshold, recovery, probes, slow)
            }
            (None, Some((ratio, calls, window))) => {
                let ratio = convert::number("failure_ratio", &ratio, "a share above 0 and up to 1")?;
                let calls = convert::count("minimum_calls", &calls, u32::MAX.into())?;
                let window = convert::seconds("window", &window)?;
                CircuitBreaker::at_ratio((ratio, calls, window), recovery, probes, slow)
            }
            _ => {
                let allowed = "one of failure_threshold and failure_ratio";
                return Err(convert::config_error(py, "breaker", "both or neither", allowed));
            }
        };
        checked(py, breaker, Checked::Breaker)
    }

    #[staticmethod]
    fn retries(
        ratio: &Bound<'_, PyAny>,
        floor_per_second: &Bound<'_, PyAny>,
        window: &Bound<'_, PyAny>,
        burst: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let ratio = convert::number("ratio", ratio, "a share from 0 to 1")?;
        let floor = convert::number("floor_per_second", floor_per_second, "a finite number, 0 or more")?;
        let window_seconds = convert::seconds("window", window)?;
        let whole = convert::whole("burst", burst, "a whole number of at least 0")?;
        let many = u32::try_from(whole).map_err(|_| {
            let allowed = "a whole number of at least 0";
            convert::config_error(window.py(), "burst", &whole.to_string(), allowed)
        })?;
        checked(window.py(), RetryBudget::new(ratio, floor, window_seconds, many), Checked::Retries)
    }
}

fn checked<T>(
    py: Python<'_>,
    made: Result<T, ConfigError>,
    limit: impl FnOnce(T) -> Checked,
) -> PyResult<Limit> {
    made.map(|made| Limit(limit(made))).map_err(|error| convert::refused(py, &error))
}

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

    /// The way of one attempt of a front of Python's. `left` is what the deadline leaves in seconds, `max_wait` the
    /// longest pause to wait for; with `lends_sleep` the front does the waiting whose end is known.
    #[allow(clippy::too_many_arguments)] // passed on in order
    fn approach(
        &self,
        py: Python<'_>,
        host: &str,
        model: &str,
        credential: &[u8],
        partition: &str,
        tokens: u64,
        left: Option<f64>,
        max_wait: f64,
        lends_sleep: bool,
    ) -> PyResult<Passing> {
        let entrance = self.entrance(py)?;
        let now = entrance.now(py)?;
        let deadline = Deadline::after(left.map(|left| seconds(left.max(0.0)).unwrap_or_default()), now);
        let max_pause = seconds(max_wait).unwrap_or(std::time::Duration::MAX);
        let keys = Keys::new(host, model, credential, partition);
        let pass = entrance.doorway.approach(keys.clone(), Ask { tokens, deadline, max_pause });
        Ok(Passing {
            entrance,
            keys,
            place: Mutex::new(Place::Before(pass)),
            limited: self.config.rate.requests.is_some() || self.config.rate.tokens.is_some(),
            lends_sleep,
            running: Mutex::default(),
            stop: Arc::default(),
        })
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

/// The user's word for a circuit's state.
pub const fn state_name(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open(_) => "open",
        State::HalfOpen { .. } => "half_open",
        State::ForcedOpen => "forced_open",
        State::ForcedClosed => "forced_closed",
    }
}

/// The way of one attempt of a front of Python's through the gates. To be ended by `record`, or by `give_up`.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Passing {
    entrance: Arc<Entrance>,
    keys: Keys,
    place: Mutex<Place>,
    limited: bool,
    lends_sleep: bool,
    running: Mutex<Option<Running>>,
    stop: Arc<Notify>,
}

enum Place {
    Before(Pass),
    Busy,
    Inside(Pass),
    Over,
}

#[pymethods]
impl Passing {
    /// Looks at the gates: `None` when they are passed, seconds when the front must wait so long and look again, and
    /// -1 when it is to wait by `go` or `ago`.
    ///
    /// Raises `Barred` when one of them refuses.
    fn look(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.entrance.now(py)?;
        let mut pass = match std::mem::replace(&mut *self.place(), Place::Busy) {
            Place::Before(pass) => pass,
            other => {
                *self.place() = other;
                return Ok(None);
            }
        };
        match pass.next() {
            Step::Go => {
                *self.place() = Place::Inside(pass);
                Ok(None)
            }
            Step::Refused(why) => {
                *self.place() = Place::Over;
                Err(barred(py, why))
            }
            Step::Wait(until) => {
                let known = pass.known_wait(until).filter(|_| self.lends_sleep);
                *self.place() = Place::Before(pass);
                Ok(Some(known.map_or(-1.0, |wait| wait.as_secs_f64())))
            }
        }
    }

    /// Waits on this thread, as long as the gates say; where the front lends its sleep, until it is called up. True
    /// when they are passed. Ctrl-C ends it within 50 ms, `give_up` from another thread at once.
    fn go(&self, py: Python<'_>) -> PyResult<bool> {
        let _inside = Inside::enter(py);
        let Some(job) = self.job() else { return Ok(true) };
        match runtime::block_on(py, job, &self.stop)? {
            Some(done) => self.settle(py, done),
            None => Err(PyRuntimeError::new_err("this call was given up in another thread")),
        }
    }

    /// `go` for the running event loop: an awaitable. Cancelling it does not end the waiting; `give_up` does.
    fn ago<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let this = slf.get();
        let Some(job) = this.job() else { return Ok(None) };
        let addressee = Addressee::Passing(slf.clone().unbind());
        let work = |lane| async move { Parcel::Passed(job.run(&lane).await) };
        let (awaitable, running) = bridge::start(slf.py(), addressee, work)?;
        *this.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(Some(awaitable))
    }

    /// Told that the answer is there, or over: the slot is free while it is validated.
    fn leave_slot(&self, py: Python<'_>) -> PyResult<()> {
        self.entrance.now(py)?;
        if let Place::Inside(pass) = &mut *self.place() {
            pass.leave_slot();
        }
        Ok(())
    }

    /// Told what came of the attempt: its failure or `None`, whether the deadline cut it, the tokens it used, the
    /// header pairs of its answer. Returns circuits that changed, with their states. Harmless when it is over.
    #[pyo3(signature = (failure, cut_short, used, headers, url, draw))]
    fn record(
        &self,
        failure: &Bound<'_, PyAny>,
        cut_short: bool,
        used: Option<u64>,
        headers: Option<Vec<(Vec<u8>, Vec<u8>)>>,
        url: &str,
        draw: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, &'static str)>> {
        let py = failure.py();
        self.entrance.now(py)?;
        let failure = if failure.is_none() { None } else { Some(records::read_failure(failure)?) };
        let drawn = match &failure {
            Some(failure) if failure.kind == Kind::RateLimited && failure.hint.is_none() => {
                Draws::given(draw).draw(py)?
            }
            _ => 0.0,
        };
        let mut left = Remaining::default();
        if let Some(headers) = headers.filter(|_| self.limited) {
            let named: Vec<(String, Vec<u8>)> = headers
                .into_iter()
                .map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value))
                .collect();
            let pairs: Vec<(&str, &[u8])> =
                named.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
            left = remaining(&pairs, steadycall_core::classify::Dialect::of_url(url));
        }
        let taken = std::mem::replace(&mut *self.place(), Place::Over);
        let Place::Inside(pass) = taken else { return Ok(Vec::new()) };
        let report = Report { failure: failure.as_ref(), cut_short, used, remaining: left };
        let changed = pass.record(report, drawn);
        Ok(changed.into_iter().map(|(key, state)| (key.to_string(), state_name(state))).collect())
    }

    /// Ends it, waiting or under way; what may have been sent stays paid. Harmless when it is over.
    fn give_up(&self) {
        let taken = std::mem::replace(&mut *self.place(), Place::Over);
        if matches!(taken, Place::Busy) {
            self.stop.notify_one();
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
        }
        drop(taken);
    }
}

impl Passing {
    /// What a retry of its attempt is asked.
    pub fn around(&self) -> Surroundings<'_> {
        self.entrance.doorway.around(&self.keys)
    }

    /// From the loop's drain, with the GIL.
    pub fn passed(&self, py: Python<'_>, done: Done) -> PyResult<Py<PyAny>> {
        let through = self.settle(py, done)?;
        Ok(through.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn job(&self) -> Option<Job> {
        let mut place = self.place();
        match std::mem::replace(&mut *place, Place::Busy) {
            Place::Before(pass) if self.lends_sleep => Some(Job::Listen(pass)),
            Place::Before(pass) => Some(Job::Enter(pass)),
            other => {
                *place = other;
                None
            }
        }
    }

    fn settle(&self, py: Python<'_>, done: Done) -> PyResult<bool> {
        let (place, through) = match done {
            Done::Entered(pass) => (Place::Inside(pass), true),
            Done::Heard(pass) => (Place::Before(pass), false),
            Done::Refused(why) => {
                *self.place() = Place::Over;
                return Err(barred(py, why));
            }
            Done::Sent(..) => return Err(errors::our_fault(py, "an attempt nobody asked for")),
        };
        let mut held = self.place();
        // What was given up meanwhile gives everything back.
        let given_up =
            if matches!(*held, Place::Over) { place } else { std::mem::replace(&mut *held, place) };
        drop(held);
        drop(given_up);
        Ok(through)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn barred(py: Python<'_>, why: Refusal) -> PyErr {
    let stop = StopReason::from(why);
    let said = errors::stop_reason(py, stop).map(Bound::unbind);
    match said {
        Ok(said) => Barred::new_err((said, errors::stage(stop), errors::wait_of(why), errors::barred(why))),
        Err(error) => error,
    }
}
