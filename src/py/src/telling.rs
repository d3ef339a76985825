//! Who is told of a client's call, and what became of circuits. Runs with the GIL held.

use pyo3::prelude::*;
use steadycall_core::breaker::State;
use steadycall_core::call::StopReason;
use steadycall_core::keys::Key;
use steadycall_core::time::Moment;

use crate::python;
use crate::records::state_name;

/// Who is told of every step of a client's call.
pub struct Telling {
    pub on_event: Py<PyAny>,
    /// When it stood before the first gate.
    pub since: Moment,
    /// Whether its waiting was told.
    pub waits: bool,
}

/// How a call ended without success.
pub struct Stop {
    pub reason: StopReason,
    pub at: Moment,
}

impl Telling {
    /// Of a call that has not begun.
    pub fn new(on_event: Py<PyAny>) -> Self {
        Self { on_event, since: Moment::default(), waits: false }
    }

    /// Told that an attempt stands before the first gate.
    pub fn approaches(&mut self, now: Moment) {
        (self.since, self.waits) = (now, false);
    }

    /// Tells and logs what became of circuits.
    pub fn circuits(&self, py: Python<'_>, changed: &[(Key, State)]) -> PyResult<()> {
        for (key, state) in changed {
            python::watch_circuit(py)?.call1((&**key, state_name(*state), &self.on_event))?;
        }
        Ok(())
    }

    /// Logs what became of circuits, where nobody wants to be told.
    pub fn log_circuits(py: Python<'_>, changed: &[(Key, State)]) -> PyResult<()> {
        for (key, state) in changed {
            python::watch_circuit(py)?.call1((&**key, state_name(*state), py.None()))?;
        }
        Ok(())
    }
}
