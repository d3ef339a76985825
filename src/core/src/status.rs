//! A set of HTTP statuses, for callers who replace the built-in table of transient ones.

/// HTTP statuses, each at most once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusSet(Vec<u16>);

impl StatusSet {
    /// Whether `status` is in the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0.binary_search(&status).is_ok()
    }
}

impl FromIterator<u16> for StatusSet {
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Self {
        let mut sorted: Vec<u16> = statuses.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self(sorted)
    }
}
