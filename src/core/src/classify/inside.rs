//! What a 2xx may hide: an error object, a failed response, a blocked prompt, an answer that was filtered away.
//!
//! Deliberately narrow: a whole answer that the caller can use is never a failure, whatever its text says, and
//! an answer that stopped early but holds content is the caller's to judge.

use serde_json::{Map, Value};

use super::facts::first_json;
use crate::failure::Reason;

/// What was found in a 2xx.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// When an error object stands in it; the part to read facts from.
    Error(&'a Value),
    /// When the outcome itself is the failure; the provider's word for it.
    Outcome(Reason, String),
}

/// Looks for a failure in the JSON body of a 2xx.
pub(super) fn look(value: &Value) -> Option<Found<'_>> {
    match value {
        Value::Array(items) => {
            items.iter().find_map(|item| item.as_object().and_then(|map| object(item, map)))
        }
        Value::Object(map) => object(value, map),
        _ => None,
    }
}

/// The first failing event among server-sent events or JSON lines.
pub(super) fn failing_line(text: &str) -> Option<Value> {
    text.lines().find_map(|line| {
        let line = line.trim();
        let value = first_json(line.strip_prefix("data:").map_or(line, str::trim_start))?;
        look(&value).is_some().then_some(value)
    })
}

fn object<'a>(value: &'a Value, map: &'a Map<String, Value>) -> Option<Found<'a>> {
    if is_error(map) {
        return Some(Found::Error(value));
    }
    let inner = |key: &str| map.get(key).filter(|inner| inner.as_object().is_some_and(is_error));
    if let Some(found) = inner("delta").or_else(|| inner("x_groq")).or_else(|| inner("response")) {
        return Some(Found::Error(found));
    }
    gemini(map).or_else(|| choices(map)).or_else(|| single(map))
}

/// Whether an object says that it is an error.
fn is_error(map: &Map<String, Value>) -> bool {
    let word = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let denied = |key: &str| map.get(key).is_some_and(denies) && has_result(map);
    // A job's record may tell of a failure long past; the answer that brings it is a good one.
    if ["job", "batch", "run", "file", "vector_store"].iter().any(|kind| word("object").contains(kind)) {
        return false;
    }
    map.get("error").is_some_and(says_something) && !denied("error")
        || word("type") == "error"
        || word("object") == "error"
        || word("event_type") == "error"
        || matches!(word("type"), "response.failed" | "response.error")
        || word("status") == "budget_exceeded"
        || (word("status") == "failed" && matches!(word("object"), "" | "response" | "interaction"))
        || (map.get("success") == Some(&Value::Bool(false)) && map.get("errors").is_some_and(says_something))
        || (!word("error_code").is_empty() && map.contains_key("message") && !denied("error_code"))
        || (map.contains_key("fault") && map.len() == 1)
        || (!word("code").is_empty() && !word("message").is_empty() && !has_answer(map) && !denied("code"))
        || (map.len() == 1 && map.iter().all(|(key, inner)| key.ends_with("Exception") && inner.is_object()))
}

fn has_answer(map: &Map<String, Value>) -> bool {
    ["choices", "output", "candidates", "content", "data", "result", "id", "text"]
        .iter()
        .any(|key| map.get(*key).is_some_and(says_something))
}

/// Not null, false, zero or empty: `"error": null` stands in good answers.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// What stands in the place of an error to say that there is none.
const NO_ERROR: &[&str] = &[
    "",
    "0",
    "200",
    "false",
    "n/a",
    "nil",
    "no",
    "no error",
    "no errors",
    "none",
    "null",
    "ok",
    "okay",
    "success",
    "undefined",
];

/// Whether the value of an `error` says that there was none: `"none"`, `{"code": 0, "message": "ok"}`.
fn denies(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => matches!(number.as_f64(), Some(0.0 | 200.0)),
        Value::String(text) => {
            let text = text.trim().trim_end_matches(['.', '!']);
            NO_ERROR.iter().any(|word| word.eq_ignore_ascii_case(text))
        }
        Value::Array(items) => items.iter().all(denies),
        Value::Object(map) => map.values().all(denies),
    }
}

/// Keys that go with an error and are no result.
const OF_ERRORS: &[&str] = &[
    "error",
    "errors",
    "error_code",
    "error_message",
    "code",
    "message",
    "msg",
    "detail",
    "details",
    "type",
    "status",
    "status_code",
    "success",
    "object",
    "id",
    "request_id",
    "requestId",
    "jsonrpc",
];

/// Whether something stands beside an error and what usually goes with one; even 0 and false are results.
fn has_result(map: &Map<String, Value>) -> bool {
    map.iter().any(|(key, value)| !OF_ERRORS.contains(&key.as_str()) && !value.is_null())
}

