//! Rows from Python, and what a run has to tell it: results, troubles, plans. Runs with the GIL held.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use steadycall_net::bulk::{self, Bad, Came, Counts, Fed, Form, Outcome, Paths, Row, Trouble};

use crate::{convert, errors, json, records};

/// A row of the program's own: a payload, a dict in the Batch format, or either as JSON text.
pub fn read(form: Form, number: u64, given: &Bound<'_, PyAny>) -> PyResult<Fed> {
    let py = given.py();
    let text = match given.cast::<PyString>() {
        Ok(text) => Some(text.to_str()?.as_bytes()),
        Err(_) => given.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes()),
    };
    let nameless = |custom_id: Option<String>| Row {
        number,
        custom_id: custom_id.unwrap_or_else(|| format!("row-{number}")),
        url: None,
        body: bytes::Bytes::new(),
    };
    if let Some(text) = text {
        return Ok(bulk::read(number, text, form).map_err(|(bad, id)| (nameless(id), bad)));
    }
    if form == Form::Plain {
        let Some(body) = body(py, given)? else { return Ok(Err((nameless(None), Bad::NotJson))) };
        let read = bulk::read_parts(number, format!("row-{number}"), None, body);
        return Ok(read.map_err(|bad| (nameless(None), bad)));
    }
    let Ok(parts) = given.cast::<PyDict>() else { return Ok(Err((nameless(None), Bad::NotAnObject))) };
    let text = |name: &str| -> PyResult<Option<String>> {
        Ok(parts.get_item(name)?.and_then(|value| value.extract().ok()))
    };
    let Some(custom_id) = text("custom_id")?.filter(|id| !id.is_empty()) else {
        return Ok(Err((nameless(None), Bad::MissingCustomId)));
    };
    let wrong = |bad| Ok(Err((nameless(Some(custom_id.clone())), bad)));
    let Some(url) = text("url")?.filter(|url| url.starts_with('/')) else { return wrong(Bad::Url) };
    let Some(body) = parts.get_item("body")?.filter(|body| !body.is_none()) else {
        return wrong(Bad::MissingBody);
    };
    let Some(body) = self::body(py, &body)? else { return wrong(Bad::NotJson) };
    match bulk::read_parts(number, custom_id.clone(), Some(url), body) {
        Ok(row) => Ok(Ok(row)),
        Err(bad) => wrong(bad),
    }
}

/// A value as JSON; `None` for what cannot be: one row of many, whose fault must not cost the others.
fn body(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Option<bytes::Bytes>> {
    match json::write(py, value) {
        Ok(text) => Ok(Some(text.into())),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        // Ctrl-C and its like.
        Err(error) => Err(error),
    }
}

/// What `BulkRun.plan` is made of: rows, bad lines, rows that have a record, rows to send, their tokens, the largest.
///
/// Without the GIL, for as long as it takes to read the files.
#[pyfunction]
#[pyo3(signature = (rows, output, failures, journal, plain, retry_failed))]
pub fn bulk_survey(
    py: Python<'_>,
    rows: PathBuf,
    output: PathBuf,
    failures: PathBuf,
    journal: PathBuf,
    plain: bool,
    retry_failed: bool,
) -> PyResult<(u64, u64, u64, u64, u64, u64)> {
    let paths = Paths { rows, output, failures, journal };
    let form = if plain { Form::Plain } else { Form::Batch };
    let found = py.detach(|| bulk::survey(&paths, form, retry_failed));
    let found = found.map_err(|trouble| raised(py, &trouble))?;
    Ok((found.rows, found.bad_lines, found.earlier, found.to_send, found.tokens, found.largest))
}

/// The fields of a `BulkResult`.
pub fn result<'py>(py: Python<'py>, came: Came) -> PyResult<Bound<'py, PyDict>> {
    let Came { row, ended } = came;
    let fields = PyDict::new(py);
    fields.set_item("index", row.number.saturating_sub(1))?;
    fields.set_item("custom_id", row.custom_id)?;
    let ended = ended.as_ref();
    let answered = ended.ok().filter(|ended| ended.is_answered()).and_then(|ended| ended.answer.as_ref());
    let answer = answered.map(|answer| json::read(py, &answer.body)).transpose()?;
    let why = match ended {
        Ok(ended) if ended.is_answered() => None,
        Ok(ended) if ended.is_cut_off() => Some("The run was stopped before the row was answered."),
        Ok(ended) => Some(bulk::reason(ended).1),
        Err(bad) => Some(bad.told().1),
    };
    let ended = ended.ok();
    let failure = ended.and_then(|ended| ended.failure.as_ref());
    fields.set_item("answer", answer)?;
    fields.set_item("status", ended.and_then(|ended| ended.answer.as_ref()).map(|answer| answer.status))?;
    fields.set_item("request_id", ended.and_then(|ended| ended.request_id.as_deref()))?;
    fields.set_item("failure", failure.map(|failure| records::failure(py, failure)).transpose()?)?;
    fields.set_item("why", why)?;
    fields.set_item("requests", ended.map_or(0, |ended| ended.requests))?;
    Ok(fields)
}

