//! The scope a call runs in: what the layers around it leave of their time and of their requests.
//!
//! It is a Python object with `remaining()`, `left()` and `spend()`: a `scope`, or the run of a wrapped function.
//! Every method runs with the GIL held.

use std::time::Duration;

use pyo3::prelude::*;
use steadycall_core::time::seconds;

use crate::python::name;

/// The layers around a call; none for most calls.
pub struct Around(Option<Py<PyAny>>);

impl Around {
    /// From the object, or `None`.
    pub fn new(given: &Bound<'_, PyAny>) -> Self {
        Self((!given.is_none()).then(|| given.clone().unbind()))
    }

    /// No layer.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether there is any.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The object itself.
    pub fn object(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.as_ref().map(|object| object.clone_ref(py))
    }

    /// Time left; `None` when nothing limits it.
    pub fn remaining(&self, py: Python<'_>) -> PyResult<Option<Duration>> {
        let Some(object) = &self.0 else { return Ok(None) };
        let left: Option<f64> = object.bind(py).call_method0(name!(py, "remaining")?)?.extract()?;
        Ok(left.map(|left| seconds(left.max(0.0)).unwrap_or(Duration::MAX)))
    }

    /// Requests left; `None` when nothing limits them.
    pub fn left(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        let Some(object) = &self.0 else { return Ok(None) };
        object.bind(py).call_method0(name!(py, "left")?)?.extract()
    }

    /// Gives a request back that was not made after all.
    pub fn refund(&self, py: Python<'_>) -> PyResult<()> {
        let Some(object) = &self.0 else { return Ok(()) };
        object.bind(py).call_method0(name!(py, "refund")?)?;
        Ok(())
    }

    /// Takes one request from every layer around; false when one of them has none left.
    pub fn spend(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(object) = &self.0 else { return Ok(true) };
        object.bind(py).call_method0(name!(py, "spend")?)?.extract()
    }
}
