//! Breaker, rate and slots asked in one written-down order (rule 9 of the design).
//!
//! deadline -> breaker looked at -> ceiling and rate -> slot -> deadline, pause and breaker again -> go. A wait off the
//! slot costs nobody a slot, and what changed during a wait is seen after it. Each attempt is a `Passage`; its driver
//! asks `next` whenever it is woken or its moment comes, and ends it by `record` or `cancel`, whatever happens: then
//! everything it held is given back once. Whom to wake is returned, to be done outside the lock.

use std::time::Duration;

use crate::adaptive::{Adaptive, Limit, Sign};
use crate::backoff::Backoff;
use crate::breaker::{Breakers, CircuitBreaker, Open, Permit, State, Verdict, verdict};
use crate::bucket::{self, Buckets, News, RateLimit};
use crate::budget::{Retries, RetryBudget, spends};
use crate::ceiling::{Ceiling, OnSpent, TokenBudget};
use crate::failure::{Failure, Kind, Sent};
use crate::keys::Key;
use crate::passage::{After, Keys, Passage, Place, Refusal, Report, Step};
use crate::slots::{self, ConcurrencyLimit, Slots, Turn};
use crate::time::{Deadline, Moment};

/// Which gates there are; without any, only the pauses that providers ask for hold a call.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Calls in flight.
    pub concurrency: Option<ConcurrencyLimit>,
    /// Lets the limit of calls in flight find its own size, up to that of `concurrency`.
    pub adaptive: Option<Adaptive>,
    /// Requests and tokens a minute.
    pub rate: RateLimit,
    /// Tokens a day.
    pub ceiling: Option<TokenBudget>,
    /// Stops calls to what is down.
    pub breaker: Option<CircuitBreaker>,
    /// Load that retries may add.
    pub retry_budget: Option<RetryBudget>,
    /// How pauses grow that no hint gave: the backoff of RATE_LIMITED.
    pub pauses: Backoff,
}

/// All gates of a client. `W` is how the driver wakes somebody.
#[derive(Debug)]
pub struct Gates<W> {
    breakers: Option<Breakers>,
    buckets: Buckets<W>,
    ceiling: Option<Ceiling>,
    slots: Option<Slots<W>>,
    limit: Option<Limit>,
    retries: Option<Retries>,
    queue: usize,
    /// Who waits elsewhere than in the line for a slot; the bound of the queue is on both.
    waiting: usize,
}

impl<W: Clone> Gates<W> {
    /// All open.
    pub fn new(config: Config, now: Moment) -> Self {
        let within = |bounds: Adaptive, max: u32| Adaptive {
            least: bounds.least.min(max),
            most: bounds.most.min(max),
            ..bounds
        };
        let limit = config.concurrency.zip(config.adaptive).map(|(held, bounds)| within(bounds, held.max));
        let limit = limit.map(Limit::new);
        let max = limit.as_ref().map_or(u32::MAX, Limit::size);
        Self {
            slots: config
                .concurrency
                .map(|held| Slots::new(ConcurrencyLimit { max: held.max.min(max), ..held })),
            queue: config.concurrency.map_or(usize::MAX, |held| held.queue as usize),
            breakers: config.breaker.map(Breakers::new),
            buckets: Buckets::new(config.rate, config.pauses),
            ceiling: config.ceiling.map(Ceiling::new),
            retries: config.retry_budget.map(|budget| Retries::new(budget, now)),
            limit,
            waiting: 0,
        }
    }

    /// Told that a call begins, before its first attempt.
    pub fn observe_call(&mut self, now: Moment) {
        self.retries.iter_mut().for_each(|retries| retries.observe_call(now));
    }

    /// Whether the retry budget allows a retry after this failure; if so, it is paid.
    pub fn admit_retry(&mut self, failure: &Failure, now: Moment) -> bool {
        !spends(failure) || self.retries.as_mut().is_none_or(|retries| retries.admit(now))
    }

    /// How long an open circuit surely lets nothing of these keys through.
    pub fn delay(&mut self, keys: &Keys, now: Moment) -> Duration {
        self.breakers.as_mut().map_or(Duration::ZERO, |breakers| {
            breakers.delay(&keys.host, now).max(breakers.delay(&keys.circuit, now))
        })
    }

    /// The circuits, to look at and to hold; `None` without a breaker.
    pub fn breakers(&mut self) -> Option<&mut Breakers> {
        self.breakers.as_mut()
    }

