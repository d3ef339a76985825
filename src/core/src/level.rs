//! How full one bucket is: so much a minute, never more than its burst, and debts are allowed.
//!
//! A token bucket in whole numbers. One token is 60,000,000,000 drops, so that a rate of `n` a minute is exactly `n`
//! drops each nanosecond: nothing is rounded, and a bucket asked a million times drifts by nothing.
//!
//! Giving back is where a bucket is easily cheated: while 30 lay with somebody, the bucket filled up, and the 30 would
//! have flown over had they been in it. So only what there was room for all the time since comes back, and the law
//! holds that over any time no more is taken, net of what came back, than the rate times that time and one burst.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Moment;

/// Drops in a token: the nanoseconds of a minute.
const DROPS: i128 = 60_000_000_000;

/// Peaks that are remembered, at most; more are told apart more coarsely, to the taker's loss.
const MOST_PEAKS: usize = 32;

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that flow in during a minute.
    pub per_minute: u64,
    /// The most it holds: what may go at once after a rest.
    pub burst: u64,
}

/// One bucket.
#[derive(Debug, Clone)]
pub struct Level {
    rate: Rate,
    drops: i128,
    at: Moment,
    /// How full it was before something was taken out: latest last, and none lower than a later one.
    peaks: VecDeque<(Moment, i128)>,
}

impl Level {
    /// A full bucket.
    pub fn full(rate: Rate, now: Moment) -> Self {
        Self { rate, drops: drops(rate.burst.into()), at: now, peaks: VecDeque::new() }
    }

    /// How fast it fills, and how much it holds.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Whether `amount` could never be there at once.
    pub fn is_oversized(&self, amount: u64) -> bool {
        amount > self.rate.burst
    }

    /// How long from `now` until `amount` may go, when `ahead` goes before it and nothing goes before `from`.
    /// An oversized amount may go when the bucket is full.
    pub fn wait(&self, amount: u64, ahead: u128, from: Moment, now: Moment) -> Duration {
        let begin = from.max(now);
        let needed = drops(ahead.saturating_add(amount.min(self.rate.burst).into()));
        let missing = needed.saturating_sub(self.drops_at(begin));
        let before = begin.since(now);
        if missing <= 0 {
            return before;
        }
        let rate = i128::from(self.rate.per_minute);
        if rate == 0 {
            return Duration::MAX;
        }
        let nanos = missing / rate + i128::from(missing % rate != 0);
        before.saturating_add(duration(nanos.unsigned_abs()))
    }

    /// Whether `amount` may go now.
    pub fn fits(&self, amount: u64, now: Moment) -> bool {
        self.wait(amount, 0, now, now).is_zero()
    }

    /// Takes `amount`, whatever is there: what is missing is a debt.
    pub fn take(&mut self, amount: u64, now: Moment) {
        self.fill(now);
        self.remember(now);
        self.drops = self.drops.saturating_sub(drops(amount.into()));
    }

    /// Gives back of `amount`, taken at `taken`, what there was room for all the time since.
    pub fn give(&mut self, amount: u64, taken: Moment, now: Moment) {
        self.fill(now);
        let since = self.peaks.partition_point(|(when, _)| *when <= taken);
        let peak = self.peaks.get(since).map_or(self.drops, |(_, peak)| self.drops.max(*peak));
        let room = drops(self.rate.burst.into()).saturating_sub(peak).max(0);
        let back = drops(amount.into()).min(room);
        self.drops = self.drops.saturating_add(back);
        // It is now as if that had never been taken: it was fuller by so much ever since.
        self.peaks.iter_mut().skip(since).for_each(|(_, peak)| *peak = peak.saturating_add(back));
        if let Some((_, raised)) = self.peaks.get(since).copied() {
            let higher = self.peaks.partition_point(|(when, peak)| *when <= taken && *peak > raised);
            self.peaks.drain(higher..since);
        }
    }

    /// Pours out what is above `left`; never in.
    pub fn lower(&mut self, left: u64, now: Moment) {
        self.fill(now);
        self.remember(now);
        self.drops = self.drops.min(drops(left.into()));
    }

    fn fill(&mut self, now: Moment) {
        self.drops = self.drops_at(now);
        self.at = self.at.max(now);
    }

    fn remember(&mut self, now: Moment) {
        while self.peaks.back().is_some_and(|(_, peak)| *peak <= self.drops) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now, self.drops));
        if self.peaks.len() > MOST_PEAKS {
            // Of each two, the higher peak at the later time: room is underrated, never overrated.
            let pairs = self.peaks.len() / 2;
            for pair in 0..pairs {
                self.peaks[pair] = (self.peaks[2 * pair + 1].0, self.peaks[2 * pair].1);
            }
            let odd = self.peaks.len() % 2;
            if odd == 1 {
                self.peaks[pairs] = self.peaks[2 * pairs];
            }
            self.peaks.truncate(pairs + odd);
        }
    }

    fn drops_at(&self, now: Moment) -> i128 {
        let nanos = i128::try_from(now.since(self.at).as_nanos()).unwrap_or(i128::MAX);
        let flown_in = nanos.saturating_mul(self.rate.per_minute.into());
        self.drops.saturating_add(flown_in).min(drops(self.rate.burst.into()))
    }
}

fn drops(tokens: u128) -> i128 {
    i128::try_from(tokens).unwrap_or(i128::MAX).saturating_mul(DROPS)
}

