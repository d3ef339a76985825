//! How much happened of late: two counts over a moving window.
//!
//! The window is cut into ten parts, and a part is forgotten as a whole. So it looks back between nine tenths of its
//! length and all of it, holds 80 bytes whatever the load, and costs the same at one call a minute as at a million.

use std::time::Duration;

use crate::time::Moment;

const PARTS: usize = 10;

/// Two counts over a moving window; what they count is the user's business.
#[derive(Debug, Clone)]
pub struct Window {
    part: Duration,
    parts: [[u32; 2]; PARTS],
    /// Which part `now` was in when it was last asked, counted from the clock's origin.
    newest: u128,
}

impl Window {
    /// An empty window of this length, a nanosecond at least for each part.
    pub fn new(length: Duration) -> Self {
        let part = (length / PARTS as u32).max(Duration::from_nanos(1));
        Self { part, parts: [[0; 2]; PARTS], newest: 0 }
    }

    /// Adds to both counts.
    pub fn add(&mut self, counts: [u32; 2], now: Moment) {
        self.forget(now);
        let held = &mut self.parts[(self.newest % PARTS as u128) as usize];
        for (held, more) in held.iter_mut().zip(counts) {
            *held = held.saturating_add(more);
        }
    }

    /// Both counts of what the window holds.
    pub fn sums(&mut self, now: Moment) -> [u64; 2] {
        self.forget(now);
        self.parts
            .iter()
            .fold([0, 0], |sums, part| [sums[0] + u64::from(part[0]), sums[1] + u64::from(part[1])])
    }

    /// Drops the parts that lie too far back. A clock that goes back changes nothing.
    fn forget(&mut self, now: Moment) {
        let newest = now.since_origin().as_nanos() / self.part.as_nanos();
        let passed = newest.saturating_sub(self.newest);
        for step in 1..=passed.min(PARTS as u128) {
            self.parts[((self.newest + step) % PARTS as u128) as usize] = [0; 2];
        }
        self.newest = self.newest.max(newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add([1, 5], at(0));
        window.add([2, 0], at(9_000));
        assert_eq!(window.sums(at(9_999)), [3, 5]);
        assert_eq!(window.sums(at(10_000)), [2, 0]);
        assert_eq!(window.sums(at(1_000_000)), [0, 0]);
    }

    proptest! {
        #[test]
        fn a_window_looks_back_nine_tenths_of_its_length_at_least_and_all_of_it_at_most(
            steps in prop::collection::vec((0..400u64, 0..9u32), 1..80),
        ) {
            let mut window = Window::new(Duration::from_millis(1_000));
            let (mut time, mut history) = (0, Vec::new());
            for (step, count) in steps {
                time += step;
                history.push((time, count));
                window.add([count, 0], at(time));
                let within = |back: u64| -> u64 {
                    history.iter().filter(|(when, _)| time - when < back).map(|(_, count)| u64::from(*count)).sum()
                };
                let held = window.sums(at(time))[0];
                prop_assert!(within(900) <= held && held <= within(1_000));
            }
        }
    }
}
