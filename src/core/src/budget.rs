//! The retry budget of a whole client: retries add at most so much to the load.
//!
//! When a provider is down, every call fails, and every retry is a request it cannot serve either; tries of three
//! make three times the load of it. So retries may be a share of the calls of late, as in Finagle and Envoy. A small
//! floor lets a quiet client retry at all. Only what may be load makes a retry cost: a wait that the server asked
//! for, and another answer after a failed validation, are free.

use std::time::Duration;

use crate::failure::{Failure, Kind};
use crate::level::{Level, Rate};
use crate::policy::{ConfigError, limit, share, wait};
use crate::time::Moment;
use crate::window::Window;

/// How much load retries may add, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries for each million calls within the window.
    per_million: u64,
    floor: Rate,
    window: Duration,
}

impl RetryBudget {
    /// Retries up to `ratio` of the calls of the last `window` seconds, and beside them `floor_per_second` of which
    /// `burst` may be saved up.
    pub fn new(ratio: f64, floor_per_second: f64, window: f64, burst: u32) -> Result<Self, ConfigError> {
        let ratio = share("ratio", ratio)?;
        let floor = wait("floor_per_second", floor_per_second)
            .map_err(|error| ConfigError { allowed: "a finite number, 0 or more", ..error })?;
        Ok(Self {
            per_million: (ratio * 1e6).round() as u64,
            floor: Rate { per_minute: (floor * 60.0).round() as u64, burst: burst.into() },
            window: limit("window", Some(window))?.unwrap_or_default(),
        })
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            per_million: 200_000,
            floor: Rate { per_minute: 60, burst: 10 },
            window: Duration::from_secs(10),
        }
    }
}

/// Whether a retry after this failure spends the budget.
pub fn spends(failure: &Failure) -> bool {
    failure.kind == Kind::Call && failure.hint.is_none()
}

/// What is left of a client's retry budget.
#[derive(Debug, Clone)]
pub struct Retries {
    budget: RetryBudget,
    /// Calls begun, and retries paid from their share.
    recent: Window,
    floor: Level,
}

impl Retries {
    /// A budget not yet used.
    pub fn new(budget: RetryBudget, now: Moment) -> Self {
        Self { recent: Window::new(budget.window), floor: Level::full(budget.floor, now), budget }
    }

    /// Told that a call begins: it earns its share of a retry.
    pub fn observe_call(&mut self, now: Moment) {
        self.recent.add([1, 0], now);
    }

    /// Whether one more retry may be made; if so, it is paid.
    pub fn admit(&mut self, now: Moment) -> bool {
        let [calls, retries] = self.recent.sums(now);
        let earned = calls.saturating_mul(self.budget.per_million);
        if retries.saturating_add(1).saturating_mul(1_000_000) <= earned {
            self.recent.add([0, 1], now);
            return true;
        }
        let saved = self.budget.floor.burst > 0 && self.floor.fits(1, now);
        if saved {
            self.floor.take(1, now);
        }
        saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Reason, Sent};
    use crate::hint::{Hint, Source};
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_quiet_client_may_retry_ten_times_and_then_once_a_second() {
        let mut retries = Retries::new(RetryBudget::default(), at(0));
        assert_eq!((0..20).filter(|_| retries.admit(at(0))).count(), 10);
        assert!(!retries.admit(at(999)) && retries.admit(at(1_000)) && !retries.admit(at(1_000)));
    }

    #[test]
    fn a_hundred_calls_earn_twenty_retries_and_lose_them_with_the_window() {
        let mut retries = Retries::new(RetryBudget::new(0.2, 0.0, 10.0, 0).expect("good"), at(0));
        (0..100).for_each(|_| retries.observe_call(at(0)));
        assert_eq!((0..50).filter(|_| retries.admit(at(5_000))).count(), 20);
        (0..100).for_each(|_| retries.observe_call(at(6_000)));
        assert_eq!((0..50).filter(|_| retries.admit(at(6_000))).count(), 20);
        assert!(!retries.admit(at(60_000)));
    }

    #[test]
    fn waits_the_server_asked_for_and_failed_validations_are_free() {
        let failed = |reason| Failure::transport(reason, Sent::Maybe);
        assert!(spends(&failed(Reason::ServerError)) && spends(&failed(Reason::ConnectFailed)));
        assert!(!spends(&failed(Reason::ValidationFailed)) && !spends(&failed(Reason::RateLimited)));
        let hint = Some(Hint { seconds: 1.0, source: Source::RetryAfter });
        assert!(!spends(&Failure { hint, ..failed(Reason::ServerError) }));
    }

    #[test]
    fn a_bad_value_is_named() {
        let refused = |result: Result<RetryBudget, ConfigError>| result.expect_err("bad").to_string();
        assert_eq!(
            refused(RetryBudget::new(1.5, 1.0, 10.0, 10)),
            "ratio must be a share from 0 to 1, got 1.5"
        );
        assert_eq!(
            refused(RetryBudget::new(0.2, -1.0, 10.0, 10)),
            "floor_per_second must be a finite number, 0 or more, got -1"
        );
        assert_eq!(RetryBudget::new(0.2, 1.0, 10.0, 10), Ok(RetryBudget::default()));
    }

    proptest! {
        #[test]
        fn retries_never_exceed_their_share_of_the_calls_and_the_floor(
            steps in prop::collection::vec((0..3_000u64, 0..8u32, 0..8u32), 1..100),
        ) {
            let mut retries = Retries::new(RetryBudget::default(), at(0));
            let (mut time, mut calls, mut made) = (0, 0, 0);
            for (step, begun, wanted) in steps {
                time += step;
                (0..begun).for_each(|_| retries.observe_call(at(time)));
                calls += begun;
                made += (0..wanted).filter(|_| retries.admit(at(time))).count();
                prop_assert!(made as f64 <= 0.2 * f64::from(calls) + time as f64 / 1_000.0 + 10.0);
            }
        }
    }
}
