//! A ceiling of one's own on tokens a day: no more than so many in any 24 hours.
//!
//! Spending is kept by the hour, and an hour counts until all of it is more than a day old. So the law holds for every
//! window of 24 hours and not only for calendar days, which the core cannot know; the price is that a token comes back
//! up to an hour late.

use std::collections::VecDeque;
use std::time::Duration;

use crate::policy::ConfigError;
use crate::time::Moment;

const HOUR: Duration = Duration::from_secs(3_600);

/// Hours that may overlap the last 24: the present one, 23 whole ones and the one that is half gone.
const HOURS: u128 = 25;

/// Tokens a day, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBudget {
    /// Tokens in any 24 hours.
    pub per_day: u64,
    /// What becomes of a call that does not fit.
    pub on_spent: OnSpent,
}

/// What becomes of a call that the ceiling has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSpent {
    /// When it is refused at once.
    Refuse,
    /// When it waits for room as long as its deadline allows.
    Wait,
}

impl TokenBudget {
    /// Checks the number.
    pub fn new(per_day: i64, on_spent: OnSpent) -> Result<Self, ConfigError> {
        let bad = || ConfigError {
            field: "per_day",
            value: per_day.to_string(),
            allowed: "a whole number of at least 1",
        };
        let per_day = u64::try_from(per_day).ok().filter(|tokens| *tokens >= 1).ok_or_else(bad)?;
        Ok(Self { per_day, on_spent })
    }
}

/// What was spent of late.
#[derive(Debug, Clone)]
pub struct Ceiling {
    budget: TokenBudget,
    /// Hours since the clock's origin and what was spent in each, oldest first.
    hours: VecDeque<(u128, u64)>,
    spent: u64,
}

impl Ceiling {
    /// Nothing spent.
    pub fn new(budget: TokenBudget) -> Self {
        Self { budget, hours: VecDeque::new(), spent: 0 }
    }

    /// What is allowed.
    pub fn budget(&self) -> TokenBudget {
        self.budget
    }

    /// How long until `tokens` may be spent; zero when they may now, the longest there is when they never may.
    pub fn wait(&self, tokens: u64, now: Moment) -> Duration {
        let room = self.budget.per_day.saturating_sub(tokens);
        if tokens > self.budget.per_day {
            return Duration::MAX;
        }
        let mut spent = self.spent;
        for (hour, count) in &self.hours {
            if spent <= room {
                break;
            }
            if *hour + HOURS > hour_of(now) {
                let back = moment_of(*hour + HOURS);
                if spent - count <= room {
                    return back.since(now);
                }
            }
            spent -= count;
        }
        Duration::ZERO
    }

    /// Spends `tokens`, whatever is left.
    pub fn take(&mut self, tokens: u64, now: Moment) {
        self.forget(now);
        let hour = hour_of(now);
        let tokens = tokens.min(u64::MAX - self.spent);
        self.spent += tokens;
        match self.hours.back_mut() {
            Some((newest, count)) if *newest >= hour => *count += tokens,
            _ => self.hours.push_back((hour, tokens)),
        }
    }

    /// Gives back `tokens` that were taken at `taken`; those of a forgotten hour are back already.
    pub fn give(&mut self, tokens: u64, taken: Moment, now: Moment) {
        self.forget(now);
        let hour = hour_of(taken);
        if let Some((_, count)) = self.hours.iter_mut().find(|(held, _)| *held == hour) {
            let tokens = tokens.min(*count);
            *count -= tokens;
            self.spent -= tokens;
        }
    }

    fn forget(&mut self, now: Moment) {
        while let Some((hour, count)) = self.hours.front().copied() {
            if hour + HOURS > hour_of(now) {
                break;
            }
            self.hours.pop_front();
            self.spent -= count;
        }
    }
}

fn hour_of(moment: Moment) -> u128 {
    moment.since_origin().as_nanos() / HOUR.as_nanos()
}

fn moment_of(hour: u128) -> Moment {
    let seconds = u64::try_from(hour * u128::from(HOUR.as_secs())).unwrap_or(u64::MAX);
    Moment::from_origin(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(minutes: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(60 * minutes))
    }

    fn ceiling(per_day: i64) -> Ceiling {
        Ceiling::new(TokenBudget::new(per_day, OnSpent::Refuse).expect("good"))
    }

    #[test]
    fn what_is_spent_comes_back_a_day_later_at_the_full_hour() {
        let mut ceiling = ceiling(100);
        ceiling.take(60, at(30));
        ceiling.take(40, at(90));
        assert_eq!(ceiling.wait(0, at(90)), Duration::ZERO);
        assert_eq!(ceiling.wait(1, at(90)), at(25 * 60).since(at(90)));
        assert_eq!(ceiling.wait(61, at(90)), at(26 * 60).since(at(90)));
        assert_eq!(ceiling.wait(60, at(25 * 60)), Duration::ZERO);
    }

    #[test]
    fn more_than_a_day_holds_never_fits() {
        assert_eq!(ceiling(100).wait(101, at(0)), Duration::MAX);
        assert_eq!(ceiling(100).wait(100, at(0)), Duration::ZERO);
    }

    #[test]
    fn what_was_not_used_is_given_back_once() {
        let mut ceiling = ceiling(100);
        ceiling.take(100, at(0));
        ceiling.give(30, at(0), at(10));
        assert_eq!(ceiling.wait(30, at(10)), Duration::ZERO);
        ceiling.give(70, at(0), at(10_000));
        assert_eq!(ceiling.wait(100, at(10_000)), Duration::ZERO);
    }

    #[test]
    fn a_bad_value_is_named() {
        let refused = TokenBudget::new(0, OnSpent::Wait).expect_err("bad").to_string();
        assert_eq!(refused, "per_day must be a whole number of at least 1, got 0");
    }

    proptest! {
        #[test]
        fn no_24_hours_see_more_than_the_ceiling(steps in prop::collection::vec((0..600u64, 1..60u64), 1..150)) {
            let mut ceiling = ceiling(100);
            let (mut time, mut history): (u64, Vec<(u64, u64)>) = (0, Vec::new());
            for (step, tokens) in steps {
                time += step;
                let wait = ceiling.wait(tokens, at(time));
                // The wait is exact: half a minute less is too early.
                if let Some(early) = wait.checked_sub(Duration::from_secs(30)) {
                    prop_assert!(!ceiling.wait(tokens, at(time).after(early)).is_zero());
                }
                prop_assert!(ceiling.wait(tokens, at(time).after(wait)).is_zero());
                if wait.is_zero() {
                    ceiling.take(tokens, at(time));
                    history.push((time, tokens));
                }
                let day: u64 = history.iter().filter(|(when, _)| time - when < 1_440).map(|(_, tokens)| tokens).sum();
                prop_assert!(day <= 100);
                prop_assert!(ceiling.hours.len() <= 26);
            }
        }
    }
}
