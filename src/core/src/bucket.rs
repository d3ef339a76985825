//! Requests and tokens a minute, and pauses: when the next call may go.
//!
//! Calls that share a key - a model, a credential - share a bucket. They go first come first served: an estimate is
//! taken when a call goes, and corrected when its usage is known, which may leave a debt that the next wait off. The
//! first in line alone keeps a timer; whoever goes calls up those who fit beside it and wakes the new first. As the
//! line and the flow are known, so is the wait, and a call that cannot make it is refused at once.
//!
//! A pause holds everybody: a 429's hint, or the third 429 in a row without one. What answers say is left only ever
//! lowers a bucket. Which key a call has, and what a failure was, is left to others.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::keys::{Key, Keyed, MOST_KEYS};
use crate::level::{Level, Rate};
use crate::line::{Line, Ticket};
use crate::policy::{ConfigError, amount};
use crate::remaining::Remaining;
use crate::time::{Deadline, Moment, seconds};

/// Refusals without a hint, in a row, that make a pause.
const ROW: u32 = 3;

/// What a request larger than its bucket may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Oversized {
    /// When it goes at a full bucket and leaves a debt.
    #[default]
    Pass,
    /// When it is refused.
    Refuse,
}

/// Requests and tokens a minute, checked. Without either, only pauses hold a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateLimit {
    /// How fast requests may go.
    pub requests: Option<Rate>,
    /// How fast tokens may go.
    pub tokens: Option<Rate>,
    /// What a request larger than the token bucket may do.
    pub oversized: Oversized,
}

impl RateLimit {
    /// Checks the numbers. `burst` is how many requests may go at once after a rest, and the same part of a minute's
    /// tokens; where only tokens are limited, it counts tokens. Without it, a minute's worth may.
    pub fn new(
        requests_per_minute: Option<i64>,
        tokens_per_minute: Option<i64>,
        burst: Option<i64>,
        oversized: Oversized,
    ) -> Result<Self, ConfigError> {
        let requests = amount("requests_per_minute", requests_per_minute)?;
        let tokens = amount("tokens_per_minute", tokens_per_minute)?;
        let burst = amount("burst", burst)?;
        let whole = requests.or(tokens).unwrap_or(1);
        let share = |amount: u64| burst.map_or(amount, |burst| amount.saturating_mul(burst).div_ceil(whole));
        let rate = |per_minute: u64| Rate { per_minute, burst: share(per_minute) };
        Ok(Self { requests: requests.map(rate), tokens: tokens.map(rate), oversized })
    }
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Tokens it will cost, as far as is known.
    pub tokens: u64,
    /// When it is of no use any more.
    pub deadline: Deadline,
    /// The longest pause that is waited for; an equal one still is.
    pub max_pause: Duration,
}

/// What was taken out of a bucket for one call. Given back by `settle` or `refund`, once.
#[derive(Debug, PartialEq, Eq)]
pub struct Reserved {
    tokens: u64,
    /// When it was taken: when its call may go.
    pub at: Moment,
}

/// Why a call may not go at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// When the flow is too slow for its deadline, which ends before this wait.
    TooSlow(Duration),
    /// When a pause does not end before its deadline, with this wait.
    Paused(Duration),
    /// When a pause is longer than it would ever wait, with this wait.
    PausedTooLong(Duration),
    /// When it is larger than the bucket, and such are refused.
    Oversized,
    /// When its deadline passed in line.
    Late,
    /// When it would have to wait, and no more may.
    NoRoom,
}

/// What becomes of somebody who asks.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// When it may go, with what was taken for it.
    Admitted(Reserved),
    /// When it stands in line, until it is woken or this moment comes; then it asks `next`.
    Wait(Ticket, Deadline),
    /// When it may not go.
    Refused(Refusal),
}

/// What a call tells of the limits it met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News {
    /// When it was not limited.
    Served,
    /// When it was, with the wait the server asked for, in seconds.
    Limited(Option<f64>),
}

#[derive(Debug)]
struct Waiter<W> {
    ask: Ask,
    waker: W,
    reserved: Option<Reserved>,
}

