//! Streams, read: real failures from `tests/cases/streams.jsonl` (or the file named by `STEADYCALL_STREAM_CASES`), the
//! ends of every protocol, and laws that hold wherever the bytes are split.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use steadycall_core::classify::Answer;
use steadycall_core::failure::{Failure, Reason};
use steadycall_core::opening::MOST_HELD;
use steadycall_core::reading::{Head, Item, Reading, Status};
use steadycall_core::usage::{Usage, of_body};

const EVENTS: &str = "text/event-stream";

fn head<'a>(headers: &'a [(&'a str, &'a [u8])]) -> Head<'a> {
    let answer = Answer { status: 200, headers, body: b"", url: None, now: None, dialect: None };
    Head { answer, statuses: None }
}

/// A stream read to its end or its failure.
struct Read {
    items: Vec<Item>,
    status: Status,
    reading: Reading,
}

impl Read {
    fn texts(&self) -> String {
        let data = |item: &Item| item.event.data.clone();
        match self.reading.knows_text() {
            true => self.items.iter().filter_map(|item| item.text.as_deref()).collect(),
            false => self.items.iter().map(data).collect(),
        }
    }

    fn failure(&self) -> &Failure {
        match &self.status {
            Status::Failed(failure) => failure,
            status => panic!("{status:?}"),
        }
    }
}

fn read_as(content_type: &str, pieces: &[&[u8]], choices: usize) -> Read {
    let headers: [(&str, &[u8]); 1] = [("content-type", content_type.as_bytes())];
    let head = head(&headers);
    let mut reading = Reading::new(choices);
    let mut items = Vec::new();
    for piece in pieces {
        let status = reading.feed(piece, &head, &mut items);
        assert!(reading.has_started() || items.is_empty(), "given out before the first content");
        if matches!(status, Status::Failed(_) | Status::Complete) {
            return Read { items, status, reading };
        }
    }
    let status = reading.end(&head, &mut items);
    Read { items, status, reading }
}

fn read(pieces: &[&str]) -> Read {
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    read_as(EVENTS, &pieces, 1)
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn chat(text: &str) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}], "usage": null})
}

#[test]
fn real_failures_of_streams_are_judged_right() {
    let path = std::env::var_os("STEADYCALL_STREAM_CASES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/streams.jsonl"),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut seen = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let (input, expect) = (&row["input"], &row["expect"]);
        let is_stream = input["headers"]["content-type"].as_str() == Some(EVENTS);
        let pieces: Vec<String> = match &input["stream"] {
            Value::Array(pieces) => pieces.iter().map(|piece| piece.as_str().unwrap().to_owned()).collect(),
            // A row that shows one event alone.
            _ if is_stream => vec![format!("data: {}\n\n", input["body_text"].as_str().unwrap())],
            _ => continue,
        };
        seen += 1;
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let found = read(&pieces);
        let started = found.reading.has_started();
        let failure = found.failure();
        let is_delivered = input["content_delivered"].as_bool().unwrap_or(false);
        assert_eq!(started, is_delivered, "{}", row["id"]);
        assert_eq!(
            Some(failure.retryable && !started),
            expect["retry"].as_bool(),
            "{}: {failure:?}",
            row["id"]
        );
        if let Some(kind) = expect["kind"].as_str() {
            assert_eq!(failure.kind.name(), kind, "{}", row["id"]);
        }
    }
    assert!(seen >= 15, "{seen} rows");
}

#[test]
fn nothing_is_given_out_before_the_first_content_and_everything_after_it() {
    let role = json!({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]});
    let headers: [(&str, &[u8]); 1] = [("content-type", EVENTS.as_bytes())];
    let head = head(&headers);
    let (mut reading, mut items) = (Reading::new(1), Vec::new());
    assert_eq!(reading.feed(sse(&[role]).as_bytes(), &head, &mut items), Status::Opening);
    assert_eq!(reading.feed(b": keep-alive\n\n", &head, &mut items), Status::Opening);
    assert_eq!(items.len(), 0);
    assert_eq!(reading.feed(sse(&[chat("Hi")]).as_bytes(), &head, &mut items), Status::Running);
    assert_eq!(items.len(), 2);
    assert_eq!((reading.text(), reading.id()), ("Hi", Some("c")));
}

