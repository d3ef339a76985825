//! What all runs of one wrapped function share, read once. Every method runs with the GIL held and returns at once.

use std::sync::Arc;

use pyo3::prelude::*;
use steadycall_core::policy::Policy;

use crate::around::Around;
use crate::hooks::Clock;
use crate::policy::CheckedPolicy;
use crate::run::Run;

/// Starts the runs of one wrapped function: what all of them share. Made by the fronts; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Starter {
    policy: Arc<Policy>,
    now: Option<Py<PyAny>>,
    draw: Option<Py<PyAny>>,
}

#[pymethods]
impl Starter {
    #[new]
    fn new(policy: &Bound<'_, CheckedPolicy>, now: &Bound<'_, PyAny>, draw: &Bound<'_, PyAny>) -> Self {
        let given = |value: &Bound<'_, PyAny>| (!value.is_none()).then(|| value.clone().unbind());
        Self { policy: Arc::clone(&policy.get().policy), now: given(now), draw: given(draw) }
    }

    /// A run with no layer around it.
    fn alone(&self, py: Python<'_>) -> PyResult<Run> {
        self.start(py, Around::none())
    }

    /// A run within a layer, or `None`.
    fn within(&self, around: &Bound<'_, PyAny>) -> PyResult<Run> {
        self.start(around.py(), Around::new(around))
    }
}

impl Starter {
    fn start(&self, py: Python<'_>, around: Around) -> PyResult<Run> {
        let lent = |given: &Option<Py<PyAny>>| given.as_ref().map(|given| given.clone_ref(py));
        Run::start(py, Arc::clone(&self.policy), around, Clock::start(py, lent(&self.now))?, lent(&self.draw))
    }
}
