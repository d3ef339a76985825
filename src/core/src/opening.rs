//! The opening of a stream: the events before the first content, which may be thrown away and asked for again.
//!
//! A provider accepts a stream with a 200 before it knows whether it can answer. Until the first content event
//! nothing has been told to the caller, so an error there, an early end or a long silence is a failed attempt like any
//! other. One small table for each dialect says which events open a stream and which end it; whatever is not in a
//! table is content, so that an event nobody here knows is never held back for long.

use serde_json::{Map, Value};

use crate::classify::hidden::{self, Hidden};
use crate::classify::{Answer, StatusSet};
use crate::failure::Reason;
use crate::sse::{Event, Events, Format};

/// The most that is held back.
pub const MOST_HELD: usize = 64 * 1024;

/// What to do with the bytes of a stream's opening.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// When only opening events came: keep them back.
    Hold,
    /// When content came, or the end in good order: give all of it out, and all that follows.
    Release,
    /// When an error came instead of content.
    Failed(Box<Hidden>),
    /// When the stream ended too early: with nothing at all, or in the middle.
    Ended(Reason),
}

/// What an event is to its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// When it tells of the answer to come.
    Opens,
    /// When it carries a part of the answer, or nobody knows what it carries.
    Content,
    /// When the stream is complete with it.
    Ends,
}

/// Watches the opening of one stream.
#[derive(Debug)]
pub struct Opening {
    events: Events,
    held: usize,
    any: bool,
}

impl Opening {
    /// At the start of a body of this format.
    pub fn new(format: Format) -> Self {
        Self { events: Events::new(format), held: 0, any: false }
    }

