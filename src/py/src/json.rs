//! Python objects to JSON bytes and back, with the standard library as the judge.
//!
//! Decides nothing about JSON that `json.dumps` and `json.loads` would not decide: it is a short
//! cut through the plain cases and hands every other case, whole, to the standard library. So what
//! a user may send, what an answer may hold, and which exception says otherwise are Python's own,
//! and a case forgotten here costs time, never meaning.
//!
//! * Out: a writer of its own for exact `dict` (with exact `str` keys), `list`, `tuple`, `str`,
//!   `int`, `float`, `bool` and `None`. It runs no Python code and makes no Python object that the
//!   collector tracks, so nothing can change the payload under it.
//! * In: jiter, whose answers equal those of `json.loads` wherever it gives one (the differential
//!   laws in `tests/test_json_laws.py` hold it to that), under the one condition named at [`read`].
//!
//! The caller holds the GIL from start to end. Ctrl-C is noticed after the conversion, or within it
//! when the standard library runs; there is nothing to cancel.

use std::io::Write;

use jiter::{PythonParse, StringCacheMode};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Writes a payload as the bytes of a request body.
///
/// `bytes` go as they are; everything else means what `json.dumps` makes of it.
///
/// # Errors
/// Those of `json.dumps`, unchanged: `TypeError`, `ValueError`, `RecursionError`, or whatever the
/// payload's own methods raise.
pub fn write(py: Python<'_>, payload: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = payload.cast_exact::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(1024);
    if write_value(&mut out, payload, None).is_ok() {
        return Ok(out);
    }
    let text = Stdlib::get(py)?.dumps.bind(py).call1((payload,))?;
    Ok(text.cast::<PyString>()?.to_str()?.as_bytes().to_vec())
}

/// Reads the bytes of an answer into the Python objects `json.loads` would make of them.
///
/// jiter refuses what it does not know (a byte order mark, UTF-16 and UTF-32, lone surrogates, more
/// than 200 levels, integers of more than 4300 digits); `json.loads` then decides. The one thing it
/// would accept and Python refuse is a long integer after `sys.set_int_max_str_digits` lowered the
/// limit.
///
/// # Errors
/// Those of `json.loads`, unchanged: `JSONDecodeError`, `UnicodeDecodeError`, `ValueError` (an
/// integer of too many digits), `RecursionError`.
pub fn read<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let stdlib = Stdlib::get(py)?;
    if (body.len() <= LEAST_DIGIT_LIMIT || !stdlib.lowered_digit_limit(py)?)
        && let Ok(value) = READER.python_parse(py, body)
    {
        return Ok(value);
    }
    stdlib.loads.bind(py).call1((PyBytes::new(py, body),))
}

/// Adds the test hooks and imports `json`, so that no call is the first to import it.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    Stdlib::get(module.py())?;
    module.add_function(wrap_pyfunction!(_dumps, module)?)?;
    module.add_function(wrap_pyfunction!(_loads, module)?)
}

/// [`write`], for tests.
#[pyfunction]
fn _dumps<'py>(py: Python<'py>, obj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    write(py, obj).map(|body| PyBytes::new(py, &body))
}

/// [`read`], for tests.
#[pyfunction]
fn _loads<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    read(py, body)
}

/// jiter set to the dialect of `json.loads`; keys repeat from answer to answer, values do not.
const READER: PythonParse = PythonParse {
    allow_inf_nan: true,
    cache_mode: StringCacheMode::Keys,
    partial_mode: jiter::PartialMode::Off,
    catch_duplicate_keys: false,
    float_mode: jiter::FloatMode::Float,
};

/// The digits jiter reads in one integer, which is also Python's default limit.
const JITER_DIGIT_LIMIT: usize = 4300;

/// The lowest limit `sys.set_int_max_str_digits` accepts: shorter bodies cannot exceed any.
const LEAST_DIGIT_LIMIT: usize = 640;

/// The functions that judge, taken when the module is loaded.
struct Stdlib {
    dumps: Py<PyAny>,
    loads: Py<PyAny>,
    digit_limit: Py<PyAny>,
}

impl Stdlib {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static STDLIB: PyOnceLock<Stdlib> = PyOnceLock::new();
        STDLIB.get_or_try_init(py, || {
            let json = py.import("json")?;
            Ok(Self {
                dumps: json.getattr("dumps")?.unbind(),
                loads: json.getattr("loads")?.unbind(),
                digit_limit: py.import("sys")?.getattr("get_int_max_str_digits")?.unbind(),
            })
        })
    }

    /// Whether Python now refuses integers that jiter would read; 0 means no limit.
    fn lowered_digit_limit(&self, py: Python<'_>) -> PyResult<bool> {
        let limit: usize = self.digit_limit.bind(py).call0()?.extract()?;
        Ok((1..JITER_DIGIT_LIMIT).contains(&limit))
    }
}

