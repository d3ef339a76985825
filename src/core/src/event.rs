//! What observers may learn about a call, as plain data. No key, query string, prompt or body is ever in it.

use std::time::Duration;

use crate::failure::{Kind, Sent};
use crate::hint::Hint;

/// One attempt, as it is told to observers and kept on errors.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// 1 for the first attempt.
    pub number: u32,
    /// The HTTP status, when an answer came.
    pub status: Option<u16>,
    /// What kind of failure it was; `None` for a good answer.
    pub kind: Option<Kind>,
    /// The provider's own code for the error.
    pub provider_code: Option<String>,
    /// The wait the server asked for.
    pub hint: Option<Hint>,
    /// Seconds waited after it; `None` when no attempt followed.
    pub wait: Option<f64>,
    /// How long it took.
    pub elapsed: Duration,
    /// The server's id for the request.
    pub request_id: Option<String>,
    /// Whether the request may have been processed.
    pub sent: Sent,
    /// Body bytes received, after content decoding.
    pub received: u64,
    /// Whether an answer was given to the caller.
    pub delivered: bool,
    /// Requests replayed at once on a fresh connection.
    pub replays: u32,
}
