//! One logical call from its first attempt to its end: the engine.
//!
//! It answers `next` with what to do and is told by `record` what came of it.
//! It owns the order in which reasons to give up are asked (rule 5 of the design) and knows nothing of
//! HTTP, Python or clocks; the fronts carry out what it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::share;
use crate::event::AttemptRecord;
use crate::failure::{Failure, Kind, Reason, Sent};
use crate::policy::Policy;
use crate::time::{Deadline, Moment, seconds};

pub use crate::stop::{Stage, StopReason};

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

/// What a client knows around its calls, asked before a retry. A call on its own has nothing around it: `()`.
pub trait Around {
    /// How long an open breaker surely lets nothing through.
    fn delay(&mut self, _now: Moment) -> Duration {
        Duration::ZERO
    }

    /// Whether the retry budget allows a retry after this failure; if so, it is paid.
    fn admit_retry(&mut self, _failure: &Failure, _now: Moment) -> bool {
        true
    }
}

impl Around for () {}

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
    /// Requests it cost in all: one and its replays, or those of the layers below.
    pub requests: u32,
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
    policy: Arc<Policy>,
    deadline: Deadline,
    started: Moment,
    number: u32,
    /// Validation tries begun, and the transport tries made and allowed in this one.
    round: u32,
    in_round: u32,
    allowed: u32,
    requests: u32,
    /// What the layers around this call leave it; `None` is not limited.
    budget: Option<u32>,
    state: State,
    records: Vec<AttemptRecord>,
}

impl Call {
    /// A call that begins at `now`.
    pub fn new(policy: Arc<Policy>, now: Moment) -> Self {
        Self {
            deadline: Deadline::after(policy.deadline, now),
            started: now,
            number: 0,
            round: 1,
            in_round: 0,
            allowed: policy.tries,
            requests: 0,
            budget: None,
            state: State::Ready,
            records: Vec::new(),
            policy,
        }
    }

    /// Also ends when the layers around it do: `left` from `now`, which may be nothing.
    pub fn end_within(&mut self, left: Duration, now: Moment) {
        self.deadline = self.deadline.earliest(Deadline::At(now.after(left)));
    }

    /// Told how many requests the layers around it still allow; `None` is not limited.
    pub fn observe_budget(&mut self, left: Option<u32>) {
        self.budget = left;
    }

    /// Told, in place of a report, that the layers around it refused the request after all: nothing was sent.
    pub fn refused(&mut self) {
        self.refused_for(StopReason::RequestBudget);
    }

    /// Told the same, with the reason that ends the call.
    pub fn refused_for(&mut self, why: StopReason) {
        self.number = self.number.saturating_sub(1);
        self.state = State::Over(End::GaveUp(why));
    }

    /// Told that the wait it asked for is in vain: the layers around it let nothing begin after it.
    pub fn too_late(&mut self) -> StopReason {
        if let Some(last) = self.records.last_mut() {
            last.wait = None;
        }
        let why = StopReason::Deadline(Stage::RetryDelay);
        self.state = State::Over(End::GaveUp(why));
        why
    }

    /// Told that the attempt under way was let through only now, from when it counts. Returns when it must be over.
    pub fn admitted(&mut self, now: Moment) -> Deadline {
        let until = self.attempt_end(now);
        if matches!(self.state, State::Running { .. }) {
            self.state = State::Running { since: now, cut_by_deadline: self.is_cut(until) };
        }
        until
    }

    /// Whether the attempt under way ends where the deadline does, and not by its own timeout before it.
    pub fn is_cut_by_deadline(&self) -> bool {
        matches!(self.state, State::Running { cut_by_deadline: true, .. })
    }

    /// Told, after it gave up, that it goes on by another route: with fresh tries, within the same deadline and the
    /// same requests, and attempts are counted on.
    pub fn reroute(&mut self) {
        (self.round, self.in_round, self.allowed) = (1, 0, self.policy.tries);
        self.state = State::Ready;
    }

    /// How it is retried.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What every attempt so far came to.
    pub fn records(&self) -> &[AttemptRecord] {
        &self.records
    }

    /// Requests so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// When it must be over.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Time since it began.
    pub fn elapsed(&self, now: Moment) -> Duration {
        now.since(self.started)
    }

    /// What to do next. `draw` is asked only when a random wait is due, and must be uniform in [0, 1).
    pub fn next(&mut self, draw: impl FnOnce() -> f64, now: Moment) -> Step {
        self.next_within(&mut (), draw, now)
    }

