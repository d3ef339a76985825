//! The one table from "how a call ended" to the exception that says so.
//!
//! Runs with the GIL held. Texts are made here, last, from data; no key, query string, prompt or body gets in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Uri};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use steadycall_core::call::{Call, Stage, StopReason};
use steadycall_core::failure::{Failure, Kind, Reason, Sent};
use steadycall_core::passage::Refusal;
use steadycall_core::time::Moment;
use steadycall_net::transport::{Answer, Fault, Phase, Url};

use crate::{python, records};

/// What the last attempt left behind.
pub struct Last {
    /// How it was judged.
    pub failure: Failure,
    /// The answer, or what came instead of one.
    pub found: Result<Answer, Fault>,
    /// Whether every byte of the request was handed to the connection.
    pub fully_sent: bool,
    /// What the JSON parser or the validator said, when that was it.
    pub parse_error: Option<PyErr>,
    /// Where it came from, when the call has gone on to another route since.
    pub elsewhere: Option<Elsewhere>,
}

/// Where an attempt went that is not where the call goes now.
pub struct Elsewhere {
    /// Where it went.
    pub to: Arc<Target>,
    /// Through what.
    pub via: Option<String>,
}

impl Elsewhere {
    /// The same for a text.
    pub fn whither(&self) -> Whither<'_> {
        Whither { to: &self.to, via: self.via.clone() }
    }
}

/// Where a call went, as errors may tell it: no query, no credentials.
pub struct Target {
    /// Host and port.
    pub host: String,
    /// Scheme, host and path.
    pub url: String,
    /// All of it, to choose the way by.
    pub parsed: Url,
    /// All of it, as it is sent.
    pub uri: Uri,
}

/// A target, and the proxy that stands before it: a failed connection is the proxy's as often as the host's.
pub struct Whither<'a> {
    /// Where the call goes.
    pub to: &'a Target,
    /// "through the proxy HOST", or which variable of the environment names one.
    pub via: Option<String>,
}

