//! The Python names we call, each looked up once and kept.

use std::sync::OnceLock;

use pyo3::prelude::*;

/// An object made once and kept. Making it may give up the GIL, so two threads may make one and one of them is
/// dropped; nobody ever waits for the other, because in a child of fork the other would never come.
pub struct Kept<T = PyAny>(OnceLock<Py<T>>);

impl<T> Kept<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The object, made now when it was not there.
    pub fn get<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> PyResult<Bound<'py, T>>,
    ) -> PyResult<&Bound<'py, T>> {
        if let Some(kept) = self.0.get() {
            return Ok(kept.bind(py));
        }
        let made = make()?.unbind();
        // The cell is only ever locked for this move, with the GIL held, so that no fork can fall into it.
        Ok(self.0.get_or_init(|| made).bind(py))
    }
}

/// A method name as an interned string.
macro_rules! name {
    ($py:expr, $text:literal) => {{
        static NAME: $crate::python::Kept<pyo3::types::PyString> = $crate::python::Kept::new();
        NAME.get($py, || Ok(pyo3::types::PyString::intern($py, $text)))
    }};
}
pub(crate) use name;

macro_rules! imported {
    ($($(#[$doc:meta])* $name:ident = $module:literal . $attribute:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
            static KEPT: Kept = Kept::new();
            KEPT.get(py, || py.import($module)?.getattr($attribute))
        }
    )*};
}

imported! {
    /// `asyncio.get_running_loop`; asyncio is imported by the first `acall` only.
    get_running_loop = "asyncio"."get_running_loop";
    /// `threading.get_ident`.
    get_ident = "threading"."get_ident";
    /// `threading.main_thread`.
    main_thread = "threading"."main_thread";
    /// `time.monotonic`.
    monotonic = "time"."monotonic";
    /// `weakref.ref`.
    weak_reference = "weakref"."ref";
    /// `steadycall.Error`.
    error = "steadycall._errors"."Error";
    /// `steadycall.Closed`.
    closed = "steadycall._errors"."Closed";
    /// `steadycall.ConfigError`.
    config_error = "steadycall._errors"."ConfigError";
    /// `steadycall.FailureKind`.
    failure_kind = "steadycall._kinds"."FailureKind";
    /// `steadycall.StopReason`.
    stop_reason = "steadycall._kinds"."StopReason";
    /// `steadycall.Hint`.
    hint = "steadycall._records"."Hint";
    /// `steadycall.Failure`.
    failure = "steadycall._records"."Failure";
    /// `steadycall.AttemptRecord`.
    attempt_record = "steadycall._records"."AttemptRecord";
    /// `steadycall.CallRecord`.
    call_record = "steadycall._records"."CallRecord";
    /// Tells the logger and `on_retry`.
    watch_retried = "steadycall._watch"."retried";
    /// Tells `on_end`.
    watch_ended = "steadycall._watch"."ended";
    /// Tells the log and `on_event` of a circuit.
    watch_circuit = "steadycall._watch"."circuit";
    /// Tells `on_event` of a step.
    watch_event = "steadycall._watch"."event";
    /// The tokens that answers cost.
    usage_total = "steadycall._usage"."total";
    /// `steadycall.Timeout`.
    timeout_class = "steadycall._time"."Timeout";
    /// `steadycall.Deadline`.
    deadline_class = "steadycall._time"."Deadline";
}