    /// Told the next bytes of the body. `answer` is the stream's head; its `body` is not looked at.
    pub fn feed(&mut self, bytes: &[u8], answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Look {
        self.held = self.held.saturating_add(bytes.len());
        for event in self.events.feed(bytes) {
            match self.look(&event, answer, statuses) {
                Look::Hold => {}
                look => return look,
            }
        }
        if self.held > MOST_HELD { Look::Release } else { Look::Hold }
    }

    /// Told that the body is over.
    pub fn end(&mut self, answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Look {
        if let Some(last) = self.events.end() {
            self.any = true;
            if !is_cut(&last.data) {
                match self.look(&last, answer, statuses) {
                    Look::Hold => {}
                    look => return look,
                }
            }
        }
        Look::Ended(if self.any { Reason::Truncated } else { Reason::EmptyBody })
    }

    fn look(&mut self, event: &Event, answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Look {
        self.any = true;
        match look(event, answer, statuses) {
            // What is shown as it came (a blocked prompt) is the answer.
            Look::Failed(hidden) if hidden.shown.is_none() => Look::Release,
            look => look,
        }
    }
}

/// What one event of an opening is: to be held back, given out, or a failure.
pub(crate) fn look(event: &Event, answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Look {
    let value = serde_json::from_str::<Value>(&event.data).ok();
    if let Some(found) = failure_in(event, value.as_ref(), answer, statuses) {
        return Look::Failed(Box::new(found));
    }
    match value.map(|value| role(&event.name, &value)) {
        Some(Role::Opens) => Look::Hold,
        Some(Role::Content | Role::Ends) | None => Look::Release,
    }
}

/// The failure an event tells of; `value` is its data, parsed.
pub(crate) fn failure_in(
    event: &Event,
    value: Option<&Value>,
    answer: &Answer<'_>,
    statuses: Option<&StatusSet>,
) -> Option<Hidden> {
    let answer = Answer { body: event.data.as_bytes(), ..*answer };
    let found = value.and_then(|value| hidden::in_value(&answer, value, statuses));
    if found.is_some() || event.name != "error" {
        return found;
    }
    // An event of that name is one, whatever it looks like.
    let said = value.cloned().unwrap_or_else(|| Value::String(event.data.clone()));
    hidden::in_value(&answer, &serde_json::json!({ "error": said }), statuses)
}

/// Whether the data of the last event, which no blank line ended, was cut off: there is none yet, or half a JSON value.
pub(crate) fn is_cut(data: &str) -> bool {
    if data.is_empty() {
        return true;
    }
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(data);
    data.trim_start().starts_with(['{', '[']) && parsed.is_err_and(|error| error.is_eof())
}

type Names = &'static [(&'static str, Role)];

/// OpenAI's Responses: `type`, and the event's name.
const RESPONSES: Names = &[
    ("response.created", Role::Opens),
    ("response.queued", Role::Opens),
    ("response.in_progress", Role::Opens),
    ("response.output_item.added", Role::Opens),
    ("response.content_part.added", Role::Opens),
    ("response.reasoning_summary_part.added", Role::Opens),
    ("keepalive", Role::Opens),
    ("response.completed", Role::Ends),
    ("response.incomplete", Role::Ends),
    ("response.failed", Role::Ends),
];

/// Anthropic's Messages.
const MESSAGES: Names = &[
    ("message_start", Role::Opens),
    ("content_block_start", Role::Opens),
    ("content_block_delta", Role::Opens),
    ("content_block_stop", Role::Opens),
    ("ping", Role::Opens),
    ("message_stop", Role::Ends),
];

/// Gemini's Interactions: `event_type`.
const INTERACTIONS: Names = &[
    ("interaction.created", Role::Opens),
    ("interaction.status_update", Role::Opens),
    ("step.start", Role::Opens),
    ("interaction.completed", Role::Ends),
];

/// Cohere, version 2 (`type`) and 1 (`event_type`).
const COHERE: Names = &[
    ("message-start", Role::Opens),
    ("content-start", Role::Opens),
    ("stream-start", Role::Opens),
    ("message-end", Role::Ends),
    ("stream-end", Role::Ends),
];

/// What an event is; `name` is the one it was sent with, which may be empty.
pub fn role(name: &str, value: &Value) -> Role {
    let Some(map) = value.as_object() else { return Role::Content };
    let word = ["type", "event_type"].iter().find_map(|key| map.get(*key)?.as_str()).unwrap_or(name);
    let named =
        [RESPONSES, MESSAGES, INTERACTIONS, COHERE].into_iter().flatten().find(|(known, _)| *known == word);
    match named {
        Some((_, Role::Opens)) if carries(map) => Role::Content,
        Some((_, role)) => *role,
        None => chat(map).or_else(|| gemini(map)).or_else(|| ollama(map)).unwrap_or(Role::Content),
    }
}

/// Whether an event that opens something brings a part of it at once, as blocks with results of tools do.
fn carries(map: &Map<String, Value>) -> bool {
    let parts = ["delta", "content_block", "part", "item"].iter().filter_map(|key| map.get(*key));
    parts.into_iter().any(has_content)
}

/// Keys of parts that name them and say nothing.
const LABELS: &[&str] = &[
    "type",
    "id",
    "index",
    "role",
    "status",
    "name",
    "call_id",
    "server_name",
    "caller",
    "object",
    "model",
    "phase",
];

/// Whether there is anything but labels and empty places.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(has_content),
        Value::Object(map) => {
            map.iter().any(|(key, inner)| !LABELS.contains(&key.as_str()) && has_content(inner))
        }
    }
}

/// Chat completions, and completions: a choice opens with its role.
fn chat(map: &Map<String, Value>) -> Option<Role> {
    let choices = map.get("choices")?.as_array()?;
    let is_content = |choice: &Value| {
        choice.get("finish_reason").is_some_and(|end| !end.is_null())
            || choice.get("text").is_some_and(has_content)
            || choice.get("delta").and_then(Value::as_object).is_some_and(|delta| {
                // A tool's name is a part of its call, so it is no mere label here.
                delta.contains_key("tool_calls")
                    && delta.get("tool_calls").is_some_and(|calls| !calls.is_null())
                    || delta.iter().any(|(key, part)| key != "role" && has_content(part))
            })
    };
    Some(if choices.iter().any(is_content) { Role::Content } else { Role::Opens })
}