/// The fast writer met something it leaves to `json.dumps`.
struct GiveUp;

/// Nesting the fast writer follows; well inside any thread's stack and Python's own limit.
const MAX_DEPTH: usize = 100;

fn write_value(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    above: Option<&Container<'_>>,
) -> Result<(), GiveUp> {
    if let Some(text) = exact::<PyString>(value) {
        write_str(out, text)
    } else if value.is_none() {
        out.extend_from_slice(b"null");
        Ok(())
    } else if let Some(number) = exact::<PyFloat>(value) {
        write_float(out, number.value())
    } else if let Some(number) = exact::<PyInt>(value) {
        write_int(out, number)
    } else if let Some(truth) = exact::<PyBool>(value) {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
        Ok(())
    } else if let Some(dict) = exact::<PyDict>(value) {
        write_dict(out, dict, &Container::enter(value, above)?)
    } else if let Some(list) = exact::<PyList>(value) {
        write_array(out, list.iter(), &Container::enter(value, above)?)
    } else if let Some(tuple) = exact::<PyTuple>(value) {
        write_array(out, tuple.iter(), &Container::enter(value, above)?)
    } else {
        Err(GiveUp)
    }
}

/// `cast_exact` without the error it makes of a wrong type, which costs more than the question.
fn exact<'a, 'py, T: PyTypeInfo>(value: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, T>> {
    if value.is_exact_instance_of::<T>() { value.cast_exact().ok() } else { None }
}

fn write_dict(out: &mut Vec<u8>, dict: &Bound<'_, PyDict>, here: &Container<'_>) -> Result<(), GiveUp> {
    out.push(b'{');
    let mut first = true;
    for (key, value) in dict.iter() {
        if !first {
            out.push(b',');
        }
        first = false;
        write_str(out, exact::<PyString>(&key).ok_or(GiveUp)?)?;
        out.push(b':');
        write_value(out, &value, Some(here))?;
    }
    out.push(b'}');
    Ok(())
}

fn write_array<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    here: &Container<'_>,
) -> Result<(), GiveUp> {
    out.push(b'[');
    let mut first = true;
    for item in items {
        if !first {
            out.push(b',');
        }
        first = false;
        write_value(out, &item, Some(here))?;
    }
    out.push(b']');
    Ok(())
}

/// Integers beyond 64 bits are left to `json.dumps`: they are rare, asking for their text may fail
/// (more digits than Python allows), and the failed extraction made an exception, whose allocation
/// may run the collector and with it Python code.
fn write_int(out: &mut Vec<u8>, number: &Bound<'_, PyInt>) -> Result<(), GiveUp> {
    let number: i64 = number.extract().map_err(|_| GiveUp)?;
    write!(out, "{number}").map_err(|_| GiveUp)
}

/// The shortest digits that read back as the same double, always with a `.` or an `e`, so that it
/// reads back as a float.
fn write_float(out: &mut Vec<u8>, number: f64) -> Result<(), GiveUp> {
    if !number.is_finite() {
        return Err(GiveUp);
    }
    out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
    Ok(())
}

/// Lone surrogates have no UTF-8: `json.dumps` writes them as escapes.
fn write_str(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Result<(), GiveUp> {
    let mut rest = text.to_str().map_err(|_| GiveUp)?.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        write_escape(out, byte);
        rest = after;
    }
    out.push(b'"');
    Ok(())
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let hex = |digit: u8| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// How many bytes from the start need no escape, eight at a time.
fn plain_prefix(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let special = tail.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\');
    bytes.len() - tail.len() + special.unwrap_or(tail.len())
}

/// The top bit of the lowest byte that is a control character, a quote or a backslash; bits above it
/// may be false alarms (a borrow runs upwards), bits below it never are.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & TOPS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, b' ') | equal(b'"') | equal(b'\\')
}

/// One dict, list or tuple being written and those around it: ends a cycle where it closes.
struct Container<'a> {
    value: &'a Bound<'a, PyAny>,
    above: Option<&'a Container<'a>>,
}

impl<'a> Container<'a> {
    fn enter(value: &'a Bound<'_, PyAny>, above: Option<&'a Container<'a>>) -> Result<Self, GiveUp> {
        let here = Self { value, above };
        let mut around = above;
        for _ in 0..MAX_DEPTH {
            match around {
                None => return Ok(here),
                Some(container) if container.value.is(value) => return Err(GiveUp),
                Some(container) => around = container.above,
            }
        }
        Err(GiveUp)
    }
}
