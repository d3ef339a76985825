//! `steadycall._native`: a list of names.

use pyo3::prelude::*;

#[pymodule]
fn _native(_py: Python<'_>, _module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