/// Gemini's `finishReason`s that come instead of an answer.
const GEMINI_ENDS: &[(&str, Reason)] = &[
    ("MALFORMED_FUNCTION_CALL", Reason::BrokenToolCall),
    ("UNEXPECTED_TOOL_CALL", Reason::BrokenToolCall),
    ("TOO_MANY_TOOL_CALLS", Reason::BrokenToolCall),
    ("SAFETY", Reason::ContentBlocked),
    ("RECITATION", Reason::ContentBlocked),
    ("LANGUAGE", Reason::ContentBlocked),
    ("BLOCKLIST", Reason::ContentBlocked),
    ("PROHIBITED_CONTENT", Reason::ContentBlocked),
    ("SPII", Reason::ContentBlocked),
    ("IMAGE_SAFETY", Reason::ContentBlocked),
    ("IMAGE_PROHIBITED_CONTENT", Reason::ContentBlocked),
    ("IMAGE_RECITATION", Reason::ContentBlocked),
];

fn gemini(map: &Map<String, Value>) -> Option<Found<'_>> {
    let candidates = map.get("candidates").and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(candidates) = candidates else {
        let blocked = map.get("promptFeedback")?.get("blockReason")?.as_str()?;
        return Some(Found::Outcome(Reason::ContentBlocked, blocked.to_owned()));
    };
    let mut ends = candidates.iter().map(|candidate| {
        let has_parts =
            candidate.get("content").and_then(|content| content.get("parts")).is_some_and(says_something);
        let word = candidate.get("finishReason").and_then(Value::as_str).unwrap_or_default();
        GEMINI_ENDS.iter().find(|(known, _)| *known == word && !has_parts)
    });
    let (word, reason) = ends.next()??;
    ends.all(|end| end.is_some()).then(|| Found::Outcome(*reason, (*word).to_owned()))
}

/// Chat completions: every choice ended without content and for a reason that is a failure.
fn choices(map: &Map<String, Value>) -> Option<Found<'_>> {
    let choices = map.get("choices").and_then(Value::as_array).filter(|list| !list.is_empty())?;
    let mut first = None;
    for choice in choices {
        let message = choice.get("message").or_else(|| choice.get("delta"));
        let field = |key: &str| message.and_then(|message| message.get(key)).is_some_and(says_something);
        let has_content = field("content")
            || field("tool_calls")
            || field("refusal")
            || choice.get("text").is_some_and(says_something);
        let end = |key: &str| choice.get(key).and_then(Value::as_str).unwrap_or_default();
        let found = if let Some(error) =
            choice.get("error").filter(|error| says_something(error) && !(has_content && denies(error)))
        {
            Found::Error(error)
        } else if has_content {
            return None;
        } else if end("finish_reason") == "content_filter" {
            Found::Outcome(Reason::ContentBlocked, "content_filter".into())
        } else if matches!(end("native_finish_reason"), "network_error" | "error")
            || end("finish_reason") == "error"
        {
            Found::Outcome(Reason::UpstreamFailed, end("native_finish_reason").to_owned())
        } else {
            return None;
        };
        first = first.or(Some(found));
    }
    first
}

