//! The validated whole of how a call is retried. A `Policy` cannot hold a value that makes no sense:
//! `Policy::new` turns each bad one into a `ConfigError` that names the field, the value and what is allowed.

use std::fmt;
use std::time::Duration;

use crate::backoff::{Backoff, Backoffs};
use crate::classify::StatusSet;
use crate::time::seconds;

/// The fields of a policy as a caller wrote them: seconds as numbers, nothing checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    /// Attempts in all, the first included.
    pub tries: i64,
    /// Ceiling of the first wait without a hint, in seconds.
    pub base: f64,
    /// Ceiling of every wait without a hint, in seconds.
    pub cap: f64,
    /// Longest hint that is honoured, in seconds.
    pub max_wait: f64,
    /// Seconds for the whole call; `None` is not limited.
    pub deadline: Option<f64>,
    /// Seconds for one attempt; `None` is limited by the I/O timeouts and the deadline only.
    pub attempt_timeout: Option<f64>,
    /// Statuses to retry instead of the built-in table.
    pub retry_status: Option<Vec<i64>>,
    /// Whether faults of the transport are retried.
    pub retry_transport: bool,
    /// Whether a request that may have been processed is sent again.
    pub retry_maybe_processed: bool,
    /// What few callers set.
    pub more: More,
}

/// The fields of a policy that `call` has no parameter for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct More {
    /// Backoffs by kind, checked; what is left out waits by `base` and `cap`, and `validation` not at all.
    pub backoffs: [Option<Backoff>; 3],
    /// With less than this left of the deadline no attempt is started, in seconds.
    pub min_attempt: f64,
    /// Answers that may fail their validation, each after transport tries of its own; `None` shares `tries`.
    pub validation_tries: Option<i64>,
    /// Most requests one call may cost.
    pub max_requests: Option<i64>,
    /// Largest share of a hint that is added to it by chance.
    pub hint_jitter: f64,
}

/// How a call is retried, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Attempts in all, at least one.
    pub tries: u32,
    /// Waits without a hint.
    pub backoffs: Backoffs,
    /// Longest hint that is honoured, in seconds; an equal one still is.
    pub max_wait: f64,
    /// Time for the whole call.
    pub deadline: Option<Duration>,
    /// Time for one attempt.
    pub attempt_timeout: Option<Duration>,
    /// Statuses to retry instead of the built-in table.
    pub retry_status: Option<StatusSet>,
    /// Whether faults of the transport are retried.
    pub retry_transport: bool,
    /// Whether a request that may have been processed is sent again.
    pub retry_maybe_processed: bool,
    /// With less than this left of the deadline no attempt is started.
    pub min_attempt: Duration,
    /// Validation tries, each with transport tries of its own; `None` shares `tries`.
    pub validation_tries: Option<u32>,
    /// Most requests one call may cost.
    pub max_requests: Option<u32>,
    /// Largest share of a hint that is added to it by chance.
    pub hint_jitter: f64,
}

/// One bad value: which field, what it was, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The field as the caller names it.
    pub field: &'static str,
    /// The value as the caller wrote it.
    pub value: String,
    /// What is allowed, to follow "must be".
    pub allowed: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} must be {}, got {}", self.field, self.allowed, self.value)
    }
}

impl Policy {
    /// Checks every field.
    pub fn new(fields: Fields) -> Result<Self, ConfigError> {
        let otherwise = Backoff::full_jitter(wait("base", fields.base)?, wait("cap", fields.cap)?);
        let min_attempt = wait("min_attempt", fields.more.min_attempt)?;
        if fields.deadline.is_some_and(|deadline| min_attempt > deadline) {
            let allowed = "at most the deadline, or no attempt could begin";
            return Err(ConfigError { field: "min_attempt", value: min_attempt.to_string(), allowed });
        }
        let [call, rate_limited, validation] = fields.more.backoffs;
        Ok(Self {
            tries: count("tries", fields.tries)?,
            backoffs: Backoffs {
                call: call.unwrap_or(otherwise),
                rate_limited: rate_limited.unwrap_or(otherwise),
                validation: validation.unwrap_or(Backoff::None),
            },
            max_wait: wait("max_wait", fields.max_wait)?,
            deadline: limit("deadline", fields.deadline)?,
            attempt_timeout: limit("attempt_timeout", fields.attempt_timeout)?,
            retry_status: fields.retry_status.map(|codes| status_set(&codes)).transpose()?,
            retry_transport: fields.retry_transport,
            retry_maybe_processed: fields.retry_maybe_processed,
            min_attempt: seconds(min_attempt).unwrap_or(Duration::MAX),
            validation_tries: optional_count("validation_tries", fields.more.validation_tries)?,
            max_requests: optional_count("max_requests", fields.more.max_requests)?,
            hint_jitter: share("hint_jitter", fields.more.hint_jitter)?,
        })
    }
}

