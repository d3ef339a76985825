//! The scope a call runs in: what the layers around it leave of their time and of their requests.
//!
//! It is a Python object with `remaining()`, `left()` and `spend()`: a `scope`, or the run of a wrapped function.
//! Every method runs with the GIL held.

use std::time::Duration;

use pyo3::prelude::*;

use crate::python::name;
use crate::unit::{Unit, limit};

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

    /// The unit of work they belong to.
    pub fn unit(&self, py: Python<'_>) -> PyResult<Option<Unit>> {
        self.0.as_ref().map_or(Ok(None), |object| Unit::of(object.bind(py)))
    }

    /// Whether a request may begin after a wait of so many seconds.
    pub fn may_start(&self, py: Python<'_>, wait: f64) -> PyResult<bool> {
        self.unit(py)?.map_or(Ok(true), |unit| unit.may_start(py, wait))
    }

    /// Time left; `None` when nothing limits it.
    pub fn remaining(&self, py: Python<'_>) -> PyResult<Option<Duration>> {
        let Some(object) = &self.0 else { return Ok(None) };
        limit(&object.bind(py).call_method0(name!(py, "remaining")?)?)
    }

    /// Time until a request that still queues must be over, with its permit at the last moment; else as `remaining`.
    pub fn longest(&self, py: Python<'_>) -> PyResult<Option<Duration>> {
        match (&self.0, self.unit(py)?) {
            (Some(object), Some(unit)) => unit.longest(object.bind(py)),
            _ => self.remaining(py),
        }
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

    /// Takes one request from every layer around; false when one of them has none left, or a unit of work lets none
    /// begin. It is asked by itself, because what was paid for in advance is not asked of the layers around.
    pub fn spend(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(object) = &self.0 else { return Ok(true) };
        if !self.may_start(py, 0.0)? {
            return Ok(false);
        }
        object.bind(py).call_method0(name!(py, "spend")?)?.extract()
    }
}
