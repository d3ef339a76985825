//! One logical call as Python's fronts see it: make an attempt, decide, wait, until it ends.
//!
//! Every method runs with the GIL held; `attempt` releases it while the network works. No lock is held while Python
//! code runs: a method takes the work out, and puts it back.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use steadycall_core::call::{Call, End, Stage, Step, StopReason};
use steadycall_core::passage;
use steadycall_core::policy::More;
use steadycall_core::time::Moment;
use steadycall_net::transport::Limits;
use tokio::sync::Notify;

use crate::around::Around;
use crate::bridge::{self, Addressee, Parcel, Running};
use crate::exit::Inside;
use crate::hooks::{Clock, Draws};
use crate::job::{Done, Gate, Job, Sending};
use crate::options::Options;
use crate::policy::{Common, Until};
use crate::python::Kept;
use crate::reply::Answered;
use crate::telling::Stop;
use crate::unit::Unit;
use crate::work::Work;
use crate::{convert, errors, records, runtime};

/// One call under way. Made by `call` and `acall`; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct HttpCall {
    /// Told each failed attempt that is followed by another.
    on_retry: Option<Py<PyAny>>,
    /// Told the whole call once.
    on_end: Option<Py<PyAny>>,
    around: Around,
    /// The unit of work that is told of a client's queue.
    unit: Option<Unit>,
    in_line: AtomicBool,
    /// Whether a good answer needs nobody's code but ours.
    plain: bool,
    /// Whether somebody looks at a good answer before it is the call's.
    validates: bool,
    /// Who waits at the gates, and who is told.
    steps: Steps,
    /// Routes that are left when this one gives up.
    routes: AtomicU32,
    /// `None` while a method works on it.
    work: Mutex<Option<Box<Work>>>,
    running: Mutex<Option<Running>>,
    stop: Arc<Notify>,
}

/// How an attempt of a client's call passes the gates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// When gates and attempt are one job, of which Python hears at its end.
    One,
    /// When Python is told in between.
    Told,
    /// When Python is told, and does the waiting whose end is known by a sleep of the caller's.
    Lent,
}

/// What `attempt` and the awaitable of `start` give when there is no good answer yet.
pub fn pending(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static PENDING: Kept = Kept::new();
    Ok(PENDING.get(py, || py.import("builtins")?.getattr("object")?.call0())?.clone().unbind())
}

#[pymethods]
impl HttpCall {
    #[new]
    #[allow(clippy::too_many_arguments)] // the public function's own parameters, passed on in order
    fn new(
        url: &Bound<'_, PyAny>,
        payload: &Bound<'_, PyAny>,
        tries: &Bound<'_, PyAny>,
        base: &Bound<'_, PyAny>,
        cap: &Bound<'_, PyAny>,
        max_wait: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
        timeout: &Bound<'_, PyAny>,
        attempt_timeout: &Bound<'_, PyAny>,
        deadline: &Bound<'_, PyAny>,
        retry_status: &Bound<'_, PyAny>,
        retry_transport: &Bound<'_, PyAny>,
        retry_maybe_processed: &Bound<'_, PyAny>,
        idempotency_key: &Bound<'_, PyAny>,
        on_retry: &Bound<'_, PyAny>,
        on_end: &Bound<'_, PyAny>,
        draw: &Bound<'_, PyAny>,
        clock: &Bound<'_, PyAny>,
        max_response_bytes: &Bound<'_, PyAny>,
        proxy: &Bound<'_, PyAny>,
        ca_bundle: &Bound<'_, PyAny>,
        around: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = url.py();
        let _inside = Inside::enter(py);
        let on_retry = convert::optional_callable("on_retry", on_retry)?;
        let on_end = convert::optional_callable("on_end", on_end)?;
        let draws = Draws::new(draw)?;
        let Until { seconds, left, clock } =
            Until::read(deadline, convert::optional_callable("clock", clock)?)?;
        let common = Common {
            tries,
            base,
            cap,
            max_wait,
            attempt_timeout,
            retry_status,
            retry_transport,
            retry_maybe_processed,
        };
        let policy = common.check(seconds, More::default())?;
        let options = Options::new(
            (url, headers, idempotency_key),
            (timeout, max_response_bytes),
            (proxy, ca_bundle),
            payload,
        )?;
        let around = Around::new(around);
        let plain = on_end.is_none() && clock.is_none() && !around.is_some();
        let clock = Clock::start(py, clock)?;
        let now = clock.now(py)?;
        let mut call = Call::new(policy, now);
        for left in left.into_iter().chain(around.remaining(py)?) {
            call.end_within(left, now);
        }
        let work = Work::new(call, options, clock, draws);
        Ok(Self { plain, on_retry, on_end, ..Self::of(work, around) })
    }

