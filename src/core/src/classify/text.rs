//! What kind of text a body is: decoded, and looked at from outside - empty, web page, JSON, cut short, or none.
//!
//! Decoding follows `json.detect_encoding` of Python, because the same bytes go to `json.loads`. The look at
//! brackets is deliberately lenient (`NaN`, single quotes, any escape): it must never call broken what a parser
//! would take. Only what ends in the middle is looked at closely: a text that went wrong before its end would be no
//! JSON if it went on, so it was not cut, and to ask again is to be billed again for the same.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// The most of an error's body that is looked at.
pub(super) const MOST_READ: usize = 256 * 1024;

/// What a body looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// When there is nothing but white space.
    Empty,
    /// When it is a web page.
    Html,
    /// When it starts as JSON and ends where it should.
    Json,
    /// When it starts as JSON and ends in the middle.
    CutShort,
    /// When several JSON values follow each other, as in NDJSON.
    JsonLines,
    /// When it is server-sent events.
    Events,
    /// When it is anything else.
    Other,
}

/// Bytes to text as Python's `json` would: BOMs, UTF-16 and UTF-32 in either order, else UTF-8. Broken bytes
/// become U+FFFD: what a failure is does not hang on them.
pub(super) fn decode(body: &[u8]) -> Cow<'_, str> {
    match body {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        [0xFF, 0xFE, 0, 0, rest @ ..] => utf32(rest, u32::from_le_bytes),
        [0, 0, 0xFE, 0xFF, rest @ ..] => utf32(rest, u32::from_be_bytes),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0, 0, 0, _, ..] => utf32(body, u32::from_be_bytes),
        [0, _, ..] => utf16(body, u16::from_be_bytes),
        [_, 0, 0, 0, ..] => utf32(body, u32::from_le_bytes),
        [_, 0, ..] => utf16(body, u16::from_le_bytes),
        _ => String::from_utf8_lossy(body),
    }
}

fn utf16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Cow<'_, str> {
    let units = body.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

