//! How a call ended, in words: what happened, how far it got, why it stopped, and what to do.
//!
//! Texts are made here, last, from data; no key, query string, prompt or body gets in.

use std::time::Duration;

use http::StatusCode;
use steadycall_core::call::{Call, Stage, StopReason};
use steadycall_core::failure::{Failure, Kind, Reason};
use steadycall_core::passage::Refusal;
use steadycall_net::transport::{Fault, Phase};

use crate::ending::{Last, Whither};

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
pub fn sentence(
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
pub fn detail(stop: StopReason, fault: &Fault) -> &str {
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

pub fn phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("")
}
