//! `classify`: the core's judgement of an answer that somebody else fetched; `failure`: a failure without an answer,
//! by the name of its reason. Both run with the GIL held.

use http::StatusCode;
use pyo3::prelude::*;
use steadycall_core::classify::{Answer, Dialect, classify as judge};
use steadycall_core::failure::{Failure, Reason, Sent};

use crate::{convert, records};

/// Judges an answer; `None` when it is good.
#[pyfunction]
pub fn classify<'py>(
    status: &Bound<'py, PyAny>,
    headers: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    url: Option<String>,
    now: f64,
    dialect: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = status.py();
    let number = convert::whole("status", status, "an HTTP status from 100 to 599")?;
    let checked = u16::try_from(number)
        .ok()
        .filter(|status| StatusCode::from_u16(*status).is_ok_and(|status| status.as_u16() <= 599));
    let Some(status) = checked else {
        return Err(convert::config_error(
            py,
            "status",
            &number.to_string(),
            "an HTTP status from 100 to 599",
        ));
    };
    let dialect = match dialect {
        "auto" => None,
        name => Some(Dialect::from_name(name).ok_or_else(|| {
            convert::config_error(
                py,
                "dialect",
                &format!("{name:?}"),
                "\"auto\" or the name of a known dialect",
            )
        })?),
    };
    let body = match convert::text_or_bytes_utf8(body) {
        Some(body) => body,
        None => return Err(convert::config_error(py, "body", "an object of another kind", "bytes or str")),
    };
    let pairs = pairs(headers)?;
    let headers: Vec<(&str, &[u8])> =
        pairs.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let answer =
        Answer { status, headers: &headers, body: &body, url: url.as_deref(), now: Some(now), dialect };
    judge(&answer).map(|failure| records::failure(py, &failure)).transpose()
}

/// A failure that brought no answer to judge: the core's table has the kind and the sentence of its reason.
#[pyfunction]
pub fn failure<'py>(py: Python<'py>, reason: &str, sent: &str) -> PyResult<Bound<'py, PyAny>> {
    let Some(reason) = Reason::from_name(reason) else {
        return Err(convert::config_error(py, "reason", &format!("{reason:?}"), "the name of a known reason"));
    };
    let Some(sent) = [Sent::No, Sent::Maybe].into_iter().find(|word| word.name() == sent) else {
        return Err(convert::config_error(py, "sent", &format!("{sent:?}"), "\"no\" or \"maybe\""));
    };
    records::failure(py, &Failure::transport(reason, sent))
}

/// Headers as they came; a value that is no text is left out, since it cannot say anything.
fn pairs(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for (name, value) in convert::pairs(headers)? {
        let name: String = name.extract().map_err(|_| {
            convert::config_error(name.py(), "headers", "a name of another kind", "named by texts")
        })?;
        if let Some(value) = convert::text_or_bytes_utf8(&value) {
            found.push((name, value));
        }
    }
    Ok(found)
}
