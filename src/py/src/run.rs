//! The attempts of one wrapped function, or of one request of a transport: the engine as Python's fronts see it.
//!
//! The fronts run the attempts and wait; what comes next is decided here. Every method runs with the GIL held and
//! returns at once. No lock is held while Python code runs: a method takes the state out, and puts it back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use steadycall_core::call::{Call, End, Report, Stage, Step, StopReason};
use steadycall_core::failure::{Failure, Sent};
use steadycall_core::passage::Refusal;
use steadycall_core::policy::Policy;
use steadycall_core::time::{self, Deadline, Moment};

use crate::account::Account;
use crate::around::Around;
use crate::errors;
use crate::exit::Inside;
use crate::gates::Gates;
use crate::hooks::{Clock, Draws};
use crate::passing::Passing;
use crate::policy::CheckedPolicy;
use crate::{records, words};

/// Attempts under way, and a layer around what happens within them. Made by the fronts; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Run {
    policy: Arc<Policy>,
    around: Around,
    /// Each attempt is a request by itself, and is paid for before it is made.
    leaf: bool,
    clock: Clock,
    begun: Moment,
    /// What the layers below may look at while a method works.
    bounds: Mutex<Bounds>,
    state: Mutex<Engine>,
    draw: Option<Py<PyAny>>,
    account: Account,
    ended: AtomicBool,
}

#[derive(Clone, Copy)]
struct Bounds {
    number: u32,
    /// Of the attempt under way.
    until: Deadline,
    deadline: Deadline,
}

/// The engine is built when it has something to decide: most runs succeed at once, and nothing limits them.
enum Engine {
    Unbuilt,
    Built(Box<State>),
    Busy,
}

struct State {
    call: Call,
    draws: Draws,
    waiting: Option<(f64, Moment)>,
    last: Option<Failure>,
    /// A layer below gave up on the last failure.
    given_up_below: bool,
    stop: Option<StopReason>,
    /// Why a gate refused it, and the seconds after which it may not.
    barrier: Option<(String, Option<f64>)>,
}

impl State {
    fn new(call: Call, draws: Draws) -> Self {
        Self { call, draws, waiting: None, last: None, given_up_below: false, stop: None, barrier: None }
    }
}

#[pymethods]
impl Run {
    /// With `gates` it lives in their time and not by `now`.
    #[new]
    #[pyo3(signature = (policy, around, now, draw, leaf, gates = None))]
    fn new(
        policy: &Bound<'_, CheckedPolicy>,
        around: &Bound<'_, PyAny>,
        now: &Bound<'_, PyAny>,
        draw: &Bound<'_, PyAny>,
        leaf: bool,
        gates: Option<&Bound<'_, Gates>>,
    ) -> PyResult<Self> {
        let py = policy.py();
        let given = |value: &Bound<'_, PyAny>| (!value.is_none()).then(|| value.clone().unbind());
        let checked = Arc::clone(&policy.get().policy);
        let clock = match gates {
            Some(gates) => Clock::Shared(gates.get().entrance(py)?),
            None => Clock::start(py, given(now))?,
        };
        let run = Self::start(py, checked, Around::new(around), clock, given(draw))?;
        Ok(Self { leaf, ..run })
    }

