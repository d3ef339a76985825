//! The core's plain data as the frozen records of `steadycall._records`. Runs with the GIL held.

use http::HeaderMap;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use steadycall_core::breaker::State;
use steadycall_core::classify::Dialect;
use steadycall_core::event::AttemptRecord;
use steadycall_core::failure::{Failure, Kind, Reason, Sent};
use steadycall_core::hint::{Hint, Source};

use crate::{convert, python};

/// The user's word for a kind: a member of `FailureKind`.
pub fn kind(py: Python<'_>, kind: Kind) -> PyResult<Bound<'_, PyAny>> {
    let name = match kind {
        Kind::Call => "CALL",
        Kind::RateLimited => "RATE_LIMITED",
        Kind::Permanent => "PERMANENT",
        Kind::Validation => "VALIDATION",
    };
    python::failure_kind(py)?.getattr(name)
}

/// The user's word for `sent`.
pub const fn sent(sent: Sent) -> &'static str {
    match sent {
        Sent::No => "no",
        Sent::Maybe => "maybe",
    }
}

/// An `AttemptRecord`.
pub fn attempt<'py>(py: Python<'py>, record: &AttemptRecord) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("number", record.number)?;
    fields.set_item("status", record.status)?;
    fields.set_item("kind", record.kind.map(|found| kind(py, found)).transpose()?)?;
    fields.set_item("provider_code", record.provider_code.as_deref())?;
    fields.set_item("hint", record.hint.as_ref().map(|hint| hint.seconds))?;
    fields.set_item("hint_source", record.hint.as_ref().map(|hint| hint.source.name()))?;
    fields.set_item("wait", record.wait)?;
    fields.set_item("elapsed", record.elapsed.as_secs_f64())?;
    fields.set_item("request_id", record.request_id.as_deref())?;
    fields.set_item("sent", sent(record.sent))?;
    fields.set_item("received", record.received)?;
    fields.set_item("delivered", record.delivered)?;
    fields.set_item("replays", record.replays)?;
    python::attempt_record(py)?.call((), Some(&fields))
}

/// Every attempt as a tuple.
pub fn attempts<'py>(py: Python<'py>, records: &[AttemptRecord]) -> PyResult<Bound<'py, PyTuple>> {
    let made: Vec<_> = records.iter().map(|record| attempt(py, record)).collect::<PyResult<_>>()?;
    PyTuple::new(py, made)
}

/// Name and value of each header, in latin-1 as `http.client` reads them.
pub fn header_pairs<'py>(py: Python<'py>, headers: &HeaderMap) -> PyResult<Bound<'py, PyTuple>> {
    let text = |value: &[u8]| -> String { value.iter().map(|byte| char::from(*byte)).collect() };
    let pairs: Vec<(&str, String)> =
        headers.iter().map(|(name, value)| (name.as_str(), text(value.as_bytes()))).collect();
    PyTuple::new(py, pairs)
}

/// A `Failure`.
pub fn failure<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("kind", kind(py, failure.kind)?)?;
    fields.set_item("retryable", failure.retryable)?;
    fields.set_item("status", failure.status)?;
    fields.set_item("provider_code", failure.provider_code.as_deref())?;
    let hint = failure.hint.as_ref().map(|hint| {
        let said = PyDict::new(py);
        said.set_item("seconds", hint.seconds)?;
        said.set_item("source", hint.source.name())?;
        python::hint(py)?.call((), Some(&said))
    });
    fields.set_item("hint", hint.transpose()?)?;
    fields.set_item("sent", sent(failure.sent))?;
    fields.set_item("reason", failure.reason.sentence())?;
    fields.set_item("dialect", failure.dialect.name())?;
    python::failure(py)?.call((), Some(&fields))
}

/// A `Failure` of Python's, as the core knows it.
pub fn read_failure(given: &Bound<'_, PyAny>) -> PyResult<Failure> {
    let py = given.py();
    let text = |name: &str| -> PyResult<String> { given.getattr(name)?.extract() };
    let hint = given.getattr("hint")?;
    let hint = match hint.is_none() {
        true => None,
        false => {
            let source: String = hint.getattr("source")?.extract()?;
            let seconds: f64 = hint.getattr("seconds")?.extract()?;
            // A caller's own Failure may hold anything; what is no wait is no hint (rule 3).
            (seconds > 0.0).then(|| Hint { seconds, source: Source::from_name(&source) })
        }
    };
    let word = text("kind")?;
    let kind = [Kind::Call, Kind::RateLimited, Kind::Permanent, Kind::Validation]
        .into_iter()
        .find(|kind| kind.name() == word)
        .ok_or_else(|| convert::config_error(py, "kind", &format!("{word:?}"), "a FailureKind"))?;
    Ok(Failure {
        kind,
        // A kind that is never retried needs no second word for it.
        retryable: kind != Kind::Permanent && given.getattr("retryable")?.extract()?,
        status: given.getattr("status")?.extract()?,
        provider_code: given.getattr("provider_code")?.extract()?,
        hint,
        sent: if text("sent")? == Sent::No.name() { Sent::No } else { Sent::Maybe },
        reason: Reason::from_sentence(&text("reason")?).unwrap_or(Reason::ToldByCaller),
        dialect: Dialect::from_name(&text("dialect")?).unwrap_or_default(),
    })
}

/// The user's word for a circuit's state.
pub const fn state_name(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open(_) => "open",
        State::HalfOpen { .. } => "half_open",
        State::ForcedOpen => "forced_open",
        State::ForcedClosed => "forced_closed",
    }
}
