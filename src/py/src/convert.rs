//! Arguments from Python to Rust. Each bad one is a `ConfigError` that names field, value and what is allowed.
//!
//! Every function here runs with the GIL held and sends nothing.

use http::{HeaderMap, HeaderName, HeaderValue};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyMemoryView, PyString};
use steadycall_core::policy;
use steadycall_net::transport::Timeouts;

use crate::python::{self, name};

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
    match value.repr() {
        Ok(repr) => shortened(&repr.to_string_lossy()),
        // Python writes no int of more than 4300 digits.
        Err(_) if value.is_instance_of::<PyInt>() => "an int too long to write".to_owned(),
        Err(_) => kind(value),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(79).chain(['…']).collect() }
}

/// What a value is, where it may be a secret: `an int`, `a list`.
pub fn kind(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "None".to_owned();
    }
    let name = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    let article =
        if name.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    format!("{article} {}", shortened(&name))
}

/// Seconds given as int, float or `timedelta`; bools and everything else are refused.
///
/// Asked of the type, because an object that makes up its attributes (a mock) has every one.
pub fn number(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<f64> {
    let py = value.py();
    if let Ok(float) = value.cast_exact::<PyFloat>() {
        return Ok(float.value());
    }
    let refuse = |_| config_error(py, field, &shown(value), allowed);
    if is_plain_number(value) {
        // An int too large for a float is no finite number either.
        return value.extract().map_err(|_| refuse(()));
    }
    match value.get_type().getattr_opt(name!(py, "total_seconds")?)? {
        Some(total) => ours(py, total.call1((value,)).and_then(|seconds| seconds.extract()), refuse),
        None => Err(refuse(())),
    }
}

/// An int or a float that a float can hold; a bool is none.
pub fn plain_number(value: &Bound<'_, PyAny>) -> Option<f64> {
    if is_plain_number(value) { value.extract().ok() } else { None }
}

fn is_plain_number(value: &Bound<'_, PyAny>) -> bool {
    let number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    number && !value.is_instance_of::<PyBool>()
}

/// What a caller's own code gave; an `Exception` of it becomes the refusal, control flow passes.
fn ours<T>(py: Python<'_>, given: PyResult<T>, refuse: impl FnOnce(()) -> PyErr) -> PyResult<T> {
    given.map_err(|error| if error.is_instance_of::<PyException>(py) { refuse(()) } else { error })
}

/// Seconds above zero, or `None`.
pub fn optional_seconds(field: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    above_zero(field, value, SECONDS_OR_NONE).map(Some)
}

/// `seconds(field, value)` for Python: a finite time above zero as a float.
#[pyfunction]
pub fn seconds(field: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    above_zero(field, value, SECONDS)
}

/// `seconds_or_none(field, value)` for Python: the same, or `None`.
#[pyfunction]
pub fn seconds_or_none(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() { Ok(None) } else { above_zero(field, value, SECONDS_OR_NONE).map(Some) }
}

fn above_zero(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<f64> {
    let given = number(field, value, allowed)?;
    if given.is_finite() && given > 0.0 {
        return Ok(given);
    }
    Err(config_error(value.py(), field, &shown(value), allowed))
}

/// A whole number that fits into 64 bits; bools and floats are refused.
pub fn whole(field: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyResult<i64> {
    let number = is_plain_number(value) && value.is_instance_of::<PyInt>();
    let refuse = || config_error(value.py(), field, &shown(value), allowed);
    if number { value.extract().map_err(|_| refuse()) } else { Err(refuse()) }
}

/// How many: at least 1, at most `most`.
pub fn count(field: &str, value: &Bound<'_, PyAny>, most: i64) -> PyResult<i64> {
    const AT_LEAST: &str = "a whole number of at least 1";
    let too_many =
        || config_error(value.py(), field, &shown(value), &format!("a whole number of at most {most}"));
    match whole(field, value, AT_LEAST) {
        Ok(number) if number > most => Err(too_many()),
        Ok(number) if number >= 1 => Ok(number),
        Ok(_) => Err(config_error(value.py(), field, &shown(value), AT_LEAST)),
        Err(_) if value.is_instance_of::<PyInt>() && value.gt(most)? => Err(too_many()),
        Err(error) => Err(error),
    }
}

/// `count(field, value)` for Python: a whole number of at least 1.
#[pyfunction(name = "count")]
pub fn count_for_python(field: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    count(field, value, u32::MAX.into())
}

/// `callback(field, value)` for Python: a plain callable, or `None`.
#[pyfunction]
pub fn callback(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    optional_callable(field, value)
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

/// A plain callable, or `None`. A coroutine function is refused: nobody would await what it gives.
pub fn optional_callable(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    if value.is_none() {
        return Ok(None);
    }
    if value.is_callable() && !makes_coroutines(value) {
        return Ok(Some(value.clone().unbind()));
    }
    let allowed = "a plain callable (no coroutine function), or None";
    Err(config_error(value.py(), field, &shown(value), allowed))
}

/// Whether it is an `async def`, also as a method, as `__call__`, or behind a `functools.partial`.
fn makes_coroutines(callable: &Bound<'_, PyAny>) -> bool {
    const CO_COROUTINE: u32 = 0x80; // inspect.CO_COROUTINE
    let is_async = |function: &Bound<'_, PyAny>| {
        let flags = function.getattr("__code__").and_then(|code| code.getattr("co_flags")?.extract::<u32>());
        flags.is_ok_and(|flags| flags & CO_COROUTINE != 0)
    };
    let class = callable.get_type();
    let behind =
        class.name().is_ok_and(|name| name == "partial").then(|| callable.getattr("func").ok()).flatten();
    is_async(callable)
        || class.getattr("__call__").is_ok_and(|call| is_async(&call))
        || behind.is_some_and(|function| makes_coroutines(&function))
}

/// Refuses what only `await` could make use of, and closes it, so that Python does not warn of it later.
pub fn no_awaitable(field: &str, given: &Bound<'_, PyAny>, allowed: &str) -> PyResult<()> {
    if given.is_none() || !given.get_type().hasattr("__await__")? {
        return Ok(());
    }
    if given.hasattr("close")? {
        given.call_method0("close")?;
    }
    Err(config_error(given.py(), field, &kind(given), allowed))
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
    let seconds = timeout_seconds(value)?;
    let all = policy::limit("timeout", seconds).map_err(|error| refused(py, &error))?;
    Ok(Timeouts { connect: all, read: all, write: all, pool: all })
}

/// One number for every phase, or `None`.
fn timeout_seconds(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    const ALLOWED: &str = "a finite number of seconds above 0, a Timeout, or None";
    if value.is_none() {
        return Ok(None);
    }
    match value.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
        Err(_) => above_zero("timeout", value, ALLOWED).map(Some),
        Ok((connect, read)) => {
            // As requests takes it.
            let pair = format!("Timeout(connect={}, read={})", shown(&connect), shown(&read));
            let allowed = format!("{ALLOWED} (for connect and read: {pair})");
            Err(config_error(value.py(), "timeout", &shown(value), &allowed))
        }
    }
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

/// Lays headers that were read before over others.
pub fn lay(over: &HeaderMap, into: &mut HeaderMap) {
    for name in over.keys() {
        into.remove(name);
        for value in over.get_all(name) {
            into.append(name.clone(), value.clone());
        }
    }
}

/// The names and values of headers given as a mapping or as pairs; `None` is no headers.
pub fn pairs<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let py = value.py();
    if value.is_none() {
        return Ok(Vec::new());
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        return Ok(dict.iter().collect());
    }
    // What is in it may be a key, so only its kind is shown.
    let refuse = |got: &Bound<'py, PyAny>| {
        config_error(py, "headers", &kind(got), "a mapping or pairs of names and values")
    };
    if is_text(value) {
        return Err(refuse(value));
    }
    no_awaitable(
        "headers",
        value,
        "a mapping, pairs or a plain callable (a coroutine function needs acall)",
    )?;
    let items = match value.getattr_opt("items")? {
        Some(items) if items.is_callable() => items.call0()?,
        Some(_) => return Err(refuse(value)),
        None => value.clone(),
    };
    let mut found = Vec::new();
    for item in items.try_iter().map_err(|_| refuse(value))? {
        let item = item?;
        if is_text(&item) {
            return Err(refuse(&item));
        }
        let pair: Vec<Bound<'py, PyAny>> =
            item.try_iter().map_err(|_| refuse(&item))?.collect::<PyResult<_>>()?;
        let [name, content] = <[Bound<'py, PyAny>; 2]>::try_from(pair).map_err(|_| refuse(&item))?;
        found.push((name, content));
    }
    Ok(found)
}

fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
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
        let got = if is_text(content) { "a value that cannot be sent".to_owned() } else { kind(content) };
        let allowed = "str or bytes, in latin-1 without line breaks or other control characters";
        config_error(py, &field(), &got, allowed)
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
    // Who swaps name and value shows us a key, so only the kind is told.
    let got = || if is_text(name) { "a name that cannot be sent".to_owned() } else { kind(name) };
    let refuse = || config_error(name.py(), "headers", &got(), "named by an HTTP token, as str or bytes");
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
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Some(bytes.as_bytes().to_vec());
    }
    let bytes_like = value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>();
    let copied = bytes_like.then(|| value.py().get_type::<PyBytes>().call1((value,)).ok()).flatten()?;
    Some(copied.cast::<PyBytes>().ok()?.as_bytes().to_vec())
}