    /// Told the limits of a minute of a bucket, where the config has none. Returns whom to wake.
    pub fn observe_limit(&mut self, bucket: &Key, limit: RateLimit, now: Moment) -> Vec<W> {
        self.buckets.observe_limit(bucket, limit, now)
    }

    /// Calls in flight, where they are limited.
    pub fn in_flight(&self) -> Option<u32> {
        self.slots.as_ref().map(Slots::in_flight)
    }

    /// Calls that wait at any gate.
    pub fn waiting(&self) -> usize {
        self.waiting + self.slots.as_ref().map_or(0, Slots::waiting)
    }

    /// What to do next. Also returns whom to wake.
    pub fn next(&mut self, passage: &mut Passage<W>, now: Moment) -> (Step, Vec<W>) {
        let mut wake = Vec::new();
        loop {
            self.count(passage, false);
            let done = match passage.place {
                Place::Outside => self.enter(passage, now),
                Place::InBucket(ticket) => {
                    let (admission, more) = self.buckets.next(&passage.keys.bucket, ticket, now);
                    wake.extend(more);
                    self.paid(passage, admission)
                }
                Place::Paid => self.ask_for_a_slot(passage, now),
                Place::InLine(ticket) => match self.slots.as_mut().map(|slots| slots.next(ticket, now)) {
                    Some(Turn::Wait) => Some(Step::Wait(passage.ask.deadline)),
                    Some(Turn::Late) => Some(Step::Refused(Refusal::Late)),
                    Some(Turn::Go) | None => {
                        (passage.slot, passage.place) = (Some(ticket), Place::Inside);
                        None
                    }
                },
                Place::Inside => Some(self.look_again(passage, &mut wake, now)),
                Place::Gone(_) => Some(Step::Go),
            };
            let Some(step) = done else { continue };
            match step {
                Step::Wait(_) => self.count(passage, !matches!(passage.place, Place::InLine(_))),
                Step::Refused(_) => wake.extend(self.give_back(passage, Sent::No, now)),
                Step::Go => {}
            }
            return (step, wake);
        }
    }

    /// Told that the answer is there, before it is validated: the slot is free. Returns whom to wake.
    pub fn leave_slot(&mut self, passage: &mut Passage<W>, now: Moment) -> Vec<W> {
        let (Some(slots), Some(ticket)) = (self.slots.as_mut(), passage.slot.take()) else {
            return Vec::new();
        };
        if let Some((_, in_flight)) = &mut passage.begun {
            *in_flight = slots.in_flight();
        }
        slots.leave(ticket, now)
    }

    /// Told what came of the attempt.
    pub fn record(
        &mut self,
        mut passage: Passage<W>,
        report: Report<'_>,
        draw: impl FnOnce() -> f64,
        now: Moment,
    ) -> After<W> {
        let mut wake = self.leave_slot(&mut passage, now);
        let begun = match passage.place {
            Place::Gone(begun) => begun,
            _ => now,
        };
        let changed = self.judge(&mut passage, &report, now.since(begun), now);
        if let (Some(limit), Some((generation, in_flight))) = (&mut self.limit, passage.begun.take()) {
            limit.record(Sign::of(report.failure), generation, in_flight);
            let size = limit.size();
            wake.extend(self.slots.as_mut().map_or_else(Vec::new, |slots| slots.observe_limit(size, now)));
        }
        let bucket = &passage.keys.bucket;
        let news = match report.failure {
            Some(failure) if failure.kind == Kind::RateLimited => {
                Some(News::Limited(failure.hint.as_ref().map(|hint| hint.seconds)))
            }
            Some(failure) => failure.status.map(|_| News::Served),
            None => Some(News::Served),
        };
        if let Some(news) = news {
            wake.extend(self.buckets.observe(bucket, news, begun, draw, now));
        }
        self.buckets.observe_remaining(bucket, report.remaining, now);
        if let Some(used) = report.used {
            if let (Some(ceiling), Some(spent)) = (&mut self.ceiling, passage.spent.take()) {
                ceiling.take(used.saturating_sub(passage.ask.tokens), now);
                ceiling.give(passage.ask.tokens.saturating_sub(used), spent, now);
            }
            if let Some(reserved) = passage.reserved.take() {
                wake.extend(self.buckets.settle(bucket, reserved, used, now));
            }
        }
        let sent = report.failure.map_or(Sent::Maybe, |failure| failure.sent);
        wake.extend(self.give_back(&mut passage, sent, now));
        After { wake, changed }
    }

