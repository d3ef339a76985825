//! Arguments from Python to Rust. Each bad one is a `ConfigError` that names field, value and what is allowed.
//!
//! Every function here runs with the GIL held and sends nothing.

use http::{HeaderMap, HeaderName, HeaderValue};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use steadycall_core::policy;
use steadycall_net::transport::Timeouts;

use crate::python;

const SECONDS: &str = "a finite number of seconds above 0";
const SECONDS_OR_NONE: &str = "a finite number of seconds above 0, or None";

/// `ConfigError(field, value, allowed)`.
pub fn config_error(py: Python<'_>, field: &str, value: &str, allowed: &str) -> PyErr {
    match python::config_error(py).and_then(|class| class.call1((field, value, allowed))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// The core's refusal of a policy field.
pub fn refused(py: Python<'_>, error: &policy::ConfigError) -> PyErr {
    config_error(py, error.field, &error.value, error.allowed)
}

/// A value as it may stand in an error text: its repr, bounded.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "an object".to_owned(), |repr| repr.to_string());
    if text.chars().count() <= 80 { text } else { text.chars().take(79).chain(['…']).collect() }
}

/// Seconds given as int, float or `timedelta`; bools and everything else are refused.
pub fn number(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<f64> {
    if let Ok(float) = value.cast_exact::<PyFloat>() {
        return Ok(float.value());
    }
    let refuse = || config_error(value.py(), field, &shown(value), allowed);
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() {
        return Err(refuse());
    }
    if value.hasattr("total_seconds")? {
        return value.call_method0("total_seconds")?.extract().map_err(|_| refuse());
    }
    // An int too large for a float is as good as infinite, which every caller refuses by name.
    value.extract::<f64>().map_err(|_| refuse())
}

/// Seconds above zero, or `None`.
pub fn optional_seconds(field: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    let seconds = number(field, value, SECONDS_OR_NONE)?;
    policy::limit(field, Some(seconds)).map_err(|error| refused(value.py(), &error))?;
    Ok(Some(seconds))
}

/// `seconds(field, value)` for Python: a finite time above zero as a float.
#[pyfunction]
pub fn seconds(field: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let given = number(field, value, SECONDS)?;
    if given.is_finite() && given > 0.0 {
        return Ok(given);
    }
    Err(config_error(value.py(), field, &shown(value), SECONDS))
}

/// A whole number; bools and floats are refused.
pub fn whole(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<i64> {
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        // Too large for 64 bits is as good as the largest: the caller's range check names it.
        return Ok(value.extract::<i64>().unwrap_or(i64::MAX));
    }
    Err(config_error(value.py(), field, &shown(value), allowed))
}

/// A yes or no; nothing else passes for one.
pub fn flag(field: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(flag) => Ok(flag.is_true()),
        Err(_) => Err(config_error(value.py(), field, &shown(value), "True or False")),
    }
}

/// A text that must not be empty, or `None`.
pub fn optional_text(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<Option<String>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract::<String>() {
        Ok(text) if !text.is_empty() => Ok(Some(text)),
        _ => Err(config_error(value.py(), field, &shown(value), allowed)),
    }
}

/// A callable, or `None`.
pub fn optional_callable(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    if value.is_none() {
        return Ok(None);
    }
    if value.is_callable() {
        return Ok(Some(value.clone().unbind()));
    }
    Err(config_error(value.py(), field, &shown(value), "a callable or None"))
}

/// `timeout=`: one number for every phase, a `Timeout`, or `None` for no limit.
pub fn timeouts(value: &Bound<'_, PyAny>) -> PyResult<Timeouts> {
    let py = value.py();
    if value.is_instance(python::timeout_class(py)?)? {
        let phase = |name: &'static str, field: &'static str| -> PyResult<_> {
            let seconds = optional_seconds(field, &value.getattr(name)?)?;
            policy::limit(field, seconds).map_err(|error| refused(py, &error))
        };
        return Ok(Timeouts {
            connect: phase("connect", "timeout.connect")?,
            read: phase("read", "timeout.read")?,
            write: phase("write", "timeout.write")?,
            pool: phase("pool", "timeout.pool")?,
        });
    }
    let seconds = optional_seconds("timeout", value)?;
    let all = policy::limit("timeout", seconds).map_err(|error| refused(py, &error))?;
    Ok(Timeouts { connect: all, read: all, write: all, pool: all })
}

/// Adds the caller's headers, a mapping or pairs, over ours.
pub fn headers(value: &Bound<'_, PyAny>, into: &mut HeaderMap) -> PyResult<()> {
    // Pairs may name a header twice on purpose; only the first of a name replaces what we would have sent.
    let mut seen: Vec<HeaderName> = Vec::new();
    for (name, content) in pairs(value)? {
        let parsed = header_name(&name)?;
        let first = !seen.contains(&parsed);
        header(&parsed, &content, into, first)?;
        seen.push(parsed);
    }
    Ok(())
}

/// The names and values of headers given as a mapping or as pairs; `None` is no headers.
pub fn pairs<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    if value.is_none() {
        return Ok(Vec::new());
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        return Ok(dict.iter().collect());
    }
    let refuse = || {
        let allowed = "a mapping or pairs of names and values";
        config_error(value.py(), "headers", "an object of another kind", allowed)
    };
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(refuse());
    }
    let items = if value.hasattr("items")? { value.call_method0("items")? } else { value.clone() };
    let mut found = Vec::new();
    for item in items.try_iter().map_err(|_| refuse())? {
        let item = item?;
        if item.is_instance_of::<PyString>() {
            return Err(refuse());
        }
        let pair: Vec<Bound<'py, PyAny>> = item.try_iter().map_err(|_| refuse())?.collect::<PyResult<_>>()?;
        let [name, content] = <[Bound<'py, PyAny>; 2]>::try_from(pair).map_err(|_| refuse())?;
        found.push((name, content));
    }
    Ok(found)
}