#[derive(Debug)]
struct Bucket<W> {
    requests: Option<Level>,
    tokens: Option<Level>,
    line: Line<Waiter<W>>,
    /// Tokens that those in line ask for.
    ahead: u128,
    paused_until: Moment,
    /// Refusals without a hint in a row, and since when a call must have begun to count for it.
    row: u32,
    row_since: Moment,
}

/// All buckets of a client. `W` is how the driver wakes somebody.
#[derive(Debug)]
pub struct Buckets<W> {
    limit: RateLimit,
    backoff: Backoff,
    keyed: Keyed<Bucket<W>>,
}

impl<W: Clone> Buckets<W> {
    /// All full. `backoff` is how pauses grow that no hint gave.
    pub fn new(limit: RateLimit, backoff: Backoff) -> Self {
        Self { limit, backoff, keyed: Keyed::new(MOST_KEYS) }
    }

    /// Asks for the way. `room` tells whether one more may wait, and `waker` reaches who asks if they must.
    pub fn admit(
        &mut self,
        key: &Key,
        ask: Ask,
        room: bool,
        waker: impl FnOnce() -> W,
        now: Moment,
    ) -> Admission {
        let limit = self.limit;
        let bucket = self.keyed.entry(key, |held| !held.line.is_empty(), || Bucket::full(limit, now));
        let oversized = bucket.tokens.as_ref().is_some_and(|level| level.is_oversized(ask.tokens));
        if oversized && limit.oversized == Oversized::Refuse {
            return Admission::Refused(Refusal::Oversized);
        }
        let wait = bucket.wait(ask.tokens, bucket.line.waiting() as u128, bucket.ahead, now);
        if let Some(refusal) = bucket.refusal(&ask, wait, now) {
            return Admission::Refused(refusal);
        }
        if wait.is_zero() && bucket.line.waiting() == 0 {
            return Admission::Admitted(bucket.take(ask.tokens, now));
        }
        if !room {
            return Admission::Refused(Refusal::NoRoom);
        }
        bucket.ahead += u128::from(ask.tokens);
        let ticket = bucket.line.join(Waiter { ask, waker: waker(), reserved: None });
        Admission::Wait(ticket, bucket.until(ticket, now))
    }

    /// Asked by who waits, when woken or when its moment came. Also returns whom to wake.
    pub fn next(&mut self, key: &Key, ticket: Ticket, now: Moment) -> (Admission, Vec<W>) {
        let late = (Admission::Refused(Refusal::Late), Vec::new());
        let Some(bucket) = self.keyed.get(key) else { return late };
        let mut wake = bucket.call_up(Some(ticket), now);
        let Some(waiter) = bucket.line.get(ticket) else { return (late.0, wake) };
        if let Some(reserved) = waiter.reserved.take() {
            bucket.line.remove(ticket);
            return (Admission::Admitted(reserved), wake);
        }
        let ask = waiter.ask;
        let at_best = bucket.wait(ask.tokens, 0, 0, now);
        match bucket.refusal(&ask, at_best, now) {
            Some(refusal) => {
                wake.extend(bucket.leave(ticket, now));
                (Admission::Refused(refusal), wake)
            }
            None => (Admission::Wait(ticket, bucket.until(ticket, now)), wake),
        }
    }

    /// Told that somebody leaves the line, called up or not. Returns whom to wake.
    pub fn leave(&mut self, key: &Key, ticket: Ticket, now: Moment) -> Vec<W> {
        self.keyed.get(key).map_or_else(Vec::new, |bucket| bucket.leave(ticket, now))
    }

    /// Told what a call used in the end. Returns whom to wake.
    pub fn settle(&mut self, key: &Key, reserved: Reserved, used: u64, now: Moment) -> Vec<W> {
        let Some(bucket) = self.keyed.get(key) else { return Vec::new() };
        let Some(level) = bucket.tokens.as_mut() else { return Vec::new() };
        level.take(used.saturating_sub(reserved.tokens), now);
        level.give(reserved.tokens.saturating_sub(used), reserved.at, now);
        if used < reserved.tokens { bucket.look_again(now) } else { Vec::new() }
    }

    /// Told that a call sent nothing. Returns whom to wake.
    pub fn refund(&mut self, key: &Key, reserved: Reserved, now: Moment) -> Vec<W> {
        let Some(bucket) = self.keyed.get(key) else { return Vec::new() };
        bucket.give(&reserved, now);
        bucket.look_again(now)
    }

