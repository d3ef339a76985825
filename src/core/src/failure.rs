//! The facts of one failed attempt: its kind, the provider's code, whether the request may have been
//! billed, the wait the server asked for, and why we judge it so.
//!
//! The one table of reasons stands at the foot: each has a name for documents, one sentence for people and
//! the kind it makes. Sentences are fixed texts: nothing of a body, a key or a prompt can get into them.

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

impl Kind {
    /// The kind as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::RateLimited => "rate_limited",
            Self::Permanent => "permanent",
            Self::Validation => "validation",
        }
    }
}

/// Whether the request may have reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// When it surely did not.
    No,
    /// When it may have been processed, and billed.
    Maybe,
}

impl Sent {
    /// The word users read: "no" or "maybe".
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Maybe => "maybe",
        }
    }
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
    /// The provider's own code for the error, as it wrote it; printable and at most 100 characters.
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

impl Failure {
    /// An attempt that brought no answer to judge: the reason alone tells the kind.
    pub fn transport(reason: Reason, sent: Sent) -> Self {
        Self {
            kind: reason.kind(),
            retryable: reason.kind() != Kind::Permanent,
            status: None,
            provider_code: None,
            hint: None,
            sent,
            reason,
            dialect: Dialect::default(),
        }
    }
}

impl Reason {
    /// Whether the time ran out while the model may have been working.
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::ReadTimeout | Self::AttemptTimeout)
    }

    /// Whether no whole answer came, so that the transport is at fault and not the provider's word.
    pub const fn is_transport(self) -> bool {
        use Reason::*;
        matches!(
            self,
            ConnectFailed
                | ConnectTimeout
                | WriteTimeout
                | ReadTimeout
                | AttemptTimeout
                | PoolTimeout
                | TimedOut
                | ConnectionLost
                | CertificateRejected
                | TlsFailed
                | ProxyRefused
                | ProxyFailed
                | NotHttp
                | BodyCorrupt
                | Truncated
        )
    }
}

/// Writes the enum and its three views from one table, so that no reason can lack a name or a sentence.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident $kind:ident $name:literal $sentence:literal;)+) => {
        /// Why a failure is judged as it is. `sentence()` is one line in plain words.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Reason] = &[$(Self::$variant,)+];

            /// The name in documents and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The reason of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.name() == name)
            }

            /// The reason of that sentence.
            pub fn from_sentence(sentence: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.sentence() == sentence)
            }

            /// One line in plain words.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }

            /// The kind of failure this reason makes; a 429 may turn `Call` into `RateLimited`.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }
        }
    };
}

