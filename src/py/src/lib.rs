//! `steadycall._native`: a list of names.

mod json;

use pyo3::prelude::*;

#[pymodule]
fn _native(_py: Python<'_>, module: &Bound<'_, PyModule>) -> PyResult<()> {
    json::register(module)
}
