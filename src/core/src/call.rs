//! One logical call from its first attempt to its end: the engine.
//!
//! It answers `next` with what to do and is told by `record` what came of it.
//! It owns the order in which reasons to give up are asked (rule 5 of the design) and knows nothing of
//! HTTP, Python or clocks; the fronts carry out what it answers.

use std::time::Duration;

use crate::event::AttemptRecord;
use crate::failure::{Failure, Kind, Reason, Sent};
use crate::policy::Policy;
use crate::time::{Deadline, Moment, seconds};

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// When another attempt is due; it must be over at `until`.
    Attempt {
        /// 1 for the first attempt.
        number: u32,
        /// The earlier of the attempt timeout and the deadline.
        until: Deadline,
    },
    /// When the caller must wait, exactly this long.
    Wait {
        /// Seconds; the server's own number when it gave one.
        seconds: f64,
    },
    /// When the call is over.
    Finish(End),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When the last attempt brought a good answer.
    Answered,
    /// When no further attempt is made.
    GaveUp(StopReason),
}

/// Why a call ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// When no retry can fix the failure, or the caller switched its retry off.
    NotRetryable,
    /// When every allowed attempt was made.
    Tries,
    /// When the server asked for a longer wait than `max_wait`.
    HintTooLong,
    /// When the deadline leaves no room for another attempt, or cut the last one.
    Deadline(Stage),
}

/// Where the deadline struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// When it had passed before an attempt could start.
    BeforeAttempt,
    /// When it cut a running attempt.
    Attempt,
    /// When the wait would reach or pass it.
    RetryDelay,
}

/// What came of one attempt.
#[derive(Debug, Clone)]
pub struct Report {
    /// The failure; `None` for a good answer.
    pub failure: Option<Failure>,
    /// The HTTP status, when an answer came.
    pub status: Option<u16>,
    /// The server's id for the request.
    pub request_id: Option<String>,
    /// Whether every byte of the request was handed to the connection.
    pub fully_sent: bool,
    /// Body bytes received.
    pub received: u64,
    /// Requests replayed at once.
    pub replays: u32,
}

#[derive(Debug)]
enum State {
    Ready,
    Running { since: Moment, cut_by_deadline: bool },
    Failed(Box<Failure>),
    Over(End),
}

/// One logical call.
#[derive(Debug)]
pub struct Call {
    policy: Policy,
    deadline: Deadline,
    started: Moment,
    number: u32,
    allowed: u32,
    state: State,
    records: Vec<AttemptRecord>,
}

impl Call {
    /// A call that begins at `now`.
    pub fn new(policy: Policy, now: Moment) -> Self {
        Self {
            deadline: Deadline::after(policy.deadline, now),
            started: now,
            number: 0,
            allowed: policy.tries,
            state: State::Ready,
            records: Vec::new(),
            policy,
        }
    }

    /// A call whose handed-down deadline has passed before it could begin.
    pub fn expired(policy: Policy, now: Moment) -> Self {
        Self { deadline: Deadline::At(now), ..Self::new(policy, now) }
    }

    /// How it is retried.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What every attempt so far came to.
    pub fn records(&self) -> &[AttemptRecord] {
        &self.records
    }

    /// Time since it began.
    pub fn elapsed(&self, now: Moment) -> Duration {
        now.since(self.started)
    }

    /// What to do next. `draw` is asked only when a random wait is due, and must be uniform in [0, 1).
    pub fn next(&mut self, draw: impl FnOnce() -> f64, now: Moment) -> Step {
        match std::mem::replace(&mut self.state, State::Ready) {
            State::Ready => self.start(now),
            State::Failed(failure) => self.after_failure(&failure, draw, now),
            // Asked again without a report: the same answer, so that a front may look twice.
            state @ (State::Running { .. } | State::Over(_)) => {
                let step = match &state {
                    State::Over(end) => Step::Finish(*end),
                    _ => Step::Attempt { number: self.number, until: self.attempt_end(now) },
                };
                self.state = state;
                step
            }
        }
    }