    /// Told what a call that began at `begun` met. Returns whom to wake: in a pause everybody looks again, because
    /// who cannot wait for its end is to be told now.
    pub fn observe(
        &mut self,
        key: &Key,
        news: News,
        begun: Moment,
        draw: impl FnOnce() -> f64,
        now: Moment,
    ) -> Vec<W> {
        let limit = self.limit;
        let bucket = self.keyed.entry(key, |held| !held.line.is_empty(), || Bucket::full(limit, now));
        let pause = match news {
            News::Served if begun >= bucket.row_since => {
                bucket.row = 0;
                None
            }
            News::Limited(Some(hint)) => {
                bucket.row = 0;
                seconds(hint)
            }
            News::Limited(None) if begun >= bucket.row_since => {
                bucket.row = bucket.row.saturating_add(1);
                let pauses = bucket.row.checked_sub(ROW);
                pauses.and_then(|pauses| seconds(self.backoff.delay(pauses, draw)))
            }
            // Begun before the last pause ended: it says nothing about what the pause was good for.
            News::Served | News::Limited(None) => None,
        };
        let Some(until) = pause.map(|pause| now.after(pause)) else { return Vec::new() };
        if bucket.row >= ROW {
            bucket.row_since = until;
        }
        if until <= bucket.paused_until {
            return Vec::new();
        }
        bucket.paused_until = until;
        bucket.line.iter().map(|waiter| waiter.waker.clone()).collect()
    }

    /// Told what an answer says is left; it only lowers.
    pub fn observe_remaining(&mut self, key: &Key, left: Remaining, now: Moment) {
        let Some(bucket) = self.keyed.get(key) else { return };
        for (level, left) in [(&mut bucket.requests, left.requests), (&mut bucket.tokens, left.tokens)] {
            if let (Some(level), Some(left)) = (level, left) {
                level.lower(left, now);
            }
        }
    }

    /// Told the limits a provider gives a key, where none were given at the start. Returns whom to wake.
    pub fn observe_limit(&mut self, key: &Key, limit: RateLimit, now: Moment) -> Vec<W> {
        let Some(bucket) = self.keyed.get(key) else { return Vec::new() };
        let Bucket { requests, tokens, .. } = Bucket::<W>::full(limit, now);
        (bucket.requests, bucket.tokens) = (requests, tokens);
        bucket.line.iter().map(|waiter| waiter.waker.clone()).collect()
    }

    /// How long the pause of a key lasts; zero without one.
    pub fn pause(&mut self, key: &Key, now: Moment) -> Duration {
        self.keyed.get(key).map_or(Duration::ZERO, |bucket| bucket.paused_until.since(now))
    }
}

impl<W: Clone> Bucket<W> {
    fn full(limit: RateLimit, now: Moment) -> Self {
        Self {
            requests: limit.requests.map(|rate| Level::full(rate, now)),
            tokens: limit.tokens.map(|rate| Level::full(rate, now)),
            line: Line::default(),
            ahead: 0,
            paused_until: Moment::default(),
            row: 0,
            row_since: Moment::default(),
        }
    }

    /// How long until a call of so many tokens may go behind so many requests and tokens.
    fn wait(&self, tokens: u64, requests_ahead: u128, tokens_ahead: u128, now: Moment) -> Duration {
        let from = self.paused_until;
        let of = |level: &Option<Level>, amount, ahead| {
            level.as_ref().map_or(from.since(now), |level| level.wait(amount, ahead, from, now))
        };
        of(&self.requests, 1, requests_ahead).max(of(&self.tokens, tokens, tokens_ahead))
    }

    fn refusal(&self, ask: &Ask, wait: Duration, now: Moment) -> Option<Refusal> {
        let left = ask.deadline.left(now);
        let pause = self.paused_until.since(now);
        if left.is_some_and(|left| left.is_zero()) {
            Some(Refusal::Late)
        } else if pause > ask.max_pause {
            Some(Refusal::PausedTooLong(wait))
        } else if left.is_some_and(|left| !pause.is_zero() && pause >= left) {
            Some(Refusal::Paused(wait))
        } else if left.is_some_and(|left| wait >= left) {
            Some(Refusal::TooSlow(wait))
        } else {
            None
        }
    }

