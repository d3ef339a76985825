//! The facts of one failed attempt: its kind, the provider's code, whether the request may have been
//! billed, the wait the server asked for, and why we judge it so.

use crate::classify::Dialect;
use crate::hint::Hint;

/// What kind of failure an attempt was; decides how it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// When the call itself went wrong: transport, 5xx, overload.
    Call,
    /// When the provider said we are too fast.
    RateLimited,
    /// When no retry can fix it.
    Permanent,
    /// When an answer came and was not good enough.
    Validation,
}

/// Whether the request may have reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// When it surely did not.
    No,
    /// When it may have been processed, and billed.
    Maybe,
}

/// One failed attempt, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What kind of failure it was.
    pub kind: Kind,
    /// Whether another attempt may help.
    pub retryable: bool,
    /// The HTTP status, when an answer came.
    pub status: Option<u16>,
    /// The provider's own code for the error, as it wrote it.
    pub provider_code: Option<String>,
    /// The wait the server asked for.
    pub hint: Option<Hint>,
    /// Whether the request may have been processed.
    pub sent: Sent,
    /// Why we judge it so; one variant per reason.
    pub reason: Reason,
    /// Whose way of speaking was recognised.
    pub dialect: Dialect,
}

/// Why a failure is judged as it is. `sentence()` is one line in plain words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    // ---- the provider's answer -------------------------------------------------------------
    /// When the provider limits the pace and a wait clears it.
    RateLimited,
    /// When a status says the server is at fault and nothing more is known.
    ServerError,
    // ---- the transport ---------------------------------------------------------------------
    /// When no connection could be made: DNS, refused, unreachable.
    ConnectFailed,
    /// When connecting took longer than its timeout.
    ConnectTimeout,
    /// When the request was not written within the write timeout.
    WriteTimeout,
    /// When no byte came within the read timeout, though the request was sent.
    ReadTimeout,
    /// When the whole attempt took longer than the attempt timeout.
    AttemptTimeout,
    /// When the connection broke before or while the answer came.
    ConnectionLost,
    /// When the server's certificate is not trusted.
    CertificateRejected,
    /// When TLS could not be agreed on for another reason.
    TlsFailed,
    /// When the proxy refused us or asked for credentials.
    ProxyRefused,
    /// When what came back is not HTTP.
    NotHttp,
    /// When the body's compression is broken.
    BodyCorrupt,
    // ---- a 2xx that is no answer -----------------------------------------------------------
    /// When the body ends in the middle.
    Truncated,
    /// When a 2xx carries no body at all.
    EmptyBody,
    /// When a web page came instead of an answer.
    HtmlPage,
    /// When the body is neither JSON nor cut short.
    NotJson,
    /// When the body is larger than `max_response_bytes`.
    TooLargeAnswer,
}
