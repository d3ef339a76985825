//! The seam between the loop and whatever carries bytes: one request in, one outcome out.
//!
//! Nothing above this file knows the HTTP client; nothing below it knows about tries, hints or deadlines.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use steadycall_core::failure::{Reason, Sent};
pub use url::Url;

/// One request, ready to be sent any number of times.
#[derive(Debug, Clone)]
pub struct Request {
    /// How it is asked.
    pub method: Method,
    /// Where to; http or https, without credentials. Cheap to clone.
    pub uri: Uri,
    /// Every header that goes out, content type included.
    pub headers: HeaderMap,
    /// The serialised payload; cheap to clone.
    pub body: Bytes,
}

/// How long each phase of an attempt may take. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Timeouts {
    /// Name look-up, TCP, proxy and TLS hand-shakes together.
    pub connect: Option<Duration>,
    /// Longest silence while waiting for, or reading, the answer; starts when the request is sent.
    pub read: Option<Duration>,
    /// Longest standstill while the request is being written.
    pub write: Option<Duration>,
    /// Longest wait for a connection of the pool.
    pub pool: Option<Duration>,
}

/// What bounds one attempt.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The I/O phases.
    pub timeouts: Timeouts,
    /// The whole attempt, head and body; already cut to what is left of the deadline.
    pub attempt: Option<Duration>,
    /// Most bytes of body after content decoding.
    pub max_response_bytes: u64,
}

/// What makes one HTTP client different from another: calls with an equal route share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Route {
    /// Through a proxy or not.
    pub via: Via,
    /// A PEM file whose certificates are trusted instead of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// What else the environment said when the call began, its roots above all, so that a changed environment gets
    /// a fresh client.
    pub environment: u64,
}

/// Which way to the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Via {
    /// When nobody said: as the operating system is set up, where that knows of proxies.
    #[default]
    System,
    /// When no proxy is to be used, whatever the system says.
    Direct,
    /// When it is this http or https proxy.
    Proxy(Url),
}

/// An answer that was read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers as received; content decoding has removed its own.
    pub headers: HeaderMap,
    /// The decoded body.
    pub body: Bytes,
}

/// Which phase a timeout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// When connecting took too long.
    Connect,
    /// When a slot in the pool took too long.
    Pool,
    /// When writing stood still.
    Write,
    /// When reading stood still.
    Read,
    /// When the whole attempt was over.
    Attempt,
}

/// An attempt that brought no whole answer.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What happened, by type.
    pub reason: Reason,
    /// Whether the request may have reached the server.
    pub sent: Sent,
    /// The phase, for timeouts.
    pub phase: Option<Phase>,
    /// The innermost cause in words, free of URLs, header values and bodies.
    pub detail: String,
    /// Status and headers when they arrived before it broke.
    pub head: Option<(u16, HeaderMap)>,
    /// What was read of the body before it broke (bounded).
    pub partial: Bytes,
}

/// How one attempt ended, and what it cost beside its answer.
#[derive(Debug)]
pub struct Outcome {
    /// The answer, or what went wrong instead.
    pub result: Result<Answer, Fault>,
    /// Requests replayed at once on a fresh connection because the server surely had not looked at them.
    pub replays: u32,
    /// Whether every byte of the request was handed to the connection.
    pub fully_sent: bool,
    /// Body bytes received, after content decoding.
    pub received: u64,
}

/// A setting with which no request can be made; found before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError {
    /// The setting: `proxy`, `ca_bundle`, or the environment variable that holds it.
    pub field: &'static str,
    /// What is wrong with it, free of passwords.
    pub detail: String,
}

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}

impl std::error::Error for SetupError {}
