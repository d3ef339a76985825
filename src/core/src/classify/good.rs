//! The hot path: a very cheap look that lets ordinary good answers pass without parsing them.
//!
//! It errs to one side only. True means that `classify` finds nothing wrong with a well-formed body; false means
//! that somebody should look properly. Nothing here decides that an answer is bad.

use memchr::{memchr_iter, memmem};

/// Above this size only the head and the tail of a body are looked at.
pub(super) const WHOLE: usize = 16 * 1024;
const HEAD: usize = 4 * 1024;
const TAIL: usize = 1024;

/// Whether what follows a sign makes it harmless.
type Harmless = fn(&[u8]) -> bool;

/// Keys and values, each without its opening quote, that may stand in a failure; and what has to follow one for
/// it to be harmless. Inside a JSON string a quote is escaped, so a text that talks about errors meets none.
const SIGNS: &[(&[u8], Harmless)] = &[
    (b"error\"", is_null_or_empty),
    (b"errors\"", is_null_or_empty),
    (b"error_code\"", never),
    (b"code\"", never),
    (b"fault\"", never),
    (b"failed\"", never),
    (b"response.failed\"", never),
    (b"response.error\"", never),
    (b"budget_exceeded\"", never),
    (b"blockReason\"", never),
    (b"content_filter\"", never),
    (b"network_error\"", never),
    (b"ERROR", never),
    (b"finishReason\"", is_a_good_end),
    (b"success\"", |rest| value_of(rest).starts_with(b"true")),
    // `"refusal": null` stands in every OpenAI answer; as a value it is Anthropic's.
    (b"refusal\"", |rest| rest.trim_ascii_start().starts_with(b":")),
];

/// First bytes of the signs, so that most quotes cost one look-up.
const FIRST: [bool; 256] = {
    let mut first = [false; 256];
    let mut at = 0;
    while at < SIGNS.len() {
        first[SIGNS[at].0[0] as usize] = true;
        at += 1;
    }
    first
};

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
    if !ends || starts_as_exception(body) {
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

/// Looks behind every quote that is not escaped.
fn nothing_suspicious(part: &[u8]) -> bool {
    memchr_iter(b'"', part).all(|at| {
        let rest = &part[at + 1..];
        let may_start_a_sign = rest.first().is_some_and(|first| FIRST[usize::from(*first)]);
        if !may_start_a_sign || (at > 0 && part[at - 1] == b'\\') {
            return true;
        }
        let sign = SIGNS.iter().find_map(|(sign, harmless)| Some((rest.strip_prefix(*sign)?, harmless)));
        sign.is_none_or(|(rest, harmless)| harmless(rest))
    })
}

/// AWS names an exception as the one key of the body.
fn starts_as_exception(body: &[u8]) -> bool {
    let key = body.get(1..).unwrap_or_default().trim_ascii_start().strip_prefix(b"\"").unwrap_or_default();
    let end = key.iter().position(|b| *b == b'"').unwrap_or_default();
    key[..end].ends_with(b"Exception")
}

fn never(_: &[u8]) -> bool {
    false
}

/// What stands behind the colon of a key; empty where there is none.
fn value_of(rest: &[u8]) -> &[u8] {
    rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start).unwrap_or_default()
}

fn is_null_or_empty(rest: &[u8]) -> bool {
    let value = value_of(rest);
    let list = value.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    value.starts_with(b"null") || list.is_some_and(|list| list.starts_with(b"]"))
}

fn is_a_good_end(rest: &[u8]) -> bool {
    let value = value_of(rest);
    value.starts_with(b"\"STOP\"") || value.starts_with(b"\"MAX_TOKENS\"")
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
            r#"{ "throttlingException": {"message": "x"}}"#,
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