fn utf32(body: &[u8], unit: fn([u8; 4]) -> u32) -> Cow<'_, str> {
    let units = body.chunks_exact(4).map(|four| unit([four[0], four[1], four[2], four[3]]));
    Cow::Owned(units.map(|u| char::from_u32(u).unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// JSON as Python writes it to JSON as the standard has it: `NaN` and infinities become null, lone surrogates
/// U+FFFD. `None` when there is nothing to change, so that nobody parses in vain.
pub(super) fn strict(text: &str) -> Option<String> {
    let suspicious = ["NaN", "Infinity", "\\ud", "\\uD"].iter().any(|word| text.contains(word));
    if !suspicious {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        let end = string_end(rest.as_bytes(), quote + 1).unwrap_or(rest.len());
        out.push_str(&without_words(&rest[..quote]));
        // Whole pairs are lost with the lone ones; what is left is still the same text to every table.
        out.push_str(&rest[quote..end].replace("\\ud", "\\ufffd ").replace("\\uD", "\\ufffd "));
        rest = &rest[end..];
    }
    out.push_str(&without_words(rest));
    Some(out)
}

fn without_words(between_strings: &str) -> String {
    between_strings.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null")
}

/// Looks at a decoded body from outside.
pub(super) fn shape(text: &str, content_type: &str) -> Shape {
    let text = text.trim_start_matches('\u{feff}').trim();
    match text.as_bytes().first() {
        None => Shape::Empty,
        Some(b'<') => {
            if is_html(text, content_type) {
                Shape::Html
            } else {
                Shape::Other
            }
        }
        Some(b'{' | b'[') => match brackets(text.as_bytes()) {
            Shape::CutShort if !may_go_on(text) => Shape::Other,
            shape => shape,
        },
        Some(b'"') => match string_end(text.as_bytes(), 1) {
            None if !may_go_on(text) => Shape::Other,
            None => Shape::CutShort,
            Some(end) if end == text.len() => Shape::Json,
            Some(_) => Shape::Other,
        },
        Some(_) if content_type.contains("text/event-stream") || starts_as_events(text) => Shape::Events,
        Some(_) => scalar(text),
    }
}

fn is_html(text: &str, content_type: &str) -> bool {
    let head = text.as_bytes()[..text.len().min(1024)].to_ascii_lowercase();
    let has = |needle: &[u8]| memchr::memmem::find(&head, needle).is_some();
    content_type.contains("html") || has(b"<html") || has(b"<!doctype html") || has(b"<head") || has(b"<body")
}

fn starts_as_events(text: &str) -> bool {
    ["data:", "event:", "id:", "retry:", ": ", ":\n"].iter().any(|field| text.starts_with(field))
}

fn scalar(text: &str) -> Shape {
    let number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        && text.bytes().any(|b| b.is_ascii_digit());
    let words = ["true", "false", "null", "NaN", "Infinity", "-Infinity"];
    if number || words.contains(&text) {
        Shape::Json
    } else if words.iter().any(|word| word.starts_with(text)) {
        Shape::CutShort
    } else {
        Shape::Other
    }
}

/// Whether a text that ends in the middle is the start of some JSON, as Python reads it.
fn may_go_on(text: &str) -> bool {
    let is_start = |text: &str| {
        let text = strict(text).map_or(Cow::Borrowed(text), Cow::Owned);
        serde_json::from_str::<IgnoredAny>(&text).is_err_and(|error| error.is_eof())
    };
    // The parser calls a number that was cut wrong, and of Python's own words it knows none.
    let before = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let last = text.strip_prefix(before).unwrap_or_default();
    let word_was_cut = ["NaN", "Infinity"].iter().any(|word| word.starts_with(last));
    is_start(text)
        || is_start(&format!("{text}0"))
        || (word_was_cut && is_start(&format!("{}null", before.trim_end_matches('-'))))
}

/// Follows brackets and strings from the first byte, an opening bracket, to the end.
fn brackets(text: &[u8]) -> Shape {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(step) = text[at..].iter().position(|b| matches!(b, b'"' | b'{' | b'}' | b'[' | b']')) {
        at += step;
        match text[at] {
            b'"' => match string_end(text, at + 1) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => return Shape::CutShort,
            },
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        at += 1;
        if depth == 0 {
            let rest = text[at..].trim_ascii_start();
            return match rest.first() {
                None => Shape::Json,
                Some(b'{' | b'[' | b',') => Shape::JsonLines,
                Some(_) => Shape::Other,
            };
        }
    }
    Shape::CutShort
}

/// The index after the closing quote of a string whose inside starts at `at`.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_told_from_the_others() {
        let rows = [
            ("", Shape::Empty),
            (" \n", Shape::Empty),
            ("{\"a\": [1, 2]}", Shape::Json),
            ("\u{feff}{\"a\": NaN}", Shape::Json),
            ("{\"a\": \"}\\\"{[\"}\n", Shape::Json),
            ("[1, 2", Shape::CutShort),
            ("{\"a\": \"b", Shape::CutShort),
            ("{\"a\": \"b\\", Shape::CutShort),
            ("\"cut", Shape::CutShort),
            ("\"whole\"", Shape::Json),
            ("12.5e3", Shape::Json),
            ("nul", Shape::CutShort),
            ("null", Shape::Json),
            ("-Infinity", Shape::Json),
            ("{\"a\":1}\n{\"b\":2}", Shape::JsonLines),
            ("{\"a\":1} trailing", Shape::Other),
            ("<!DOCTYPE html><html></html>", Shape::Html),
            ("<xml/>", Shape::Other),
            ("{'a", Shape::Other),
            ("{'a': [1", Shape::Other),
            ("{\"a\": [1}", Shape::Other),
            ("{\"a\" 1", Shape::Other),
            ("{\"a\": bogus", Shape::Other),
            ("{\"a\": \"b\nc", Shape::Other),
            ("\"a\\x", Shape::Other),
            ("{\"a\": [1, ", Shape::CutShort),
            ("[NaN, -Infinity, \"\\ud83d", Shape::CutShort),
            ("[-Inf", Shape::CutShort),
            ("[Na", Shape::CutShort),
            ("[tr", Shape::CutShort),
            ("[-", Shape::CutShort),
            ("[-1.", Shape::CutShort),
            ("[1e-", Shape::CutShort),
            ("[1x", Shape::Other),
            ("{\"a\": \"\u{fffd}", Shape::CutShort),
            ("data: {}\n\n", Shape::Events),
            ("Internal Server Error", Shape::Other),
        ];
        for (text, expected) in rows {
            assert_eq!(shape(text, ""), expected, "{text}");
        }
    }

    #[test]
    fn what_only_python_takes_becomes_strict_json() {
        let text = r#"{"error": {"message": "NaN \ud83d cut", "code": 503}, "a": [NaN, -Infinity]}"#;
        let strict = strict(text).unwrap_or_default();
        assert_eq!(strict, r#"{"error": {"message": "NaN \ufffd 83d cut", "code": 503}, "a": [null, null]}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&strict).is_ok());
    }

    #[test]
    fn utf_16_and_utf_32_are_read_with_and_without_a_bom() {
        let text = "{\"a\": \"ü\"}";
        let wide16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wide32: Vec<u8> = text.chars().flat_map(|c| (c as u32).to_be_bytes()).collect();
        assert_eq!(decode(&wide16), text);
        assert_eq!(decode(&wide32), text);
        assert_eq!(decode(&[&[0xFF, 0xFE], wide16.as_slice()].concat()), text);
        assert_eq!(decode(&[&[0xEF, 0xBB, 0xBF], text.as_bytes()].concat()), text);
    }
}