/// Checks a number of things of which there is at least one.
pub fn count(field: &'static str, value: i64) -> Result<u32, ConfigError> {
    let bad = || ConfigError { field, value: value.to_string(), allowed: "a whole number of at least 1" };
    u32::try_from(value).ok().filter(|count| *count >= 1).ok_or_else(bad)
}

fn optional_count(field: &'static str, value: Option<i64>) -> Result<Option<u32>, ConfigError> {
    let or_none = |error| ConfigError { allowed: "a whole number of at least 1, or None", ..error };
    value.map(|value| count(field, value)).transpose().map_err(or_none)
}

/// Checks an amount of which there is at least one, and which may be large or not limited at all.
pub fn amount(field: &'static str, value: Option<i64>) -> Result<Option<u64>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let bad =
        || ConfigError { field, value: value.to_string(), allowed: "a whole number of at least 1, or None" };
    u64::try_from(value).ok().filter(|amount| *amount >= 1).map(Some).ok_or_else(bad)
}

/// Checks a share of a whole.
pub fn share(field: &'static str, value: f64) -> Result<f64, ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(ConfigError { field, value: value.to_string(), allowed: "a share from 0 to 1" })
}

/// Checks seconds that may be zero but not negative or endless.
pub fn wait(field: &'static str, value: f64) -> Result<f64, ConfigError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(ConfigError { field, value: value.to_string(), allowed: "a finite number of seconds, 0 or more" })
}

/// Checks a bound on time: above zero and finite; `None` stays not limited.
pub fn limit(field: &'static str, value: Option<f64>) -> Result<Option<Duration>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let bound = if value.is_finite() && value > 0.0 { seconds(value) } else { None };
    let bad = || ConfigError {
        field,
        value: value.to_string(),
        allowed: "a finite number of seconds above 0, or None",
    };
    bound.map(Some).ok_or_else(bad)
}

fn status_set(codes: &[i64]) -> Result<StatusSet, ConfigError> {
    let checked = codes.iter().map(|code| match u16::try_from(*code) {
        Ok(status) if (300..=599).contains(&status) => Ok(status),
        _ => Err(ConfigError {
            field: "retry_status",
            value: code.to_string(),
            allowed: "HTTP statuses from 300 to 599",
        }),
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            tries: 5,
            base: 1.0,
            cap: 30.0,
            max_wait: 60.0,
            deadline: None,
            attempt_timeout: None,
            retry_status: None,
            retry_transport: true,
            retry_maybe_processed: true,
            more: More::default(),
        }
    }

    fn refused(change: impl FnOnce(&mut Fields)) -> String {
        let mut changed = fields();
        change(&mut changed);
        Policy::new(changed).expect_err("a bad value must be refused").to_string()
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        assert_eq!(refused(|f| f.tries = 0), "tries must be a whole number of at least 1, got 0");
        assert_eq!(refused(|f| f.base = -1.0), "base must be a finite number of seconds, 0 or more, got -1");
        assert_eq!(
            refused(|f| f.cap = f64::NAN),
            "cap must be a finite number of seconds, 0 or more, got NaN"
        );
        let endless = refused(|f| f.max_wait = f64::INFINITY);
        assert_eq!(endless, "max_wait must be a finite number of seconds, 0 or more, got inf");
        let none = refused(|f| f.deadline = Some(0.0));
        assert_eq!(none, "deadline must be a finite number of seconds above 0, or None, got 0");
        assert!(refused(|f| f.retry_status = Some(vec![429, 42])).contains("retry_status"));
        let share = refused(|f| f.more.hint_jitter = 1.5);
        assert_eq!(share, "hint_jitter must be a share from 0 to 1, got 1.5");
        let never = refused(|f| (f.deadline, f.more.min_attempt) = (Some(5.0), 10.0));
        assert_eq!(never, "min_attempt must be at most the deadline, or no attempt could begin, got 10");
        let zero = refused(|f| f.more.max_requests = Some(0));
        assert_eq!(zero, "max_requests must be a whole number of at least 1, or None, got 0");
    }

    #[test]
    fn good_values_are_kept() {
        let policy = Policy::new(Fields { deadline: Some(4.5), ..fields() }).expect("these are the defaults");
        assert_eq!(policy.deadline, Some(Duration::from_millis(4500)));
        assert_eq!(policy.backoffs, Backoffs::same(Backoff::full_jitter(1.0, 30.0)));
    }
}
