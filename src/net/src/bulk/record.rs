//! One line for each row: an answer in the result format of OpenAI's Batch API, or a failure with its line and reason.
//!
//! Each begins with an id made of the run and the line, which is all that is read back of it.

use std::io::Write as _;

use steadycall_core::call::StopReason;
use steadycall_core::failure::{Failure, Reason};

use super::rows::Row;
use crate::answer::is_json;
use crate::driver::Ended;
use crate::transport::Answer;

/// Of a body that is no JSON so much is kept.
const KEPT: usize = 4 * 1024;

/// What is wrong with a line of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// When it is no JSON.
    NotJson,
    /// When it is JSON, and no object.
    NotAnObject,
    /// When it has no `custom_id`, or one that is no text.
    MissingCustomId,
    /// When an earlier line has the same `custom_id`.
    DuplicateCustomId,
    /// When its method is another than POST.
    Method,
    /// When its URL is missing or not relative.
    Url,
    /// When it has no body.
    MissingBody,
    /// When its body is no JSON object.
    Body,
    /// When its body asks for a stream.
    Stream,
    /// When it is longer than is read.
    TooLong,
}

impl Bad {
    /// The code in the record, and one line in plain words.
    pub const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::NotJson => ("not_json", "The line is not JSON."),
            Self::NotAnObject => ("not_an_object", "The line is no JSON object."),
            Self::MissingCustomId => {
                ("missing_custom_id", "The line has no custom_id, or one that is no text.")
            }
            Self::DuplicateCustomId => ("duplicate_custom_id", "An earlier line has the same custom_id."),
            Self::Method => ("bad_method", "The method is not POST."),
            Self::Url => (
                "bad_url",
                "The url is missing, or no path that begins with a slash and stays below the base.",
            ),
            Self::Body => ("body_not_an_object", "The body is no JSON object."),
            Self::MissingBody => ("missing_body", "The line has no body."),
            Self::Stream => ("stream", "The body asks for a stream, which does not fit into a line."),
            Self::TooLong => ("too_long", "The line is longer than 256 MiB."),
        }
    }
}

/// How a row is named in its record.
fn begin(out: &mut Vec<u8>, run: &str, number: u64, custom_id: Option<&str>) {
    let _ = write!(out, "{{\"id\":\"bulk-{run}-{number}\",\"custom_id\":");
    text(out, custom_id);
}

/// Adds the record of an answer.
pub fn answered(out: &mut Vec<u8>, run: &str, row: &Row, answer: &Answer, request_id: Option<&str>) {
    begin(out, run, row.number, Some(&row.custom_id));
    out.extend_from_slice(b",\"response\":");
    response(out, answer, request_id);
    out.extend_from_slice(b",\"error\":null}\n");
}

/// Adds the record of a row that failed.
pub fn failed(out: &mut Vec<u8>, run: &str, row: &Row, ended: &Ended) {
    begin(out, run, row.number, Some(&row.custom_id));
    let _ = write!(out, ",\"line\":{},\"response\":", row.number);
    match &ended.answer {
        Some(answer) => response(out, answer, ended.request_id.as_deref()),
        None => out.extend_from_slice(b"null"),
    }
    let (code, message) = reason(ended);
    error(out, code, message);
    out.extend_from_slice(b",\"provider_code\":");
    text(out, ended.failure.as_ref().and_then(|failure| failure.provider_code.as_deref()));
    out.extend_from_slice(b",\"stop_reason\":");
    text(out, ended.stop.map(stop_name));
    let _ = writeln!(out, ",\"requests\":{},\"sent\":\"{}\"}}}}", ended.requests, ended.sent().name());
}

/// Adds the record of a line that is no row.
pub fn bad(out: &mut Vec<u8>, run: &str, number: u64, custom_id: Option<&str>, what: Bad) {
    begin(out, run, number, custom_id);
    let _ = write!(out, ",\"line\":{number},\"response\":null");
    let (code, message) = what.told();
    error(out, code, message);
    out.extend_from_slice(b"}}\n");
}

/// The code and the sentence of a failed row.
pub fn reason(ended: &Ended) -> (&'static str, &'static str) {
    let of = |reason: Reason| (reason.name(), reason.sentence());
    match (&ended.failure, ended.stop) {
        (Some(Failure { reason, .. }), _) => of(*reason),
        (None, Some(StopReason::Deadline(_) | StopReason::MinAttempt(_))) => {
            ("deadline", "The deadline passed before the row could be sent.")
        }
        (None, Some(StopReason::HintTooLong)) => {
            ("hint_too_long", "The provider asked for a wait that is longer than max_wait.")
        }
        (None, _) => ("refused", "The row could not be sent."),
    }
}

