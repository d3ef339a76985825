//! The one reader of error bodies: whatever shape they have, to words, text, limits, a status and waits.
//!
//! It descends only where providers put error facts, never into echoes of the request (`input`, `messages`,
//! `failed_generation`, `flagged_input`): a prompt may talk about quotas too. JSON inside strings is read as
//! part of the body, because routers wrap their upstream's answer so. Numbers inside texts are no status.

use serde_json::{Map, Value};

use super::keys::{INNER_KEYS, LIMIT_KEYS, STATUS_KEYS, TEXT_KEYS, WORD_KEYS};
use super::table::normal;
use super::text;
use crate::hint::{self, Buckets, Headers, Largest, Source};

const MOST_DEPTH: usize = 12;
const MOST_TEXT: usize = 16 * 1024;
const MOST_WORDS: usize = 64;

/// What a failure's body and headers say.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Codes, types and statuses, normalised, outer ones first.
    pub words: Vec<String>,
    /// All messages, in lower case, apart by line ends.
    pub text: String,
    /// Names of the quotas that were hit, in lower case.
    pub limits: String,
    /// A quota whose value is zero.
    pub zero_limit: bool,
    /// The HTTP status the body names; of several the innermost, which is nearest to the cause.
    pub status: Option<u16>,
    /// The wait asked for.
    pub wait: Largest,
    /// What the rate-limit headers tell about windows.
    pub buckets: Buckets,
    /// Keys of the outermost object, which tell dialects apart.
    pub keys: Vec<String>,
    status_depth: usize,
    code: Option<(u8, String)>,
    now: Option<f64>,
}

impl Facts {
    /// Facts of a body in any form, or of none.
    pub fn read(text: &str, headers: &Headers<'_>, now: Option<f64>) -> Self {
        let mut facts = Self { now: hint::clock(headers, now), ..Self::default() };
        let trimmed = text.trim_start_matches('\u{feff}').trim();
        facts.header_words(headers);
        if let Some(value) = first_json(trimmed) {
            if let Some(map) = outermost(&value) {
                facts.keys = map.keys().cloned().collect();
            }
            facts.value(&value, 0);
        } else if trimmed.contains("data:") && trimmed.lines().any(|line| line.starts_with("data:")) {
            facts.events(trimmed);
        } else if !trimmed.starts_with('<') {
            facts.message(trimmed, 0);
        }
        facts
    }

    /// Facts of a part of a good-looking body.
    pub fn of_value(value: &Value, headers: &Headers<'_>, now: Option<f64>) -> Self {
        let mut facts = Self { now: hint::clock(headers, now), ..Self::default() };
        facts.header_words(headers);
        if let Some(map) = outermost(value) {
            facts.keys = map.keys().cloned().collect();
        }
        facts.value(value, 0);
        facts
    }

    /// Adds what is said by the headers and, last, by the words of the messages. `paced` tells whether the
    /// failure is about pace, so that rate-limit buckets speak about it.
    pub fn read_waits(&mut self, headers: &Headers<'_>, paced: bool) {
        hint::from_headers(headers, self.now, &mut self.wait);
        if paced {
            let (words, text) = (&self.words, &self.text);
            let names_axis = |bucket: &str| {
                let axis = if bucket.starts_with("request") { "request" } else { "token" };
                let named = format!("{axis}s");
                words.contains(&named)
                    || (text.contains(&format!("{named} per ")) && bucket.starts_with(axis))
            };
            self.buckets = hint::buckets(headers, self.now, names_axis, &mut self.wait);
        }
        self.wait.observe(hint::spoken(&self.text, self.now), Source::Message);
        if !self.wait.is_some() {
            self.wait.observe(self.buckets.guess, Source::RateLimitReset);
        }
    }

    /// The provider's own code, cut to what may be shown.
    pub fn provider_code(&self) -> Option<String> {
        self.code.as_ref().map(|(_, code)| code.clone())
    }

    pub fn has_word(&self, word: &str) -> bool {
        self.words.iter().any(|held| held == word)
    }

