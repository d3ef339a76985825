//! The Python names we call, each looked up once and kept.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! imported {
    ($($(#[$doc:meta])* $name:ident = $module:literal . $attribute:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
            static KEPT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            KEPT.import(py, $module, $attribute)
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
    /// The tokens an answer cost.
    usage_tokens = "steadycall._usage"."tokens";
    /// `steadycall.Timeout`.
    timeout_class = "steadycall._time"."Timeout";
    /// `steadycall.Deadline`.
    deadline_class = "steadycall._time"."Deadline";
}