    fn take(&mut self, tokens: u64, now: Moment) -> Reserved {
        self.requests.iter_mut().for_each(|level| level.take(1, now));
        self.tokens.iter_mut().for_each(|level| level.take(tokens, now));
        Reserved { tokens, at: now }
    }

    fn give(&mut self, reserved: &Reserved, now: Moment) {
        self.requests.iter_mut().for_each(|level| level.give(1, reserved.at, now));
        self.tokens.iter_mut().for_each(|level| level.give(reserved.tokens, reserved.at, now));
    }

    /// When who waits must ask again: the first in line when its way is free, the others when called up only.
    fn until(&mut self, ticket: Ticket, now: Moment) -> Deadline {
        let first = self.line.first() == Some(ticket);
        let Some(ask) = self.line.get(ticket).map(|waiter| waiter.ask) else { return Deadline::At(now) };
        if !first {
            return ask.deadline;
        }
        ask.deadline.earliest(Deadline::At(now.after(self.wait(ask.tokens, 0, 0, now))))
    }

    /// Calls up all whose way is free, in order. Returns whom to wake: those, those who are too late, and the new
    /// first in line, which has a timer to set - but not `asking`, who is awake.
    fn call_up(&mut self, asking: Option<Ticket>, now: Moment) -> Vec<W> {
        let mut wake = Vec::new();
        let mut changed = false;
        while let Some(first) = self.line.first() {
            let Some(waiter) = self.line.get(first) else { break };
            let (ask, waker) = (waiter.ask, waiter.waker.clone());
            let late = ask.deadline.passed(now);
            let goes = late || self.wait(ask.tokens, 0, 0, now).is_zero();
            if (goes || changed) && asking != Some(first) {
                wake.push(waker);
            }
            if !goes {
                break;
            }
            changed = true;
            self.ahead -= u128::from(ask.tokens);
            if late {
                self.line.remove(first);
                continue;
            }
            self.line.call_up(first);
            let reserved = self.take(ask.tokens, now);
            if let Some(waiter) = self.line.get(first) {
                waiter.reserved = Some(reserved);
            }
        }
        wake
    }

    fn leave(&mut self, ticket: Ticket, now: Moment) -> Vec<W> {
        let was_first = self.line.first() == Some(ticket);
        let in_line = self.line.is_waiting(ticket);
        let Some(waiter) = self.line.remove(ticket) else { return Vec::new() };
        self.ahead -= if in_line { u128::from(waiter.ask.tokens) } else { 0 };
        if let Some(reserved) = waiter.reserved {
            self.give(&reserved, now);
        }
        if was_first || !in_line { self.look_again(now) } else { Vec::new() }
    }

