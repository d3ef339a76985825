//! The end of the interpreter: who may still go from Rust into Python, and who is waited for.
//!
//! A thread that needs the GIL while the interpreter ends is killed by unwinding on CPython up to 3.13, and that
//! aborts the process when a Rust frame lies below.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use steadycall_net::clock;

use crate::runtime::on_main_thread;

static EXITING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Held while Rust may run Python code.
///
/// From the `atexit` hook on, no thread but the exiting one enters Python from Rust any more, and the hook waits a
/// moment for those that are inside.
pub struct Inside;

impl Inside {
    /// Enters; never returns on another thread once the interpreter is exiting.
    pub fn enter(py: Python<'_>) -> Self {
        INSIDE.fetch_add(1, Ordering::AcqRel);
        if EXITING.load(Ordering::Acquire) && !on_main_thread(py).unwrap_or(true) {
            INSIDE.fetch_sub(1, Ordering::AcqRel);
            py.detach(|| {
                loop {
                    std::thread::park();
                }
            });
        }
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether the interpreter has begun to exit.
pub fn exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// How long an exit waits for observers and the like that other threads are in.
const LAST_WORDS: Duration = Duration::from_secs(1);

static DELIVERS: AtomicBool = AtomicBool::new(false);

/// Told that pyo3-async-runtimes delivers answers from threads of its own, which an exit must let finish.
pub fn delivers_from_threads() {
    DELIVERS.store(true, Ordering::Release);
}

/// How long those threads get for what they had begun; nothing new is begun once the exit is.
const LAST_DELIVERIES: Duration = Duration::from_millis(100);

/// Run by `atexit`, on the exiting thread with the GIL, which it gives up while it waits.
#[pyfunction]
pub fn at_exit(py: Python<'_>) {
    EXITING.store(true, Ordering::Release);
    py.detach(|| {
        let end = clock::now() + LAST_WORDS;
        while INSIDE.load(Ordering::Acquire) > 0 && clock::now() < end {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let end = clock::now() + LAST_DELIVERIES;
        while DELIVERS.load(Ordering::Acquire) && clock::now() < end {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    });
}