    pub fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|held| held == key)
    }

    /// Adds a machine-readable word.
    pub fn word(&mut self, word: &str, rank: u8) {
        let shown: String = word.chars().filter(|c| !c.is_control()).take(100).collect();
        if shown.is_empty() || self.words.len() >= MOST_WORDS {
            return;
        }
        let all_digits = shown.bytes().all(|b| b.is_ascii_digit());
        // Words beat numbers: "RESOURCE_EXHAUSTED" says more than 429. "error" is the envelope's name.
        let rank = if all_digits { rank + 10 } else { rank };
        let says_something = !matches!(shown.as_str(), "error" | "None" | "failed" | "failure")
            && !shown.starts_with("response.");
        let better = self.code.as_ref().is_none_or(|(held, _)| rank < *held);
        if better && says_something && shown.len() <= 200 && !shown.contains("://") {
            self.code = Some((rank, shown.clone()));
        }
        self.words.push(normal(&shown));
    }

    fn header_words(&mut self, headers: &Headers<'_>) {
        for (name, value) in headers {
            let is_type = ["x-amzn-errortype", ":exception-type", ":error-code"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            if let (true, Ok(value)) = (is_type, std::str::from_utf8(value)) {
                self.word(exception_name(value), 0);
            }
        }
    }

    fn value(&mut self, value: &Value, depth: usize) {
        if depth > MOST_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => self.object(map, depth),
            Value::Array(items) => items.iter().take(32).for_each(|item| self.value(item, depth + 1)),
            Value::String(text) => self.message(text, depth),
            _ => {}
        }
    }

    fn object(&mut self, map: &Map<String, Value>, depth: usize) {
        for (key, value) in map {
            self.field(key, value, depth);
        }
        for (key, value) in map {
            let holds_more = matches!(value, Value::Object(_) | Value::Array(_));
            if holds_more && key == "headers" {
                self.nested_headers(value);
            } else if holds_more && key.ends_with("Exception") {
                self.word(key, 1);
                self.value(value, depth + 1);
            } else if holds_more && INNER_KEYS.contains(&key.as_str()) {
                self.value(value, depth + 1);
            }
        }
    }

    fn field(&mut self, key: &str, value: &Value, depth: usize) {
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => hint::plain_number(text.trim()),
            _ => None,
        };
        if let Some((_, rank)) = WORD_KEYS.iter().find(|(known, _)| *known == key) {
            match (value, number) {
                (_, Some(number)) => {
                    self.number(number, depth);
                    self.word(&value_text(value), *rank);
                }
                (Value::String(word), None) => self.word(exception_name(word), *rank),
                _ => {}
            }
            // xAI and Databricks write sentences where others write codes.
            if let Value::String(sentence) = value
                && sentence.contains(' ')
            {
                self.text(sentence);
            }
        } else if STATUS_KEYS.contains(&key) {
            // TGI's events say 422 whatever failed, so its 422 says nothing.
            if let Some(number) = number.filter(|n| !(key == "http_status_code" && *n == 422.0)) {
                self.number(number, depth);
            }
        } else if LIMIT_KEYS.contains(&key) {
            if let Value::String(name) = value {
                self.limit(name);
            }
        } else if key == "quota_limit_value" || key == "quotaValue" {
            self.zero_limit |= number == Some(0.0);
        } else {
            self.delay(key, value, number);
        }
        if let (Value::String(text), true) = (value, TEXT_KEYS.contains(&key)) {
            self.message(text, depth + 1);
        }
    }

    fn delay(&mut self, key: &str, value: &Value, number: Option<f64>) {
        let text = value.as_str().unwrap_or_default();
        let duration = || hint::go_duration(text);
        let at = || hint::until(hint::rfc3339(text)?, self.now);
        let plain = number.and_then(|number| hint::delay_or_moment_of(number, self.now));
        let (seconds, source) = match key {
            "retryDelay" | "retry_delay" => {
                (duration().or(plain).or_else(|| seconds_and_nanos(value)), Source::RetryInfo)
            }
            "quotaResetDelay" => (duration().or(plain), Source::QuotaResetDelay),
            "retry_after"
            | "retryAfter"
            | "retry_after_seconds"
            | "retryAfterSeconds"
            | "estimated_time"
            | "resets_in_seconds" => (plain.or_else(duration).or_else(at), Source::BodyField),
            "retry_after_ms" | "retryAfterMs" => (number.map(|ms| ms / 1000.0), Source::BodyField),
            "resets_at" | "reset_at" | "resetsAt" | "reset_time" => (at().or(plain), Source::BodyField),
            _ => return,
        };
        self.wait.observe(seconds, source);
    }

    fn number(&mut self, number: f64, depth: usize) {
        let is_status = number.fract() == 0.0 && (400.0..600.0).contains(&number);
        if is_status && (self.status.is_none() || depth > self.status_depth) {
            self.status = Some(number as u16);
            self.status_depth = depth;
        }
    }

    fn limit(&mut self, name: &str) {
        if self.limits.len() < MOST_TEXT {
            self.limits.push_str(&name.to_ascii_lowercase());
            self.limits.push('\n');
        }
    }

    fn text(&mut self, text: &str) {
        let room = MOST_TEXT.saturating_sub(self.text.len());
        let end = text
            .char_indices()
            .map(|(at, c)| at + c.len_utf8())
            .take_while(|end| *end <= room)
            .last()
            .unwrap_or(0);
        self.text.push_str(&text[..end].to_ascii_lowercase().replace('\u{2019}', "'"));
        self.text.push('\n');
    }

    /// A message: its words, and what is wrapped in it.
    fn message(&mut self, text: &str, depth: usize) {
        if depth > MOST_DEPTH {
            return;
        }
        let inner = text.find('{').and_then(|at| first_json(&text[at..]));
        match inner {
            Some(value) => {
                let outside = text.split_once('{').map_or("", |(before, _)| before);
                self.text(outside);
                self.value(&value, depth + 1);
            }
            None => {
                self.text(text);
                self.scan(text, depth);
            }
        }
    }

    /// Fields of an object that is no JSON any more: a Python repr, escaped quotes, a cut end.
    fn scan(&mut self, text: &str, depth: usize) {
        self.wait.observe(hint::embedded_delay(text), Source::RetryInfo);
        if !text.contains(['\'', '"']) {
            return;
        }
        for key in
            ["code", "type", "status", "reason", "error_type", "quotaId", "quota_limit", "limit_source"]
        {
            for (at, _) in text.match_indices(key) {
                let quoted = text[..at].ends_with(['\'', '"']);
                let rest = &text[at + key.len()..];
                let value_at =
                    rest.find(|c| !matches!(c, '\'' | '"' | '\\' | ':' | ' ')).unwrap_or(rest.len());
                if !quoted || !rest[..value_at].contains(':') {
                    continue;
                }
                let value = &rest[value_at..];
                let end = value.find(['\'', '"', '\\', ',', '}', ']']).unwrap_or(value.len());
                if end <= 100 {
                    self.field(key, &Value::String(value[..end].to_owned()), depth + 1);
                }
            }
        }
    }

    fn events(&mut self, text: &str) {
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("data:").and_then(|data| first_json(data.trim())) {
                self.value(&value, 1);
            }
        }
    }

    fn nested_headers(&mut self, value: &Value) {
        let Value::Object(map) = value else { return };
        let owned: Vec<(&str, String)> =
            map.iter().map(|(name, value)| (name.as_str(), value_text(value))).collect();
        let headers: Vec<(&str, &[u8])> =
            owned.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        hint::from_headers(&headers, self.now, &mut self.wait);
        hint::buckets(&headers, self.now, |_| false, &mut self.wait);
    }
}