/// Gemini's generateContent: a chunk without parts and without an end.
fn gemini(map: &Map<String, Value>) -> Option<Role> {
    if map.contains_key("promptFeedback") {
        return None;
    }
    let Some(candidates) = map.get("candidates").and_then(Value::as_array) else {
        return map.contains_key("usageMetadata").then_some(Role::Opens);
    };
    let is_content = |candidate: &Value| {
        candidate.get("finishReason").is_some()
            || candidate.get("content").and_then(|content| content.get("parts")).is_some_and(has_content)
    };
    Some(if candidates.iter().any(is_content) { Role::Content } else { Role::Opens })
}

/// Ollama's lines: `done` is false and nothing was said.
fn ollama(map: &Map<String, Value>) -> Option<Role> {
    let done = map.get("done")?.as_bool()?;
    let said = ["message", "response", "thinking"].iter().any(|key| map.get(*key).is_some_and(has_content));
    Some(match (done, said) {
        (true, _) => Role::Ends,
        (false, true) => Role::Content,
        (false, false) => Role::Opens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Answer<'static> = Answer {
        status: 200,
        headers: &[("content-type", b"text/event-stream")],
        body: b"",
        url: None,
        now: None,
        dialect: None,
    };

    fn watch(format: Format, events: &[&str]) -> Look {
        let mut opening = Opening::new(format);
        for event in events {
            match opening.feed(event.as_bytes(), &HEAD, None) {
                Look::Hold => {}
                look => return look,
            }
        }
        opening.end(&HEAD, None)
    }

    fn held(event: &str) -> bool {
        Opening::new(Format::Events).feed(format!("data: {event}\n\n").as_bytes(), &HEAD, None) == Look::Hold
    }

    #[test]
    fn what_opens_a_stream_is_held_back() {
        for event in [
            r#"{"type": "response.created", "response": {"id": "r", "status": "in_progress", "error": null, "output": []}}"#,
            r#"{"type": "response.output_item.added", "item": {"id": "m", "type": "message", "status": "in_progress", "role": "assistant", "content": []}}"#,
            r#"{"type": "response.content_part.added", "part": {"type": "output_text", "text": "", "annotations": []}}"#,
            r#"{"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 5}}}"#,
            r#"{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}"#,
            r#"{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}"#,
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}}"#,
            r#"{"type": "ping"}"#,
            r#"{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "refusal": null}, "finish_reason": null}]}"#,
            r#"{"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}"#,
            r#"{"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "index": 0}], "modelVersion": "m"}"#,
            r#"{"usageMetadata": {"promptTokenCount": 5}}"#,
            r#"{"event_type": "interaction.created", "interaction": {"id": "i", "status": "in_progress"}}"#,
            r#"{"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}"#,
        ] {
            assert!(held(event), "{event}");
        }
    }

    #[test]
    fn content_of_every_kind_and_what_nobody_knows_is_given_out() {
        for event in [
            r#"{"type": "response.output_text.delta", "delta": "Hi"}"#,
            r#"{"type": "response.function_call_arguments.delta", "delta": "{"}"#,
            r#"{"type": "response.refusal.delta", "delta": "No"}"#,
            r#"{"type": "response.audio.delta", "delta": "AAAA"}"#,
            r#"{"type": "response.completed", "response": {"status": "completed", "error": null}}"#,
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}"#,
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}"#,
            r#"{"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "x"}}"#,
            r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}}"#,
            r#"{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#,
            r#"{"choices": [{"index": 0, "text": "Hi"}]}"#,
            r#"{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}"#,
            r#"{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}"#,
            r#"{"event_type": "step.delta", "delta": {"text": "Hi"}}"#,
            r#"{"type": "something.new"}"#,
            r#"{"token": {"id": 1, "text": "Hi"}}"#,
            "[DONE]",
            "plain text",
        ] {
            assert!(!held(event), "{event}");
        }
    }

    #[test]
    fn an_error_before_the_first_content_is_a_failure_with_the_status_it_would_have_had() {
        let rows: &[(&[&str], bool, u16)] = &[
            (
                &[
                    "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {}}\n\n",
                    "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n",
                ],
                true,
                529,
            ),
            (
                &[
                    "data: {\"error\": {\"code\": 429, \"message\": \"Resource exhausted.\", \"status\": \"RESOURCE_EXHAUSTED\"}}\n\n",
                ],
                true,
                429,
            ),
            (
                &["{\n\"error\": {\"code\": 503, \"message\": \"x\", \"status\": \"UNAVAILABLE\"}\n}\n"],
                true,
                503,
            ),
            (
                &[
                    ": OPENROUTER PROCESSING\n\n",
                    "data: {\"choices\": [], \"error\": {\"code\": 502, \"message\": \"x\"}}\n\n",
                ],
                true,
                502,
            ),
            (
                &[
                    "data: {\"type\": \"response.failed\", \"response\": {\"status\": \"failed\", \"error\": {\"code\": \"server_is_overloaded\", \"message\": \"x\"}}}\n\n",
                ],
                true,
                503,
            ),
            (
                &[
                    "data: {\"type\": \"error\", \"error\": {\"type\": \"insufficient_quota\", \"code\": \"insufficient_quota\"}}\n\n",
                ],
                false,
                429,
            ),
        ];
        for (events, retryable, status) in rows {
            let Look::Failed(hidden) = watch(Format::Events, events) else { panic!("{events:?}") };
            let shown = hidden.shown.map(|shown| shown.status);
            assert_eq!((hidden.failure.retryable, shown), (*retryable, Some(*status)), "{events:?}");
        }
    }

    #[test]
    fn an_early_end_is_told_from_an_empty_stream() {
        assert_eq!(watch(Format::Events, &[]), Look::Ended(Reason::EmptyBody));
        assert_eq!(watch(Format::Events, &[": ping\n\n"]), Look::Ended(Reason::EmptyBody));
        assert_eq!(
            watch(Format::Events, &["data: {\"type\": \"ping\"}\n\n"]),
            Look::Ended(Reason::Truncated)
        );
        for cut in
            ["data: {\"choices\": [{\"delta\": {\"content\": \"H", "data:", "event: message_start\ndata: "]
        {
            assert_eq!(watch(Format::Events, &[cut]), Look::Ended(Reason::Truncated), "{cut}");
        }
    }

    #[test]
    fn an_event_named_error_is_one_whatever_it_looks_like() {
        for data in [r#"{"message": "boom"}"#, "boom", r#"{"detail": {"code": 500}}"#] {
            let event = format!("event: error\ndata: {data}\n\n");
            assert!(matches!(watch(Format::Events, &[&event]), Look::Failed(_)), "{data}");
        }
    }

    #[test]
    fn lines_of_json_have_an_opening_too() {
        let empty = "{\"model\": \"m\", \"message\": {\"role\": \"assistant\", \"content\": \"\"}, \"done\": false}\n";
        let said = "{\"model\": \"m\", \"message\": {\"role\": \"assistant\", \"content\": \"Hi\"}, \"done\": false}\n";
        assert_eq!(watch(Format::JsonLines, &[empty, said]), Look::Release);
        assert!(matches!(
            watch(Format::JsonLines, &[empty, "{\"error\": \"model runner stopped\"}\n"]),
            Look::Failed(_)
        ));
        assert_eq!(watch(Format::JsonLines, &[empty, "{\"done\": true}\n"]), Look::Release);
    }

    #[test]
    fn no_more_than_64_kib_are_held_back() {
        let mut opening = Opening::new(Format::Events);
        let ping = "data: {\"type\": \"ping\"}\n\n".repeat(100);
        let mut fed = 0;
        while opening.feed(ping.as_bytes(), &HEAD, None) == Look::Hold {
            fed += ping.len();
            assert!(fed <= MOST_HELD);
        }
        assert!(fed + ping.len() > MOST_HELD);
    }
}
