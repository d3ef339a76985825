//! The hot path: a very cheap look that lets ordinary good answers pass without parsing them.
//!
//! It errs to one side only. True means that `classify` finds nothing wrong with a well-formed body; false means
//! that somebody should look properly. Nothing here decides that an answer is bad.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

/// Above this size only the head and the tail of a body are looked at.
pub(super) const WHOLE: usize = 16 * 1024;
const HEAD: usize = 4 * 1024;
const TAIL: usize = 1024;

/// Pieces of bodies that may hide a failure. Inside a JSON string a quote is escaped, so `"error` is never met
/// in a text that merely talks about errors.
static NEEDLES: LazyLock<[Finder<'static>; 10]> = LazyLock::new(|| {
    [
        b"failed\"".as_slice(),
        b"blockReason",
        b"content_filter\"",
        b"_exceeded\"",
        b"Exception\"",
        b"\"ERROR",
        b"network_error\"",
        b"\"fault\"",
        b"\"refusal\"",
        b"\"code\"",
    ]
    .map(Finder::new)
});

static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error"));
static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"finishReason\""));
static SUCCESS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"success\""));

/// Whether a 2xx with this content type and body is surely an ordinary good JSON answer, provided that it is
/// well-formed.
pub fn surely_good(status: u16, content_type: Option<&[u8]>, body: &[u8]) -> bool {
    if !(200..300).contains(&status) || content_type.is_some_and(|value| !says_json(value)) {
        return false;
    }
    let body = body.trim_ascii();
    let ends = match (body.first(), body.last()) {
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => body.get(1).is_some_and(|second| *second != 0),
        _ => false,
    };
    if !ends {
        return false;
    }
    if body.len() <= WHOLE {
        nothing_suspicious(body)
    } else {
        nothing_suspicious(&body[..HEAD]) && nothing_suspicious(&body[body.len() - TAIL..])
    }
}

fn says_json(content_type: &[u8]) -> bool {
    memmem::find(content_type, b"json").is_some()
        && memmem::find(content_type, b"ndjson").is_none()
        && memmem::find(content_type, b"jsonl").is_none()
}

fn nothing_suspicious(part: &[u8]) -> bool {
    every(part, &ERROR, harmless_error)
        && every(part, &FINISH, |rest| {
            let value =
                rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start).unwrap_or_default();
            value.starts_with(b"\"STOP\"") || value.starts_with(b"\"MAX_TOKENS\"")
        })
        && every(part, &SUCCESS, |rest| {
            rest.trim_ascii_start()
                .strip_prefix(b":")
                .is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
        })
        && NEEDLES.iter().all(|needle| {
            every(part, needle, |rest| {
                needle.needle() == b"\"refusal\"" && rest.trim_ascii_start().starts_with(b":")
            })
        })
}

/// Whether what follows each find is harmless.
fn every(part: &[u8], finder: &Finder<'_>, harmless: impl Fn(&[u8]) -> bool) -> bool {
    finder.find_iter(part).all(|at| harmless(&part[at + finder.needle().len()..]))
}

/// What follows `"error`: the start of another word, or a key whose value is null or an empty list.
fn harmless_error(rest: &[u8]) -> bool {
    if rest.starts_with(b"_code\"") {
        return false;
    }
    let key_end = rest.strip_prefix(b"s\"").or_else(|| rest.strip_prefix(b"\""));
    key_end.is_none_or(is_null_or_empty)
}

/// `: null` or `: []` behind the key.
fn is_null_or_empty(rest: &[u8]) -> bool {
    let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { return false };
    let value = value.trim_ascii_start();
    value.starts_with(b"null")
        || value.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(body: &str) -> bool {
        surely_good(200, Some(b"application/json; charset=utf-8"), body.as_bytes())
    }

    #[test]
    fn ordinary_answers_pass_without_a_second_look() {
        for body in [
            r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"finish_reason":"stop"}]}"#,
            r#"{"id":"c","choices":[{"message":{"content":"the \"error\" key says {\"error\": \"code\"}"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"message":{"content":"error: none"},"finish_reason":"stop"}]}"#,
            r#"{"object":"response","status":"completed","error": null,"output":[]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason": "STOP"}]}"#,
            r#"{"result":{"response":"hi"},"success":true,"errors":[],"messages":[]}"#,
            "[1, 2]",
        ] {
            assert!(good(body), "{body}");
        }
    }

    #[test]
    fn suspicious_answers_get_a_second_look() {
        for body in [
            r#"{"error":{"code":502}}"#,
            r#"{"type":"error","message":"x"}"#,
            r#"{"status":"failed"}"#,
            r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
            r#"{"choices":[{"finish_reason":"content_filter","message":{"content":""}}]}"#,
            r#"{"status": "budget_exceeded"}"#,
            r#"{"candidates":[{"finishReason":"SAFETY"}]}"#,
            r#"{"stop_reason":"refusal","content":[]}"#,
            r#"{"a":1"#,
            r#"{"a":[1]"#.trim_end_matches(']'),
            "",
            "<html></html>",
            "12",
        ] {
            assert!(!good(body), "{body}");
        }
        assert!(!surely_good(200, Some(b"text/event-stream"), b"{}"));
        assert!(!surely_good(500, None, b"{}"));
    }

    #[test]
    fn the_middle_of_a_big_body_is_not_looked_at() {
        let filler = "x".repeat(20_000);
        assert!(good(&format!("{{\"a\":\"{filler}\",\"error\":1,\"b\":\"{filler}\"}}")));
        assert!(!good(&format!("{{\"a\":\"{filler}\",\"error\":1}}")));
    }
}
