//! What an answer is: good, or which failure. Runs with the GIL held, for JSON becomes objects here.

use http::Method;
use http::header::CONTENT_TYPE;
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use steadycall_core::classify::{self, StatusSet};
use steadycall_core::failure::Failure;
use steadycall_net::clock;
use steadycall_net::transport::Answer;

use crate::json;
use crate::options::Options;

/// What an answer was found to be.
pub enum Judged {
    /// When it is good, parsed.
    Answer(Py<PyAny>),
    /// When it is none, with what the parser said.
    Failed(Failure, Option<PyErr>),
}

/// Judges an answer that came to the request of `options`; `statuses` are those that the caller wants retried.
pub fn judge(
    py: Python<'_>,
    options: &Options,
    statuses: Option<&StatusSet>,
    answer: &Answer,
) -> PyResult<Judged> {
    if options.request.method != Method::POST && (200..300).contains(&answer.status) {
        // A record that was asked for may tell of a failure long past, and need not be JSON.
        return Ok(Judged::Answer(json::read(py, &answer.body).map_or_else(|_| py.None(), Bound::unbind)));
    }
    let content_type = answer.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let read = |failure: &dyn Fn() -> Failure| match json::read(py, &answer.body) {
        Ok(value) => Ok(Judged::Answer(value.unbind())),
        Err(error)
            if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyRecursionError>(py) =>
        {
            Ok(Judged::Failed(failure(), Some(error)))
        }
        Err(error) => Err(error),
    };
    if classify::surely_good(answer.status, content_type, &answer.body) {
        return read(&|| with_facts(options, answer, classify::unreadable));
    }
    match with_facts(options, answer, |facts| classify::classify_with(facts, statuses)) {
        Some(failure) => Ok(Judged::Failed(failure, None)),
        None => read(&|| with_facts(options, answer, classify::unreadable)),
    }
}

fn with_facts<T>(options: &Options, answer: &Answer, look: impl FnOnce(&classify::Answer<'_>) -> T) -> T {
    with_pairs(answer, |headers| {
        look(&classify::Answer {
            status: answer.status,
            headers,
            body: &answer.body,
            url: Some(&options.target.url),
            now: clock::wall(),
            dialect: None,
        })
    })
}

/// Looks at the headers of an answer as pairs.
pub fn with_pairs<T>(answer: &Answer, look: impl FnOnce(&[(&str, &[u8])]) -> T) -> T {
    let pairs: Vec<(&str, &[u8])> =
        answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    look(&pairs)
}
