//! State for each of many keys - a host, a model, a credential - and never for more than so many of them.
//!
//! Keys come from callers, so nothing but a bound keeps a client that lives for months from growing. Who was asked
//! for least lately goes first; it starts afresh when it is asked for again. An ordered map, because it needs no dice.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What a caller tells apart, for example host and model.
pub type Key = Arc<str>;

/// Keys a client holds state for, unless told otherwise.
pub const MOST_KEYS: usize = 1_000;

/// State by key, bounded.
#[derive(Debug)]
pub struct Keyed<V> {
    held: BTreeMap<Key, (V, u64)>,
    most: usize,
    uses: u64,
}

impl<V> Keyed<V> {
    /// Room for `most` keys.
    pub fn new(most: usize) -> Self {
        Self { held: BTreeMap::new(), most, uses: 0 }
    }

    /// The state of a key, `fresh` if there is none. Makes room for it, but never of a state that is `in_use`:
    /// if all are, it grows, and no further than there are users.
    pub fn entry(&mut self, key: &Key, in_use: impl Fn(&V) -> bool, fresh: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if !self.held.contains_key(key) && self.held.len() >= self.most {
            let idle = self.held.iter().filter(|(_, (state, _))| !in_use(state));
            if let Some(oldest) = idle.min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()) {
                self.held.remove(&oldest);
            }
        }
        let (state, used) = self.held.entry(key.clone()).or_insert_with(|| (fresh(), 0));
        *used = self.uses;
        state
    }

    /// The state of a key, if there is one.
    pub fn get(&mut self, key: &str) -> Option<&mut V> {
        self.held.get_mut(key).map(|(state, _)| state)
    }

    /// All keys and their states, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.held.iter().map(|(key, (state, _))| (key, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u32) -> Key {
        number.to_string().into()
    }

    #[test]
    fn the_least_lately_used_goes_first() {
        let mut keyed = Keyed::new(2);
        for number in [1, 2, 1, 3] {
            keyed.entry(&key(number), |_| false, || number);
        }
        assert!(keyed.get("1").is_some() && keyed.get("2").is_none() && keyed.get("3").is_some());
    }

    #[test]
    fn what_is_in_use_stays() {
        let mut keyed = Keyed::new(2);
        for number in [1, 2, 3, 4] {
            keyed.entry(&key(number), |held| *held < 3, || number);
        }
        assert!(keyed.iter().map(|(_, held)| *held).eq([1, 2, 4]));
    }

    proptest! {
        #[test]
        fn keys_never_outgrow_their_bound(numbers in prop::collection::vec(0..50u32, 1..300), most in 1..10usize) {
            let mut keyed = Keyed::new(most);
            for number in numbers {
                prop_assert_eq!(*keyed.entry(&key(number), |_| false, || number), number);
                prop_assert!(keyed.iter().count() <= most);
            }
        }
    }
}
