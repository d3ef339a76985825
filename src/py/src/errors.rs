//! The one table from "how a call ended" to the exception that says so.
//!
//! Runs with the GIL held. Texts are `words`'s.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use steadycall_core::call::{Call, Stage, StopReason};
use steadycall_core::failure::{Kind, Reason, Sent};
use steadycall_core::passage::Refusal;
use steadycall_core::time::Moment;
use steadycall_net::transport::Phase;

use crate::ending::{Last, Whither};
use crate::{python, records, words};

/// An `Error` that says it is our fault.
pub fn our_fault(py: Python<'_>, what: &str) -> PyErr {
    let text = format!("steadycall failed inside ({what}); this is a bug in steadycall, please report it");
    match python::error(py).and_then(|class| class.call1((text,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// A `Closed`: what was waited for was closed meanwhile, by another task or thread, or before.
pub fn closed(py: Python<'_>) -> PyErr {
    closed_because(py, "this stream was closed")
}

/// A `Closed` for a child of fork: the connection is its parent's, and only one of them can read it.
pub fn of_the_parent(py: Python<'_>) -> PyErr {
    closed_because(
        py,
        "this stream was opened before a fork and belongs to the parent process; open another one",
    )
}

fn closed_because(py: Python<'_>, why: &str) -> PyErr {
    match python::closed(py).and_then(|class| class.call1((why,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Runs `act`; a panic in it comes out as an `Error` that says it is our fault.
///
/// pyo3 would make a `PanicException` of it, which no `except Exception` sees, and which an event loop only logs while
/// every call that waits for the same wake-up waits on for ever.
pub fn guarded<T>(py: Python<'_>, doing: &str, act: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(our_fault(py, &format!("a panic while {doing}"))))
}

/// The exception for a call that gave up.
pub fn gave_up(
    py: Python<'_>,
    call: &Call,
    stop: StopReason,
    last: Option<&Last>,
    barrier: Option<Refusal>,
    target: &Whither<'_>,
    now: Moment,
) -> PyResult<PyErr> {
    let cause = last.map(|last| failed(py, call, stop, last, barrier, target, now)).transpose()?;
    let Some(stage) = stage(stop) else {
        return match (cause, stop, barrier) {
            (Some(cause), ..) => Ok(cause),
            (None, StopReason::RequestBudget, _) | (None, _, Some(_)) => {
                refused(py, call, stop, barrier, target, now)
            }
            (None, ..) => Ok(our_fault(py, "gave up without a failure")),
        };
    };
    let fields = common(py, call, stop, last, barrier, now)?;
    fields.set_item("why", words::sentence(call, stop, last, barrier, target))?;
    fields.set_item("stage", stage)?;
    let error = PyErr::from_value(class(py, "DeadlineExceeded")?.call((), Some(&fields))?);
    error.set_cause(py, cause);
    Ok(error)
}

/// The exception for a call that was not allowed a single request.
fn refused(
    py: Python<'_>,
    call: &Call,
    stop: StopReason,
    barrier: Option<Refusal>,
    target: &Whither<'_>,
    now: Moment,
) -> PyResult<PyErr> {
    let fields = common(py, call, stop, None, barrier, now)?;
    fields.set_item("why", words::sentence(call, stop, None, barrier, target))?;
    let name = match stop {
        StopReason::RequestBudget => "RequestBudgetSpent",
        StopReason::BreakerOpen => "CircuitOpen",
        StopReason::QueueFull => "QueueFull",
        _ => "Refused",
    };
    Ok(PyErr::from_value(class(py, name)?.call((), Some(&fields))?))
}

/// The exception for the last real failure.
fn failed(
    py: Python<'_>,
    call: &Call,
    stop: StopReason,
    last: &Last,
    barrier: Option<Refusal>,
    target: &Whither<'_>,
    now: Moment,
) -> PyResult<PyErr> {
    let fields = common(py, call, stop, Some(last), barrier, now)?;
    fields.set_item("why", words::sentence(call, stop, Some(last), barrier, target))?;
    let (name, body, status) = match &last.found {
        Ok(answer) if is_success(answer.status) => ("ResponseError", &answer.body, Some(answer.status)),
        Ok(answer) => {
            fields.set_item("url", &target.to.url)?;
            fields.set_item("code", answer.status)?;
            fields.set_item("msg", words::phrase(answer.status))?;
            fields.set_item("header_pairs", records::header_pairs(py, &answer.headers)?)?;
            ("HTTPStatusError", &answer.body, None)
        }
        Err(fault) => match (&fault.head, transport_class(last.failure.reason)) {
            (Some((status, _)), None) => ("ResponseError", &fault.partial, Some(*status)),
            (_, name) => {
                fields.set_item("detail", words::detail(stop, fault))?;
                if let Some(phase) = fault.phase {
                    fields.set_item("phase", phase_name(phase))?;
                }
                let error = class(py, name.unwrap_or("ReadError"))?.call((), Some(&fields))?;
                return Ok(PyErr::from_value(error));
            }
        },
    };
    fields.set_item("body", PyBytes::new(py, body))?;
    if let Some(status) = status {
        fields.set_item("status", status)?;
    }
    let error = PyErr::from_value(class(py, name)?.call((), Some(&fields))?);
    error.set_cause(py, last.parse_error.as_ref().map(|cause| cause.clone_ref(py)));
    Ok(error)
}

/// The exception class for a fault; `None` for one that cut an answer short.
const fn transport_class(reason: Reason) -> Option<&'static str> {
    use Reason::*;
    match reason {
        ConnectFailed => Some("ConnectError"),
        ConnectTimeout | WriteTimeout | ReadTimeout | AttemptTimeout => Some("AttemptTimeout"),
        CertificateRejected | TlsFailed => Some("TLSError"),
        ProxyRefused | ProxyFailed => Some("ProxyError"),
        ConnectionLost | NotHttp => Some("ReadError"),
        _ => None,
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("steadycall._errors")?.getattr(name)
}

fn common<'py>(
    py: Python<'py>,
    call: &Call,
    stop: StopReason,
    last: Option<&Last>,
    barrier: Option<Refusal>,
    now: Moment,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let failure = last.map(|last| &last.failure);
    let maybe = call.records().iter().any(|record| record.sent == Sent::Maybe);
    fields.set_item("failure", failure.map(|failure| records::failure(py, failure)).transpose()?)?;
    let kind = failure.map(|failure| failure.kind).or_else(|| barrier.map(kind_of));
    fields.set_item("kind", kind.map(|kind| records::kind(py, kind)).transpose()?)?;
    fields.set_item("stop_reason", stop_reason(py, stop)?)?;
    fields.set_item("provider_code", failure.and_then(|failure| failure.provider_code.as_deref()))?;
    fields.set_item("attempts", records::attempts(py, call.records())?)?;
    fields.set_item("elapsed", call.elapsed(now).as_secs_f64())?;
    let hint = failure.and_then(|failure| failure.hint.as_ref()).map(|hint| hint.seconds);
    fields.set_item("retry_after", barrier.and_then(wait_of).or(hint))?;
    fields.set_item("request_id", call.records().last().and_then(|record| record.request_id.as_deref()))?;
    fields.set_item("sent", if maybe { "maybe" } else { "no" })?;
    Ok(fields)
}

/// The user's word for a stop reason: a member of `StopReason`.
pub fn stop_reason(py: Python<'_>, stop: StopReason) -> PyResult<Bound<'_, PyAny>> {
    let name = match stop {
        StopReason::NotRetryable => "NOT_RETRYABLE",
        StopReason::Tries => "TRIES",
        StopReason::HintTooLong => "HINT_TOO_LONG",
        StopReason::RequestBudget => "REQUEST_BUDGET",
        StopReason::Validation => "VALIDATION",
        StopReason::Deadline(_) => "DEADLINE",
        StopReason::MinAttempt(_) => "MIN_ATTEMPT",
        StopReason::BreakerOpen => "BREAKER_OPEN",
        StopReason::QueueFull => "QUEUE_FULL",
        StopReason::RetryBudget => "RETRY_BUDGET",
    };
    python::stop_reason(py)?.getattr(name)
}

/// Where the deadline struck, if that is why it stopped.
pub const fn stage(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::Deadline(stage) | StopReason::MinAttempt(stage) => Some(match stage {
            Stage::Queue => "queue",
            Stage::BeforeAttempt => "before_attempt",
            Stage::Attempt => "attempt",
            Stage::RetryDelay => "retry_delay",
        }),
        _ => None,
    }
}

/// The user's word for a phase.
pub const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Connect => "connect",
        Phase::Pool => "pool",
        Phase::Write => "write",
        Phase::Read => "read",
        Phase::Attempt => "attempt",
    }
}

/// Seconds after which a gate that refused may let it through, where that is known.
pub fn wait_of(barrier: Refusal) -> Option<f64> {
    let wait = match barrier {
        Refusal::CircuitOpen(wait) => wait,
        Refusal::TooSlow(wait)
        | Refusal::Paused(wait)
        | Refusal::PausedTooLong(wait)
        | Refusal::TokensSpent(wait) => Some(wait),
        Refusal::QueueFull | Refusal::Oversized | Refusal::Late => None,
    };
    wait.filter(|wait| *wait < Duration::MAX).map(|wait| wait.as_secs_f64())
}

/// What kind of failure a refusal is.
const fn kind_of(barrier: Refusal) -> Kind {
    match barrier {
        Refusal::CircuitOpen(_) | Refusal::QueueFull | Refusal::Late => Kind::Call,
        Refusal::TooSlow(_) | Refusal::Paused(_) | Refusal::PausedTooLong(_) => Kind::RateLimited,
        Refusal::TokensSpent(_) | Refusal::Oversized => Kind::Permanent,
    }
}

const fn is_success(status: u16) -> bool {
    matches!(status, 200..=299)
}