    /// Told what came of the attempt that `next` asked for.
    pub fn record(&mut self, report: Report, now: Moment) {
        let (since, cut_by_deadline) = match self.state {
            State::Running { since, cut_by_deadline } => (since, cut_by_deadline),
            _ => (now, false),
        };
        let failure = report.failure;
        self.records.push(AttemptRecord {
            number: self.number,
            status: report.status,
            kind: failure.as_ref().map(|f| f.kind),
            provider_code: failure.as_ref().and_then(|f| f.provider_code.clone()),
            hint: failure.as_ref().and_then(|f| f.hint.clone()),
            wait: None,
            elapsed: now.since(since),
            request_id: report.request_id,
            sent: failure.as_ref().map_or(Sent::Maybe, |f| f.sent),
            received: report.received,
            delivered: failure.is_none(),
            replays: report.replays,
        });
        let Some(failure) = failure else {
            self.state = State::Over(End::Answered);
            return;
        };
        if is_silence(failure.reason) && report.fully_sent {
            // The model may still be working on it: each further attempt may be billed once more.
            self.allowed = self.allowed.min(self.number.saturating_add(1));
        }
        self.state = if cut_by_deadline && failure.reason == Reason::AttemptTimeout {
            State::Over(End::GaveUp(StopReason::Deadline(Stage::Attempt)))
        } else {
            State::Failed(Box::new(failure))
        };
    }

    fn start(&mut self, now: Moment) -> Step {
        if self.deadline.passed(now) {
            return self.finish(StopReason::Deadline(Stage::BeforeAttempt));
        }
        self.number = self.number.saturating_add(1);
        let until = self.attempt_end(now);
        let cut_by_deadline = until == self.deadline && until != Deadline::Never;
        self.state = State::Running { since: now, cut_by_deadline };
        Step::Attempt { number: self.number, until }
    }

    fn attempt_end(&self, now: Moment) -> Deadline {
        Deadline::after(self.policy.attempt_timeout, now).earliest(self.deadline)
    }

    /// Rule 5: the reasons to give up, in their written-down order.
    fn after_failure(&mut self, failure: &Failure, draw: impl FnOnce() -> f64, now: Moment) -> Step {
        if !self.may_retry(failure) {
            return self.finish(StopReason::NotRetryable);
        }
        if self.number >= self.allowed {
            return self.finish(StopReason::Tries);
        }
        let hint = failure.hint.as_ref().map(|hint| hint.seconds);
        if hint.is_some_and(|asked| asked > self.policy.max_wait) {
            return self.finish(StopReason::HintTooLong);
        }
        let wait = match (hint, failure.kind) {
            (Some(asked), _) => asked,
            (None, Kind::Validation) => 0.0,
            (None, _) => self.policy.backoff.delay(self.number.saturating_sub(1), draw()),
        };
        let left = self.deadline.left(now);
        if left.is_some_and(|left| seconds(wait).is_none_or(|wait| wait >= left)) {
            return self.finish(StopReason::Deadline(Stage::RetryDelay));
        }
        if let Some(last) = self.records.last_mut() {
            last.wait = Some(wait);
        }
        Step::Wait { seconds: wait }
    }

    fn may_retry(&self, failure: &Failure) -> bool {
        let transport = is_transport(failure.reason);
        let switched_off = transport && !self.policy.retry_transport;
        let too_risky = transport && failure.sent == Sent::Maybe && !self.policy.retry_maybe_processed;
        failure.retryable && !switched_off && !too_risky
    }

    fn finish(&mut self, why: StopReason) -> Step {
        let end = End::GaveUp(why);
        self.state = State::Over(end);
        Step::Finish(end)
    }
}

/// Whether the time ran out while the model may have been working.
fn is_silence(reason: Reason) -> bool {
    matches!(reason, Reason::ReadTimeout | Reason::AttemptTimeout)
}

/// Whether no whole answer came, so that the transport is at fault and not the provider's word.
fn is_transport(reason: Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        ConnectFailed
            | ConnectTimeout
            | WriteTimeout
            | ReadTimeout
            | AttemptTimeout
            | ConnectionLost
            | CertificateRejected
            | TlsFailed
            | ProxyRefused
            | ProxyFailed
            | NotHttp
            | BodyCorrupt
            | Truncated
    )
}
