//! What is remembered of every row of a run: at most 16 bytes.
//!
//! Which rows are done is a bit for each line. Which `custom_id`s were seen is a table of 64-bit digests, at most three
//! quarters full: between 10.7 and 16 bytes a row. Two ids with one digest would be taken for the same, which among a
//! million rows happens once in forty million runs; the digest is keyed anew in each run, so nobody can bring it about.

use std::hash::{BuildHasher, RandomState};

/// A set of lines.
#[derive(Debug, Clone, Default)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Adds a line; whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        let (at, bit) = place(number);
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words.get_mut(at).is_some_and(|word| {
            let new = *word & bit == 0;
            *word |= bit;
            new
        })
    }

    /// Takes a line out.
    pub fn remove(&mut self, number: u64) {
        let (at, bit) = place(number);
        if let Some(word) = self.words.get_mut(at) {
            *word &= !bit;
        }
    }

    /// Whether a line is in it.
    pub fn holds(&self, number: u64) -> bool {
        let (at, bit) = place(number);
        self.words.get(at).is_some_and(|word| word & bit != 0)
    }

    /// Takes out what is in `others`.
    pub fn subtract(&mut self, others: &Self) {
        self.words.iter_mut().zip(&others.words).for_each(|(ours, theirs)| *ours &= !theirs);
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.words.clear();
    }
}

fn place(number: u64) -> (usize, u64) {
    (usize::try_from(number / 64).unwrap_or(usize::MAX - 1), 1 << (number % 64))
}

/// The `custom_id`s that were seen.
#[derive(Debug, Default)]
pub struct Seen {
    keyed: RandomState,
    /// Digests, each at the first free place from its own on; 0 is free.
    slots: Vec<u64>,
    held: usize,
}

impl Seen {
    /// With room for so many.
    pub fn with_room_for(rows: u64) -> Self {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX / 16);
        Self { slots: vec![0; rows + rows / 3 + 8], ..Self::default() }
    }

    /// Adds one; whether it is new.
    pub fn insert(&mut self, id: &str) -> bool {
        if (self.held + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let new = put(&mut self.slots, self.keyed.hash_one(id).max(1));
        self.held += usize::from(new);
        new
    }

    fn grow(&mut self) {
        let mut larger = vec![0; self.slots.len() + self.slots.len() / 2 + 8];
        for digest in self.slots.iter().filter(|digest| **digest != 0) {
            put(&mut larger, *digest);
        }
        self.slots = larger;
    }
}

fn put(slots: &mut [u64], digest: u64) -> bool {
    let own = (u128::from(digest) * slots.len() as u128) >> 64;
    let own = usize::try_from(own).unwrap_or(0).min(slots.len());
    let (before, from) = slots.split_at_mut(own);
    for slot in from.iter_mut().chain(before) {
        if *slot == digest {
            return false;
        }
        if *slot == 0 {
            *slot = digest;
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_new_once_in_at_most_sixteen_bytes_a_row() {
        for room in [0, 10_000] {
            let mut seen = Seen::with_room_for(room);
            let ids: Vec<String> = (0..10_000).map(|number| format!("row-{number}")).collect();
            assert!(ids.iter().all(|id| seen.insert(id)));
            assert!(ids.iter().all(|id| !seen.insert(id)));
            assert!(seen.slots.len() * 8 + 10_000 / 8 <= 16 * 10_000 + 64, "{}", seen.slots.len());
        }
    }

    #[test]
    fn lines_are_told_apart() {
        let (mut some, mut others) = (Bits::default(), Bits::default());
        assert!(some.insert(64) && some.insert(63) && some.insert(1_000) && !some.insert(64));
        assert!(others.insert(63));
        some.subtract(&others);
        assert!(some.holds(64) && !some.holds(63) && some.holds(1_000));
        some.remove(64);
        assert!(!some.holds(64) && !some.holds(u64::MAX));
    }
}