    /// Told that the attempt is given up, waiting or under way. What may have been sent stays paid. Returns whom to
    /// wake.
    pub fn cancel(&mut self, mut passage: Passage<W>, sent: Sent, now: Moment) -> Vec<W> {
        self.count(&mut passage, false);
        let sent = if matches!(passage.place, Place::Gone(_)) { sent } else { Sent::No };
        self.give_back(&mut passage, sent, now)
    }

    fn enter(&mut self, passage: &mut Passage<W>, now: Moment) -> Option<Step> {
        let (keys, ask) = (&passage.keys, passage.ask);
        if ask.deadline.passed(now) {
            return Some(Step::Refused(Refusal::Late));
        }
        if let Some(breakers) = &mut self.breakers {
            let looked = breakers.allows(&keys.host, now).and(breakers.allows(&keys.circuit, now));
            if let Err(open) = looked {
                return Some(Step::Refused(Refusal::CircuitOpen(open.retry_after)));
            }
        }
        let room = self.waiting() < self.queue;
        if let Some(ceiling) = &mut self.ceiling {
            let wait = ceiling.wait(ask.tokens, now);
            let never = wait == Duration::MAX || ceiling.budget().on_spent == OnSpent::Refuse;
            if !wait.is_zero() && (never || ask.deadline.left(now).is_some_and(|left| wait >= left)) {
                return Some(Step::Refused(Refusal::TokensSpent(wait)));
            }
            if !wait.is_zero() {
                let later = Step::Wait(Deadline::At(now.after(wait)));
                return Some(if room { later } else { Step::Refused(Refusal::QueueFull) });
            }
        }
        let waker = &passage.waker;
        let admission = self.buckets.admit(&keys.bucket, ask, room, || waker.clone(), now);
        if !matches!(admission, bucket::Admission::Refused(_)) {
            // Taken now and not when it goes: who waits has a claim on the day's tokens.
            self.ceiling.iter_mut().for_each(|ceiling| ceiling.take(ask.tokens, now));
            passage.spent = self.ceiling.as_ref().map(|_| now);
        }
        self.paid(passage, admission)
    }

    fn paid(&mut self, passage: &mut Passage<W>, admission: bucket::Admission) -> Option<Step> {
        match admission {
            bucket::Admission::Admitted(reserved) => {
                (passage.reserved, passage.place) = (Some(reserved), Place::Paid);
                None
            }
            bucket::Admission::Wait(ticket, until) => {
                passage.place = Place::InBucket(ticket);
                Some(Step::Wait(until))
            }
            bucket::Admission::Refused(why) => Some(Step::Refused(match why {
                bucket::Refusal::TooSlow(wait) => Refusal::TooSlow(wait),
                bucket::Refusal::Paused(wait) => Refusal::Paused(wait),
                bucket::Refusal::PausedTooLong(wait) => Refusal::PausedTooLong(wait),
                bucket::Refusal::Oversized => Refusal::Oversized,
                bucket::Refusal::Late => Refusal::Late,
                bucket::Refusal::NoRoom => Refusal::QueueFull,
            })),
        }
    }

    fn ask_for_a_slot(&mut self, passage: &mut Passage<W>, now: Moment) -> Option<Step> {
        if passage.ask.deadline.passed(now) {
            return Some(Step::Refused(Refusal::Late));
        }
        let waker = &passage.waker;
        let full = self.waiting() >= self.queue;
        let Some(slots) = &mut self.slots else {
            passage.place = Place::Inside;
            return None;
        };
        if full && !slots.is_free() {
            return Some(Step::Refused(Refusal::QueueFull));
        }
        match slots.admit(passage.ask.deadline, || waker.clone()) {
            slots::Admission::Admitted(ticket) => {
                (passage.slot, passage.place) = (Some(ticket), Place::Inside);
                None
            }
            slots::Admission::Wait(ticket) => {
                passage.place = Place::InLine(ticket);
                Some(Step::Wait(passage.ask.deadline))
            }
            slots::Admission::QueueFull => Some(Step::Refused(Refusal::QueueFull)),
        }
    }

