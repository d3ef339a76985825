//! Points in time as plain numbers: when the call is now, and when it must end.
//!
//! A `Moment` counts from an origin that only its clock knows, so two clocks never mix by accident of
//! a shared epoch. Arithmetic saturates: a wait too long to hold is "never", not a wrap-around.

use std::time::Duration;

/// A point on the call's own monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `elapsed` after the clock's origin.
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How far this moment lies from the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to here; zero when `earlier` is not earlier.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `wait` later.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

/// When something must be over: a moment, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadline {
    /// When nothing limits it.
    #[default]
    Never,
    /// When it ends at this moment.
    At(Moment),
}

impl Deadline {
    /// The deadline `limit` after `now`; no limit is never.
    pub fn after(limit: Option<Duration>, now: Moment) -> Self {
        match limit {
            Some(limit) => Self::At(now.after(limit)),
            None => Self::Never,
        }
    }

    /// Time left at `now`, zero once passed; `None` when nothing limits it.
    pub fn left(self, now: Moment) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::At(end) => Some(end.since(now)),
        }
    }

    /// The earlier of the two.
    pub fn earliest(self, other: Deadline) -> Deadline {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a.min(b)),
            (Self::Never, end) | (end, Self::Never) => end,
        }
    }

    /// Whether it has passed at `now`.
    pub fn passed(self, now: Moment) -> bool {
        matches!(self, Self::At(end) if end <= now)
    }
}

/// Seconds as users write them to a `Duration`: rounded up to the nanosecond, so that a wait is never
/// cut short; too large to hold is the longest there is. `None` for negatives and NaN.
pub fn seconds(value: f64) -> Option<Duration> {
    if value.is_nan() || value < 0.0 {
        return None;
    }
    match Duration::try_from_secs_f64(value) {
        Ok(exact) if exact.as_secs_f64() < value => Some(exact.saturating_add(Duration::from_nanos(1))),
        Ok(exact) => Some(exact),
        Err(_) => Some(Duration::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let late = Moment::from_origin(Duration::MAX);
        assert_eq!(late.after(Duration::MAX), late);
        assert_eq!(Moment::default().since(late), Duration::ZERO);
    }

    #[test]
    fn the_earlier_of_two_deadlines_binds() {
        let soon = Deadline::At(Moment::from_origin(Duration::from_secs(1)));
        let late = Deadline::At(Moment::from_origin(Duration::from_secs(2)));
        assert_eq!(soon.earliest(late), soon);
        assert_eq!(Deadline::Never.earliest(late), late);
        assert_eq!(Deadline::Never.left(Moment::default()), None);
    }

    #[test]
    fn seconds_never_round_down() {
        assert_eq!(seconds(2.0), Some(Duration::from_secs(2)));
        assert!(seconds(53.016342224).is_some_and(|d| d.as_secs_f64() >= 53.016342224));
        assert_eq!(seconds(f64::INFINITY), Some(Duration::MAX));
        assert_eq!(seconds(-1.0), None);
        assert_eq!(seconds(f64::NAN), None);
    }
}
