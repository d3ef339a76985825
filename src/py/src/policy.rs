//! `Backoff`, and a policy as Python wrote it, checked by the core. Every method runs with the GIL held.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use steadycall_core::backoff::{self, Jitter};
use steadycall_core::plan::Row;
use steadycall_core::policy::{Fields, More, Policy};
use steadycall_core::time;

use crate::{convert, python};

const WAIT: &str = "a finite number of seconds, 0 or more";

/// How the wait before another attempt grows when the server names none.
///
/// Give one to `Policy(backoff=...)`, or a mapping from kinds of failure to them. Equal by value, hashable, picklable.
#[pyclass(frozen, module = "steadycall")]
#[derive(Clone, Copy, PartialEq)]
pub struct Backoff(backoff::Backoff);

#[pymethods]
impl Backoff {
    /// A random wait between 0 and a ceiling that doubles: min(cap, base * 2**n) seconds before retry n.
    #[staticmethod]
    fn full_jitter(base: &Bound<'_, PyAny>, cap: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(backoff::Backoff::full_jitter(seconds("base", base)?, seconds("cap", cap)?)))
    }

    /// A wait that doubles: min(cap, base * 2**n) seconds before retry n.
    ///
    /// `jitter` says how much of it is random: "none", "equal" (the upper half) or "full" (all of it).
    #[staticmethod]
    #[pyo3(signature = (base, cap, jitter = None), text_signature = "(base, cap, jitter='none')")]
    fn exponential(
        base: &Bound<'_, PyAny>,
        cap: &Bound<'_, PyAny>,
        jitter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let name: Option<String> = jitter.map_or(Some("none".to_owned()), |given| given.extract().ok());
        let jitter = match name.as_deref() {
            Some("none") => Jitter::None,
            Some("equal") => Jitter::Equal,
            Some("full") => Jitter::Full,
            _ => {
                let given = jitter.map(convert::shown).unwrap_or_default();
                let allowed = "\"none\", \"equal\" or \"full\"";
                return Err(convert::config_error(base.py(), "jitter", &given, allowed));
            }
        };
        Ok(Self(backoff::Backoff::Exponential {
            base: seconds("base", base)?,
            cap: seconds("cap", cap)?,
            jitter,
        }))
    }

    /// The same wait, in seconds, before every retry.
    #[staticmethod]
    fn fixed(seconds: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(backoff::Backoff::Fixed(self::seconds("seconds", seconds)?)))
    }

    /// No wait.
    #[staticmethod]
    fn none() -> Self {
        Self(backoff::Backoff::None)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get() == self)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.__repr__().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        match self.0 {
            backoff::Backoff::Exponential { base, cap, jitter: Jitter::Full } => {
                format!("Backoff.full_jitter({base:?}, {cap:?})")
            }
            backoff::Backoff::Exponential { base, cap, jitter } => {
                format!("Backoff.exponential({base:?}, {cap:?}, jitter={:?})", jitter_name(jitter))
            }
            backoff::Backoff::Fixed(seconds) => format!("Backoff.fixed({seconds:?})"),
            backoff::Backoff::None => "Backoff.none()".to_owned(),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Self>();
        Ok(match self.0 {
            backoff::Backoff::Exponential { base, cap, jitter } => {
                let arguments = (base, cap, jitter_name(jitter)).into_pyobject(py)?;
                (class.getattr("exponential")?, arguments)
            }
            backoff::Backoff::Fixed(seconds) => (class.getattr("fixed")?, (seconds,).into_pyobject(py)?),
            backoff::Backoff::None => (class.getattr("none")?, PyTuple::empty(py)),
        })
    }
}

const fn jitter_name(jitter: Jitter) -> &'static str {
    match jitter {
        Jitter::None => "none",
        Jitter::Equal => "equal",
        Jitter::Full => "full",
    }
}

fn seconds(field: &'static str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let seconds = convert::number(field, value, WAIT)?;
    steadycall_core::policy::wait(field, seconds).map_err(|error| convert::refused(value.py(), &error))
}

/// `deadline=` of a call: seconds, a `timedelta`, or a `Deadline` that was handed down.
pub struct Until {
    /// Seconds from now, if it was given as such.
    pub seconds: Option<f64>,
    /// What a handed-down deadline leaves, which may be nothing.
    pub left: Option<Duration>,
    /// The call's clock: the caller's or, without one, that of the deadline.
    pub clock: Option<Py<PyAny>>,
}

impl Until {
    /// Reads it.
    pub fn read(deadline: &Bound<'_, PyAny>, clock: Option<Py<PyAny>>) -> PyResult<Self> {
        let py = deadline.py();
        if deadline.is_none() || !deadline.is_instance(python::deadline_class(py)?)? {
            return Ok(Self { seconds: convert::optional_seconds("deadline", deadline)?, left: None, clock });
        }
        let left: f64 = deadline.call_method0("remaining")?.extract()?;
        let its_clock = deadline.getattr("clock")?;
        let own = !its_clock.is(python::monotonic(py)?);
        let clock = clock.or_else(|| own.then(|| its_clock.unbind()));
        let left = time::seconds(left.max(0.0)).unwrap_or(Duration::MAX);
        Ok(Self { seconds: None, left: Some(left), clock })
    }
}

