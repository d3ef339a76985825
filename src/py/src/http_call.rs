//! One logical call as Python's fronts see it: make an attempt, decide, wait, until it ends.
//!
//! Every method runs with the GIL held; `attempt` releases it while the network works. No lock is held while Python
//! code runs: a method takes the work out, and puts it back.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRecursionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use steadycall_core::call::{Call, End, Report, Step, StopReason};
use steadycall_core::classify;
use steadycall_core::failure::Failure;
use steadycall_core::policy::More;
use steadycall_core::time::Moment;
use steadycall_net::clock;
use steadycall_net::transport::{Answer, Fault, Limits, Outcome};
use tokio::sync::Notify;

use crate::around::Around;
use crate::bridge::{self, Addressee, Parcel, Running};
use crate::errors::{self, Last};
use crate::exit::Inside;
use crate::hooks::{Clock, Draws};
use crate::options::Options;
use crate::policy::{Common, Until};
use crate::python::Kept;
use crate::runtime::{self, Sending};
use crate::secrets::Secrets;
use crate::{convert, json, python, records};

/// One call under way. Made by `call` and `acall`; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct HttpCall {
    /// Told each failed attempt that is followed by another.
    on_retry: Option<Py<PyAny>>,
    /// Told the whole call once.
    on_end: Option<Py<PyAny>>,
    around: Around,
    /// Whether a good answer needs nobody's code but ours.
    plain: bool,
    /// `None` while a method works on it.
    work: Mutex<Option<Box<Work>>>,
    running: Mutex<Option<Running>>,
    stop: Arc<Notify>,
}

struct Work {
    call: Call,
    options: Options,
    clock: Clock,
    draws: Draws,
    /// Came back from the background thread, to be looked at by the awaiting task.
    kept: Option<Outcome>,
    last: Option<Last>,
    /// The wait decided on, and when.
    waiting: Option<(f64, Moment)>,
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
        let work = Work { call, options, clock, draws, kept: None, last: None, waiting: None };
        Ok(Self {
            on_retry,
            on_end,
            around,
            plain,
            work: Mutex::new(Some(Box::new(work))),
            running: Mutex::default(),
            stop: Arc::new(Notify::new()),
        })
    }

    /// Replaces the caller's headers for the next attempt.
    fn set_headers(&self, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let _inside = Inside::enter(headers.py());
        self.with(headers.py(), |work| work.options.set_headers(headers))
    }

    /// Makes one attempt on this thread: the parsed answer, or `PENDING` when it failed.
    ///
    /// Ctrl-C ends it within 50 ms and closes its socket; `abort` from another thread does so at once.
    fn attempt(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let sending = self.prepare(py)?;
        match runtime::block_on(py, &sending, &self.stop)? {
            Some(outcome) => self.settle(py, outcome),
            // Aborted by whoever waited for it, who has something else to raise.
            None => pending(py),
        }
    }

    /// Starts one attempt for the running event loop: an awaitable of the parsed answer or `PENDING`.
    ///
    /// Cancelling the awaitable does not stop the attempt; `abort` does.
    fn start<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let sending = this.prepare(slf.py())?;
        let addressee = Addressee::Call(slf.clone().unbind());
        let (awaitable, running) = bridge::start(slf.py(), addressee, |lane| async move {
            Parcel::Outcome(lane.attempt(&sending.route, &sending.request, &sending.limits).await)
        })?;
        *this.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(awaitable)
    }

    /// What a started attempt brought that the awaiting task has to look at itself: the parsed answer or `PENDING`.
    fn collect(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.with(py, |work| Ok(work.kept.take()))? {
            Some(outcome) => self.settle(py, outcome),
            None => pending(py),
        }
    }

    /// After a failed attempt: seconds to wait before the next one, with observers told.
    ///
    /// Raises what the call ends with when there is no next one.
    fn decide(&self, py: Python<'_>) -> PyResult<f64> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let now = work.clock.now(py)?;
            work.call.observe_budget(self.around.left(py)?);
            let Work { call, draws, .. } = &mut *work;
            let step = draws.lend(py, |draw| call.next(draw, now))?;
            match step {
                Step::Wait { seconds } => {
                    work.waiting = Some((seconds, now));
                    work.tell_retry(py, self.on_retry.as_ref())?;
                    Ok(seconds)
                }
                Step::Finish(End::GaveUp(stop)) => Err(self.end(py, work, stop, now)?),
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

    /// Ends an attempt under way and closes its socket. Harmless when there is none.
    fn abort(&self) {
        self.stop.notify_one();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
        }
    }
}