#[test]
fn a_preamble_of_more_than_64_kib_is_given_out() {
    let ping = "data: {\"type\": \"ping\"}\n\n".repeat(100);
    let headers: [(&str, &[u8]); 1] = [("content-type", EVENTS.as_bytes())];
    let (mut reading, mut items, mut fed) = (Reading::new(1), Vec::new(), 0);
    while reading.feed(ping.as_bytes(), &head(&headers), &mut items) == Status::Opening {
        fed += ping.len();
        assert!(fed <= MOST_HELD);
    }
    assert_eq!(items.len(), (fed / ping.len() + 1) * 100);
}

#[test]
fn the_mark_of_the_end_is_no_event_and_nothing_after_it_counts() {
    let found =
        read(&["data: {\"choices\": [{\"delta\": {\"content\": \"Hi\"}}]}\n\ndata: [DONE]\n\ndata: x\n\n"]);
    assert_eq!((found.items.len(), found.status), (1, Status::Complete));
}

#[test]
fn an_end_without_the_end_of_the_protocol_is_a_truncation() {
    let delta = json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}});
    for events in [
        vec![chat("Hi")],
        vec![delta],
        vec![json!({"type": "response.output_text.delta", "delta": "Hi"})],
        vec![json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]})],
        vec![json!({"event_type": "step.delta", "delta": {"type": "text", "text": "Hi"}})],
        vec![json!({"type": "content-delta", "delta": {"message": {"content": {"text": "Hi"}}}})],
        vec![json!({"model": "m", "response": "Hi", "done": false})],
        vec![
            chat("Hi"),
            json!({"choices": [{"index": 1, "delta": {"content": "Yo"}, "finish_reason": "stop"}]}),
        ],
    ] {
        let found = read(&[&sse(&events)]);
        assert_eq!(found.failure().reason, Reason::Truncated, "{events:?}");
        assert_eq!((found.reading.text(), found.items.len()), ("Hi", events.len()), "{events:?}");
    }
    assert_eq!(read(&["data: {\"choices\": [{\"delta\": {\"con"]).failure().reason, Reason::Truncated);
    assert_eq!(read(&["data: {\"x\": 1}\n\ndata: {\"x\""]).failure().reason, Reason::Truncated);
    assert_eq!(read(&["data:"]).failure().reason, Reason::Truncated);
    assert_eq!(read(&["event: message_start\ndata: "]).failure().reason, Reason::Truncated);
    assert_eq!(read(&["data: a\n\ndata:\n"]).failure().reason, Reason::Truncated);
    assert_eq!(read(&[": ping\n\n"]).failure().reason, Reason::EmptyBody);
    assert_eq!(read(&["data: [DONE]\n\n"]).failure().reason, Reason::EmptyBody);
    assert_eq!(read(&[]).failure().reason, Reason::EmptyBody);
}

#[test]
fn what_is_cut_behind_the_last_finish_reason_was_no_part_of_the_answer() {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let found = read(&[&sse(&[chat("Hi"), end]), "data: {\"cho"]);
    assert_eq!((found.status, found.items.len()), (Status::Complete, 2));
}

