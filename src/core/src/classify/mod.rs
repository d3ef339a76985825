//! Status, headers and body of an answer to a `Failure`, or to none when it is a good answer.

use crate::failure::Failure;

/// Whose way of speaking an answer uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// When nobody in particular was recognised.
    #[default]
    Generic,
}

/// An HTTP answer as it came, by reference.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Header names and values in order; names in any case, values as raw bytes.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body after content decoding; may be cut short.
    pub body: &'a [u8],
    /// The URL asked, when known; only its host and path are looked at.
    pub url: Option<&'a str>,
    /// The client's wall clock, seconds since the epoch; used where the answer has no `Date`.
    pub now: Option<f64>,
    /// The dialect to read it in; `None` finds it from the URL or the body's shape.
    pub dialect: Option<Dialect>,
}

/// Judges an answer. `None` when it is a good one.
pub fn classify(answer: &Answer<'_>) -> Option<Failure> {
    let _ = answer;
    None
}
