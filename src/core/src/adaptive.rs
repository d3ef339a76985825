//! A limit of calls in flight that finds its own size: additive increase, multiplicative decrease, as in TCP.
//!
//! Every full round of good answers at the limit adds one call to it; a sign of overload - 429, 529, a timeout - takes
//! a share away, once for each generation of calls: the hundred that were in flight when it happened all tell of the
//! same overload. A limit that is not used does not grow.

use crate::failure::{Failure, Kind, Reason};
use crate::policy::{ConfigError, count};

/// Between what bounds a limit finds its size, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    /// The least it comes down to, and where it begins.
    pub least: u32,
    /// The most it grows to.
    pub most: u32,
    /// What is left of it after a sign of overload, as a share.
    pub decrease: f64,
}

impl Adaptive {
    /// Checks the bounds and the share.
    pub fn new(least: i64, most: i64, decrease: f64) -> Result<Self, ConfigError> {
        let adaptive = Self { least: count("least", least)?, most: count("most", most)?, decrease };
        if adaptive.most < adaptive.least {
            return Err(ConfigError { field: "most", value: most.to_string(), allowed: "at least `least`" });
        }
        if decrease > 0.0 && decrease < 1.0 {
            return Ok(adaptive);
        }
        let allowed = "a share above 0 and below 1";
        Err(ConfigError { field: "decrease", value: decrease.to_string(), allowed })
    }
}

/// What a call tells of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// When it was answered.
    Good,
    /// When there was too much load.
    Overload,
    /// When it tells nothing.
    Neutral,
}

impl Sign {
    /// What a failure tells; `None` is a good answer.
    pub fn of(failure: Option<&Failure>) -> Self {
        use Reason::{AttemptTimeout, ConnectTimeout, Overloaded, ReadTimeout, ServerTimeout, WriteTimeout};
        let Some(failure) = failure else { return Self::Good };
        let timeouts = [AttemptTimeout, ConnectTimeout, ReadTimeout, ServerTimeout, WriteTimeout];
        let overload = failure.kind == Kind::RateLimited
            || failure.reason == Overloaded
            || timeouts.contains(&failure.reason);
        if overload { Self::Overload } else { Self::Neutral }
    }
}

/// Which decrease a call began after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

/// The limit at its present size.
#[derive(Debug, Clone)]
pub struct Limit {
    bounds: Adaptive,
    size: f64,
    generation: u64,
}

impl Limit {
    /// At its least.
    pub fn new(bounds: Adaptive) -> Self {
        Self { bounds, size: f64::from(bounds.least), generation: 0 }
    }

    /// Calls in flight that it allows.
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    /// Asked by each call as it begins, to be told with its result.
    pub fn generation(&self) -> Generation {
        Generation(self.generation)
    }

    /// Told what a call saw, and how many were in flight with it. What began before the last decrease is old news.
    pub fn record(&mut self, sign: Sign, begun: Generation, in_flight: u32) {
        if begun.0 != self.generation {
            return;
        }
        match sign {
            Sign::Good if in_flight >= self.size() => self.size += 1.0 / self.size,
            Sign::Good | Sign::Neutral => {}
            Sign::Overload => {
                self.generation += 1;
                self.size *= self.bounds.decrease;
            }
        }
        self.size = self.size.clamp(f64::from(self.bounds.least), f64::from(self.bounds.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Sent;
    use proptest::prelude::*;

    fn limit() -> Limit {
        Limit::new(Adaptive::new(1, 100, 0.5).expect("good"))
    }

    #[test]
    fn a_generation_of_calls_takes_its_share_once() {
        let mut limit = Limit { size: 64.0, ..limit() };
        let begun = limit.generation();
        (0..64).for_each(|_| limit.record(Sign::Overload, begun, 64));
        assert_eq!(limit.size(), 32);
        limit.record(Sign::Overload, limit.generation(), 32);
        assert_eq!(limit.size(), 16);
    }

    #[test]
    fn a_round_of_good_answers_adds_about_one_and_idle_calls_add_nothing() {
        let mut limit = Limit { size: 10.0, ..limit() };
        (0..11).for_each(|_| limit.record(Sign::Good, limit.generation(), 11));
        assert_eq!(limit.size(), 11);
        (0..1_000).for_each(|_| limit.record(Sign::Good, limit.generation(), 3));
        assert_eq!(limit.size(), 11);
    }

    #[test]
    fn rate_limits_overload_and_timeouts_are_signs_and_other_failures_are_not() {
        let sign = |reason| Sign::of(Some(&Failure::transport(reason, Sent::Maybe)));
        for reason in [Reason::RateLimited, Reason::Overloaded, Reason::ReadTimeout] {
            assert_eq!(sign(reason), Sign::Overload);
        }
        assert_eq!([sign(Reason::BadRequest), sign(Reason::ConnectionLost)], [Sign::Neutral; 2]);
        assert_eq!(Sign::of(None), Sign::Good);
    }

    #[test]
    fn a_bad_value_is_named() {
        let refused = |least, most, decrease| Adaptive::new(least, most, decrease).expect_err("bad").field;
        assert_eq!(
            [refused(0, 9, 0.5), refused(5, 4, 0.5), refused(1, 9, 1.0)],
            ["least", "most", "decrease"]
        );
    }

    proptest! {
        #[test]
        fn a_limit_stays_within_its_bounds(steps in prop::collection::vec((0..3u8, 0..200u32, any::<bool>()), 1..300)) {
            let mut limit = Limit::new(Adaptive::new(2, 20, 0.7).expect("good"));
            let mut old = limit.generation();
            for (sign, in_flight, late) in steps {
                let begun = if late { old } else { limit.generation() };
                let before = limit.size();
                old = limit.generation();
                limit.record([Sign::Good, Sign::Overload, Sign::Neutral][sign as usize], begun, in_flight);
                prop_assert!((2..=20).contains(&limit.size()));
                prop_assert!(limit.size() <= before + 1);
            }
        }
    }
}