/// An `Error` that says it is our fault.
pub fn our_fault(py: Python<'_>, what: &str) -> PyErr {
    let text = format!("steadycall failed inside ({what}); this is a bug in steadycall, please report it");
    match python::error(py).and_then(|class| class.call1((text,))) {
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
    fields.set_item("why", sentence(call, stop, last, barrier, target))?;
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
    fields.set_item("why", sentence(call, stop, None, barrier, target))?;
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
    fields.set_item("why", sentence(call, stop, Some(last), barrier, target))?;
    let (name, body, status) = match &last.found {
        Ok(answer) if is_success(answer.status) => ("ResponseError", &answer.body, Some(answer.status)),
        Ok(answer) => {
            fields.set_item("url", &target.to.url)?;
            fields.set_item("code", answer.status)?;
            fields.set_item("msg", phrase(answer.status))?;
            fields.set_item("header_pairs", records::header_pairs(py, &answer.headers)?)?;
            ("HTTPStatusError", &answer.body, None)
        }
        Err(fault) => match (&fault.head, transport_class(last.failure.reason)) {
            (Some((status, _)), None) => ("ResponseError", &fault.partial, Some(*status)),
            (_, name) => {
                fields.set_item("detail", detail(stop, fault))?;
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

/// Why a gate refused, in words.
pub fn barred(barrier: Refusal) -> String {
    let seconds = |wait: Duration| format!("{:.3}", wait.as_secs_f64());
    match barrier {
        Refusal::CircuitOpen(Some(wait)) => {
            format!("the circuit breaker is open for another {} s", seconds(wait))
        }
        Refusal::CircuitOpen(None) => "the circuit breaker is open".to_owned(),
        Refusal::QueueFull => "the queue of waiting calls is full".to_owned(),
        Refusal::TooSlow(wait) => {
            format!(
                "the client's rate limit asks to wait {} s, longer than the deadline leaves",
                seconds(wait)
            )
        }
        Refusal::Paused(wait) => {
            format!(
                "the provider asked for a pause of another {} s, longer than the deadline leaves",
                seconds(wait)
            )
        }
        Refusal::PausedTooLong(wait) => {
            format!("the provider asked for a pause of another {} s, longer than max_wait", seconds(wait))
        }
        Refusal::TokensSpent(wait) if wait == Duration::MAX => {
            "it asks for more tokens than the token budget allows in a day".to_owned()
        }
        Refusal::TokensSpent(wait) => {
            format!("the token budget of the day is used up for another {} s", seconds(wait))
        }
        Refusal::Oversized => "it asks for more tokens than the rate limit lets through at once".to_owned(),
        Refusal::Late => "the deadline passed in the queue".to_owned(),
    }
}

/// What happened, how far it got, why it stopped, in one sentence.
fn sentence(
    call: &Call,
    stop: StopReason,
    last: Option<&Last>,
    barrier: Option<Refusal>,
    target: &Whither<'_>,
) -> String {
    let stopped = match barrier {
        Some(barrier) => after(call.records().len(), &barred(barrier)),
        None => stopped(call, stop, last.map(|last| &last.failure)),
    };
    match last {
        Some(last) => format!("{} {stopped}{}.", happened(stop, last, target), advice(stop, last)),
        None if call.records().is_empty() => format!("no request to {} was sent: {stopped}", target.to.host),
        None => format!("the answer of {} came too late. {stopped}.", target.to.host),
    }
}

/// How far it got and why it stopped: "Stopped after 3 attempts: all 3 tries are used up".
pub fn stopped(call: &Call, stop: StopReason, last: Option<&Failure>) -> String {
    let policy = call.policy();
    let count = call.records().len();
    let asked = last.and_then(|last| last.hint.as_ref()).map(|hint| hint.seconds.to_string());
    let why = match stop {
        StopReason::NotRetryable
            if last.is_some_and(|last| !last.retryable && last.kind == Kind::Permanent) =>
        {
            "a retry cannot fix it".to_owned()
        }
        // Only a wrapped function's failure is of a kind that is retried and yet not to be.
        StopReason::NotRetryable if last.is_some_and(|last| !last.retryable) => {
            "it is not among the errors that retry_on and retry_if let be retried".to_owned()
        }
        StopReason::NotRetryable => "the options given do not retry it".to_owned(),
        StopReason::Tries if count < policy.tries as usize => {
            "only one more attempt is made after a timeout of a request that was sent".to_owned()
        }
        StopReason::Tries if policy.tries == 1 => "the one try is used up".to_owned(),
        StopReason::Tries if policy.tries == 2 => "both tries are used up".to_owned(),
        StopReason::Tries => format!("all {} tries are used up", policy.tries),
        StopReason::Validation => {
            format!("{} answers failed their validation", policy.validation_tries.unwrap_or(policy.tries))
        }
        StopReason::RequestBudget => match policy.max_requests {
            Some(most) if call.requests() >= most => format!("max_requests={most} are used up"),
            _ => "the requests allowed by the scope around it are used up".to_owned(),
        },
        StopReason::HintTooLong => format!(
            "the server asks to wait {} s and max_wait is {} s",
            asked.unwrap_or_default(),
            policy.max_wait
        ),
        StopReason::Deadline(Stage::Attempt) => "no time is left".to_owned(),
        StopReason::Deadline(Stage::Queue) => "the deadline leaves no time to wait in the queue".to_owned(),
        StopReason::Deadline(Stage::BeforeAttempt) => "the deadline has passed".to_owned(),
        StopReason::Deadline(Stage::RetryDelay) => match asked {
            Some(asked) => format!("the server asks to wait {asked} s, longer than the deadline leaves"),
            None => "the deadline leaves no time for the wait before another attempt".to_owned(),
        },
        StopReason::MinAttempt(_) => {
            format!(
                "less than min_attempt={} s would be left of the deadline",
                policy.min_attempt.as_secs_f64()
            )
        }
        StopReason::BreakerOpen => "the circuit breaker is open".to_owned(),
        StopReason::QueueFull => "the queue of waiting calls is full".to_owned(),
        StopReason::RetryBudget => "the client's retry budget is used up".to_owned(),
    };
    after(count, &why)
}

/// The same, once it is known why.
pub fn after(count: usize, why: &str) -> String {
    match count {
        0 => why.to_owned(),
        1 => format!("Stopped after 1 attempt: {why}"),
        _ => format!("Stopped after {count} attempts: {why}"),
    }
}

/// What the last attempt brought, with how it was judged.
fn happened(stop: StopReason, last: &Last, target: &Whither<'_>) -> String {
    let host = &target.to.host;
    let via = target.via.as_ref().map_or_else(String::new, |via| format!(" {via}"));
    let reason = last.failure.reason;
    let fault = match &last.found {
        Ok(answer) => {
            let code =
                last.failure.provider_code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
            return format!("{} from {host}{code}: {}", named(answer.status), reason.sentence());
        }
        Err(fault) => fault,
    };
    use Reason::{CertificateRejected, ConnectFailed, ConnectTimeout, ProxyRefused, TlsFailed};
    let lacking = match reason {
        ConnectFailed | ConnectTimeout | CertificateRejected | TlsFailed | ProxyRefused => "connection to",
        _ if fault.head.is_none() && fault.partial.is_empty() => "answer from",
        _ => "whole answer from",
    };
    let detail = detail(stop, fault);
    match (stop, reason) {
        // The sentence would speak of the attempt timeout, which may never have been set.
        (CUT, _) => format!("no {lacking} {host}{via}: {detail}."),
        // The sentence would say the same again.
        (_, ConnectFailed) => format!("no {lacking} {host}{via} ({detail})."),
        _ => format!("no {lacking} {host}{via} ({detail}): {}", reason.sentence()),
    }
}

const CUT: StopReason = StopReason::Deadline(Stage::Attempt);

/// The cause in words. The sender knows one end of an attempt only, whoever set it.
fn detail(stop: StopReason, fault: &Fault) -> &str {
    if stop == CUT { "the deadline cut the attempt" } else { &fault.detail }
}

/// After a timeout the model may still be working: say so, and which number to raise.
fn advice(stop: StopReason, last: &Last) -> &'static str {
    let Err(fault) = &last.found else { return "" };
    match (last.fully_sent, stop, fault.phase) {
        (true, CUT, _) => "; the model may still be working and may be billed: raise deadline to wait for it",
        (true, _, Some(Phase::Read)) => {
            "; the model may still be working and may be billed: raise timeout (its read phase) to wait for it"
        }
        (true, _, Some(Phase::Attempt)) => {
            "; the model may still be working and may be billed: raise attempt_timeout to wait for it"
        }
        _ => "",
    }
}

/// "HTTP 503 Service Unavailable", or "HTTP 529" where nobody agreed on words.
fn named(status: u16) -> String {
    format!("HTTP {status} {}", phrase(status)).trim_end().to_owned()
}

fn phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("")
}

const fn is_success(status: u16) -> bool {
    matches!(status, 200..=299)
}