#[test]
fn candidates_that_were_asked_for_are_waited_for() {
    let one =
        json!({"candidates": [{"index": 0, "content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]});
    assert_eq!(read_as(EVENTS, &[sse(std::slice::from_ref(&one)).as_bytes()], 1).status, Status::Complete);
    assert_eq!(read_as(EVENTS, &[sse(&[one]).as_bytes()], 2).failure().reason, Reason::Truncated);
}

#[test]
fn an_end_that_says_the_generation_failed_is_a_failure_and_one_that_was_stopped_is_not() {
    let said = json!({"type": "content-delta", "delta": {"message": {"content": {"text": "Hi"}}}});
    for (end, fails) in [
        (json!({"type": "message-end", "delta": {"finish_reason": "ERROR"}}), true),
        (json!({"event_type": "stream-end", "finish_reason": "ERROR", "response": {"text": "Hi"}}), true),
        (json!({"event_type": "stream-end", "finish_reason": "ERROR", "response": {}}), true),
        (json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}), true),
        (json!({"event_type": "stream-end", "finish_reason": "ERROR_TOXIC"}), false),
        (json!({"event_type": "stream-end", "finish_reason": "ERROR_LIMIT"}), false),
        (json!({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}), false),
    ] {
        let found = read(&[&sse(&[said.clone(), end.clone()])]);
        assert_eq!(matches!(found.status, Status::Failed(_)), fails, "{end}: {:?}", found.status);
        assert_eq!(found.reading.text(), "Hi", "{end}");
    }
}

#[test]
fn text_is_that_of_the_events_that_were_taken() {
    for (events, rest) in
        [(sse(&[chat("Hi "), chat("you")]), "Hi "), ("data: one\n\ndata: two\n\n".to_owned(), "one")]
    {
        let headers: [(&str, &[u8]); 1] = [("content-type", EVENTS.as_bytes())];
        let (mut reading, mut items) = (Reading::new(1), Vec::new());
        reading.feed(events.as_bytes(), &head(&headers), &mut items);
        assert_eq!((reading.text_before(2), reading.text_before(1)), ("", rest));
    }
}

#[test]
fn a_stream_that_nobody_here_knows_ends_when_it_ends() {
    let found = read(&["data: one\n\ndata: two\n\n"]);
    assert_eq!(found.status, Status::Complete);
    assert!(found.items.iter().all(|item| item.text.is_none()));
    assert_eq!(found.reading.text(), "onetwo");
}

#[test]
fn an_error_after_content_ends_the_stream_and_an_early_finish_does_not() {
    let error = json!({"error": {"code": 502, "message": "x"}});
    let found = read(&[&sse(&[chat("Hi"), error])]);
    assert_eq!((found.texts().as_str(), found.failure().retryable), ("Hi", true));
    let named = format!("{}event: error\ndata: boom\n\n", sse(&[chat("Hi")]));
    assert_eq!(read(&[&named]).texts(), "Hi");
    assert!(matches!(read(&[&named]).status, Status::Failed(_)));

    let blocked = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]});
    assert_eq!(read(&[&sse(&[chat("Hi"), blocked.clone()])]).status, Status::Complete);
    assert_eq!(read(&[&sse(&[blocked])]).failure().reason, Reason::ContentBlocked);
    let talk = chat("an {\"error\": {\"code\": 502}} and \"error\"");
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    assert_eq!(read(&[&sse(&[talk, end])]).status, Status::Complete);
}

#[test]
fn an_array_of_gemini_s_and_a_plain_answer_are_read_as_streams() {
    let chunk =
        |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}], "responseId": "g"});
    let last = json!({
        "candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 4, "totalTokenCount": 12}
    });
    let body = format!("[{},\r\n{}\r\n,{}\r\n]", chunk("Hi"), chunk(" you"), last);
    let found = read_as("application/json; charset=UTF-8", &[body.as_bytes()], 1);
    assert_eq!((found.texts().as_str(), &found.status), ("Hi you!", &Status::Complete));
    assert_eq!(found.reading.usage(), Some(Usage { input: 8, output: 4, total: 12 }));
    let error = format!("[{},\r\n{}]", chunk("Hi"), json!({"error": {"code": 503, "status": "UNAVAILABLE"}}));
    assert_eq!(read_as("application/json", &[error.as_bytes()], 1).failure().reason, Reason::ServerError);

    let plain = json!({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]});
    let found = read_as("application/json", &[plain.to_string().as_bytes()], 1);
    assert_eq!((found.texts().as_str(), found.status), ("Hi", Status::Complete));
}

#[test]
fn what_is_no_stream_is_told_by_what_it_is() {
    let found = read_as("text/html", &[b"<!DOCTYPE html><html></html>"], 1);
    assert_eq!(found.failure().reason, Reason::HtmlPage);
    assert_eq!(read_as("text/plain", &[b"so"], 1).failure().reason, Reason::NotJson);
    assert_eq!(read_as("text/plain", &[], 1).failure().reason, Reason::EmptyBody);
}

#[test]
fn the_counts_of_a_stream_are_merged_as_they_come() {
    let found = read(&[&sse(&[
        json!({"type": "message_start", "message": {"id": "msg", "usage": {"input_tokens": 8, "output_tokens": 1}}}),
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop"}),
    ])]);
    assert_eq!(found.reading.usage(), Some(Usage { input: 8, output: 4, total: 12 }));
    assert_eq!((found.reading.id(), found.status), (Some("msg"), Status::Complete));
}

// Laws

