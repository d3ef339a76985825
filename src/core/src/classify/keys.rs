//! Which keys of an error body hold what. A key that is in no list is not looked at.

/// Keys whose value is a machine-readable word, with the rank as the provider's code (smaller is better).
pub(super) const WORD_KEYS: &[(&str, u8)] = &[
    ("code", 1),
    ("error_code", 0),
    ("errorCode", 1),
    ("errorcode", 1),
    ("__type", 1),
    ("grpc_status", 2),
    ("status", 2),
    ("error_type", 2),
    ("type", 3),
    ("reason", 4),
    ("limit_source", 4),
    ("kind", 5),
    ("errorType", 3),
];

/// Keys whose value is a number standing for an HTTP status.
pub(super) const STATUS_KEYS: &[&str] =
    &["status_code", "statusCode", "http_status", "http_status_code", "originalStatusCode", "http_code"];

/// Keys whose string value is for people to read.
pub(super) const TEXT_KEYS: &[&str] = &[
    "message",
    "msg",
    "detail",
    "details",
    "error",
    "errors",
    "raw",
    "faultstring",
    "errorMessage",
    "error_message",
    "error_description",
    "error_msg",
    "title",
    "originalMessage",
    "description",
    "response",
    "body",
    "Message",
];

/// Keys whose object or array value holds more facts.
pub(super) const INNER_KEYS: &[&str] = &[
    "error",
    "errors",
    "detail",
    "details",
    "metadata",
    "response",
    "innererror",
    "inner_error",
    "fault",
    "violations",
    "result",
    "delta",
    "x_groq",
    "body",
    "cause",
    "provider_error",
    "upstream_error",
    "original_error",
    "last_error",
    "raw",
    "message",
    "base_resp",
];

/// Keys that name the quota that was hit.
pub(super) const LIMIT_KEYS: &[&str] = &[
    "quotaId",
    "quota_limit",
    "quotaMetric",
    "quota_metric",
    "limit_name",
    "limit_type",
    "rate_limit_type",
    "window",
];
