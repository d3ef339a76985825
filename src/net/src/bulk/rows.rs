//! A line of the input to a row, or to what is wrong with it. The body is passed on as it stands, never rebuilt.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::Bad;

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// When it is a row in the format of OpenAI's Batch API, with a URL relative to a base.
    Batch,
    /// When it is a payload, and all go to one URL.
    Plain,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The line it stands on, or its place among a program's own rows, from 1.
    pub number: u64,
    /// What the caller knows it by.
    pub custom_id: String,
    /// Where it goes, relative to the base; `None` for a plain payload.
    pub url: Option<String>,
    /// What is sent.
    pub body: Bytes,
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    custom_id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

/// Reads a line. What is wrong with it comes with the `custom_id`, where that could be read.
pub fn read(number: u64, line: &[u8], form: Form) -> Result<Row, (Bad, Option<String>)> {
    match form {
        Form::Plain => plain(number, line),
        Form::Batch => batch(number, line),
    }
}

/// A row of parts that a program gave.
pub fn read_parts(number: u64, custom_id: String, url: Option<String>, body: Bytes) -> Result<Row, Bad> {
    if url.is_some() && !body.starts_with(b"{") {
        return Err(Bad::Body);
    }
    if wants_a_stream(&body) {
        return Err(Bad::Stream);
    }
    Ok(Row { number, custom_id, url, body })
}

fn plain(number: u64, line: &[u8]) -> Result<Row, (Bad, Option<String>)> {
    let custom_id = format!("row-{number}");
    let Some(raw) = text(line).and_then(|text| serde_json::from_str::<&RawValue>(text).ok()) else {
        return Err((Bad::NotJson, Some(custom_id)));
    };
    let body = Bytes::copy_from_slice(raw.get().as_bytes());
    match wants_a_stream(&body) {
        true => Err((Bad::Stream, Some(custom_id))),
        false => Ok(Row { number, custom_id, url: None, body }),
    }
}

fn batch(number: u64, line: &[u8]) -> Result<Row, (Bad, Option<String>)> {
    let text = text(line).ok_or((Bad::NotJson, None))?;
    let parts: Batch<'_> = serde_json::from_str(text).map_err(|error| {
        let wrong = if error.is_data() && !text.trim_start().starts_with('{') {
            Bad::NotAnObject
        } else {
            Bad::NotJson
        };
        (wrong, None)
    })?;
    let custom_id =
        string(parts.custom_id).filter(|id| !id.is_empty()).ok_or((Bad::MissingCustomId, None))?;
    let wrong = |what: Bad| (what, Some(custom_id.clone()));
    if parts.method.is_some()
        && string(parts.method).is_none_or(|method| !method.eq_ignore_ascii_case("post"))
    {
        return Err(wrong(Bad::Method));
    }
    let url = string(parts.url).filter(|url| url.starts_with('/')).ok_or_else(|| wrong(Bad::Url))?;
    let body = parts.body.filter(|body| body.get() != "null").ok_or_else(|| wrong(Bad::MissingBody))?;
    if !body.get().starts_with('{') {
        return Err(wrong(Bad::Body));
    }
    let body = Bytes::copy_from_slice(body.get().as_bytes());
    if wants_a_stream(&body) {
        return Err(wrong(Bad::Stream));
    }
    Ok(Row { number, custom_id, url: Some(url), body })
}

fn text(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line).ok()
}

fn string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// Whether the answer would come as events, of which a record cannot be made.
fn wants_a_stream(body: &[u8]) -> bool {
    // Looked for before it is parsed for: few bodies hold the word at all.
    const KEY: &[u8] = b"\"stream\"";
    memchr::memmem::find(body, KEY).is_some()
        && serde_json::from_slice::<Body<'_>>(body)
            .is_ok_and(|body| body.stream.is_some_and(|value| value.get() == "true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Result<(String, Option<String>, String), Bad> {
        let row = read(7, line.as_bytes(), Form::Batch).map_err(|(bad, _)| bad)?;
        Ok((row.custom_id, row.url, String::from_utf8(row.body.to_vec()).unwrap()))
    }

    #[test]
    fn a_body_is_passed_on_as_it_stands() {
        let line =
            r#"{"custom_id": "é\u0041", "url":"/v1/x", "body": {"n": 1.50, "big": 123456789012345678901}}"#;
        let (id, url, body) = found(line).unwrap();
        assert_eq!((id.as_str(), url.as_deref()), ("éA", Some("/v1/x")));
        assert_eq!(body, r#"{"n": 1.50, "big": 123456789012345678901}"#);
        let plain = read(7, b" [1, 2] ", Form::Plain).unwrap();
        assert_eq!((plain.custom_id.as_str(), &plain.body[..]), ("row-7", &b"[1, 2]"[..]));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_named() {
        for (line, bad) in [
            ("", Bad::NotJson),
            ("{\"custom_id\": \"a\"", Bad::NotJson),
            ("[1]", Bad::NotAnObject),
            ("17", Bad::NotAnObject),
            (r#"{"url": "/x", "body": {}}"#, Bad::MissingCustomId),
            (r#"{"custom_id": 7, "url": "/x", "body": {}}"#, Bad::MissingCustomId),
            (r#"{"custom_id": "", "url": "/x", "body": {}}"#, Bad::MissingCustomId),
            (r#"{"custom_id": "a", "method": "GET", "url": "/x", "body": {}}"#, Bad::Method),
            (r#"{"custom_id": "a", "url": "https://elsewhere/x", "body": {}}"#, Bad::Url),
            (r#"{"custom_id": "a", "body": {}}"#, Bad::Url),
            (r#"{"custom_id": "a", "url": "/x"}"#, Bad::MissingBody),
            (r#"{"custom_id": "a", "url": "/x", "body": null}"#, Bad::MissingBody),
            (r#"{"custom_id": "a", "url": "/x", "body": "text"}"#, Bad::Body),
            (r#"{"custom_id": "a", "url": "/x", "body": {"stream": true}}"#, Bad::Stream),
        ] {
            assert_eq!(found(line), Err(bad), "{line}");
        }
        assert!(found(r#"{"custom_id": "a", "url": "/x", "body": {"stream": false}}"#).is_ok());
        assert!(read(1, b"\xff", Form::Plain).is_err());
    }
}