/// The fields every front has: tries, base, cap, max_wait; deadline, attempt_timeout; retry_status and two flags.
pub struct Common<'a, 'py> {
    pub tries: &'a Bound<'py, PyAny>,
    pub base: &'a Bound<'py, PyAny>,
    pub cap: &'a Bound<'py, PyAny>,
    pub max_wait: &'a Bound<'py, PyAny>,
    pub attempt_timeout: &'a Bound<'py, PyAny>,
    pub retry_status: &'a Bound<'py, PyAny>,
    pub retry_transport: &'a Bound<'py, PyAny>,
    pub retry_maybe_processed: &'a Bound<'py, PyAny>,
}

impl Common<'_, '_> {
    /// The policy of these fields, checked.
    pub fn check(&self, deadline: Option<f64>, more: More) -> PyResult<Arc<Policy>> {
        let fields = Fields {
            tries: convert::count("tries", self.tries, u32::MAX.into())?,
            base: convert::number("base", self.base, WAIT)?,
            cap: convert::number("cap", self.cap, WAIT)?,
            max_wait: convert::number("max_wait", self.max_wait, WAIT)?,
            deadline,
            attempt_timeout: convert::optional_seconds("attempt_timeout", self.attempt_timeout)?,
            retry_status: status_list(self.retry_status)?,
            retry_transport: convert::flag("retry_transport", self.retry_transport)?,
            retry_maybe_processed: convert::flag("retry_maybe_processed", self.retry_maybe_processed)?,
            more,
        };
        Policy::new(fields).map(Arc::new).map_err(|error| convert::refused(self.tries.py(), &error))
    }
}

fn status_list(statuses: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    if statuses.is_none() {
        return Ok(None);
    }
    let allowed = "HTTP statuses from 300 to 599, or None";
    let all = statuses.try_iter().map_err(|_| {
        convert::config_error(statuses.py(), "retry_status", &convert::shown(statuses), allowed)
    })?;
    all.map(|status| convert::whole("retry_status", &status?, allowed)).collect::<PyResult<_>>().map(Some)
}

/// A policy that the core has checked. Made by `Policy`; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct CheckedPolicy {
    /// What the engine reads.
    pub policy: Arc<Policy>,
}

#[pymethods]
impl CheckedPolicy {
    #[new]
    #[allow(clippy::too_many_arguments)] // the fields of `Policy`, passed on in order
    fn new(
        tries: &Bound<'_, PyAny>,
        base: &Bound<'_, PyAny>,
        cap: &Bound<'_, PyAny>,
        max_wait: &Bound<'_, PyAny>,
        deadline: &Bound<'_, PyAny>,
        attempt_timeout: &Bound<'_, PyAny>,
        min_attempt: &Bound<'_, PyAny>,
        backoffs: [Option<Py<Backoff>>; 3],
        validation_tries: &Bound<'_, PyAny>,
        max_requests: &Bound<'_, PyAny>,
        hint_jitter: &Bound<'_, PyAny>,
        retry_status: &Bound<'_, PyAny>,
        retry_transport: &Bound<'_, PyAny>,
        retry_maybe_processed: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let count = |field, value: &Bound<'_, PyAny>| -> PyResult<Option<i64>> {
            if value.is_none() { Ok(None) } else { convert::count(field, value, u32::MAX.into()).map(Some) }
        };
        let more = More {
            backoffs: backoffs.map(|given| given.map(|backoff| backoff.get().0)),
            min_attempt: convert::number("min_attempt", min_attempt, WAIT)?,
            validation_tries: count("validation_tries", validation_tries)?,
            max_requests: count("max_requests", max_requests)?,
            hint_jitter: convert::plain_number(hint_jitter).ok_or_else(|| {
                let given = convert::shown(hint_jitter);
                convert::config_error(tries.py(), "hint_jitter", &given, "a share from 0 to 1")
            })?,
        };
        let common = Common {
            tries,
            base,
            cap,
            max_wait,
            attempt_timeout,
            retry_status,
            retry_transport,
            retry_maybe_processed,
        };
        Ok(Self { policy: common.check(convert::optional_seconds("deadline", deadline)?, more)? })
    }

    /// Seconds (`None` without a bound) and requests that `chains` calls one after the other may cost, and what the
    /// longest waits are for.
    fn worst_case(&self, chains: u32, hints: bool) -> (Option<f64>, u64, Option<&'static str>) {
        let worst = self.policy.worst_case(chains, hints);
        let longest = match worst.longest {
            Row::Hint => Some("hint"),
            Row::Backoff(kind) => Some(kind.name()),
            Row::None => None,
        };
        (worst.seconds, worst.requests, longest)
    }

    /// The longest attempt timeout that still fits; 0 or less when the waits alone do not.
    fn max_attempt_timeout(&self, within: f64, chains: u32) -> f64 {
        self.policy.max_attempt_timeout(within, chains)
    }
}
