//! The unit of work a request is part of: whether it may begin, and how long it may wait for its permit.
//!
//! It is a Python object, `Unit` of `_units_layer.py`, found among the layers around a call; most calls have none.
//! Every method runs with the GIL held and returns at once.

use std::time::Duration;

use pyo3::prelude::*;
use steadycall_core::time::seconds;

use crate::python::name;

/// A unit of work.
pub struct Unit(Py<PyAny>);

impl Unit {
    /// The one that a layer belongs to.
    pub fn of(layer: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = layer.py();
        let mut layer = layer.clone();
        while !layer.is_none() {
            if layer.hasattr(name!(py, "may_start")?)? {
                return Ok(Some(Self(layer.unbind())));
            }
            layer = layer.getattr(name!(py, "around")?)?;
        }
        Ok(None)
    }

    /// Whether a request may begin after a wait of so many seconds.
    pub fn may_start(&self, py: Python<'_>, wait: f64) -> PyResult<bool> {
        self.0.bind(py).call_method1(name!(py, "may_start")?, (wait,))?.extract()
    }

    /// Told that a request queues. How long it may; `None` is not limited.
    pub fn line_up(&self, py: Python<'_>) -> PyResult<Option<Duration>> {
        self.0.bind(py).call_method0(name!(py, "line_up")?)?;
        limit(&self.0.bind(py).call_method0(name!(py, "start_within")?)?)
    }

    /// Told that a request left the queue without a permit.
    pub fn leave_line(&self, py: Python<'_>) -> PyResult<()> {
        self.0.bind(py).call_method0(name!(py, "leave_line")?).map(drop)
    }

    /// Told that a request got its permit; false when it may not begin any more.
    pub fn permitted(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.bind(py).call_method0(name!(py, "permitted")?)?.extract()
    }

    /// Time until a request of a layer must be over, should its permit come at the last moment.
    pub fn longest(&self, layer: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
        let py = layer.py();
        limit(&self.0.bind(py).call_method1(name!(py, "longest")?, (layer,))?)
    }
}

/// Seconds as a layer tells them.
pub fn limit(told: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    let left: Option<f64> = told.extract()?;
    Ok(left.map(|left| seconds(left.max(0.0)).unwrap_or(Duration::MAX)))
}
