//! A failure inside a 2xx, and the answer it would have been with a status of its own.
//!
//! For fronts that hand answers on to somebody else's client: that one raises its errors by status, so an error that
//! came under a 200 is shown to it under the status that fits. An outcome that is no error object (a blocked prompt) is
//! shown as it came, because such clients have fields for it.

use serde_json::Value;

use super::facts::Facts;
use super::inside::{self, Found};
use super::text::{self, Shape};
use super::{Answer, Dialect, StatusSet, content_type, emptiness, first_json, good, judge, outcome};
use crate::failure::{Failure, Kind, Reason};

/// A failure found inside a 2xx.
#[derive(Debug, Clone, PartialEq)]
pub struct Hidden {
    /// The judgement.
    pub failure: Failure,
    /// What to show of it; `None` for the answer as it came.
    pub shown: Option<Shown>,
}

/// An error as an answer of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The status the error names, or the one that fits.
    pub status: u16,
    /// Its JSON.
    pub body: Vec<u8>,
}

/// Looks into the body of a 2xx that says it is JSON. `None` when it is a good answer, or none that is ours to judge.
pub fn in_body(answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Option<Hidden> {
    if good::surely_good(answer.status, None, answer.body) {
        return None;
    }
    let text = text::decode(answer.body);
    let broken = |reason| {
        let failure = outcome(answer, reason, None);
        let shown = failure.retryable.then(|| Shown { status: 502, body: answer.body.to_vec() });
        Hidden { failure, shown }
    };
    match text::shape(&text, &content_type(answer)) {
        Shape::Empty => Some(broken(emptiness(answer.status))),
        Shape::CutShort => Some(broken(Reason::Truncated)),
        Shape::Json => {
            let value = first_json(text.trim_start_matches('\u{feff}').trim())?;
            in_value(answer, &value, statuses)
        }
        Shape::Html | Shape::JsonLines | Shape::Events | Shape::Other => None,
    }
}

/// Looks into one JSON value of a 2xx: its body, or an event of a stream.
pub fn in_value(answer: &Answer<'_>, value: &Value, statuses: Option<&StatusSet>) -> Option<Hidden> {
    match inside::look(value)? {
        Found::Error(error) => {
            let facts = Facts::of_value(error, answer.headers, answer.now);
            let named = facts.status.filter(|status| (400..600).contains(status));
            let failure = judge(answer, facts, statuses);
            let status = named.unwrap_or_else(|| usual_status(&failure));
            Some(Hidden { shown: Some(Shown { status, body: enveloped(value) }), failure })
        }
        Found::Outcome(reason, word) => {
            let failure = outcome(answer, reason, Some(word).filter(|word| !word.is_empty()));
            let shown =
                failure.retryable.then(|| Shown { status: 502, body: value.to_string().into_bytes() });
            Some(Hidden { failure, shown })
        }
    }
}

/// The error where clients look for it: under `error`.
fn enveloped(value: &Value) -> Vec<u8> {
    let object = |value: &Value, key: &str| value.get(key).filter(|found| !found.is_null()).cloned();
    let within = value.get("response").and_then(|response| object(response, "error"));
    let within = within.or_else(|| value.get("delta").and_then(|delta| object(delta, "error")));
    let flat = value.get("type").and_then(Value::as_str) == Some("error") && value.get("message").is_some();
    match (object(value, "error"), within) {
        (None, Some(error)) => serde_json::json!({ "error": error }).to_string().into_bytes(),
        (None, None) if flat => serde_json::json!({ "error": value }).to_string().into_bytes(),
        _ => value.to_string().into_bytes(),
    }
}

/// The status a provider sends such an error with.
fn usual_status(failure: &Failure) -> u16 {
    match failure.reason {
        Reason::QuotaSpent | Reason::WaitOfDays | Reason::Billing | Reason::ZeroLimit => 429,
        Reason::Overloaded if failure.dialect == Dialect::Anthropic => 529,
        Reason::Overloaded | Reason::ModelLoading => 503,
        Reason::ServerTimeout => 504,
        Reason::UpstreamFailed => 502,
        Reason::Conflict => 409,
        Reason::TooEarly => 425,
        Reason::RequestTooLarge => 413,
        Reason::Unauthorized => 401,
        Reason::Forbidden | Reason::AccountBlocked | Reason::PlaceNotServed => 403,
        Reason::NotFound => 404,
        Reason::NotSupported => 501,
        _ => match failure.kind {
            Kind::RateLimited => 429,
            Kind::Permanent => 400,
            Kind::Call | Kind::Validation => 500,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str) -> Option<(bool, Option<(u16, Value)>)> {
        let answer = Answer {
            status: 200,
            headers: &[("content-type", b"application/json")],
            body: body.as_bytes(),
            url: None,
            now: None,
            dialect: None,
        };
        let hidden = in_body(&answer, None)?;
        let shown = hidden
            .shown
            .map(|shown| (shown.status, serde_json::from_slice(&shown.body).unwrap_or(Value::Null)));
        Some((hidden.failure.retryable, shown))
    }

    #[test]
    fn an_error_is_shown_under_the_status_it_names_or_the_one_that_fits() {
        let rows = [
            (r#"{"error": {"code": 502, "message": "x"}}"#, true, 502),
            (r#"{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}}"#, true, 429),
            (r#"{"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}"#, false, 429),
            (
                r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
                true,
                529,
            ),
            (r#"{"error": {"type": "authentication_error", "message": "x"}}"#, false, 401),
        ];
        for (body, retryable, status) in rows {
            let (retried, shown) = shown(body).unwrap();
            assert_eq!((retried, shown.map(|(status, _)| status)), (retryable, Some(status)), "{body}");
        }
    }

    #[test]
    fn the_error_of_a_failed_response_is_shown_where_clients_look_for_it() {
        let body = r#"{"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}"#;
        let (_, shown) = shown(body).unwrap();
        assert_eq!(shown.unwrap().1["error"]["code"], "server_error");
    }

    #[test]
    fn an_outcome_that_waiting_cannot_change_is_left_as_it_came_and_a_good_answer_alone() {
        assert_eq!(shown(r#"{"promptFeedback": {"blockReason": "SAFETY"}}"#), Some((false, None)));
        assert_eq!(shown(r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}"#), None);
        assert_eq!(
            shown(r#"{"choices": [{"mess"#).map(|(retried, shown)| (retried, shown.is_some())),
            Some((true, true))
        );
        assert_eq!(shown("<html></html>"), None);
    }
}
