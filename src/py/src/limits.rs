//! The limits of a client as Python wrote them, checked by the core. Every method runs with the GIL held.

use pyo3::prelude::*;
use steadycall_core::adaptive::Adaptive;
use steadycall_core::breaker::CircuitBreaker;
use steadycall_core::bucket::{Oversized, RateLimit};
use steadycall_core::budget::RetryBudget;
use steadycall_core::ceiling::{OnSpent, TokenBudget};
use steadycall_core::policy::ConfigError;
use steadycall_core::slots::ConcurrencyLimit;

use crate::convert;

/// One limit of a client, checked. Made by the classes of `steadycall._limits`.
#[pyclass(frozen, module = "steadycall._native")]
#[derive(Clone, Copy)]
pub struct Limit(pub Checked);

/// Which limit it is.
#[derive(Clone, Copy)]
pub enum Checked {
    Concurrency(ConcurrencyLimit, Option<Adaptive>),
    Rate(RateLimit),
    Ceiling(TokenBudget),
    Breaker(CircuitBreaker),
    Retries(RetryBudget),
}

/// What is left of an adaptive limit after a sign of overload, as a share: TCP halves too.
const DECREASE: f64 = 0.5;

#[pymethods]
impl Limit {
    #[staticmethod]
    fn concurrency(
        max: &Bound<'_, PyAny>,
        queue: &Bound<'_, PyAny>,
        adaptive_from: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = max.py();
        let max = convert::count("max", max, u32::MAX.into())?;
        let allowed = "a whole number of at least 0";
        let queue = convert::whole("queue", queue, allowed)?;
        let limit = ConcurrencyLimit::new(max, queue).map_err(|error| convert::refused(py, &error))?;
        let adaptive = match adaptive_from.is_none() {
            true => None,
            false => {
                let least = convert::count("adaptive_from", adaptive_from, max)?;
                Some(Adaptive::new(least, max, DECREASE).map_err(|error| convert::refused(py, &error))?)
            }
        };
        Ok(Self(Checked::Concurrency(limit, adaptive)))
    }

    #[staticmethod]
    fn rate(
        requests_per_minute: &Bound<'_, PyAny>,
        tokens_per_minute: &Bound<'_, PyAny>,
        burst: &Bound<'_, PyAny>,
        oversized: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = burst.py();
        let amount = |field: &'static str, given: &Bound<'_, PyAny>| match given.is_none() {
            true => Ok(None),
            false => convert::count(field, given, i64::MAX).map(Some),
        };
        let oversized = match word(oversized).as_deref() {
            Some("pass") => Oversized::Pass,
            Some("refuse") => Oversized::Refuse,
            _ => {
                let shown = convert::shown(oversized);
                return Err(convert::config_error(py, "oversized", &shown, "\"pass\" or \"refuse\""));
            }
        };
        let requests = amount("requests_per_minute", requests_per_minute)?;
        let tokens = amount("tokens_per_minute", tokens_per_minute)?;
        if requests.is_none() && tokens.is_none() {
            let allowed = "given, or tokens_per_minute is";
            return Err(convert::config_error(py, "requests_per_minute", "None", allowed));
        }
        checked(py, RateLimit::new(requests, tokens, amount("burst", burst)?, oversized), Checked::Rate)
    }

    #[staticmethod]
    fn ceiling(per_day: &Bound<'_, PyAny>, on_spent: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = per_day.py();
        let on_spent = match word(on_spent).as_deref() {
            Some("refuse") => OnSpent::Refuse,
            Some("wait") => OnSpent::Wait,
            _ => {
                let shown = convert::shown(on_spent);
                return Err(convert::config_error(py, "on_spent", &shown, "\"refuse\" or \"wait\""));
            }
        };
        let per_day = convert::count("per_day", per_day, i64::MAX)?;
        checked(py, TokenBudget::new(per_day, on_spent), Checked::Ceiling)
    }

    #[staticmethod]
    fn breaker(
        failure_threshold: Option<Bound<'_, PyAny>>,
        ratio: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        recovery_timeout: &Bound<'_, PyAny>,
        half_open_probes: &Bound<'_, PyAny>,
        slow_call: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = slow_call.py();
        let recovery = convert::seconds("recovery_timeout", recovery_timeout)?;
        let probes = convert::count("half_open_probes", half_open_probes, u32::MAX.into())?;
        let slow = convert::optional_seconds("slow_call", slow_call)?;
        let breaker = match (failure_threshold, ratio) {
            (Some(threshold), None) => {
                let threshold = convert::count("failure_threshold", &threshold, u32::MAX.into())?;
                CircuitBreaker::after(threshold, recovery, probes, slow)
            }
            (None, Some((ratio, calls, window))) => {
                let ratio = share("failure_ratio", &ratio)?;
                let calls = convert::count("minimum_calls", &calls, u32::MAX.into())?;
                let window = convert::seconds("window", &window)?;
                CircuitBreaker::at_ratio((ratio, calls, window), recovery, probes, slow)
            }
            _ => {
                let allowed = "one of failure_threshold and failure_ratio";
                return Err(convert::config_error(py, "breaker", "both or neither", allowed));
            }
        };
        checked(py, breaker, Checked::Breaker)
    }

    #[staticmethod]
    fn retries(
        ratio: &Bound<'_, PyAny>,
        floor_per_second: &Bound<'_, PyAny>,
        window: &Bound<'_, PyAny>,
        burst: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let ratio = share("ratio", ratio)?;
        let floor = share("floor_per_second", floor_per_second)?;
        let window_seconds = convert::seconds("window", window)?;
        let whole = convert::whole("burst", burst, "a whole number of at least 0")?;
        let many = u32::try_from(whole).map_err(|_| {
            let allowed = "a whole number of at least 0";
            convert::config_error(window.py(), "burst", &whole.to_string(), allowed)
        })?;
        checked(window.py(), RetryBudget::new(ratio, floor, window_seconds, many), Checked::Retries)
    }
}

/// A plain number; a time is none.
fn share(field: &str, given: &Bound<'_, PyAny>) -> PyResult<f64> {
    let refuse =
        || convert::config_error(given.py(), field, &convert::shown(given), "a finite number, 0 or more");
    convert::plain_number(given).ok_or_else(refuse)
}

fn word(given: &Bound<'_, PyAny>) -> Option<String> {
    given.extract().ok()
}

fn checked<T>(
    py: Python<'_>,
    made: Result<T, ConfigError>,
    limit: impl FnOnce(T) -> Checked,
) -> PyResult<Limit> {
    made.map(|made| Limit(limit(made))).map_err(|error| convert::refused(py, &error))
}
