//! The way of one attempt through the gates, for fronts that send by themselves: transports and streams.
//!
//! Every method runs with the GIL held and returns at once, but for `go`, which releases it while it waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use steadycall_core::classify::Dialect;
use steadycall_core::failure::Kind;
use steadycall_core::passage::{Keys, Refusal, Report, Step};
use steadycall_core::remaining::{Remaining, remaining};
use steadycall_core::stop::StopReason;
use steadycall_core::time::Moment;
use steadycall_net::doorway::{Pass, Surroundings};
use tokio::sync::Notify;

use crate::bridge::{self, Addressee, Parcel, Running};
use crate::exit::Inside;
use crate::hooks::{Clock, Draws, Entrance};
use crate::job::{Done, Job};
use crate::{convert, errors, records, runtime, words};

pyo3::create_exception!(
    steadycall._native,
    Barred,
    pyo3::exceptions::PyException,
    "A gate let the attempt not through: (stop_reason, stage, seconds to wait, why)."
);

/// The way of one attempt of a front of Python's through the gates. To be ended by `record`, or by `give_up`.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Passing {
    entrance: Arc<Entrance>,
    keys: Keys,
    place: Mutex<Place>,
    limited: bool,
    lends_sleep: bool,
    /// The wait the front was given, and when.
    waiting: Mutex<Option<(f64, Moment)>>,
    running: Mutex<Option<Running>>,
    stop: Arc<Notify>,
}

enum Place {
    Before(Pass),
    Busy,
    Inside(Pass),
    Over,
}

#[pymethods]
impl Passing {
    /// Looks at the gates: `None` when they are passed, seconds when the front must wait so long and look again, and
    /// -1 when it is to wait by `go` or `ago`.
    ///
    /// Raises `Barred` when one of them refuses.
    fn look(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.entrance.now(py)?;
        let taken = std::mem::replace(&mut *self.place(), Place::Busy);
        let mut pass = match taken {
            Place::Before(pass) => pass,
            other => {
                let is_over = matches!(other, Place::Over);
                *self.place() = other;
                return if is_over { Err(errors::closed(py)) } else { Ok(None) };
            }
        };
        match pass.look() {
            Step::Go => {
                *self.place() = Place::Inside(pass);
                Ok(None)
            }
            Step::Refused(why) => {
                *self.place() = Place::Over;
                Err(barred(py, why))
            }
            Step::Wait(until) => {
                let now = self.entrance.doorway.now();
                let known = pass.known_wait(until).filter(|_| self.lends_sleep);
                *self.place() = Place::Before(pass);
                *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                    known.map(|wait| (wait.as_secs_f64(), now));
                Ok(Some(known.map_or(-1.0, |wait| wait.as_secs_f64())))
            }
        }
    }

    /// Told that the wait is over, and what the front's sleep gave, which must be nothing to await.
    #[pyo3(signature = (given=None))]
    fn slept(&self, py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if let Some(given) = given {
            let allowed = "a plain callable that takes seconds (one that gives a coroutine needs asyncio)";
            convert::no_awaitable("sleep", given, allowed)?;
        }
        let waited = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waited {
            Some((wait, since)) => Clock::Shared(Arc::clone(&self.entrance)).slept(py, wait, since),
            None => Ok(()),
        }
    }

    /// Waits on this thread, as long as the gates say; where the front lends its sleep, until it is called up. True
    /// when they are passed. Ctrl-C ends it within 50 ms, `give_up` from another thread at once.
    fn go(&self, py: Python<'_>) -> PyResult<bool> {
        let _inside = Inside::enter(py);
        let Some(job) = self.job(py)? else { return Ok(true) };
        match runtime::block_on(py, job, &self.stop)? {
            Some(done) => self.settle(py, done),
            None => Err(errors::closed(py)),
        }
    }