    /// Replaces the caller's headers for the next attempt.
    fn set_headers(&self, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let _inside = Inside::enter(headers.py());
        self.with(headers.py(), |work| work.options.set_headers(headers))
    }

    /// Whether an attempt begins now, and not the wait for one that stands at the gates.
    #[getter]
    fn begins(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |work| Ok(work.client.as_ref().is_none_or(|client| client.pass.is_none())))
    }

    /// Makes one attempt on this thread: the parsed answer, or `PENDING` when it failed.
    ///
    /// Ctrl-C ends it within 50 ms and closes its socket; `abort` from another thread does so at once.
    fn attempt(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        loop {
            let Some(job) = self.prepare(py)? else { return pending(py) };
            // Aborted by whoever waited for it, who has something else to raise.
            let Some(done) = runtime::block_on(py, job, &self.stop)? else { return pending(py) };
            let stepped = matches!(done, Done::Entered(_) | Done::Heard(_));
            let settled = self.settle(py, done)?;
            if !stepped {
                return Ok(settled);
            }
        }
    }

    /// Starts one attempt for the running event loop: an awaitable of the parsed answer or `PENDING`, or `None` when
    /// the front has to wait first.
    ///
    /// Cancelling the awaitable does not stop the attempt; `abort` does.
    fn start<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let this = slf.get();
        let Some(job) = this.prepare(slf.py())? else { return Ok(None) };
        let addressee = Addressee::Call(slf.clone().unbind());
        let (awaitable, running) =
            bridge::start(slf.py(), addressee, |lane| async move { Parcel::Done(job.run(&lane).await) })?;
        *this.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(Some(awaitable))
    }

    /// What a started attempt brought that the awaiting task has to look at itself: the parsed answer or `PENDING`.
    fn collect(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.with(py, |work| Ok(work.kept.take()))? {
            Some(done) => self.settle(py, done),
            None => pending(py),
        }
    }

    /// After a failed attempt: seconds to wait before the next one, with observers told; `None` to ask again at once.
    ///
    /// Raises what the call ends with when there is no next one.
    fn decide(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let now = work.clock.now(py)?;
            if let Some(client) = &mut work.client {
                if let Some(wait) = client.gate_wait.take() {
                    work.waiting = Some((wait, now));
                    return Ok(Some(wait));
                }
                if client.pass.is_some() || work.rerouting.is_some() {
                    return Ok(None);
                }
            }
            work.call.observe_budget(self.around.left(py)?);
            match work.next(py, now)? {
                Step::Wait { seconds } if !self.around.may_start(py, seconds)? => {
                    let stop = work.call.too_late();
                    self.end(py, work, stop, now).map(|()| None)
                }
                Step::Wait { seconds } => {
                    work.waiting = Some((seconds, now));
                    work.tell_retry(py, self.on_retry.as_ref())?;
                    work.tell_wait(py, seconds)?;
                    Ok(Some(seconds))
                }
                Step::Finish(End::GaveUp(stop)) => self.end(py, work, stop, now).map(|()| None),
                Step::Attempt { .. } | Step::Finish(End::Answered) => {
                    Err(PyRuntimeError::new_err("decide() was called before an attempt failed"))
                }
            }
        })
    }

    /// Told that the wait is over, and what `sleep` gave, which must be nothing to await.
    ///
    /// What a fake sleep did not move the clock by is added to the call's own time.
    #[pyo3(signature = (given=None))]
    fn slept(&self, py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        if let Some(given) = given {
            let allowed = "a plain callable that takes seconds (one that gives a coroutine needs acall)";
            convert::no_awaitable("sleep", given, allowed)?;
        }
        self.with(py, |work| {
            let Some((wait, since)) = work.waiting.take() else { return Ok(()) };
            work.clock.slept(py, wait, since)
        })
    }

    /// Told that the answer passed its validation, with what the caller is given in its place. Raises when that took
    /// longer than the deadline allowed.
    fn accept(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            work.accept(py)?;
            let now = work.clock.now(py)?;
            if !work.call.deadline().passed(now) {
                return work.tell_end(py, self.on_end.as_ref(), None);
            }
            work.call.withhold();
            let stop = Stop { reason: StopReason::Deadline(Stage::Attempt), at: now };
            let error = work.gave_up(py, stop.reason, now)?;
            error.value(py).setattr("late_result", value)?;
            work.tell_end(py, self.on_end.as_ref(), Some(stop))?;
            Err(error)
        })
    }

    /// Told that the answer failed its validation: as what, and what the validator raised; then `decide`.
    fn reject(&self, failure: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = failure.py();
        let failure = records::read_failure(failure)?;
        let _inside = Inside::enter(py);
        self.with(py, |work| work.reject(py, failure, PyErr::from_value(error.clone())))
    }

    /// Seconds left of the deadline; `None` when there is none.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.with(py, |work| {
            Ok(work.call.deadline().left(work.clock.now(py)?).map(|left| left.as_secs_f64()))
        })
    }

    /// Told that the deadline cut what comes before an attempt. Raises what the call ends with.
    fn expire(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            work.call.expire();
            let (stop, now) = (StopReason::Deadline(Stage::BeforeAttempt), work.clock.now(py)?);
            self.end(py, work, stop, now)
        })
    }

    /// Told that there is no other route after all. Raises what the call ends with.
    fn stay(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        self.routes.store(0, Ordering::Relaxed);
        self.with(py, |work| {
            let (stop, now) = (work.rerouting.take(), work.clock.now(py)?);
            stop.map_or(Ok(()), |stop| self.end(py, work, stop, now))
        })
    }

    /// Whether the last attempt failed and nothing was decided about it yet.
    #[getter]
    fn failed(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |work| Ok(work.call.has_failed()))
    }

    /// The last failure, or `None`.
    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.with(py, |work| work.last.as_ref().map(|last| records::failure(py, &last.failure)).transpose())
    }

    /// The error that the call would end with now.
    fn error(&self, py: Python<'_>) -> PyResult<PyErr> {
        self.with(py, |work| {
            let now = work.clock.now(py)?;
            work.gave_up(py, StopReason::NotRetryable, now)
        })
    }

    /// Told that the caller sees the last failure as this one.
    fn reconsider(&self, failure: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, failure) = (failure.py(), records::read_failure(failure)?);
        self.with(py, |work| {
            work.call.reconsider(failure.clone());
            if let Some(last) = &mut work.last {
                last.failure = failure;
            }
            Ok(())
        })
    }

    /// The good answer, as it came.
    fn answer(&self, py: Python<'_>) -> PyResult<Option<Answered>> {
        self.with(py, |work| work.answer(py))
    }

    /// Allows so many other routes after this one.
    fn allow_routes(&self, count: u32) {
        self.routes.store(count, Ordering::Relaxed);
    }

    /// Whether this route gave up and the next one is wanted.
    #[getter]
    fn rerouting(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |work| Ok(work.rerouting.is_some()))
    }

    /// Goes on by another call's request: its URL, headers and payload.
    fn reroute(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        let other = other.get().with(py, |work| Ok((work.options.clone(), work.client.take())))?;
        self.routes.fetch_sub(1, Ordering::Relaxed);
        self.with(py, |work| {
            work.reroute(other.0, other.1);
            Ok(())
        })
    }

    /// Ends an attempt under way and closes its socket, and leaves the gates. Harmless when there is none.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.stop.notify_one();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
        }
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let left = work.as_mut().and_then(|work| work.leave());
        drop(work);
        drop(left);
        self.leave_line(py)
    }
}