fn duration(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000);
    seconds.map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Moment {
        Moment::from_origin(Duration::from_nanos(nanos))
    }

    fn fresh(per_minute: u64, burst: u64) -> Level {
        Level::full(Rate { per_minute, burst }, at(0))
    }

    #[test]
    fn a_debt_is_waited_off() {
        let mut level = fresh(60, 2);
        level.take(5, at(0));
        assert_eq!(level.wait(1, 0, at(0), at(0)), Duration::from_secs(4));
        level.give(5, at(0), at(0));
        assert!(level.fits(2, at(0)));
        level.take(2, at(0));
        assert!(!level.fits(1, at(999_999_999)) && level.fits(1, at(1_000_000_000)));
    }

    #[test]
    fn what_would_have_flown_over_does_not_come_back() {
        let mut level = fresh(60, 50);
        level.take(30, at(0));
        level.take(50, at(30_000_000_000));
        level.give(30, at(0), at(30_000_000_000));
        assert!(!level.fits(1, at(30_000_000_000)));
        // Two share the room: 25 in all, not each.
        let mut level = fresh(60, 50);
        (0..2).for_each(|_| level.take(25, at(0)));
        level.take(25, at(25_000_000_000));
        (0..2).for_each(|_| level.give(25, at(0), at(25_000_000_000)));
        assert!(level.fits(25, at(25_000_000_000)) && !level.fits(26, at(25_000_000_000)));
    }

    #[test]
    fn an_oversized_amount_goes_at_a_full_bucket_and_its_debt_holds_up_the_next() {
        let mut level = fresh(60, 10);
        level.take(4, at(0));
        assert!(level.is_oversized(11));
        assert_eq!(level.wait(70, 0, at(0), at(0)), Duration::from_secs(4));
        level.take(70, at(4_000_000_000));
        assert_eq!(level.wait(1, 0, at(0), at(4_000_000_000)), Duration::from_secs(61));
    }

    #[test]
    fn what_goes_before_and_a_pause_are_in_the_wait() {
        let mut level = fresh(60, 10);
        level.take(10, at(0));
        assert_eq!(level.wait(1, 5, at(0), at(0)), Duration::from_secs(6));
        assert_eq!(level.wait(1, 5, at(4_000_000_000), at(0)), Duration::from_secs(6));
        assert_eq!(level.wait(1, 12, at(100_000_000_000), at(0)), Duration::from_secs(103));
    }

    #[test]
    fn a_bucket_is_lowered_and_never_raised() {
        let mut level = fresh(60, 10);
        level.lower(3, at(0));
        assert!(level.fits(3, at(0)) && !level.fits(4, at(0)));
        level.lower(100, at(0));
        assert!(!level.fits(4, at(0)));
    }

    #[test]
    fn the_largest_numbers_saturate() {
        let mut level = fresh(u64::MAX, u64::MAX);
        level.take(u64::MAX, Moment::from_origin(Duration::MAX));
        level.take(u64::MAX, Moment::from_origin(Duration::MAX));
        assert_eq!(fresh(0, 1).wait(1, 1, at(0), at(0)), Duration::MAX);
        assert_eq!(fresh(1, u64::MAX).wait(u64::MAX, u128::MAX, at(0), at(0)), Duration::MAX);
    }

    proptest! {
        #[test]
        fn a_bucket_never_drifts(per_minute in 1..1_000_000u64, steps in prop::collection::vec(1..1_000_000_007u64, 1..60)) {
            let mut level = fresh(per_minute, 1_000_000_000_000);
            level.take(1_000_000_000_000, at(0));
            let mut time = 0;
            for step in steps {
                time += step;
                level.take(0, at(time));
            }
            let flown_in = u128::from(per_minute) * u128::from(time) / 60_000_000_000;
            prop_assert!(level.fits(flown_in as u64, at(time)) && !level.fits(flown_in as u64 + 1, at(time)));
        }

        #[test]
        fn over_any_time_no_more_is_taken_than_the_rate_and_one_burst(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..3_000u64, 0..50u64), 1..150),
        ) {
            let mut level = fresh(600, 50);
            let (mut time, mut taken): (u64, Vec<(u64, u64)>) = (0, Vec::new());
            let moment = |millis: u64| at(1_000_000 * millis);
            for (gives, which, passed, amount) in steps {
                time += if amount % 3 == 0 { passed } else { 0 };
                if gives && !taken.is_empty() {
                    let index = which.index(taken.len());
                    let (when, held) = &mut taken[index];
                    let back = amount.min(*held);
                    level.give(back, moment(*when), moment(time));
                    *held -= back;
                } else if level.fits(amount, moment(time)) {
                    level.take(amount, moment(time));
                    taken.push((time, amount));
                }
            }
            for (from, _) in &taken {
                for (to, _) in taken.iter().filter(|(to, _)| to >= from) {
                    let within: u64 =
                        taken.iter().filter(|(when, _)| from <= when && when <= to).map(|(_, held)| held).sum();
                    prop_assert!(within * 100 <= (to - from) + 50 * 100);
                }
            }
        }

        #[test]
        fn the_wait_is_exact_to_the_nanosecond(
            per_minute in 1..100_000u64, burst in 1..1_000u64, taken in 0..5_000u64, amount in 1..2_000u64,
        ) {
            let mut level = fresh(per_minute, burst);
            level.take(taken, at(0));
            let wait = level.wait(amount, 0, at(0), at(0)).as_nanos() as u64;
            prop_assert!(level.fits(amount, at(wait)));
            prop_assert!(wait == 0 || !level.fits(amount, at(wait - 1)));
        }
    }
}
