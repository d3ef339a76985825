//! `classify`: the core's judgement of an answer that somebody else fetched, by the built-in table of statuses or by
//! that of a policy; `failure`: a failure without an answer,
//! by the name of its
//! reason. Both run with the GIL held.

use std::borrow::Cow;

use http::StatusCode;
use pyo3::prelude::*;
use pyo3::types::PyString;
use steadycall_core::classify::{Answer, Dialect, classify_with};
use steadycall_core::failure::{Failure, Reason, Sent};

use crate::policy::CheckedPolicy;
use crate::{convert, errors, records};

const STATUS: &str = "an HTTP status from 100 to 599";
const NOW: &str = "seconds since the epoch as an int or float, or None";

/// Judges an answer; `None` when it is good.
#[pyfunction]
#[pyo3(signature = (status, headers, body, url, now, dialect, policy = None))]
pub fn classify<'py>(
    status: &Bound<'py, PyAny>,
    headers: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    url: &Bound<'py, PyAny>,
    now: &Bound<'py, PyAny>,
    dialect: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, CheckedPolicy>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = status.py();
    let refuse = |field: &str, got: &str, allowed: &str| convert::config_error(py, field, got, allowed);
    let number = convert::whole("status", status, STATUS)?;
    let checked = u16::try_from(number)
        .ok()
        .filter(|status| StatusCode::from_u16(*status).is_ok_and(|status| status.as_u16() <= 599));
    let status = checked.ok_or_else(|| refuse("status", &convert::shown(status), STATUS))?;
    let pairs = pairs(headers)?;
    let headers: Vec<(&str, &[u8])> =
        pairs.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    // Bodies and URLs are not shown: a prompt or a key may be in them.
    let body = convert::text_or_bytes_utf8(body)
        .ok_or_else(|| refuse("body", &convert::kind(body), "bytes or str"))?;
    let url: Option<Cow<'_, str>> = match url.cast::<PyString>() {
        Ok(url) => Some(url.to_string_lossy()),
        Err(_) if url.is_none() => None,
        Err(_) => return Err(refuse("url", &convert::kind(url), "a str, or None")),
    };
    let now = convert::plain_number(now)
        .filter(|now| now.is_finite())
        .ok_or_else(|| refuse("now", &convert::shown(now), NOW))?;
    let dialect = self::dialect(dialect)?;
    let answer =
        Answer { status, headers: &headers, body: &body, url: url.as_deref(), now: Some(now), dialect };
    let statuses = policy.and_then(|policy| policy.get().policy.retry_status.as_ref());
    let failure = errors::guarded(py, "judging an answer", || Ok(classify_with(&answer, statuses)))?;
    failure.map(|failure| records::failure(py, &failure)).transpose()
}

/// A failure that brought no answer to judge: the core's table has the kind and the sentence of its reason.
#[pyfunction]
pub fn failure<'py>(py: Python<'py>, reason: &str, sent: &str) -> PyResult<Bound<'py, PyAny>> {
    let Some(reason) = Reason::from_name(reason) else {
        return Err(convert::config_error(
            py,
            "reason",
            &format!("{reason:?}"),
            "the name of a known reason",
        ));
    };
    let Some(sent) = [Sent::No, Sent::Maybe].into_iter().find(|word| word.name() == sent) else {
        return Err(convert::config_error(py, "sent", &format!("{sent:?}"), "\"no\" or \"maybe\""));
    };
    records::failure(py, &Failure::transport(reason, sent))
}

/// A dialect by its name; `None` for "auto".
fn dialect(given: &Bound<'_, PyAny>) -> PyResult<Option<Dialect>> {
    let name: Option<String> = given.extract().ok();
    match name.as_deref() {
        Some("auto") => return Ok(None),
        Some(name) => {
            if let Some(dialect) = Dialect::from_name(name) {
                return Ok(Some(dialect));
            }
        }
        None => {}
    }
    let known: Vec<String> = Dialect::ALL.iter().map(|dialect| format!("{:?}", dialect.name())).collect();
    let allowed = format!("\"auto\" or one of {}", known.join(", "));
    Err(convert::config_error(given.py(), "dialect", &convert::shown(given), &allowed))
}

/// Headers as they came, and as people write them in tests: a number stands for its text.
fn pairs(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for (name, value) in convert::pairs(headers)? {
        let refuse_name =
            || convert::config_error(name.py(), "headers", &convert::kind(&name), "named by str or bytes");
        let name = convert::text_or_bytes_utf8(&name).ok_or_else(refuse_name)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let text = match convert::plain_number(&value) {
            Some(_) => value.str()?.into_any(),
            None => value,
        };
        let Some(content) = convert::text_or_bytes_utf8(&text) else {
            let field = format!("headers[{name:?}]");
            let allowed = "str, bytes, an int or a float";
            return Err(convert::config_error(text.py(), &field, &convert::kind(&text), allowed));
        };
        found.push((name, content));
    }
    Ok(found)
}