impl HttpCall {
    /// A call about which nobody but its front is told.
    pub fn of(work: Work, around: Around) -> Self {
        Self {
            on_retry: None,
            on_end: None,
            around,
            unit: None,
            in_line: AtomicBool::new(false),
            plain: false,
            validates: false,
            steps: Steps::One,
            routes: AtomicU32::new(0),
            work: Mutex::new(Some(Box::new(work))),
            running: Mutex::default(),
            stop: Arc::new(Notify::new()),
        }
    }

    /// The same with observers, and with how it passes the gates.
    pub fn of_client(
        work: Work,
        (around, unit): (Around, Option<Unit>),
        (on_retry, on_end): (Option<Py<PyAny>>, Option<Py<PyAny>>),
        steps: Steps,
        validates: bool,
    ) -> Self {
        let plain = on_end.is_none() && steps == Steps::One && !validates && !around.is_some();
        Self { unit, on_retry, on_end, plain, validates, steps, ..Self::of(work, around) }
    }

    /// From the loop's drain: the answer when it is good and only the future needs to know, `PENDING` otherwise.
    ///
    /// What runs a caller's code is left to the awaiting task, whose context it must see.
    pub fn arrived(&self, py: Python<'_>, done: Done) -> PyResult<Py<PyAny>> {
        if self.plain && matches!(done, Done::Sent(..)) {
            return self.settle(py, done);
        }
        self.keep(py, done)
    }