/// Answers of one message: Anthropic, OpenAI Responses, Cohere.
fn single(map: &Map<String, Value>) -> Option<Found<'_>> {
    let word = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let empty = |key: &str| !map.get(key).is_some_and(says_something);
    let outcome = |reason, word: &str| Some(Found::Outcome(reason, word.to_owned()));
    let incomplete =
        map.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Value::as_str);
    let cohere_text =
        map.get("response").and_then(|response| response.get("text")).is_some_and(says_something);
    // Cohere's version 2 says it in the `delta` of a stream's last event.
    let end = map.get("finish_reason").or_else(|| map.get("delta")?.get("finish_reason"));
    match end.and_then(Value::as_str).unwrap_or_default() {
        "ERROR" if !cohere_text => return outcome(Reason::ServerError, "ERROR"),
        "ERROR_TOXIC" => return outcome(Reason::ContentBlocked, "ERROR_TOXIC"),
        "ERROR_LIMIT" if !cohere_text => return outcome(Reason::PromptTooLong, "ERROR_LIMIT"),
        _ => {}
    }
    if word("stop_reason") == "refusal" && empty("content") {
        outcome(Reason::ContentBlocked, "refusal")
    } else if incomplete == Some("content_filter") && empty("output") {
        outcome(Reason::ContentBlocked, "content_filter")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(body: &str) -> bool {
        first_json(body).is_some_and(|value| look(&value).is_some())
    }

    #[test]
    fn good_answers_are_left_alone() {
        for body in [
            r#"{"id": "r", "object": "response", "status": "completed", "error": null, "output": [{"type": "message"}]}"#,
            r#"{"choices": [{"finish_reason": "stop", "message": {"content": "An \"error\" occurred: {\"error\": 1}", "refusal": null}}]}"#,
            r#"{"choices": [{"finish_reason": "content_filter", "message": {"content": "half an answer"}}]}"#,
            r#"{"candidates": [{"finishReason": "SAFETY", "content": {"parts": [{"text": "half"}]}}]}"#,
            r#"{"candidates": [{"content": {}, "finishReason": "STOP"}]}"#,
            r#"{"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}"#,
            r#"{"object": "batch", "status": "failed", "errors": {"data": [{"code": "x"}]}}"#,
            r#"{"object": "fine_tuning.job", "status": "failed", "error": {"code": "x"}}"#,
            r#"{"success": true, "errors": [], "result": {"response": "hi"}}"#,
            r#"{"code": "", "message": "", "output": {"text": "hi"}}"#,
            r#"[]"#,
            r#"{}"#,
            r#"{"error": ""}"#,
            r#"{"error": "none", "result": 5}"#,
            r#"{"error": "None.", "result": false}"#,
            r#"{"error": " null ", "text": ""}"#,
            r#"{"error": "OK", "embeddings": [[0.5]]}"#,
            r#"{"error": "success", "choices": [{"message": {"content": "hi"}}]}"#,
            r#"{"error": {"code": 0, "message": "Success"}, "result": 5}"#,
            r#"{"error": {"code": null}, "result": 5}"#,
            r#"{"error": ["none"], "result": 5}"#,
            r#"{"code": "200", "message": "success", "embeddings": [[0.5]]}"#,
            r#"{"error_code": "0", "message": "ok", "embeddings": [[0.5]]}"#,
            r#"{"choices": [{"error": "none", "message": {"content": "hi"}}]}"#,
        ] {
            assert!(!fails(body), "{body}");
        }
    }

    #[test]
    fn every_hidden_failure_is_found() {
        for body in [
            r#"{"error": "some text"}"#,
            r#"{"error": "none"}"#,
            r#"{"error": "none", "message": "no worker left", "result": null}"#,
            r#"{"error": "no capacity", "result": 5}"#,
            r#"{"error": true, "result": 5}"#,
            r#"{"error": {"code": 0, "message": "overloaded"}, "result": 5}"#,
            r#"{"error": {"code": 500, "message": ""}, "result": 5}"#,
            r#"{"code": "500", "message": "ok", "embeddings": []}"#,
            r#"{"choices": [{"error": "none", "message": {"content": ""}, "finish_reason": "error"}]}"#,
            r#"{"type": "error", "code": "server_error", "message": "x", "sequence_number": 1}"#,
            r#"{"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}"#,
            r#"{"id": "r", "status": "failed", "error": null}"#,
            r#"{"id": "int_1", "status": "budget_exceeded"}"#,
            r#"[{"error": {"code": 503}}]"#,
            r#"[{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}, {"error": {"code": 503}}]"#,
            r#"{"choices": [{"error": {"code": 502}, "finish_reason": "error", "message": {"content": "x"}}]}"#,
            r#"{"choices": [{"finish_reason": "stop", "native_finish_reason": "network_error", "delta": {"content": ""}}]}"#,
            r#"{"type": "message-end", "delta": {"error": "generation failed", "finish_reason": "ERROR"}}"#,
            r#"{"choices": [{"delta": {}}], "x_groq": {"error": "stream stopped early"}}"#,
            r#"{"promptFeedback": {"blockReason": "OTHER"}}"#,
            r#"{"throttlingException": {"message": "x"}}"#,
            r#"{"success": false, "errors": [{"code": 3040}], "result": null}"#,
            r#"{"code": "Throttling", "message": "x", "request_id": "r"}"#,
            r#"{"type": "message", "content": [], "stop_reason": "refusal"}"#,
            r#"{"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]}"#,
            r#"{"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}"#,
            r#"{"candidates": [{"finishReason": "SAFETY"}]}"#,
            r#"{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}}]}"#,
            r#"{"is_finished": true, "finish_reason": "ERROR", "response": {"text": ""}}"#,
            r#"{"type": "message-end", "delta": {"finish_reason": "ERROR"}}"#,
            r#"{"type": "message-end", "delta": {"finish_reason": "ERROR_TOXIC"}}"#,
            r#"{"finish_reason": "ERROR_TOXIC"}"#,
            r#"{"error_code": "TEMPORARILY_UNAVAILABLE", "message": "x"}"#,
            r#"{"fault": {"faultstring": "x"}}"#,
            r#"{"object": "error", "message": "x"}"#,
            r#"{"event_type": "error"}"#,
            r#"{"type": "response.failed"}"#,
            r#"{"type": "response.error"}"#,
        ] {
            assert!(fails(body), "{body}");
            assert!(!super::super::surely_good(200, None, body.as_bytes()), "the short cut misses {body}");
        }
    }
}
