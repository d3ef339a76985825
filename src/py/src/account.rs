//! What the layers below a run do: the requests they make, and the errors they give up with.
//!
//! The requests: an attempt is paid for when it begins, and the first request that a layer below makes is
//! the one it was paid for. So no number of layers or threads spends more than the layers around allow.
//!
//! Runs with the GIL held; no lock is held while the layers around are asked.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

/// Who spent what.
pub struct Account {
    most: Option<u32>,
    /// The attempt under way is paid for, and no layer below has made that request yet.
    reserved: AtomicBool,
    /// Requests made by the layers below since the attempt began.
    below: AtomicU32,
    /// Requests of the attempts before.
    before: AtomicU32,
    /// What the layers below gave up with since the attempt began.
    given_up: Mutex<Vec<Py<PyAny>>>,
}

impl Account {
    /// With at most so many requests; `None` is not limited here.
    pub fn new(most: Option<u32>) -> Self {
        Self {
            most,
            reserved: AtomicBool::new(false),
            below: AtomicU32::new(0),
            before: AtomicU32::new(0),
            given_up: Mutex::default(),
        }
    }

    /// Told that an attempt was paid for, and whether a layer below may make the request.
    pub fn begin(&self, may_be_below: bool) {
        self.reserved.store(may_be_below, Relaxed);
        self.below.store(0, Relaxed);
        self.forget();
    }

    /// Told that a layer below gave up with this error.
    pub fn gave_up(&self, error: Py<PyAny>) {
        self.errors().push(error);
    }

    /// What the layers below gave up with since the attempt began.
    pub fn given_up(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.errors().iter().map(|error| error.clone_ref(py)).collect()
    }

    /// Errors hold frames, and frames hold this run: the circle is opened where it can be.
    pub fn forget(&self) {
        let errors = std::mem::take(&mut *self.errors());
        drop(errors); // here, and not while the lock is held: it may run Python code
    }

    /// Takes a request for a layer below; false when there is none left, here or by the word of `around`.
    pub fn spend(&self, around: impl FnOnce() -> PyResult<bool>) -> PyResult<bool> {
        // Counted before it is asked for, so that two threads cannot take the last one.
        let below = self.below.fetch_add(1, Relaxed).saturating_add(1);
        let spent = self.before.load(Relaxed).saturating_add(below);
        let within = self.most.is_none_or(|most| spent <= most);
        let allowed = within && (self.reserved.swap(false, Relaxed) || around()?);
        if !allowed {
            let _ = self.below.fetch_update(Relaxed, Relaxed, |below| Some(below.saturating_sub(1)));
        }
        Ok(allowed)
    }

    /// Gives a request of a layer below back, which was not made after all.
    pub fn refund(&self, around: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
        let _ = self.below.fetch_update(Relaxed, Relaxed, |below| Some(below.saturating_sub(1)));
        // What was taken from the layers around is kept for the next one.
        if self.reserved.swap(true, Relaxed) { around() } else { Ok(()) }
    }

    /// Requests left for the layers below, when the layers around allow so many; `None` is not limited.
    pub fn left(&self, around: Option<u32>) -> Option<u32> {
        let spent = self.before.load(Relaxed).saturating_add(self.below.load(Relaxed));
        let own = self.most.map(|most| most.saturating_sub(spent));
        let around = around.map(|left| left.saturating_add(u32::from(self.reserved.load(Relaxed))));
        own.into_iter().chain(around).min()
    }

    /// Counts the requests of an attempt that ended; one in which no layer below made any is a request by itself.
    pub fn settle(&self) -> u32 {
        self.reserved.store(false, Relaxed);
        let requests = self.below.swap(0, Relaxed).max(1);
        self.before.fetch_add(requests, Relaxed);
        requests
    }

    fn errors(&self) -> MutexGuard<'_, Vec<Py<PyAny>>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
