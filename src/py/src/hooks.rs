//! What a caller lends a call: its observers, its dice and its clock. Every method runs with the GIL held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use steadycall_core::time::{Moment, seconds};
use steadycall_net::clock::{self, Instant};
use steadycall_net::dice::Dice;
use steadycall_net::doorway::Doorway;

use crate::convert;

/// Uniform draws in [0, 1).
pub struct Draws {
    /// The caller's; `None` is the operating system's.
    given: Option<Py<PyAny>>,
    dice: Dice,
}

impl Draws {
    /// From a callable or `None`.
    pub fn new(draw: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::given(convert::optional_callable("rng", draw)?))
    }

    /// From a callable that was checked before, or `None`.
    pub fn given(given: Option<Py<PyAny>>) -> Self {
        Self { given, dice: Dice::unforeseeable() }
    }

    /// The next one.
    pub fn draw(&mut self, py: Python<'_>) -> PyResult<f64> {
        let Some(given) = &self.given else { return Ok(self.dice.draw()) };
        let drawn = given.bind(py).call0()?;
        let uniform = drawn.extract().ok().filter(|number| (0.0..1.0).contains(number));
        uniform.ok_or_else(|| {
            let allowed = "a generator whose random() is at least 0 and below 1";
            convert::config_error(py, "rng", &format!("{} from it", convert::shown(&drawn)), allowed)
        })
    }

    /// Lets the engine draw: it wants a plain number, so that a broken generator is told of afterwards.
    pub fn lend<T>(
        &mut self,
        py: Python<'_>,
        use_it: impl FnOnce(&mut dyn FnMut() -> f64) -> T,
    ) -> PyResult<T> {
        let mut broken = None;
        let made = use_it(&mut || {
            self.draw(py).unwrap_or_else(|error| {
                broken = Some(error);
                0.0
            })
        });
        broken.map_or(Ok(made), Err)
    }
}

/// The gates of a client in this process, and the clock that its calls and its gates share.
pub struct Entrance {
    /// The gates.
    pub doorway: Arc<Doorway>,
    /// The client's clock, in seconds; `None` is the monotonic one.
    pub given: Option<Py<PyAny>>,
    /// What that said first.
    pub first_reading: f64,
}

/// The time a call lives in.
pub enum Clock {
    /// When it is the call's own.
    Own(OwnClock),
    /// When it is that of its client.
    Shared(Arc<Entrance>),
}

impl Clock {
    /// A clock of its own; see `OwnClock::start`.
    pub fn start(py: Python<'_>, given: Option<Py<PyAny>>) -> PyResult<Self> {
        OwnClock::start(py, given).map(Self::Own)
    }

    /// The moment it is.
    pub fn now(&self, py: Python<'_>) -> PyResult<Moment> {
        match self {
            Self::Own(clock) => clock.now(py),
            Self::Shared(entrance) => entrance.now(py),
        }
    }

    /// Told that `wait` seconds were waited since a moment: what the clock did not move is added to it.
    pub fn slept(&self, py: Python<'_>, wait: f64, since: Moment) -> PyResult<()> {
        let moved = self.now(py)?.since(since);
        let missing = seconds(wait).unwrap_or_default().saturating_sub(moved);
        match self {
            Self::Own(clock) => clock.move_on(missing),
            Self::Shared(entrance) => entrance.doorway.move_on(missing),
        }
        Ok(())
    }
}

impl Entrance {
    /// The moment it is; a fake clock's is told to the gates.
    pub fn now(&self, py: Python<'_>) -> PyResult<Moment> {
        if let Some(given) = &self.given {
            self.doorway.tell(seconds(read(py, given)? - self.first_reading).unwrap_or_default());
        }
        Ok(self.doorway.now())
    }
}

/// A call's own time: its clock, moved on by what a fake sleep did not move.
pub struct OwnClock {
    /// The caller's, in seconds; `None` is the monotonic one.
    given: Option<Py<PyAny>>,
    origin: Instant,
    first_reading: f64,
    /// Nanoseconds.
    moved_on: AtomicU64,
}

impl OwnClock {
    /// Begins now, by a callable or, for `None`, by the monotonic clock.
    pub fn start(py: Python<'_>, given: Option<Py<PyAny>>) -> PyResult<Self> {
        let first_reading = given.as_ref().map(|now| read(py, now)).transpose()?.unwrap_or(0.0);
        Ok(Self { given, origin: clock::now(), first_reading, moved_on: AtomicU64::new(0) })
    }

    fn now(&self, py: Python<'_>) -> PyResult<Moment> {
        let elapsed = match &self.given {
            None => self.origin.elapsed(),
            Some(now) => seconds(read(py, now)? - self.first_reading).unwrap_or_default(),
        };
        Ok(Moment::from_origin(elapsed).after(Duration::from_nanos(self.moved_on.load(Ordering::Relaxed))))
    }

    fn move_on(&self, by: Duration) {
        self.moved_on.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX >> 1), Ordering::Relaxed);
    }
}

/// One reading of a caller's clock.
pub fn read(py: Python<'_>, now: &Py<PyAny>) -> PyResult<f64> {
    let reading = now.bind(py).call0()?;
    reading.extract().ok().filter(|seconds: &f64| seconds.is_finite()).ok_or_else(|| {
        let got = format!("{} from it", convert::shown(&reading));
        convert::config_error(py, "clock", &got, "an object that gives seconds as a finite number")
    })
}
