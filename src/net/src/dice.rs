//! The only generator of this crate: draws in [0, 1) for the core, which rolls nothing itself.
//!
//! Every call draws from a stream of its own, seeded at its first draw (a call that succeeds at once pays
//! nothing). Deliberately not the thread's generator: a child of `fork` would replay its parent's jitter.

use std::hash::{BuildHasher, RandomState};

use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};

/// One call's stream of draws.
#[derive(Debug, Default)]
pub struct Dice {
    stream: Option<StdRng>,
}

impl Dice {
    /// A stream nobody can foresee, seeded by the operating system.
    #[must_use]
    pub fn unforeseeable() -> Self {
        Self::default()
    }

    /// The stream of this seed: the same draws every time.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { stream: Some(StdRng::seed_from_u64(seed)) }
    }

    /// The next draw, uniform in [0, 1).
    pub fn draw(&mut self) -> f64 {
        self.stream.get_or_insert_with(from_system).random()
    }
}

fn from_system() -> StdRng {
    // Without the system's entropy (a sandbox), jitter only has to differ from process to process.
    StdRng::try_from_rng(&mut SysRng)
        .unwrap_or_else(|_| StdRng::seed_from_u64(RandomState::new().hash_one(std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_gives_the_same_draws_every_time_all_in_the_unit_interval() {
        let (mut one, mut other) = (Dice::seeded(7), Dice::seeded(7));
        for _ in 0..1000 {
            let draw = one.draw();
            assert_eq!(draw, other.draw());
            assert!((0.0..1.0).contains(&draw));
        }
    }

    #[test]
    fn two_calls_do_not_share_a_stream() {
        assert_ne!(Dice::unforeseeable().draw(), Dice::unforeseeable().draw());
        assert_ne!(Dice::seeded(1).draw(), Dice::seeded(2).draw());
    }
}