    /// `go` for the running event loop: an awaitable. Cancelling it does not end the waiting; `give_up` does.
    fn ago<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let this = slf.get();
        let Some(job) = this.job(slf.py())? else { return Ok(None) };
        let addressee = Addressee::Passing(slf.clone().unbind());
        let work = |lane| async move { Parcel::Passed(job.run(&lane).await) };
        let (awaitable, running) = bridge::start(slf.py(), addressee, work)?;
        *this.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        if matches!(*this.place(), Place::Over) {
            // Given up by another thread while it was started.
            this.give_up();
        }
        Ok(Some(awaitable))
    }

    /// Told what came of the attempt: its failure or `None`, whether the deadline cut it, the tokens it used, the
    /// header pairs of its answer. Returns circuits that changed, with their states. Harmless when it is over.
    #[pyo3(signature = (failure, cut_short, used, headers, url, draw))]
    fn record(
        &self,
        failure: &Bound<'_, PyAny>,
        cut_short: bool,
        used: Option<u64>,
        headers: Option<Vec<(Vec<u8>, Vec<u8>)>>,
        url: &str,
        draw: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, &'static str)>> {
        let py = failure.py();
        self.entrance.now(py)?;
        let failure = if failure.is_none() { None } else { Some(records::read_failure(failure)?) };
        let drawn = match &failure {
            Some(failure) if failure.kind == Kind::RateLimited && failure.hint.is_none() => {
                Draws::given(draw).draw(py)?
            }
            _ => 0.0,
        };
        let mut left = Remaining::default();
        if let Some(headers) = headers.filter(|_| self.limited) {
            let named: Vec<(String, Vec<u8>)> = headers
                .into_iter()
                .map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value))
                .collect();
            let pairs: Vec<(&str, &[u8])> =
                named.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
            left = remaining(&pairs, Dialect::of_url(url));
        }
        let taken = std::mem::replace(&mut *self.place(), Place::Over);
        let Place::Inside(pass) = taken else { return Ok(Vec::new()) };
        let report = Report { failure: failure.as_ref(), cut_short, used, remaining: left };
        let changed = pass.record(report, drawn);
        Ok(changed.into_iter().map(|(key, state)| (key.to_string(), records::state_name(state))).collect())
    }

    /// Ends it, waiting or under way; what may have been sent stays paid. Harmless when it is over.
    fn give_up(&self) {
        let taken = std::mem::replace(&mut *self.place(), Place::Over);
        if matches!(taken, Place::Busy) {
            self.stop.notify_one();
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
        }
        drop(taken);
    }
}

impl Passing {
    /// Before the first gate. `limited` says whether what answers tell is left can lower anything.
    pub fn new(entrance: Arc<Entrance>, keys: Keys, pass: Pass, limited: bool, lends_sleep: bool) -> Self {
        Self {
            entrance,
            keys,
            place: Mutex::new(Place::Before(pass)),
            limited,
            lends_sleep,
            waiting: Mutex::default(),
            running: Mutex::default(),
            stop: Arc::default(),
        }
    }

    /// What a retry of its attempt is asked.
    pub fn around(&self) -> Surroundings<'_> {
        self.entrance.doorway.around(&self.keys)
    }

    /// From the loop's drain, with the GIL.
    pub fn passed(&self, py: Python<'_>, done: Done) -> PyResult<Py<PyAny>> {
        let through = self.settle(py, done)?;
        Ok(through.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn job(&self, py: Python<'_>) -> PyResult<Option<Job>> {
        let mut place = self.place();
        match std::mem::replace(&mut *place, Place::Busy) {
            Place::Before(pass) if self.lends_sleep => Ok(Some(Job::Listen(pass))),
            Place::Before(pass) => Ok(Some(Job::Enter(pass))),
            other => {
                let is_over = matches!(other, Place::Over);
                *place = other;
                drop(place);
                if is_over { Err(errors::closed(py)) } else { Ok(None) }
            }
        }
    }

    fn settle(&self, py: Python<'_>, done: Done) -> PyResult<bool> {
        let (place, through) = match done {
            Done::Entered(pass) => (Place::Inside(pass), true),
            Done::Heard(pass) => (Place::Before(pass), false),
            Done::Refused(why) => {
                *self.place() = Place::Over;
                return Err(barred(py, why));
            }
            Done::Sent(..) => return Err(errors::our_fault(py, "an attempt nobody asked for")),
        };
        let mut held = self.place();
        // What was given up meanwhile gives everything back.
        let is_over = matches!(*held, Place::Over);
        let given_up = if is_over { place } else { std::mem::replace(&mut *held, place) };
        drop(held);
        drop(given_up);
        if is_over { Err(errors::closed(py)) } else { Ok(through) }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn barred(py: Python<'_>, why: Refusal) -> PyErr {
    let stop = StopReason::from(why);
    let said = errors::stop_reason(py, stop).map(Bound::unbind);
    match said {
        Ok(said) => Barred::new_err((said, errors::stage(stop), errors::wait_of(why), words::barred(why))),
        Err(error) => error,
    }
}
