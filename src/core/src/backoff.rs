//! The wait before the next attempt when the server named none: a pure function of (retry index, config, draw).
//!
//! Full jitter, as Amazon's Architecture Blog ("Exponential Backoff And Jitter") found it to spread clients best:
//! the whole wait is random, only its ceiling grows. The others are for those who must write a given table.

use crate::failure::Kind;

/// How much of a growing wait is left to chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// When the wait is its ceiling.
    None,
    /// When it lies between half of its ceiling and all of it.
    Equal,
    /// When it lies between nothing and its ceiling.
    Full,
}

/// How waits grow when nobody asked for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// When the ceiling doubles from one wait to the next.
    Exponential {
        /// Ceiling of the first wait, in seconds.
        base: f64,
        /// Ceiling of every wait, in seconds; below `base` it simply caps.
        cap: f64,
        /// What lies below the ceiling.
        jitter: Jitter,
    },
    /// When every wait is the same number of seconds.
    Fixed(f64),
    /// When there is no wait.
    None,
}

impl Backoff {
    /// The default: a wait between nothing and a ceiling that doubles.
    pub const fn full_jitter(base: f64, cap: f64) -> Self {
        Self::Exponential { base, cap, jitter: Jitter::Full }
    }

    /// The longest wait before retry `index` (0 after the first failure): `min(cap, base * 2^index)` if it grows.
    pub fn ceiling(&self, index: u32) -> f64 {
        match *self {
            Self::Exponential { base, cap, .. } => {
                // 2^1100 is infinite already, and 0 * infinity would be NaN: a base of zero stays zero.
                let growth = f64::powi(2.0, index.min(1_100) as i32);
                let grown = if base == 0.0 { 0.0 } else { base * growth };
                grown.min(cap)
            }
            Self::Fixed(seconds) => seconds,
            Self::None => 0.0,
        }
    }

    /// Seconds to wait before retry `index`. `draw` is asked only when chance has a say; uniform in [0, 1).
    pub fn delay(&self, index: u32, draw: impl FnOnce() -> f64) -> f64 {
        let ceiling = self.ceiling(index);
        match self {
            Self::Exponential { jitter: Jitter::Full, .. } => share(draw) * ceiling,
            Self::Exponential { jitter: Jitter::Equal, .. } => ceiling / 2.0 + share(draw) * (ceiling / 2.0),
            Self::Exponential { jitter: Jitter::None, .. } | Self::Fixed(_) | Self::None => ceiling,
        }
    }
}

/// A draw, whatever the dice were.
pub fn share(draw: impl FnOnce() -> f64) -> f64 {
    draw().clamp(0.0, 1.0)
}

/// The backoff of each kind that is ever retried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoffs {
    /// After a failed call.
    pub call: Backoff,
    /// After a rate limit that named no wait.
    pub rate_limited: Backoff,
    /// After an answer that was not good enough.
    pub validation: Backoff,
}

impl Backoffs {
    /// One for all, but for failed validation, which is tried again at once.
    pub const fn same(backoff: Backoff) -> Self {
        Self { call: backoff, rate_limited: backoff, validation: Backoff::None }
    }

    /// The one for this kind of failure.
    pub const fn of(&self, kind: Kind) -> Backoff {
        match kind {
            Kind::Call => self.call,
            Kind::RateLimited => self.rate_limited,
            Kind::Validation => self.validation,
            Kind::Permanent => Backoff::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: Backoff = Backoff::full_jitter(1.0, 30.0);

    #[test]
    fn the_ceiling_doubles_until_the_cap() {
        let ceilings: Vec<f64> = (0..7).map(|n| DEFAULT.ceiling(n)).collect();
        assert_eq!(ceilings, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    }

    #[test]
    fn a_cap_below_the_base_simply_caps() {
        assert_eq!(Backoff::full_jitter(5.0, 2.0).ceiling(0), 2.0);
    }

    #[test]
    fn a_base_of_zero_never_waits_however_late_the_retry() {
        assert_eq!(Backoff::full_jitter(0.0, 30.0).delay(u32::MAX, || 0.9), 0.0);
    }

    #[test]
    fn jitter_says_how_much_of_the_wait_is_chance() {
        let wait = |jitter, draw| Backoff::Exponential { base: 4.0, cap: 30.0, jitter }.delay(1, || draw);
        assert_eq!([wait(Jitter::None, 0.0), wait(Jitter::None, 0.5)], [8.0, 8.0]);
        assert_eq!([wait(Jitter::Equal, 0.0), wait(Jitter::Equal, 0.5)], [4.0, 6.0]);
        assert_eq!([wait(Jitter::Full, 0.0), wait(Jitter::Full, 0.5)], [0.0, 4.0]);
    }

    #[test]
    fn what_leaves_nothing_to_chance_draws_nothing() {
        let never = || panic!("nothing to draw for");
        assert_eq!(Backoff::Fixed(2.0).delay(7, never), 2.0);
        assert_eq!(Backoff::None.delay(7, never), 0.0);
    }

    proptest! {
        #[test]
        fn a_wait_stays_within_its_ceiling(
            base in 0.0..1e300f64, cap in 0.0..1e300f64, index in any::<u32>(), draw in 0.0..1.0f64, which in 0..3,
        ) {
            let jitter = [Jitter::None, Jitter::Equal, Jitter::Full][which as usize];
            let backoff = Backoff::Exponential { base, cap, jitter };
            let wait = backoff.delay(index, || draw);
            prop_assert!(wait.is_finite() && wait >= 0.0);
            prop_assert!(wait <= backoff.ceiling(index) && backoff.ceiling(index) <= cap);
        }
    }
}