    /// After more became free: calls up who fits, and wakes the first in line, whose timer is too late now.
    fn look_again(&mut self, now: Moment) -> Vec<W> {
        let mut wake = self.call_up(None, now);
        if wake.is_empty() {
            wake.extend(self.line.iter().next().map(|waiter| waiter.waker.clone()));
        }
        wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    fn limit(requests: Option<i64>, tokens: Option<i64>, burst: i64) -> RateLimit {
        RateLimit::new(requests, tokens, Some(burst), Oversized::Pass).expect("good")
    }

    fn buckets(limit: RateLimit) -> (Buckets<usize>, Key) {
        (Buckets::new(limit, Backoff::Fixed(4.0)), "model".into())
    }

    fn ask(tokens: u64) -> Ask {
        Ask { tokens, deadline: Deadline::Never, max_pause: Duration::from_secs(60) }
    }

    fn by(tokens: u64, millis: u64) -> Ask {
        Ask { deadline: Deadline::At(at(millis)), ..ask(tokens) }
    }

    fn go(admission: Admission) -> Reserved {
        match admission {
            Admission::Admitted(reserved) => reserved,
            other => panic!("the way is free, not {other:?}"),
        }
    }

    fn wait(admission: Admission) -> (Ticket, Deadline) {
        match admission {
            Admission::Wait(ticket, until) => (ticket, until),
            other => panic!("there is a wait, not {other:?}"),
        }
    }

    #[test]
    fn a_limit_that_is_learned_holds_from_then_on() {
        let (mut buckets, key) = buckets(RateLimit::default());
        (0..9).for_each(|_| {
            let _ = go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        });
        assert!(buckets.observe_limit(&key, limit(Some(60), None, 3), at(0)).is_empty());
        buckets.observe_remaining(&key, Remaining { requests: Some(2), tokens: None }, at(0));
        (0..2).for_each(|_| {
            let _ = go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        });
        let (_, until) = wait(buckets.admit(&key, ask(0), true, || 0, at(0)));
        assert_eq!(until, Deadline::At(at(1_000)));
    }

    #[test]
    fn the_first_in_line_keeps_the_timer_and_calls_the_next() {
        let (mut buckets, key) = buckets(limit(Some(60), None, 1));
        go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        let (first, until) = wait(buckets.admit(&key, ask(0), true, || 1, at(0)));
        let (second, never) = wait(buckets.admit(&key, ask(0), true, || 2, at(0)));
        assert_eq!((until, never), (Deadline::At(at(1_000)), Deadline::Never));
        let (admission, wake) = buckets.next(&key, first, at(1_000));
        assert_eq!((go(admission).at, wake), (at(1_000), vec![2]));
        let (admission, wake) = buckets.next(&key, second, at(1_000));
        assert_eq!((wait(admission).1, wake), (Deadline::At(at(2_000)), vec![]));
    }

    #[test]
    fn a_call_that_cannot_make_it_is_refused_at_once_with_the_wait() {
        let (mut buckets, key) = buckets(limit(Some(60), None, 1));
        go(buckets.admit(&key, by(0, 1), true, || 0, at(0)));
        wait(buckets.admit(&key, by(0, 1_001), true, || 1, at(0)));
        // One is ahead, so two seconds pass; a deadline at that very moment is too early.
        let refused = Admission::Refused(Refusal::TooSlow(Duration::from_secs(2)));
        assert_eq!(buckets.admit(&key, by(0, 2_000), true, || 2, at(0)), refused);
        wait(buckets.admit(&key, by(0, 2_001), true, || 3, at(0)));
    }

    #[test]
    fn usage_above_the_estimate_is_a_debt_and_below_it_lets_the_next_go() {
        let (mut buckets, key) = buckets(limit(None, Some(60), 10));
        let dear = go(buckets.admit(&key, ask(4), true, || 0, at(0)));
        let cheap = go(buckets.admit(&key, ask(6), true, || 1, at(0)));
        assert_eq!(buckets.settle(&key, dear, 9, at(0)), [0; 0]);
        let (next, until) = wait(buckets.admit(&key, ask(1), true, || 2, at(0)));
        assert_eq!(until, Deadline::At(at(6_000)));
        assert_eq!(buckets.settle(&key, cheap, 0, at(0)), [2]);
        go(buckets.next(&key, next, at(0)).0);
    }

    #[test]
    fn a_request_that_was_not_sent_costs_nothing() {
        let (mut buckets, key) = buckets(limit(Some(60), Some(60), 1));
        let reserved = go(buckets.admit(&key, ask(1), true, || 0, at(0)));
        let (next, _) = wait(buckets.admit(&key, ask(1), true, || 1, at(0)));
        assert_eq!(buckets.refund(&key, reserved, at(0)), [1]);
        go(buckets.next(&key, next, at(0)).0);
    }

    #[test]
    fn a_larger_request_than_the_bucket_goes_when_it_is_full_or_not_at_all() {
        let (mut passing, key) = buckets(limit(None, Some(60), 10));
        go(passing.admit(&key, ask(70), true, || 0, at(0)));
        assert_eq!(wait(passing.admit(&key, ask(1), true, || 1, at(0))).1, Deadline::At(at(61_000)));
        let strict = RateLimit { oversized: Oversized::Refuse, ..limit(None, Some(60), 10) };
        let refused = buckets(strict).0.admit(&key, ask(11), true, || 0, at(0));
        assert_eq!(refused, Admission::Refused(Refusal::Oversized));
    }

    #[test]
    fn a_hint_pauses_all_who_share_the_bucket_and_is_looked_at_again_after_the_wait() {
        let (mut buckets, key) = buckets(RateLimit::default());
        go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        assert_eq!(buckets.observe(&key, News::Limited(Some(5.0)), at(0), || 0.0, at(0)), [0; 0]);
        let (first, until) = wait(buckets.admit(&key, ask(0), true, || 1, at(1)));
        let (second, _) = wait(buckets.admit(&key, ask(0), true, || 2, at(1)));
        assert_eq!(until, Deadline::At(at(5_000)));
        assert_eq!(buckets.observe(&key, News::Limited(Some(9.0)), at(0), || 0.0, at(1_000)), [1, 2]);
        assert_eq!(wait(buckets.next(&key, first, at(5_000)).0).1, Deadline::At(at(10_000)));
        let (admission, wake) = buckets.next(&key, first, at(10_000));
        assert_eq!((go(admission).at, wake), (at(10_000), vec![2]));
        go(buckets.next(&key, second, at(10_000)).0);
        go(buckets.admit(&"other".into(), ask(0), true, || 3, at(1)));
    }

    #[test]
    fn a_pause_that_nobody_can_wait_for_is_told_at_once() {
        let (mut buckets, key) = buckets(limit(Some(60), None, 1));
        go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        let (first, _) = wait(buckets.admit(&key, by(0, 8_000), true, || 1, at(0)));
        let (second, _) = wait(buckets.admit(&key, ask(0), true, || 2, at(0)));
        assert_eq!(buckets.observe(&key, News::Limited(Some(60.0)), at(0), || 0.0, at(0)), [1, 2]);
        let paused = Admission::Refused(Refusal::Paused(Duration::from_secs(60)));
        assert_eq!(buckets.next(&key, first, at(0)), (paused, vec![2]));
        assert_eq!(wait(buckets.next(&key, second, at(0)).0).1, Deadline::At(at(60_000)));
        buckets.observe(&key, News::Limited(Some(60.1)), at(0), || 0.0, at(0));
        let impatient = buckets.admit(&key, ask(0), true, || 3, at(0));
        assert!(matches!(impatient, Admission::Refused(Refusal::PausedTooLong(_))), "{impatient:?}");
    }

    #[test]
    fn three_refusals_in_a_row_without_a_hint_pause_and_what_began_before_its_end_does_not_count() {
        let (mut buckets, key) = buckets(RateLimit::default());
        let mut limited = |begun, now| {
            buckets.observe(&key, News::Limited(None), at(begun), || 0.0, at(now));
            buckets.pause(&key, at(now)).as_millis()
        };
        assert_eq!([limited(0, 0), limited(0, 0), limited(0, 0)], [0, 0, 4_000]);
        assert_eq!([limited(0, 500), limited(3_999, 4_000), limited(4_000, 4_000)], [3_500, 0, 4_000]);
    }

    #[test]
    fn an_answer_breaks_the_row() {
        let (mut buckets, key) = buckets(RateLimit::default());
        for news in [News::Limited(None), News::Limited(None), News::Served, News::Limited(None)] {
            buckets.observe(&key, news, at(0), || 0.0, at(0));
        }
        assert!(buckets.pause(&key, at(0)).is_zero());
    }

    #[test]
    fn what_an_answer_says_is_left_only_lowers() {
        let (mut buckets, key) = buckets(limit(Some(60), Some(60), 10));
        go(buckets.admit(&key, ask(0), true, || 0, at(0)));
        buckets.observe_remaining(&key, Remaining { requests: Some(14_370), tokens: Some(2) }, at(0));
        go(buckets.admit(&key, ask(2), true, || 1, at(0)));
        assert_eq!(wait(buckets.admit(&key, ask(2), true, || 2, at(0))).1, Deadline::At(at(2_000)));
    }

    #[test]
    fn ten_thousand_waiters_come_and_go_without_a_trace() {
        let (mut buckets, key) = buckets(limit(Some(60), Some(60), 1));
        go(buckets.admit(&key, ask(1), true, || 0, at(0)));
        let tickets: Vec<Ticket> =
            (0..10_000).map(|n| wait(buckets.admit(&key, ask(n), true, || n as usize, at(0))).0).collect();
        tickets.iter().for_each(|ticket| drop(buckets.leave(&key, *ticket, at(0))));
        assert_eq!(buckets.leave(&key, tickets[0], at(0)), [0; 0]);
        assert_eq!(wait(buckets.admit(&key, ask(1), true, || 1, at(0))).1, Deadline::At(at(1_000)));
    }

    #[test]
    fn bursts_are_the_same_part_of_both() {
        let rate = |per_minute, burst| Some(Rate { per_minute, burst });
        let both = limit(Some(600), Some(90_000), 10);
        assert_eq!((both.requests, both.tokens), (rate(600, 10), rate(90_000, 1_500)));
        assert_eq!(limit(None, Some(90_000), 500).tokens, rate(90_000, 500));
        let bad = RateLimit::new(Some(0), None, None, Oversized::Pass).expect_err("bad").to_string();
        assert_eq!(bad, "requests_per_minute must be a whole number of at least 1, or None, got 0");
    }

    const TOKENS: u64 = 6_000;
    const BURST: u64 = 50;

    proptest! {
        #[test]
        fn over_any_window_no_more_goes_than_rate_and_burst_and_in_order(
            steps in prop::collection::vec((0..6u8, any::<prop::sample::Index>(), 0..600u64, 1..50u64), 1..120),
        ) {
            let (mut buckets, key) = buckets(limit(None, Some(TOKENS as i64), BURST as i64));
            let mut time = 0;
            // In line, in order; gone and not yet settled; gone for good, with what counts in the end.
            let mut waiting: Vec<(Ticket, u64)> = Vec::new();
            let mut open: Vec<(Reserved, u64)> = Vec::new();
            let mut gone: Vec<(u64, u64)> = Vec::new();
            for (number, (step, which, passed, tokens)) in steps.into_iter().enumerate() {
                match step {
                    0..=2 => match buckets.admit(&key, ask(tokens), true, || number, at(time)) {
                        Admission::Admitted(reserved) => {
                            prop_assert!(waiting.is_empty());
                            open.push((reserved, tokens));
                        }
                        Admission::Wait(ticket, _) => waiting.push((ticket, tokens)),
                        Admission::Refused(why) => prop_assert!(false, "{:?}", why),
                    },
                    3 if !waiting.is_empty() => {
                        let (ticket, _) = waiting.remove(which.index(waiting.len()));
                        buckets.leave(&key, ticket, at(time));
                    }
                    4 if !open.is_empty() => {
                        // The estimate was too high, or nothing was sent at all.
                        let (reserved, estimate) = open.swap_remove(which.index(open.len()));
                        let used = tokens.min(estimate);
                        let when = reserved.at;
                        if tokens > 40 {
                            buckets.refund(&key, reserved, at(time));
                        } else {
                            gone.push((when.since_origin().as_millis() as u64, used));
                            buckets.settle(&key, reserved, used, at(time));
                        }
                    }
                    _ => time += passed,
                }
                // Every driver that is due asks, the last in line first: order must not depend on it.
                let mut went = Vec::new();
                for (index, (ticket, _)) in waiting.iter().enumerate().rev() {
                    match buckets.next(&key, *ticket, at(time)).0 {
                        Admission::Admitted(reserved) => went.push((index, reserved)),
                        Admission::Wait(..) => {}
                        Admission::Refused(why) => prop_assert!(false, "{:?}", why),
                    }
                }
                let indices: Vec<usize> = went.iter().map(|(index, _)| *index).rev().collect();
                // Of those that a later one called up, the earlier ones are asked after it and go as well.
                prop_assert!(indices.iter().copied().eq(0..indices.len()), "{:?}", indices);
                for (index, reserved) in went {
                    let (_, tokens) = waiting.remove(index);
                    open.push((reserved, tokens));
                }
            }
            gone.extend(open.iter().map(|(reserved, tokens)| {
                (reserved.at.since_origin().as_millis() as u64, *tokens)
            }));
            for (from, _) in &gone {
                for (to, _) in gone.iter().filter(|(to, _)| to >= from) {
                    let within: u64 =
                        gone.iter().filter(|(when, _)| from <= when && when <= to).map(|(_, tokens)| tokens).sum();
                    prop_assert!(within * 60_000 <= TOKENS * (to - from) + BURST * 60_000);
                }
            }
        }
    }
}