impl HttpCall {
    /// From the loop's drain: the answer when it is good and only the future needs to know, `PENDING` otherwise.
    ///
    /// What runs a caller's code is left to the awaiting task, whose context it must see.
    pub fn arrived(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
        if self.plain {
            return self.settle(py, outcome);
        }
        self.keep(py, outcome)
    }

    /// Keeps an outcome for `collect`.
    pub fn keep(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
        self.with(py, |work| {
            work.kept = Some(outcome);
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

    /// Asks the engine for the next attempt.
    fn prepare(&self, py: Python<'_>) -> PyResult<Sending> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let now = work.clock.now(py)?;
            work.call.observe_budget(self.around.left(py)?);
            match work.call.next(|| 0.0, now) {
                Step::Attempt { until, .. } => {
                    if !self.around.spend(py)? {
                        work.call.refused();
                        return Err(self.end(py, work, StopReason::RequestBudget, now)?);
                    }
                    let limits = Limits { attempt: until.left(now), ..work.options.limits };
                    let route = Arc::clone(&work.options.route);
                    Ok(Sending { route, request: Arc::clone(&work.options.request), limits })
                }
                Step::Finish(End::GaveUp(stop)) => Err(self.end(py, work, stop, now)?),
                Step::Wait { .. } | Step::Finish(End::Answered) => {
                    Err(PyRuntimeError::new_err("an attempt was asked for before decide()"))
                }
            }
        })
    }

    /// Judges what an attempt brought: the parsed answer, or `PENDING` after a failure.
    fn settle(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
        let _inside = Inside::enter(py);
        self.with(py, |work| {
            let Outcome { result, replays, fully_sent, received } = outcome;
            // An error body that was cut short is still that error.
            let found = match result {
                Err(Fault { head: Some((status, headers)), partial, .. })
                    if !(200..300).contains(&status) =>
                {
                    Ok(Answer { status, headers, body: partial })
                }
                other => other,
            };
            let judged = match &found {
                Ok(answer) => work.judge(py, answer)?,
                Err(fault) => Judged::Failed(Failure::transport(fault.reason, fault.sent), None),
            };
            let now = work.clock.now(py)?;
            let mut report = Report {
                failure: None,
                status: found.as_ref().ok().map(|answer| answer.status),
                request_id: None,
                fully_sent,
                received,
                replays,
                requests: replays.saturating_add(1),
            };
            match judged {
                Judged::Answer(value) => {
                    if self.on_end.is_some() {
                        let secrets = Secrets::of(&work.options.request);
                        report.request_id = found.as_ref().ok().and_then(|found| request_id(found, &secrets));
                        work.call.record(report, now);
                        work.tell_end(py, self.on_end.as_ref(), Some(value.bind(py)), None, now)?;
                    }
                    Ok(value)
                }
                Judged::Failed(mut failure, parse_error) => {
                    let secrets = Secrets::of(&work.options.request);
                    failure.provider_code.take_if(|code| secrets.are_in(code));
                    report.request_id = found.as_ref().ok().and_then(|found| request_id(found, &secrets));
                    report.failure = Some(failure.clone());
                    work.call.record(report, now);
                    work.last = Some(Last { failure, found, fully_sent, parse_error });
                    pending(py)
                }
            }
        })
    }

    fn end(&self, py: Python<'_>, work: &mut Work, stop: StopReason, now: Moment) -> PyResult<PyErr> {
        let error = errors::gave_up(py, &work.call, stop, work.last.as_ref(), &work.options.whither(), now)?;
        work.tell_end(py, self.on_end.as_ref(), None, Some(stop), now)?;
        Ok(error)
    }
}

enum Judged {
    Answer(Py<PyAny>),
    Failed(Failure, Option<PyErr>),
}

impl Work {
    fn judge(&self, py: Python<'_>, answer: &Answer) -> PyResult<Judged> {
        let content_type = answer.headers.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes());
        let read = |failure: &dyn Fn() -> Failure| match json::read(py, &answer.body) {
            Ok(value) => Ok(Judged::Answer(value.unbind())),
            Err(error)
                if error.is_instance_of::<PyValueError>(py)
                    || error.is_instance_of::<PyRecursionError>(py) =>
            {
                Ok(Judged::Failed(failure(), Some(error)))
            }
            Err(error) => Err(error),
        };
        if classify::surely_good(answer.status, content_type, &answer.body) {
            return read(&|| self.with_facts(answer, classify::unreadable));
        }
        match self.with_facts(answer, |facts| {
            classify::classify_with(facts, self.call.policy().retry_status.as_ref())
        }) {
            Some(failure) => Ok(Judged::Failed(failure, None)),
            None => read(&|| self.with_facts(answer, classify::unreadable)),
        }
    }