    /// The same for a call of a client, which is asked before a retry. It may lock as it is asked, and must let go
    /// before it answers: `draw` may run code of the user's.
    pub fn next_within(&mut self, around: &mut impl Around, draw: impl FnOnce() -> f64, now: Moment) -> Step {
        match std::mem::replace(&mut self.state, State::Ready) {
            State::Ready => self.start(now),
            State::Failed(failure) => self.after_failure(&failure, around, draw, now),
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
        self.requests = self.requests.saturating_add(report.requests);
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
        if failure.reason.is_silence() && report.fully_sent {
            // The model may still be working on it: each further attempt may be billed once more.
            self.allowed = self.allowed.min(self.in_round.saturating_add(1));
        }
        self.state = if cut_by_deadline && failure.reason == Reason::AttemptTimeout {
            State::Over(End::GaveUp(StopReason::Deadline(Stage::Attempt)))
        } else {
            State::Failed(Box::new(failure))
        };
    }

    /// Whether the last attempt failed, and nothing was decided about it yet.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Told, by who keeps the time of what comes before an attempt, that the deadline cut it.
    pub fn expire(&mut self) {
        self.state = State::Over(End::GaveUp(StopReason::Deadline(Stage::BeforeAttempt)));
    }

    /// Told that the caller sees the last failure otherwise.
    pub fn reconsider(&mut self, failure: Failure) {
        if matches!(self.state, State::Failed(_)) {
            self.state = State::Failed(Box::new(failure));
        }
    }

    /// Told that the last answer was not given to the caller after all: it came too late.
    pub fn withhold(&mut self) {
        if let Some(last) = self.records.last_mut() {
            last.delivered = false;
        }
    }

    fn start(&mut self, now: Moment) -> Step {
        if self.budget_spent() {
            return self.finish(StopReason::RequestBudget);
        }
        if self.deadline.passed(now) {
            return self.finish(StopReason::Deadline(Stage::BeforeAttempt));
        }
        if self.deadline.left(now).is_some_and(|left| left < self.policy.min_attempt) {
            return self.finish(StopReason::MinAttempt(Stage::BeforeAttempt));
        }
        self.in_round = self.in_round.saturating_add(1);
        self.number = self.number.saturating_add(1);
        let until = self.attempt_end(now);
        self.state = State::Running { since: now, cut_by_deadline: self.is_cut(until) };
        Step::Attempt { number: self.number, until }
    }

    fn is_cut(&self, until: Deadline) -> bool {
        until == self.deadline && until != Deadline::Never
    }

    fn attempt_end(&self, now: Moment) -> Deadline {
        Deadline::after(self.policy.attempt_timeout, now).earliest(self.deadline)
    }

    /// Rule 5: the reasons to give up, in their written-down order.
    fn after_failure(
        &mut self,
        failure: &Failure,
        around: &mut impl Around,
        draw: impl FnOnce() -> f64,
        now: Moment,
    ) -> Step {
        if !self.may_retry(failure) {
            return self.finish(StopReason::NotRetryable);
        }
        // Failed validation begins a new round of transport tries, if it has tries of its own.
        let rounds = self.policy.validation_tries.filter(|_| failure.kind == Kind::Validation);
        match rounds {
            Some(rounds) if self.round >= rounds => return self.finish(StopReason::Validation),
            None if self.in_round >= self.allowed => return self.finish(StopReason::Tries),
            Some(_) | None => {}
        }
        if self.budget_spent() {
            return self.finish(StopReason::RequestBudget);
        }
        let hint = failure.hint.as_ref().map(|hint| hint.seconds);
        if hint.is_some_and(|asked| asked > self.policy.max_wait) {
            return self.finish(StopReason::HintTooLong);
        }
        let mut draw = Some(draw);
        let mut draw = || draw.take().map_or(0.0, |draw| draw());
        let mut wait = match hint {
            Some(asked) => asked,
            None => self.policy.backoffs.of(failure.kind).delay(self.in_round.saturating_sub(1), &mut draw),
        };
        let left = self.deadline.left(now);
        if left.is_some_and(|left| seconds(wait).is_none_or(|wait| wait >= left)) {
            return self.finish(StopReason::Deadline(Stage::RetryDelay));
        }
        let after = left.map(|left| left.saturating_sub(seconds(wait).unwrap_or(Duration::MAX)));
        if after.is_some_and(|after| after < self.policy.min_attempt) {
            return self.finish(StopReason::MinAttempt(Stage::RetryDelay));
        }
        if seconds(wait).is_none_or(|wait| around.delay(now) > wait) {
            return self.finish(StopReason::BreakerOpen);
        }
        if !around.admit_retry(failure, now) {
            return self.finish(StopReason::RetryBudget);
        }
        if hint.is_some() && self.policy.hint_jitter > 0.0 {
            let added = share(&mut draw) * self.policy.hint_jitter * wait;
            wait += self.within(added, after);
        }
        if rounds.is_some() {
            self.round = self.round.saturating_add(1);
            self.in_round = 0;
            self.allowed = self.policy.tries;
        }
        if let Some(last) = self.records.last_mut() {
            last.wait = Some(wait);
        }
        Step::Wait { seconds: wait }
    }

    fn budget_spent(&self) -> bool {
        self.budget == Some(0) || self.policy.max_requests.is_some_and(|most| self.requests >= most)
    }

    /// What may be added to a hint when `after` is left behind it: some of that is the next attempt's.
    fn within(&self, added: f64, after: Option<Duration>) -> f64 {
        let Some(after) = after else { return added };
        let attempt = if self.policy.min_attempt.is_zero() { after / 2 } else { self.policy.min_attempt };
        added.min(after.saturating_sub(attempt).as_secs_f64())
    }

    fn may_retry(&self, failure: &Failure) -> bool {
        let transport = failure.reason.is_transport();
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