    /// Whether another attempt is due now, which is then paid for; if not, `stop_reason` tells why.
    fn begin(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| {
            let now = self.clock.now(py)?;
            state.call.observe_budget(self.around.left(py)?);
            match state.call.next(|| 0.0, now) {
                Step::Attempt { number, .. } if number == self.number() => Ok(true),
                Step::Attempt { number, until } => {
                    if !self.around.spend(py)? {
                        state.call.refused();
                        state.stop = Some(StopReason::RequestBudget);
                        return Ok(false);
                    }
                    self.account.begin(!self.leaf);
                    let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
                    (bounds.number, bounds.until) = (number, until);
                    Ok(true)
                }
                Step::Finish(End::GaveUp(stop)) => {
                    state.stop = Some(stop);
                    Ok(false)
                }
                Step::Finish(End::Answered) | Step::Wait { .. } => {
                    Err(PyRuntimeError::new_err("the attempt before has not been told of"))
                }
            }
        })
    }

    /// Told of a failed attempt: seconds to wait before the next, or `None` when there is none.
    #[pyo3(signature = (
        failure, *, request_id = None, received = 0, fully_sent = false, replays = 0, given_up_below = false,
        passing = None
    ))]
    #[allow(clippy::too_many_arguments)] // keywords, in Python
    fn failed(
        &self,
        failure: &Bound<'_, PyAny>,
        request_id: Option<String>,
        received: u64,
        fully_sent: bool,
        replays: u32,
        given_up_below: bool,
        passing: Option<&Bound<'_, Passing>>,
    ) -> PyResult<Option<f64>> {
        let py = failure.py();
        let failure = records::read_failure(failure)?;
        let _inside = Inside::enter(py);
        self.with(py, |state| {
            let requests = self.account.settle().saturating_add(replays);
            let now = self.clock.now(py)?;
            state.call.record(
                Report {
                    status: failure.status,
                    failure: Some(failure.clone()),
                    request_id,
                    fully_sent,
                    received,
                    replays,
                    requests,
                },
                now,
            );
            state.last = Some(failure);
            state.given_up_below = given_up_below;
            state.call.observe_budget(self.around.left(py)?);
            let State { call, draws, .. } = &mut *state;
            let step = match passing {
                Some(passing) => {
                    let mut around = passing.get().around();
                    draws.lend(py, |draw| call.next_within(&mut around, draw, now))?
                }
                None => draws.lend(py, |draw| call.next(draw, now))?,
            };
            match step {
                Step::Wait { seconds } if self.around.may_start(py, seconds)? => {
                    state.waiting = Some((seconds, now));
                    Ok(Some(seconds))
                }
                Step::Wait { .. } => {
                    state.stop = Some(state.call.too_late());
                    Ok(None)
                }
                Step::Finish(End::GaveUp(stop)) => {
                    state.stop = Some(stop);
                    Ok(None)
                }
                Step::Finish(End::Answered) | Step::Attempt { .. } => {
                    Err(PyRuntimeError::new_err("no attempt is under way"))
                }
            }
        })
    }

    /// Told that the attempt was let through only now, from when it counts.
    fn admitted(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            let now = self.clock.now(py)?;
            if self.around.unit(py)?.is_some()
                && let Some(left) = self.around.remaining(py)?
            {
                state.call.end_within(left, now);
            }
            let until = state.call.admitted(now);
            let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
            (bounds.until, bounds.deadline) = (until, state.call.deadline());
            Ok(())
        })
    }

    /// Told that a gate refused the attempt, which was paid for: why the run ends, and in words.
    #[pyo3(signature = (stop, why, wait))]
    fn barred(&self, py: Python<'_>, stop: &str, why: String, wait: Option<f64>) -> PyResult<()> {
        self.around.refund(py)?;
        self.with(py, |state| {
            let stop = match stop {
                "breaker_open" => StopReason::BreakerOpen,
                "queue_full" => StopReason::QueueFull,
                "deadline" => StopReason::Deadline(Stage::Queue),
                "before_attempt" => StopReason::Deadline(Stage::BeforeAttempt),
                "hint_too_long" => StopReason::HintTooLong,
                "request_budget" => StopReason::RequestBudget,
                _ => StopReason::NotRetryable,
            };
            state.call.refused_for(stop);
            (state.stop, state.barrier) = (Some(stop), Some((why, wait)));
            Ok(())
        })
    }

    /// Whether another route may answer what this one did not, and if so, goes on by it: with fresh tries, within the
    /// same deadline and the same requests.
    fn reroute(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| {
            let Some(stop) = state.stop else { return Ok(false) };
            let wait = state.barrier.as_ref().and_then(|(_, wait)| time::seconds((*wait)?));
            let refusal = match (stop, wait) {
                (StopReason::HintTooLong, Some(wait)) => Some(Refusal::PausedTooLong(wait)),
                (_, Some(wait)) => Some(Refusal::TooSlow(wait)),
                (_, None) => None,
            };
            if !stop.leads_elsewhere(state.last.as_ref(), refusal) {
                return Ok(false);
            }
            state.call.reroute();
            (state.stop, state.barrier) = (None, None);
            Ok(true)
        })
    }

    /// Told of a good answer. False when it came after the deadline, which a front's timer may know first: `late`.
    #[pyo3(signature = (*, status = None, request_id = None, received = 0, replays = 0, late = false))]
    fn answered(
        &self,
        py: Python<'_>,
        status: Option<u16>,
        request_id: Option<String>,
        received: u64,
        replays: u32,
        late: bool,
    ) -> PyResult<bool> {
        self.with(py, |state| {
            let requests = self.account.settle().saturating_add(replays);
            let now = self.clock.now(py)?;
            let late = late || state.call.deadline().passed(now);
            state.call.record(
                Report { failure: None, status, request_id, fully_sent: true, received, replays, requests },
                now,
            );
            if late {
                state.call.withhold();
                state.stop = Some(StopReason::Deadline(Stage::Attempt));
            }
            Ok(!late)
        })
    }

    /// Told that the wait is over. What a fake sleep did not move the clock by is added to the run's own time.
    fn slept(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| match state.waiting.take() {
            Some((wait, since)) => self.clock.slept(py, wait, since),
            None => Ok(()),
        })
    }

    /// From now on it binds nobody who still runs within it.
    fn end(&self) {
        self.account.forget();
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Told by a layer below that it gave up with this error, which is final for the layers around it.
    fn gave_up(&self, error: Py<PyAny>) {
        self.account.gave_up(error);
    }

    /// What layers below gave up with since the attempt began.
    #[getter]
    fn given_up<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.account.given_up(py))
    }

    /// The layer around it, or `None`.
    #[getter]
    fn around(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.around.object(py)
    }

    /// Takes a request for a layer below, from this run and from those around; false when one has none left.
    fn spend(&self, py: Python<'_>) -> PyResult<bool> {
        if self.ended.load(Ordering::Relaxed) {
            return self.around.spend(py);
        }
        self.account.spend(|| self.around.spend(py))
    }

    /// Gives a request of a layer below back, which was not made after all.
    fn refund(&self, py: Python<'_>) -> PyResult<()> {
        if self.ended.load(Ordering::Relaxed) {
            return self.around.refund(py);
        }
        self.account.refund(|| self.around.refund(py))
    }

    /// Requests left here and around; `None` when nothing limits them.
    fn left(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        let around = self.around.left(py)?;
        Ok(if self.ended.load(Ordering::Relaxed) { around } else { self.account.left(around) })
    }

    /// Seconds left of the deadline and of those around; `None` when nothing limits it.
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        if self.ended.load(Ordering::Relaxed) {
            return Ok(self.around.remaining(py)?.map(|left| left.as_secs_f64()));
        }
        self.until_end(py, |bounds| bounds.until)
    }

    /// 1 for the first attempt.
    #[getter]
    fn number(&self) -> u32 {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner).number
    }

    /// Seconds the attempt that `begin` allowed may still take; `None` when nothing limits it.
    #[getter]
    fn timeout(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.until_end(py, |bounds| bounds.until)
    }

    /// Seconds left of the deadline; `None` when there is none.
    #[getter]
    fn deadline_left(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.until_end(py, |bounds| bounds.deadline)
    }

    /// Why it ended without success: a `StopReason`, or `None`.
    #[getter]
    fn stop_reason<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stop = self.with(py, |state| Ok(state.stop))?;
        stop.map(|stop| errors::stop_reason(py, stop)).transpose()
    }

    /// Where the deadline struck, if it did.
    #[getter]
    fn stage(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.with(py, |state| Ok(state.stop.and_then(errors::stage)))
    }

    /// Why it ended, in one sentence.
    #[getter]
    fn why(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| {
            let stop = state.stop.unwrap_or(StopReason::NotRetryable);
            if let Some((why, _)) = &state.barrier {
                return Ok(words::after(state.call.records().len(), why));
            }
            Ok(match (stop, state.given_up_below) {
                (StopReason::NotRetryable, true) => {
                    words::after(state.call.records().len(), "a layer below gave up on it")
                }
                _ => words::stopped(&state.call, stop, state.last.as_ref()),
            })
        })
    }

    /// Seconds after which the gate that refused it may let it through, where that is known.
    #[getter]
    fn barrier_wait(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.with(py, |state| Ok(state.barrier.as_ref().and_then(|(_, wait)| *wait)))
    }

    /// The last failure, or `None`.
    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.with(py, |state| state.last.as_ref().map(|last| records::failure(py, last)).transpose())
    }

    /// Every attempt, as a tuple of `AttemptRecord`.
    #[getter]
    fn attempts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with(py, |state| records::attempts(py, state.call.records()))
    }

    /// Whether a request may have been processed.
    #[getter]
    fn sent(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |state| {
            let maybe = state.call.records().iter().any(|record| record.sent == Sent::Maybe);
            Ok(if maybe { "maybe" } else { "no" })
        })
    }

    /// Seconds since it began.
    #[getter]
    fn elapsed(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |state| Ok(state.call.elapsed(self.clock.now(py)?).as_secs_f64()))
    }

    /// Requests so far, those of the layers below included.
    #[getter]
    fn requests(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |state| Ok(state.call.requests()))
    }
}

