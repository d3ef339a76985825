//! Why a call ends without success, and where its deadline struck.

use crate::failure::{Failure, Kind, Reason};
use crate::passage::Refusal;

/// Why a call ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// When no retry can fix the failure, or the caller switched its retry off.
    NotRetryable,
    /// When every allowed attempt was made.
    Tries,
    /// When the requests this call may cost, or its layers share, are spent.
    RequestBudget,
    /// When every allowed answer failed its validation.
    Validation,
    /// When the server asked for a longer wait than `max_wait`.
    HintTooLong,
    /// When the deadline leaves no room for another attempt, or cut the last one.
    Deadline(Stage),
    /// When less than `min_attempt` would be left of the deadline.
    MinAttempt(Stage),
    /// When the circuit breaker lets nothing through, and will not before the wait is over.
    BreakerOpen,
    /// When as many calls wait as may.
    QueueFull,
    /// When the retries of the whole client add as much load as they may.
    RetryBudget,
}

impl From<Refusal> for StopReason {
    /// Why a call ends when the gates refuse its attempt.
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::CircuitOpen(_) => Self::BreakerOpen,
            Refusal::QueueFull => Self::QueueFull,
            Refusal::TooSlow(_) | Refusal::Paused(_) | Refusal::Late => Self::Deadline(Stage::Queue),
            Refusal::PausedTooLong(_) => Self::HintTooLong,
            Refusal::TokensSpent(_) | Refusal::Oversized => Self::NotRetryable,
        }
    }
}

impl StopReason {
    /// Whether another provider may answer what this one did not: its circuit is open, its pace or its quota is used
    /// up, its transport failed. Never when the request is at fault, or the caller's time or money is spent.
    pub fn leads_elsewhere(self, last: Option<&Failure>, refusal: Option<Refusal>) -> bool {
        let theirs = last.is_some_and(|last| matches!(last.kind, Kind::Call | Kind::RateLimited));
        match self {
            Self::BreakerOpen => true,
            Self::HintTooLong => theirs || matches!(refusal, Some(Refusal::PausedTooLong(_))),
            Self::Tries | Self::RetryBudget => theirs,
            Self::Deadline(Stage::RetryDelay) | Self::MinAttempt(Stage::RetryDelay) => theirs,
            Self::Deadline(Stage::Queue) => {
                matches!(refusal, Some(Refusal::TooSlow(_) | Refusal::Paused(_)))
            }
            Self::NotRetryable => {
                use Reason::{Billing, QuotaSpent, WaitOfDays, ZeroLimit};
                last.is_some_and(|last| matches!(last.reason, Billing | QuotaSpent | WaitOfDays | ZeroLimit))
            }
            Self::Deadline(_)
            | Self::MinAttempt(_)
            | Self::RequestBudget
            | Self::Validation
            | Self::QueueFull => false,
        }
    }
}

/// Where the deadline struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// When it passed, or would pass, while waiting to be let through.
    Queue,
    /// When it had passed before an attempt could start.
    BeforeAttempt,
    /// When it cut a running attempt.
    Attempt,
    /// When the wait would reach or pass it.
    RetryDelay,
}
