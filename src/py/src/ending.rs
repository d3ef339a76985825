//! What a call leaves behind when it ends: its last attempt, and where that went.

use std::sync::Arc;

use http::Uri;
use pyo3::prelude::*;
use steadycall_core::failure::Failure;
use steadycall_net::transport::{Answer, Fault, Url};

/// What the last attempt left behind.
pub struct Last {
    /// How it was judged.
    pub failure: Failure,
    /// The answer, or what came instead of one.
    pub found: Result<Answer, Fault>,
    /// Whether every byte of the request was handed to the connection.
    pub fully_sent: bool,
    /// What the JSON parser or the validator said, when that was it.
    pub parse_error: Option<PyErr>,
    /// Where it came from, when the call has gone on to another route since.
    pub elsewhere: Option<Elsewhere>,
}

/// Where an attempt went that is not where the call goes now.
pub struct Elsewhere {
    /// Where it went.
    pub to: Arc<Target>,
    /// Through what.
    pub via: Option<String>,
}

impl Elsewhere {
    /// The same for a text.
    pub fn whither(&self) -> Whither<'_> {
        Whither { to: &self.to, via: self.via.clone() }
    }
}

/// Where a call went, as errors may tell it: no query, no credentials.
pub struct Target {
    /// Host and port.
    pub host: String,
    /// Scheme, host and path.
    pub url: String,
    /// All of it, to choose the way by.
    pub parsed: Url,
    /// All of it, as it is sent.
    pub uri: Uri,
}

/// A target, and the proxy that stands before it: a failed connection is the proxy's as often as the host's.
pub struct Whither<'a> {
    /// Where the call goes.
    pub to: &'a Target,
    /// "through the proxy HOST", or which variable of the environment names one.
    pub via: Option<String>,
}
