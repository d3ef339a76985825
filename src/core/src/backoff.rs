//! The wait before the next attempt when the server named none: a pure function of (retry index, config, draw).
//!
//! Full jitter, as Amazon's Architecture Blog ("Exponential Backoff And Jitter") found it to spread clients best:
//! the whole wait is random, only its ceiling grows.

/// How waits grow when nobody asked for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FullJitter {
    /// Ceiling of the first wait, in seconds.
    pub base: f64,
    /// Ceiling of every wait, in seconds; below `base` it simply caps.
    pub cap: f64,
}

impl FullJitter {
    /// The longest wait before retry `index` (0 after the first failure): `min(cap, base * 2^index)`.
    pub fn ceiling(&self, index: u32) -> f64 {
        // 2^1100 is infinite already, and 0 * infinity would be NaN: a base of zero stays zero.
        let growth = f64::powi(2.0, index.min(1_100) as i32);
        let grown = if self.base == 0.0 { 0.0 } else { self.base * growth };
        grown.min(self.cap)
    }

    /// Seconds to wait before retry `index`, for a `draw` uniform in [0, 1).
    pub fn delay(&self, index: u32, draw: f64) -> f64 {
        draw.clamp(0.0, 1.0) * self.ceiling(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: FullJitter = FullJitter { base: 1.0, cap: 30.0 };

    #[test]
    fn the_ceiling_doubles_until_the_cap() {
        let ceilings: Vec<f64> = (0..7).map(|n| DEFAULT.ceiling(n)).collect();
        assert_eq!(ceilings, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    }

    #[test]
    fn a_cap_below_the_base_simply_caps() {
        assert_eq!(FullJitter { base: 5.0, cap: 2.0 }.ceiling(0), 2.0);
    }

    #[test]
    fn a_base_of_zero_never_waits_however_late_the_retry() {
        assert_eq!(FullJitter { base: 0.0, cap: 30.0 }.delay(u32::MAX, 0.9), 0.0);
    }

    proptest! {
        #[test]
        fn a_wait_stays_within_its_ceiling(
            base in 0.0..1e300f64, cap in 0.0..1e300f64, index in any::<u32>(), draw in 0.0..1.0f64,
        ) {
            let backoff = FullJitter { base, cap };
            let wait = backoff.delay(index, draw);
            prop_assert!(wait.is_finite() && wait >= 0.0);
            prop_assert!(wait <= backoff.ceiling(index) && backoff.ceiling(index) <= cap);
        }
    }
}