    /// After the waits: deadline, pause and breaker once more. A pause is waited for without the slot.
    fn look_again(&mut self, passage: &mut Passage<W>, wake: &mut Vec<W>, now: Moment) -> Step {
        let (ask, keys) = (passage.ask, passage.keys.clone());
        let left = ask.deadline.left(now);
        if left.is_some_and(|left| left.is_zero()) {
            return Step::Refused(Refusal::Late);
        }
        let pause = self.buckets.pause(&keys.bucket, now);
        if pause > ask.max_pause {
            return Step::Refused(Refusal::PausedTooLong(pause));
        }
        if left.is_some_and(|left| !pause.is_zero() && pause >= left) {
            return Step::Refused(Refusal::Paused(pause));
        }
        if !pause.is_zero() {
            wake.extend(self.leave_slot(passage, now));
            passage.place = Place::Paid;
            return Step::Wait(Deadline::At(now.after(pause)));
        }
        if let Some(breakers) = &mut self.breakers {
            match both(breakers, &keys, now) {
                Ok(permits) => passage.permits = Some(permits),
                Err(open) => return Step::Refused(Refusal::CircuitOpen(open.retry_after)),
            }
        }
        passage.begun = self.limit.as_ref().map(|limit| (limit.generation(), 0));
        passage.place = Place::Gone(now);
        Step::Go
    }

    /// Tells both circuits: what the host is to blame for, and what host and model are.
    fn judge(
        &mut self,
        passage: &mut Passage<W>,
        report: &Report<'_>,
        elapsed: Duration,
        now: Moment,
    ) -> Vec<(Key, State)> {
        let (Some(breakers), Some([host, circuit])) = (&mut self.breakers, passage.permits.take()) else {
            return Vec::new();
        };
        let said = verdict(report.failure, report.cut_short);
        let answered = report.failure.is_none_or(|failure| failure.status.is_some());
        let (of_host, of_circuit) = match said {
            Verdict::Unreachable => (Verdict::Failure, Verdict::Neutral),
            other if answered => (Verdict::Success, other),
            other => (Verdict::Neutral, other),
        };
        let keys = &passage.keys;
        let host = breakers.record(&keys.host, host, of_host, Duration::ZERO, now);
        let circuit = breakers.record(&keys.circuit, circuit, of_circuit, elapsed, now);
        let changed = [(&keys.host, host), (&keys.circuit, circuit)];
        changed.into_iter().filter_map(|(key, state)| Some((key.clone(), state?))).collect()
    }

    /// Counts who waits elsewhere than in the line for a slot.
    fn count(&mut self, passage: &mut Passage<W>, waits: bool) {
        match (std::mem::replace(&mut passage.counted, waits), waits) {
            (false, true) => self.waiting += 1,
            (true, false) => self.waiting -= 1,
            (true, true) | (false, false) => {}
        }
    }

    /// Gives back whatever the passage holds; tokens only when nothing was sent.
    fn give_back(&mut self, passage: &mut Passage<W>, sent: Sent, now: Moment) -> Vec<W> {
        let mut wake = self.leave_slot(passage, now);
        let keys = &passage.keys;
        match passage.place {
            Place::InBucket(ticket) => wake.extend(self.buckets.leave(&keys.bucket, ticket, now)),
            Place::InLine(ticket) => {
                wake.extend(self.slots.as_mut().map_or_else(Vec::new, |slots| slots.leave(ticket, now)));
            }
            Place::Outside | Place::Paid | Place::Inside | Place::Gone(_) => {}
        }
        if let (Some(breakers), Some([host, circuit])) = (&mut self.breakers, passage.permits.take()) {
            breakers.leave(&keys.host, host, now);
            breakers.leave(&keys.circuit, circuit, now);
        }
        if sent == Sent::No {
            if let (Some(ceiling), Some(spent)) = (&mut self.ceiling, passage.spent.take()) {
                ceiling.give(passage.ask.tokens, spent, now);
            }
            if let Some(reserved) = passage.reserved.take() {
                wake.extend(self.buckets.refund(&keys.bucket, reserved, now));
            }
        }
        passage.place = Place::Outside;
        wake
    }
}

/// Leave of both circuits, or of none.
fn both(breakers: &mut Breakers, keys: &Keys, now: Moment) -> Result<[Permit; 2], Open> {
    let host = breakers.admit(&keys.host, now)?;
    match breakers.admit(&keys.circuit, now) {
        Ok(circuit) => Ok([host, circuit]),
        Err(open) => {
            breakers.leave(&keys.host, host, now);
            Err(open)
        }
    }
}