fn error(out: &mut Vec<u8>, code: &str, message: &str) {
    out.extend_from_slice(b",\"error\":{\"code\":");
    text(out, Some(code));
    out.extend_from_slice(b",\"message\":");
    text(out, Some(message));
}

fn response(out: &mut Vec<u8>, answer: &Answer, request_id: Option<&str>) {
    let _ = write!(out, "{{\"status_code\":{},\"request_id\":", answer.status);
    text(out, request_id);
    out.extend_from_slice(b",\"body\":");
    let body = answer.body.trim_ascii();
    if is_json(body) {
        let start = out.len();
        out.extend_from_slice(body);
        if memchr::memchr2(b'\n', b'\r', body).is_some() {
            // Within JSON texts they are escaped, so these stand between values.
            out.iter_mut()
                .skip(start)
                .filter(|byte| matches!(byte, b'\n' | b'\r'))
                .for_each(|byte| *byte = b' ');
        }
    } else {
        let kept = body.get(..body.len().min(KEPT)).unwrap_or_default();
        text(out, Some(&String::from_utf8_lossy(kept)));
    }
    out.push(b'}');
}

fn text(out: &mut Vec<u8>, value: Option<&str>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, &value);
}

const fn stop_name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::NotRetryable => "not_retryable",
        StopReason::Tries => "tries",
        StopReason::RequestBudget => "request_budget",
        StopReason::HintTooLong => "hint_too_long",
        StopReason::Deadline(_) => "deadline",
        StopReason::MinAttempt(_) => "min_attempt",
        StopReason::RetryBudget => "retry_budget",
        StopReason::BreakerOpen => "breaker_open",
        StopReason::QueueFull => "queue_full",
        StopReason::Validation => "validation",
    }
}

/// What a line of an output file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// When it is the record of this line of the input.
    Of(u64),
    /// When it is the record of another run.
    OfAnotherRun,
    /// When it is none of ours.
    Foreign,
}

/// Reads the id of a whole line.
pub fn read(line: &[u8], run: &str) -> Read {
    let named = line.strip_prefix(b"{\"id\":\"bulk-").filter(|_| line.trim_ascii_end().ends_with(b"}"));
    let Some(named) = named else { return Read::Foreign };
    let Some(number) = named.strip_prefix(run.as_bytes()).and_then(|rest| rest.strip_prefix(b"-")) else {
        return Read::OfAnotherRun;
    };
    let digits = number.split(|byte| *byte == b'"').next().unwrap_or_default();
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.map_or(Read::Foreign, Read::Of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::HeaderMap;

    fn row() -> Row {
        Row { number: 3, custom_id: "a\"b".to_owned(), url: None, body: Bytes::new() }
    }

    fn answer(body: &'static str) -> Answer {
        Answer { status: 200, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn a_record_is_one_line_in_the_batch_format_and_tells_its_row() {
        let mut out = Vec::new();
        answered(&mut out, "ab12", &row(), &answer("{\n  \"n\": 1.50\n}\n"), Some("req-1"));
        let expected = "{\"id\":\"bulk-ab12-3\",\"custom_id\":\"a\\\"b\",\"response\":{\"status_code\":200,\
            \"request_id\":\"req-1\",\"body\":{   \"n\": 1.50 }},\"error\":null}\n";
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        assert_eq!(read(&out, "ab12"), Read::Of(3));
        assert_eq!(read(&out, "ab13"), Read::OfAnotherRun);
        assert_eq!(read(out.get(..20).unwrap(), "ab12"), Read::Foreign);
        assert_eq!(read(b"{\"custom_id\": \"x\"}", "ab12"), Read::Foreign);
    }

    #[test]
    fn a_bad_line_tells_its_number_and_what_is_wrong() {
        let mut out = Vec::new();
        bad(&mut out, "ab12", 9, None, Bad::NotJson);
        let expected = "{\"id\":\"bulk-ab12-9\",\"custom_id\":null,\"line\":9,\"response\":null,\
            \"error\":{\"code\":\"not_json\",\"message\":\"The line is not JSON.\"}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
