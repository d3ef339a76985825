//! Laws of the classifier: it judges any bytes without panicking, and its short cut agrees with it.

use proptest::prelude::*;
use serde_json::{Value, json};
use steadycall_core::classify::{
    Answer, Dialect, StatusSet, classify, classify_with, surely_good, unreadable,
};
use steadycall_core::failure::{Kind, Reason};
use steadycall_core::sse::{Event, Events, Format};

fn answer<'a>(status: u16, headers: &'a [(&'a str, &'a [u8])], body: &'a [u8]) -> Answer<'a> {
    Answer { status, headers, body, url: Some("https://api.openai.com/v1"), now: Some(1.79e9), dialect: None }
}

/// JSON that is made of the words a failure is made of, so that the short cut is met from both sides.
fn suspicious_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "error",
        "errors",
        "failed",
        "response.failed",
        "content_filter",
        "SAFETY",
        "STOP",
        "MALFORMED_FUNCTION_CALL",
        "budget_exceeded",
        "stop",
        "refusal",
        "network_error",
        "ERROR",
        "message",
        "the \"error\" is {\"error\": 1}",
        "",
        "503",
    ]);
    let key = prop::sample::select(vec![
        "error",
        "errors",
        "status",
        "type",
        "object",
        "code",
        "message",
        "choices",
        "candidates",
        "finishReason",
        "finish_reason",
        "native_finish_reason",
        "promptFeedback",
        "blockReason",
        "content",
        "success",
        "response",
        "delta",
        "x_groq",
        "stop_reason",
        "refusal",
        "fault",
        "event_type",
        "incomplete_details",
        "reason",
        "error_code",
        "throttlingException",
        "output",
        "id",
    ]);
    let leaf = prop_oneof![
        word.prop_map(|word| json!(word)),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..600_u32).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_surely_good_has_no_failure(value in suspicious_json(), pretty in any::<bool>()) {
        let body = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap_or_default();
        if surely_good(200, None, &body) {
            prop_assert_eq!(classify(&answer(200, &[], &body)), None);
        }
    }

    #[test]
    fn any_answer_is_judged(
        status in any::<u16>(),
        name in "retry-after|date|x-ratelimit-reset|x-ratelimit-remaining|content-type|x-amzn-errortype|ratelimit|x-should-retry",
        value in prop::collection::vec(any::<u8>(), 0..40),
        body in prop::collection::vec(any::<u8>(), 0..200),
        now in any::<f64>(),
        which in 0..Dialect::ALL.len(),
    ) {
        let headers = [(name.as_str(), value.as_slice())];
        let asked = Answer { now: Some(now), dialect: Some(Dialect::ALL[which]), ..answer(status, &headers, &body) };
        surely_good(status, Some(&value), &body);
        unreadable(&asked);
        if let Some(failure) = classify_with(&asked, Some(&StatusSet::from_iter([status]))) {
            prop_assert!(failure.hint.is_none_or(|hint| hint.seconds > 0.0));
        }
        let failure = classify(&asked);
        prop_assert!(failure.is_some() || (200..300).contains(&status));
    }

    #[test]
    fn any_error_object_is_judged_in_bounds(status in 400..600_u16, value in suspicious_json(), code in ".{0,300}") {
        let body = json!({"error": {"code": code, "message": value, "details": [value]}}).to_string();
        let failure = classify(&answer(status, &[], body.as_bytes()));
        prop_assert!(failure.is_some());
        if let Some(failure) = failure {
            prop_assert_eq!(failure.retryable, failure.kind != Kind::Permanent);
            prop_assert!(failure.provider_code.is_none_or(|code| code.chars().count() <= 100 && !code.contains(char::is_control)));
        }
    }

    #[test]
    fn a_body_cut_anywhere_is_truncated(value in suspicious_json(), at in 0.0..1.0_f64) {
        let body = serde_json::to_vec(&json!({"a": value, "text": "words"})).unwrap_or_default();
        let cut = &body[..1 + ((body.len() - 2) as f64 * at) as usize];
        prop_assert_eq!(unreadable(&answer(200, &[], cut)).reason, Reason::Truncated);
        prop_assert_eq!(classify(&answer(200, &[], cut)).map(|failure| failure.reason), Some(Reason::Truncated));
    }

    #[test]
    fn a_good_answer_is_good_whatever_its_text_says(text in ".{0,80}", fragment in suspicious_json()) {
        let content = format!("{text} {fragment} {{\"error\": {{\"code\": 429}}}}");
        let body = json!({"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}]});
        prop_assert_eq!(classify(&answer(200, &[], body.to_string().as_bytes())), None);
    }
}

fn read_events(format: Format, pieces: &[&[u8]]) -> Vec<Event> {
    let mut events = Events::new(format);
    let mut found: Vec<Event> = pieces.iter().flat_map(|piece| events.feed(piece)).collect();
    found.extend(events.end());
    found
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_their_bytes_are_split(
        parts in prop::collection::vec(prop::sample::select(EVENT_PARTS), 0..40),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        lines in any::<bool>(),
    ) {
        let bytes: Vec<u8> = parts.concat().bytes().collect();
        let format = if lines { Format::JsonLines } else { Format::Events };
        let mut pieces = Vec::new();
        let (mut rest, mut sizes) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(read_events(format, &pieces), read_events(format, &[&bytes]));
    }

    #[test]
    fn any_bytes_are_read_as_events_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_events(Format::Events, &[&bytes]);
        read_events(Format::JsonLines, &[&bytes]);
    }
}

const EVENT_PARTS: &[&str] = &[
    "\u{feff}",
    "data",
    ":",
    " ",
    "data: x",
    "data:é😀",
    "event: a",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "{\"a\": 1}",
    "{",
    "}",
    "[",
    ",",
    ": c",
];