/// The first JSON value of a text, whatever follows it. Takes what Python takes too: `NaN`, lone surrogates.
pub(super) fn first_json(text: &str) -> Option<Value> {
    if !text.starts_with(['{', '[', '"']) {
        return None;
    }
    let parse = |text: &str| serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok();
    parse(text).or_else(|| parse(&text::strict(text)?))
}

/// The object itself, or the only one of a list.
pub(super) fn outermost(value: &Value) -> Option<&Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        Value::Array(items) => items.first().and_then(Value::as_object),
        _ => None,
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

/// `ThrottlingException:http://...` and `com.amazon#ThrottlingException` to the name alone.
fn exception_name(value: &str) -> &str {
    if !value.contains("Exception") && !value.contains(":http") {
        return value.trim();
    }
    let value = value.rsplit('#').next().unwrap_or(value);
    value.split([':', ' ']).next().unwrap_or(value).trim()
}

/// protobuf's other form of a duration: `{"seconds": 39, "nanos": 0}`.
fn seconds_and_nanos(value: &Value) -> Option<f64> {
    let part = |key: &str| match value.get(key)? {
        Value::String(text) => hint::plain_number(text),
        other => other.as_f64(),
    };
    Some(part("seconds")? + part("nanos").unwrap_or(0.0) * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Facts {
        let mut facts = Facts::read(text, &[], None);
        facts.read_waits(&[], true);
        facts
    }

    #[test]
    fn every_place_of_an_error_is_read() {
        for body in [
            r#"{"error": {"code": "some_code", "message": "Some words"}}"#,
            r#"[{"error": {"code": "some_code", "message": "Some words"}}]"#,
            r#"{"code": "some_code", "error": "Some words"}"#,
            r#"{"success": false, "errors": [{"code": "some_code", "message": "Some words"}]}"#,
            r#"{"error": {"message": "{\"error\": {\"code\": \"some_code\", \"message\": \"Some words\"}}"}}"#,
            r#"{"error": {"message": "x", "metadata": {"raw": "{\"code\": \"some_code\", \"message\": \"Some words\"}"}}}"#,
            r#"{"detail": "{\"error\": {\"code\": \"some_code\", \"message\": \"Some words\"}}"}"#,
            "data: {\"error\": {\"code\": \"some_code\", \"message\": \"Some words\"}}\n\n",
            r#"oops - b'{"error": {"code": "some_code", "message": "Some words"}}'"#,
            "Error code: 400 - {'error': {'message': 'Some words', 'code': 'some_code'}}",
            r#"{"error": {"code": "some_code", "message": "Some words"#,
            r#"{"error_code": "some_code", "message": "Some words"}"#,
        ] {
            let facts = read(body);
            assert!(facts.has_word("somecode"), "{body}: {facts:?}");
            assert!(facts.text.contains("some words"), "{body}: {facts:?}");
            assert_eq!(facts.provider_code().as_deref(), Some("some_code"), "{body}");
        }
    }

    #[test]
    fn the_innermost_status_counts_and_numbers_in_texts_do_not() {
        let body = r#"{"error": {"code": 502, "message": "Provider said 404", "metadata": {"raw": "{\"error\": {\"code\": 400}}"}}}"#;
        assert_eq!(read(body).status, Some(400));
        assert_eq!(read(r#"{"error": {"message": "got 429 from 503", "code": "x"}}"#).status, None);
        assert_eq!(read(r#"{"error": {"code": "429"}}"#).status, Some(429));
        assert_eq!(read(r#"{"error": {"code": 3036}}"#).status, None);
    }

    #[test]
    fn echoes_of_the_request_are_not_read() {
        let body = r#"{"detail": [{"type": "missing", "msg": "Field required", "input": {"message": "credit balance is too low"}}]}"#;
        assert!(!read(body).text.contains("credit"));
    }

    #[test]
    fn the_largest_wait_of_structure_and_message_counts() {
        let body = r#"{"error": {"code": 429, "message": "Please retry in 53.01s.", "details": [{"retryDelay": "53s"}]}}"#;
        assert_eq!(read(body).wait.into_hint().map(|hint| hint.seconds), Some(53.01));
    }

    #[test]
    fn a_code_is_bounded_and_printable() {
        let body = format!("{{\"error\": {{\"code\": \"a\\u0007{}\"}}}}", "b".repeat(500));
        let code = read(&body).provider_code();
        assert!(code.is_some_and(|code| code.chars().count() == 100 && !code.contains('\u{7}')));
    }
}