/// The fields of a `BulkProgress`, but for seconds in place of a point in time.
pub fn progress<'py>(py: Python<'py>, counts: &Counts, elapsed: Duration) -> PyResult<Bound<'py, PyDict>> {
    let now = counts.snapshot();
    let fields = PyDict::new(py);
    fields.set_item("rows", now.rows)?;
    fields.set_item("answered", now.answered)?;
    fields.set_item("failed", now.failed)?;
    fields.set_item("earlier", now.earlier_answered.saturating_add(now.earlier_failed))?;
    fields.set_item("in_flight", now.in_flight)?;
    fields.set_item("waiting", now.waiting)?;
    fields.set_item("requests", now.requests)?;
    fields.set_item("input_tokens", now.input_tokens)?;
    fields.set_item("output_tokens", now.output_tokens)?;
    fields.set_item("rate_limited", now.rate_limited)?;
    fields.set_item("wait", now.wait.map(|wait| wait.as_secs_f64()))?;
    fields.set_item("last_error", counts.last_error())?;
    fields.set_item("elapsed", elapsed.as_secs_f64())?;
    Ok(fields)
}

/// The fields of a `BulkSummary`.
pub fn summary<'py>(
    py: Python<'py>,
    counts: &Counts,
    outcome: Outcome,
    elapsed: Duration,
) -> PyResult<Bound<'py, PyDict>> {
    let now = counts.snapshot();
    let done = [now.answered, now.failed, now.earlier_answered, now.earlier_failed].iter().sum();
    let left = now.rows.saturating_sub(done);
    let outcomes = PyDict::new(py);
    for (name, count) in counts.outcomes() {
        outcomes.set_item(name, count)?;
    }
    let stopped = match outcome {
        Outcome::Stopped if left > 0 => Some("stop"),
        Outcome::Aborted if left > 0 => Some("abort"),
        Outcome::Refused if left > 0 => Some("refused"),
        Outcome::Outage if left > 0 => Some("outage"),
        Outcome::Wait if left > 0 => Some("wait"),
        _ => None,
    };
    let fields = PyDict::new(py);
    fields.set_item("rows", now.rows)?;
    fields.set_item("answered", now.answered)?;
    fields.set_item("failed", now.failed)?;
    fields.set_item("earlier_answered", now.earlier_answered)?;
    fields.set_item("earlier_failed", now.earlier_failed)?;
    fields.set_item("left", left)?;
    fields.set_item("maybe_billed_twice", now.maybe_billed_twice)?;
    fields.set_item("outcomes", outcomes)?;
    fields.set_item("requests", now.requests)?;
    fields.set_item("rate_limited", now.rate_limited)?;
    fields.set_item("input_tokens", now.input_tokens)?;
    fields.set_item("output_tokens", now.output_tokens)?;
    fields.set_item("elapsed", elapsed.as_secs_f64())?;
    fields.set_item("stopped", stopped)?;
    fields.set_item("last_error", counts.last_error())?;
    // What held everybody matters only to who comes back for the rest.
    let wait = now.wait.filter(|_| left > 0);
    fields.set_item("wait", wait.map(|wait| wait.as_secs_f64()))?;
    Ok(fields)
}

/// What was in a run's way, as an exception: `OSError` with the file's name, `ConfigError`, or our own fault.
pub fn raised(py: Python<'_>, trouble: &Trouble) -> PyErr {
    match trouble {
        Trouble::Io { path, error } => match error.raw_os_error() {
            Some(number) => {
                let text = py
                    .import("os")
                    .and_then(|os| os.call_method1("strerror", (number,))?.extract::<String>());
                PyOSError::new_err((number, text.unwrap_or_else(|_| error.to_string()), path.clone()))
            }
            None => PyOSError::new_err(format!("{}: {error}", path.display())),
        },
        Trouble::Refused { field, path, allowed } => {
            convert::config_error(py, field, &format!("{:?}", path.display().to_string()), allowed)
        }
        Trouble::Ours(what) => errors::our_fault(py, what),
    }
}