impl Run {
    /// A run of a wrapped function, by its policy, the layer around it, its clock and its dice.
    pub fn start(
        py: Python<'_>,
        policy: Arc<Policy>,
        around: Around,
        clock: Clock,
        draw: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        // A clock of its own begins now, and is not asked when nothing limits the run.
        let begun = if let Clock::Shared(_) = clock { clock.now(py)? } else { Moment::default() };
        let mut bounds = Bounds { number: 1, until: Deadline::Never, deadline: Deadline::Never };
        let mut engine = Engine::Unbuilt;
        let draws = || Draws::given(draw.as_ref().map(|draw| draw.clone_ref(py)));
        if around.is_some() || policy.deadline.is_some() || policy.attempt_timeout.is_some() {
            let mut call = Call::new(Arc::clone(&policy), begun);
            // Behind gates the time of a unit's call counts from its permit, with which it is asked for again.
            let left =
                if let Clock::Shared(_) = clock { around.longest(py)? } else { around.remaining(py)? };
            if let Some(left) = left {
                call.end_within(left, begun);
            }
            let deadline = call.deadline();
            bounds = Bounds { number: 0, until: deadline, deadline };
            // Without a layer around it nothing can refuse the first attempt, so it has begun.
            if !around.is_some()
                && let Step::Attempt { number, until } = call.next(|| 0.0, begun)
            {
                (bounds.number, bounds.until) = (number, until);
            }
            engine = Engine::Built(Box::new(State::new(call, draws())));
        }
        let account = Account::new(policy.max_requests);
        Ok(Self {
            policy,
            around,
            leaf: false,
            clock,
            begun,
            bounds: Mutex::new(bounds),
            state: Mutex::new(engine),
            draw,
            account,
            ended: AtomicBool::new(false),
        })
    }

    fn until_end(&self, py: Python<'_>, which: impl FnOnce(Bounds) -> Deadline) -> PyResult<Option<f64>> {
        let bounds = *self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let end = which(bounds);
        if end == Deadline::Never {
            return Ok(None);
        }
        Ok(end.left(self.clock.now(py)?).map(|left| left.as_secs_f64()))
    }

    /// Takes the state out while `act` runs, because `act` may run Python code.
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        let engine = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::replace(&mut *engine(), Engine::Busy);
        let mut state = match taken {
            Engine::Built(state) => state,
            Engine::Unbuilt => {
                let mut call = Call::new(Arc::clone(&self.policy), self.begun);
                call.next(|| 0.0, self.begun);
                Box::new(State::new(call, Draws::given(self.draw.as_ref().map(|draw| draw.clone_ref(py)))))
            }
            Engine::Busy => return Err(PyRuntimeError::new_err("this run is busy in another thread")),
        };
        let result = errors::guarded(py, "deciding on a run", || act(&mut state));
        *engine() = Engine::Built(state);
        result
    }
}