    fn with_facts<T>(&self, answer: &Answer, look: impl FnOnce(&classify::Answer<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        look(&classify::Answer {
            status: answer.status,
            headers: &headers,
            body: &answer.body,
            url: Some(&self.options.target.url),
            now: clock::wall(),
            dialect: None,
        })
    }

    fn tell_retry(&self, py: Python<'_>, on_retry: Option<&Py<PyAny>>) -> PyResult<()> {
        let (Some(record), Some(last)) = (self.call.records().last(), &self.last) else { return Ok(()) };
        let told = records::attempt(py, record)?;
        let reason = last.failure.reason.sentence();
        python::watch_retried(py)?.call1((told, &self.options.target.host, reason, on_retry))?;
        Ok(())
    }

    fn tell_end(
        &self,
        py: Python<'_>,
        on_end: Option<&Py<PyAny>>,
        answer: Option<&Bound<'_, PyAny>>,
        stop: Option<StopReason>,
        now: Moment,
    ) -> PyResult<()> {
        let Some(on_end) = on_end else { return Ok(()) };
        let told = self.call.records();
        let requests = self.call.requests();
        let stop = stop.map(|stop| errors::stop_reason(py, stop)).transpose()?;
        let fields = pyo3::types::PyDict::new(py);
        fields.set_item("attempts", records::attempts(py, told)?)?;
        fields.set_item("requests", requests)?;
        fields.set_item("elapsed", self.call.elapsed(now).as_secs_f64())?;
        let usage = answer.map(|answer| python::usage_tokens(py)?.call1((answer,))).transpose()?;
        fields.set_item("usage", usage)?;
        match &stop {
            Some(stop) => fields.set_item("outcome", stop.getattr("value")?)?,
            None => fields.set_item("outcome", "answered")?,
        }
        fields.set_item("stop_reason", stop)?;
        let record = python::call_record(py)?.call((), Some(&fields))?;
        python::watch_ended(py)?.call1((record, on_end))?;
        Ok(())
    }
}

/// Where providers put their id for a request; the first that is there.
const REQUEST_ID_HEADERS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-amzn-trace-id"];

fn request_id(answer: &Answer, secrets: &Secrets) -> Option<String> {
    let found = REQUEST_ID_HEADERS.iter().find_map(|name| answer.headers.get(*name))?;
    let id: String = found.to_str().ok()?.chars().take(200).collect();
    (!secrets.are_in(&id)).then_some(id)
}
