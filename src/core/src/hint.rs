//! Every spelling of "wait this long" to one `Hint`: seconds and where they were said.

/// A wait the server asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Seconds to wait, greater than zero. May be infinite: digits too many to hold.
    pub seconds: f64,
    /// Where it was said.
    pub source: Source,
}

/// Where a hint was said. `name()` is what users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// When the header `retry-after-ms` or `x-ms-retry-after-ms` says it, in milliseconds.
    RetryAfterMs,
    /// When the header `Retry-After` says it, in seconds or as a date.
    RetryAfter,
}

impl Source {
    /// The source as users read it, for example `"Retry-After"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfterMs => "retry-after-ms",
            Self::RetryAfter => "Retry-After",
        }
    }
}