    /// Keeps what was done for `collect`.
    pub fn keep(&self, py: Python<'_>, done: Done) -> PyResult<Py<PyAny>> {
        self.with(py, |work| {
            work.kept = Some(done);
            pending(py)
        })
    }

    /// Takes the work out while `act` runs, because `act` may run Python code.
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut Work) -> PyResult<T>) -> PyResult<T> {
        let taken = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut work = taken.ok_or_else(|| PyRuntimeError::new_err("this call is busy in another thread"))?;
        let result = errors::guarded(py, "working on a call", || act(&mut work));
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        result
    }

    /// Asks the engine for the next attempt, and the gates to let it through; `None` when the front has to wait before
    /// it asks again, or to change the route.
    fn prepare(&self, py: Python<'_>) -> PyResult<Option<Job>> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let now = work.clock.now(py)?;
            // Who stands at the gates was allowed and paid for before.
            if work.is_at_the_gates() {
                return self.pass(py, work, now);
            }
            work.call.observe_budget(self.around.left(py)?);
            match work.call.next(|| 0.0, now) {
                Step::Attempt { until, .. } => {
                    if !self.around.spend(py)? {
                        work.call.refused();
                        return self.end(py, work, StopReason::RequestBudget, now).map(|()| None);
                    }
                    let within = self.line_up(py)?;
                    work.approach(py, within)?;
                    if work.client.is_some() {
                        self.pass(py, work, now)
                    } else {
                        Ok(send(work, until.left(now), None))
                    }
                }
                Step::Finish(End::GaveUp(stop)) => self.end(py, work, stop, now).map(|()| None),
                Step::Wait { .. } | Step::Finish(End::Answered) => {
                    Err(PyRuntimeError::new_err("an attempt was asked for before decide()"))
                }
            }
        })
    }

    /// The next step on the way through the gates.
    fn pass(&self, py: Python<'_>, work: &mut Work, now: Moment) -> PyResult<Option<Job>> {
        let Some((mut pass, inside)) = work.take_pass() else {
            return Err(errors::our_fault(py, "a way through no gates"));
        };
        if inside || self.steps == Steps::One {
            if inside {
                if !self.permitted(py, work, now)? {
                    return self.withdraw(py, work, now);
                }
                work.tell_start(py, now)?;
            }
            return Ok(send(work, None, Some((pass, inside))));
        }
        match pass.look() {
            passage::Step::Go => {
                if !self.permitted(py, work, now)? {
                    return self.withdraw(py, work, now);
                }
                work.tell_start(py, now)?;
                Ok(send(work, None, Some((pass, true))))
            }
            passage::Step::Refused(why) => {
                self.leave_line(py)?;
                self.around.refund(py)?;
                let stop = work.barred(why);
                self.end(py, work, stop, now).map(|()| None)
            }
            passage::Step::Wait(until) => {
                work.tell_queue(py, until, now)?;
                let known = pass.known_wait(until).filter(|_| self.steps == Steps::Lent);
                if let Some(wait) = known {
                    work.wait_with(pass, wait.as_secs_f64());
                    return Ok(None);
                }
                Ok(Some(if self.steps == Steps::Lent { Job::Listen(pass) } else { Job::Enter(pass) }))
            }
        }
    }

    /// Tells the unit of work that the request queues now, and asks how long it may.
    fn line_up(&self, py: Python<'_>) -> PyResult<Option<std::time::Duration>> {
        let Some(unit) = &self.unit else { return Ok(None) };
        self.in_line.store(true, Ordering::Relaxed);
        unit.line_up(py)
    }

    /// Tells the unit of work that the request got no permit.
    fn leave_line(&self, py: Python<'_>) -> PyResult<()> {
        match &self.unit {
            Some(unit) if self.in_line.swap(false, Ordering::Relaxed) => unit.leave_line(py),
            _ => Ok(()),
        }
    }

    /// Tells the unit of work that the request may go, and asks whether it still wants it and how long that may take.
    fn permitted(&self, py: Python<'_>, work: &mut Work, now: Moment) -> PyResult<bool> {
        let Some(unit) = &self.unit else { return Ok(true) };
        self.in_line.store(false, Ordering::Relaxed);
        if !unit.permitted(py)? {
            return Ok(false);
        }
        if let Some(left) = self.around.remaining(py)? {
            work.call.end_within(left, now);
        }
        Ok(true)
    }

    /// The end of a call that was let through too late.
    fn withdraw(&self, py: Python<'_>, work: &mut Work, now: Moment) -> PyResult<Option<Job>> {
        self.around.refund(py)?;
        let stop = work.withdrawn();
        self.end(py, work, stop, now).map(|()| None)
    }

    /// Looks at what was done: the parsed answer, or `PENDING` after a failure or a step on the way.
    fn settle(&self, py: Python<'_>, done: Done) -> PyResult<Py<PyAny>> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let (outcome, admitted) = match done {
                Done::Sent(outcome, admitted) => (*outcome, admitted),
                Done::Entered(pass) => {
                    work.hold(pass, true);
                    return pending(py);
                }
                Done::Heard(pass) => {
                    work.hold(pass, false);
                    return pending(py);
                }
                Done::Refused(why) => {
                    self.leave_line(py)?;
                    self.around.refund(py)?;
                    let (stop, now) = (work.barred(why), work.clock.now(py)?);
                    return self.end(py, work, stop, now).and_then(|()| pending(py));
                }
            };
            let admitted = admitted.map(|(pass, at)| {
                work.hold(pass, true);
                at
            });
            let told = self.on_end.is_some();
            match work.settle(py, outcome, admitted, self.validates, told)? {
                Some(value) => {
                    if !self.validates {
                        work.tell_end(py, self.on_end.as_ref(), None)?;
                    }
                    Ok(value)
                }
                None => pending(py),
            }
        })
    }

    /// The end of a route: of the call too, which raises, when there is no other or no other can help.
    fn end(&self, py: Python<'_>, work: &mut Work, stop: StopReason, now: Moment) -> PyResult<()> {
        if self.routes.load(Ordering::Relaxed) > 0 && work.leads_elsewhere(stop) {
            work.rerouting = Some(stop);
            return Ok(());
        }
        let error = work.gave_up(py, stop, now)?;
        work.tell_end(py, self.on_end.as_ref(), Some(Stop { reason: stop, at: now }))?;
        Err(error)
    }
}

/// The attempt itself; `limit` is its own where no gates know the time better.
fn send(
    work: &Work,
    limit: Option<std::time::Duration>,
    gate: Option<(steadycall_net::doorway::Pass, bool)>,
) -> Option<Job> {
    let policy = work.call.policy();
    let gate = gate.map(|(pass, inside)| Gate {
        pass,
        inside,
        deadline: work.call.deadline(),
        attempt_timeout: policy.attempt_timeout,
        min_attempt: policy.min_attempt,
    });
    let limits = Limits { attempt: limit, ..work.options.limits };
    let (route, request) = (Arc::clone(&work.options.route), Arc::clone(&work.options.request));
    Some(Job::Send(Box::new(Sending { route, request, limits, gate })))
}
