//! `steadycall._native`: a list of names.

mod python;
mod convert;
mod secrets;
mod json;
mod hooks;
mod around;
mod account;
mod policy;
mod records;
mod errors;
mod options;
mod runtime;
mod exit;
mod bridge;
mod http_call;
mod run;
mod starter;
mod classify;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The Rust half of steadycall: decides and sends. Use the `steadycall` package, not this module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PENDING", http_call::pending(py)?)?;
    module.add_class::<http_call::HttpCall>()?;
    module.add_class::<bridge::Bridge>()?;
    module.add_class::<policy::Backoff>()?;
    module.add_class::<policy::CheckedPolicy>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<starter::Starter>()?;
    module.add_function(wrap_pyfunction!(convert::seconds, module)?)?;
    module.add_function(wrap_pyfunction!(convert::seconds_or_none, module)?)?;
    module.add_function(wrap_pyfunction!(convert::count_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(convert::callback, module)?)?;
    module.add_function(wrap_pyfunction!(classify::classify, module)?)?;
    module.add_function(wrap_pyfunction!(classify::failure, module)?)?;
    json::register(module)?;
    let after_fork = wrap_pyfunction!(runtime::after_fork_in_child, module)?;
    let at_exit = wrap_pyfunction!(exit::at_exit, module)?;
    py.import("atexit")?.call_method1("register", (at_exit,))?;
    let os = py.import("os")?;
    if let Ok(register) = os.getattr("register_at_fork") {
        let hooks = PyDict::new(py);
        hooks.set_item("after_in_child", after_fork)?;
        register.call((), Some(&hooks))?;
    }
    Ok(())
}
