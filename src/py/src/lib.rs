//! `steadycall._native`: a list of names.

mod python;
mod convert;
mod secrets;
mod json;
mod hooks;
mod unit;
mod around;
mod account;
mod policy;
mod records;
mod ending;
mod words;
mod errors;
mod options;
mod limits;
mod job;
mod runtime;
mod exit;
mod bridge;
mod passing;
mod gates;
mod telling;
mod membership;
mod reply;
mod judging;
mod work;
mod tell;
mod http_call;
mod caller;
mod run;
mod exchange;
mod starter;
mod classify;
mod opening;
mod events;
mod bulk_rows;
mod bulk;

use pyo3::prelude::*;

/// The Rust half of steadycall: decides and sends. Use the `steadycall` package, not this module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PENDING", http_call::pending(py)?)?;
    module.add_class::<http_call::HttpCall>()?;
    module.add_class::<bridge::Bridge>()?;
    module.add_class::<limits::Limit>()?;
    module.add_class::<gates::Gates>()?;
    module.add_class::<passing::Passing>()?;
    module.add("Barred", py.get_type::<passing::Barred>())?;
    module.add_class::<reply::Answered>()?;
    module.add_class::<caller::Caller>()?;
    module.add_function(wrap_pyfunction!(options::header_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(gates::model_of, module)?)?;
    module.add_function(wrap_pyfunction!(caller::told_gates, module)?)?;
    module.add_function(wrap_pyfunction!(gates::choices_of, module)?)?;
    module.add_class::<policy::Backoff>()?;
    module.add_class::<policy::CheckedPolicy>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<exchange::Exchange>()?;
    module.add("Fault", py.get_type::<exchange::Lost>())?;
    module.add_class::<starter::Starter>()?;
    module.add_function(wrap_pyfunction!(convert::seconds, module)?)?;
    module.add_function(wrap_pyfunction!(convert::seconds_or_none, module)?)?;
    module.add_function(wrap_pyfunction!(convert::count_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(convert::callback, module)?)?;
    module.add_function(wrap_pyfunction!(classify::classify, module)?)?;
    module.add_function(wrap_pyfunction!(classify::failure, module)?)?;
    module.add_class::<opening::StreamOpening>()?;
    module.add_class::<events::StreamEvent>()?;
    module.add_class::<events::Events>()?;
    module.add_class::<bulk::Bulk>()?;
    module.add_function(wrap_pyfunction!(bulk_rows::bulk_survey, module)?)?;
    module.add_function(wrap_pyfunction!(opening::judge, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::gives_away, module)?)?;
    json::register(module)?;
    let at_exit = wrap_pyfunction!(exit::at_exit, module)?;
    py.import("atexit")?.call_method1("register", (at_exit,))?;
    runtime::watch_forks()?;
    Ok(())
}