/// Streams of every protocol, good, cut and broken.
fn streams() -> impl Strategy<Value = (String, &'static str)> {
    let text =
        prop::sample::select(vec!["Hi", "", "é€😀", "\"quoted\"\n", "data: x\n\n", "{\"error\": 1}", "]}"]);
    let texts = prop::collection::vec(text, 0..6);
    (texts, 0..6_u8, 0..3_u8, any::<bool>()).prop_map(|(texts, protocol, ending, crlf)| {
        let mut events: Vec<Value> = texts
            .iter()
            .map(|text| match protocol {
                0 => chat(text),
                1 => json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}),
                2 => json!({"type": "response.output_text.delta", "delta": text}),
                3 | 4 => json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}),
                _ => json!({"model": "m", "message": {"content": text}, "done": false}),
            })
            .collect();
        match (ending, protocol) {
            (0, _) => {}
            (1, _) => events.push(json!({"error": {"code": 503, "message": "x"}})),
            (_, 0) => events.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
            (_, 1) => events.push(json!({"type": "message_stop"})),
            (_, 2) => events.push(json!({"type": "response.completed"})),
            (_, 3 | 4) => events.push(json!({"candidates": [{"finishReason": "STOP"}]})),
            _ => events.push(json!({"model": "m", "done": true})),
        }
        let written: Vec<String> = events.iter().map(Value::to_string).collect();
        match protocol {
            4 => (format!("[{}]", written.join(",\r\n")), "application/json"),
            5 => (written.iter().map(|line| format!("{line}\n")).collect(), "application/x-ndjson"),
            _ => {
                let text: String = written.iter().map(|data| format!(": ping\ndata: {data}\n\n")).collect();
                (if crlf { text.replace('\n', "\r\n") } else { text }, EVENTS)
            }
        }
    })
}

/// Answers made of the words a usage is made of, in places where it counts and where it does not.
fn answers() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "usage",
        "usageMetadata",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "promptTokenCount",
        "tokens",
        "billed_units",
        "meta",
        "response",
        "message",
        "delta",
        "x_groq",
        "eval_count",
        "prompt_eval_count",
        "id",
    ]);
    let leaf = prop_oneof![
        (0..9_u64).prop_map(Value::from),
        Just(Value::Null),
        Just(json!(-1)),
        Just(json!("a \"usage\": {\"prompt_tokens\": 7}")),
        Just(json!("\\\"usage")),
    ];
    let inner = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            3 => prop::collection::vec((key.clone(), inner.clone()), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    });
    prop::collection::vec(
        (prop::sample::select(vec!["usage", "usageMetadata", "response", "id", "meta"]), inner),
        0..4,
    )
    .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
}

proptest! {
    #[test]
    fn a_stream_is_the_same_wherever_its_bytes_are_split(
        (body, content_type) in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        kept in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let body = &body.as_bytes()[..if whole { body.len() } else { kept.index(body.len() + 1) }];
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(&body[from..place]);
            from = place;
        }
        pieces.push(&body[from..]);
        let at_once = read_as(content_type, &[body], 1);
        let split = read_as(content_type, &pieces, 1);
        let single: Vec<&[u8]> = body.chunks(1).collect();
        let bytewise = read_as(content_type, &single, 1);
        for other in [&split, &bytewise] {
            prop_assert_eq!(&other.items, &at_once.items);
            prop_assert_eq!(&other.status, &at_once.status);
            prop_assert_eq!(other.reading.text(), at_once.reading.text());
        }
        prop_assert_eq!(at_once.reading.text(), at_once.texts());
        // What was given out without content is the whole of a good stream, or nothing.
        prop_assert!(at_once.reading.has_started() || at_once.items.is_empty());
    }

    #[test]
    fn what_stands_before_it_changes_nothing_of_a_usage(answer in answers(), end in "[ \\n]{0,2}") {
        let text = answer.to_string() + &end;
        let padded = format!("{{\"data\": [{}0.5], {}", "0.25, ".repeat(2_000), &text[1..]);
        if answer.as_object().is_some_and(|map| !map.is_empty()) {
            prop_assert_eq!(of_body(padded.as_bytes()), of_body(text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        content_type in prop::sample::select(vec![EVENTS, "application/json", "application/x-ndjson", ""]),
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let found = read_as(content_type, &pieces, 1);
        prop_assert!(!matches!(found.status, Status::Opening | Status::Running));
    }
}