reasons! {
    // ---- the provider's answer: a wait can fix it ---------------------------------------------
    /// When the provider limits the pace and a wait clears it.
    RateLimited RateLimited "rate_limited" "The provider limits the pace of calls; a wait clears it.";
    /// When the provider, not the caller, is out of capacity.
    Overloaded Call "overloaded" "The provider is short of capacity at the moment.";
    /// When a model is being loaded.
    ModelLoading Call "model_loading" "The model is still being loaded.";
    /// When a status says the server is at fault and nothing more is known.
    ServerError Call "server_error" "The provider's server failed.";
    /// When the server gave up on its own time limit.
    ServerTimeout Call "server_timeout" "The provider did not finish within its own time limit.";
    /// When something behind the server that answered failed.
    UpstreamFailed Call "upstream_failed" "A server behind the one that answered failed.";
    /// When two requests clashed.
    Conflict Call "conflict" "The request clashed with another one.";
    /// When the server would not yet take the request.
    TooEarly Call "too_early" "The server was not ready to take the request yet.";
    /// When the server says the request was cancelled, though the caller did not.
    Cancelled Call "cancelled" "The provider cancelled the request.";
    /// When the request arrived cut short.
    UploadCut Call "upload_cut" "The request reached the provider incomplete.";
    /// When access is granted but not yet in force.
    NotYetActive Call "not_yet_active" "The access asked for is still being set up.";
    /// When the model made an unusable tool call, which another sampling may avoid.
    ToolCallFailed Call "tool_call_failed" "The model wrote a tool call the provider could not use.";
    /// When `x-should-retry: true` makes a status retryable.
    ToldToRetry Call "told_to_retry" "The provider says that a retry may help.";
    // ---- the provider's answer: no retry can fix it -------------------------------------------
    /// When `x-should-retry: false` ends the call.
    ToldNotToRetry Permanent "told_not_to_retry" "The provider says that a retry will not help.";
    /// When a quota of a day or longer is used up.
    QuotaSpent Permanent "quota_spent" "A daily, weekly or monthly quota is used up.";
    /// When the wait asked for is a day or longer, so that it is a quota whatever it is called.
    WaitOfDays Permanent "wait_of_days" "The provider asks for a wait of a day or longer, so a quota is used up.";
    /// When money is the cause: no credit, an unpaid bill, a spend limit.
    Billing Permanent "billing" "The account has no credit left, or reached a spending limit.";
    /// When the limit itself is zero.
    ZeroLimit Permanent "zero_limit" "The account's limit for this model is zero.";
    /// When the request alone is larger than the limit or than what the server takes.
    RequestTooLarge Permanent "request_too_large" "The request alone is larger than the limit allows.";
    /// When the prompt does not fit the model.
    PromptTooLong Permanent "prompt_too_long" "The prompt is longer than the model can take.";
    /// When the provider finds the request itself wrong.
    BadRequest Permanent "bad_request" "The provider rejects the request as it stands.";
    /// When the credentials are missing or wrong.
    Unauthorized Permanent "unauthorized" "The credentials are missing, wrong or expired.";
    /// When the credentials are good but do not allow this.
    Forbidden Permanent "forbidden" "The credentials do not allow this request.";
    /// When the account is suspended, locked or lacks an agreement.
    AccountBlocked Permanent "account_blocked" "The account is blocked, or a step of its set-up is missing.";
    /// When the provider does not serve the caller's place.
    PlaceNotServed Permanent "place_not_served" "The provider does not serve the place the request came from.";
    /// When the model or the address does not exist.
    NotFound Permanent "not_found" "The model or the address does not exist.";
    /// When a policy or filter refused the prompt or the answer.
    ContentBlocked Permanent "content_blocked" "A content policy refused the prompt or the answer.";
    /// When the answer is a broken function call and holds nothing else.
    BrokenToolCall Permanent "broken_tool_call" "The model's answer is a broken tool call and nothing else.";
    /// When the server cannot do this at all.
    NotSupported Permanent "not_supported" "The provider does not support this request.";
    /// When the server in front does not trust the certificate of the one behind it.
    OriginCertificate Permanent "origin_certificate" "The certificate of a server behind the one that answered is not valid.";
    /// When the answer points elsewhere and was not followed.
    Redirected Permanent "redirected" "The address moved, and the redirect was not followed.";
    /// When another 4xx says the request is at fault and nothing more is known.
    ClientError Permanent "client_error" "The provider rejects the request.";
    /// When the status is outside the caller's own table of statuses to retry.
    StatusNotListed Permanent "status_not_listed" "The status is not among those the caller wants retried.";
    // ---- the transport ------------------------------------------------------------------------
    /// When no connection could be made: DNS, refused, unreachable.
    ConnectFailed Call "connect_failed" "No connection could be made.";
    /// When connecting took longer than its timeout.
    ConnectTimeout Call "connect_timeout" "Connecting took longer than the connect timeout.";
    /// When the request was not written within the write timeout.
    WriteTimeout Call "write_timeout" "The request could not be written within the write timeout.";
    /// When no connection of a client's own pool became free in time; raised by other clients than ours.
    PoolTimeout Call "pool_timeout" "No connection of the pool became free in time.";
    /// When no byte came within the read timeout, though the request was sent.
    ReadTimeout Call "read_timeout" "No answer came within the read timeout; the model may still be working.";
    /// When the whole attempt took longer than the attempt timeout.
    AttemptTimeout Call "attempt_timeout" "The attempt took longer than the attempt timeout.";
    /// When the connection broke before or while the answer came.
    ConnectionLost Call "connection_lost" "The connection broke before the answer was complete.";
    /// When the server's certificate is not trusted.
    CertificateRejected Permanent "certificate_rejected" "The server's certificate is not trusted.";
    /// When TLS could not be agreed on for another reason.
    TlsFailed Call "tls_failed" "No secure connection could be agreed on.";
    /// When the proxy asked for credentials, or what it said makes no sense.
    ProxyRefused Permanent "proxy_refused" "The proxy refused the connection or asks for credentials.";
    /// When the proxy answered and opened no tunnel: it cannot reach the server at the moment, or will not.
    ProxyFailed Call "proxy_failed" "The proxy opened no connection to the server.";
    /// When what came back is not HTTP.
    NotHttp Call "not_http" "What came back is not HTTP.";
    /// When the body's compression is broken.
    BodyCorrupt Call "body_corrupt" "The answer's compression is broken.";
    // ---- a 2xx that is no answer --------------------------------------------------------------
    /// When the body ends in the middle.
    Truncated Call "truncated" "The answer ends in the middle.";
    /// When a 2xx carries no body at all.
    EmptyBody Call "empty_body" "The answer is empty.";
    /// When the status itself says that there is no body (204, 205): asking again would only be billed again.
    NoContent Permanent "no_content" "The server did what was asked and says that there is no answer.";
    /// When a web page came instead of an answer.
    HtmlPage Permanent "html_page" "A web page came instead of an answer.";
    /// When the body is neither JSON nor cut short.
    NotJson Permanent "not_json" "The answer is not JSON.";
    /// When the body is larger than `max_response_bytes`.
    TooLargeAnswer Permanent "too_large_answer" "The answer is larger than max_response_bytes.";
    // ---- a wrapped function -------------------------------------------------------------------
    /// When it raised an exception that nothing is known of.
    FunctionFailed Call "function_failed" "The function failed.";
    /// When a time limit ran out and nobody said which part of the work it was for.
    TimedOut Call "timed_out" "The work took longer than the time it was given.";
    /// When an answer came and does not have the form or the content that was asked for.
    ValidationFailed Validation "validation_failed" "An answer came, but not in the form that was asked for.";
    /// When a circuit breaker lets nothing through for a while.
    CircuitOpen Call "circuit_open" "The circuit breaker is open, so nothing was sent.";
    /// When a database could not do its work, whatever the statement.
    DatabaseFailed Call "database_failed" "The database could not do its work.";
    /// When a database finds the statement, its data or the caller's rights wrong.
    DatabaseRefused Permanent "database_refused" "The database rejects the statement or its data.";
    /// When the operating system could not do something that it may do later.
    SystemFailed Call "system_failed" "The operating system could not do what was asked.";
    /// When a file or path is missing, in the way or not allowed.
    SystemRefused Permanent "system_refused" "A file or path is missing, in the way, or may not be used.";
    /// When the code is at fault: a wrong type, name or argument.
    ProgrammingError Permanent "programming_error" "The code itself is at fault, so the same call fails again.";
    /// When the caller's validation says that no other answer would do.
    AnswerRejected Permanent "answer_rejected" "The validation says that another answer would not do either.";
    /// When the caller's own rule judged it.
    ToldByCaller Call "told_by_caller" "The caller's own rule judges it so.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_a_name_and_a_sentence_of_its_own() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        let sentences: HashSet<_> = Reason::ALL.iter().map(|reason| reason.sentence()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert_eq!(sentences.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let name = reason.name();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(reason.sentence().ends_with('.') && !reason.sentence().contains('\n'), "{name}");
        }
    }

    #[test]
    fn only_certificates_proxies_and_huge_answers_are_permanent_transport_faults() {
        for reason in [Reason::CertificateRejected, Reason::ProxyRefused, Reason::TooLargeAnswer] {
            assert!(!Failure::transport(reason, Sent::No).retryable);
        }
        for reason in [
            Reason::ConnectFailed,
            Reason::TlsFailed,
            Reason::NotHttp,
            Reason::Truncated,
            Reason::ReadTimeout,
        ] {
            let failure = Failure::transport(reason, Sent::Maybe);
            assert!(failure.retryable);
            assert_eq!(failure.kind, Kind::Call);
        }
    }
}