fn header(
    name: &HeaderName,
    content: &Bound<'_, PyAny>,
    into: &mut HeaderMap,
    replace: bool,
) -> PyResult<()> {
    let py = content.py();
    let field = || format!("headers[{:?}]", name.as_str());
    if matches!(name.as_str(), "content-length" | "transfer-encoding") {
        return Err(config_error(py, &field(), "a value", "left out: the body's own length is sent"));
    }
    let bytes = text_or_bytes(content);
    let mut checked = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok()).ok_or_else(|| {
        // The value may be a key, so it is not shown.
        let allowed = "text without line breaks or control characters, in latin-1";
        config_error(py, &field(), "a value that cannot be sent", allowed)
    })?;
    checked.set_sensitive(*name == http::header::AUTHORIZATION || name.as_str().contains("key"));
    if replace {
        into.insert(name.clone(), checked);
    } else {
        into.append(name.clone(), checked);
    }
    Ok(())
}

fn header_name(name: &Bound<'_, PyAny>) -> PyResult<HeaderName> {
    let refuse =
        || config_error(name.py(), "headers", "a name that cannot be sent", "named by an HTTP token");
    let bytes = text_or_bytes(name).ok_or_else(refuse)?;
    HeaderName::from_bytes(&bytes).map_err(|_| refuse())
}

/// The bytes of a str (latin-1, as urllib sends it) or bytes.
pub fn text_or_bytes(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Some(bytes.as_bytes().to_vec());
    }
    let text: String = value.extract().ok()?;
    if text.is_ascii() {
        return Some(text.into_bytes());
    }
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

/// The bytes of a str (UTF-8, lone surrogates replaced) or a bytes-like object.
pub fn text_or_bytes_utf8(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Some(text.to_string_lossy().into_owned().into_bytes());
    }
    value.extract::<Vec<u8>>().ok()
}
