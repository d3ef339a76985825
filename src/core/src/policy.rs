//! The validated whole of how a call is retried. A `Policy` cannot hold a value that makes no sense:
//! `Policy::new` turns each bad one into a `ConfigError` that names the field, the value and what is allowed.

use std::fmt;
use std::time::Duration;

use crate::backoff::FullJitter;
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
}

/// How a call is retried, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Attempts in all, at least one.
    pub tries: u32,
    /// Waits without a hint.
    pub backoff: FullJitter,
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
        Ok(Self {
            tries: tries(fields.tries)?,
            backoff: FullJitter { base: wait("base", fields.base)?, cap: wait("cap", fields.cap)? },
            max_wait: wait("max_wait", fields.max_wait)?,
            deadline: limit("deadline", fields.deadline)?,
            attempt_timeout: limit("attempt_timeout", fields.attempt_timeout)?,
            retry_status: fields.retry_status.map(|codes| status_set(&codes)).transpose()?,
            retry_transport: fields.retry_transport,
            retry_maybe_processed: fields.retry_maybe_processed,
        })
    }
}

fn tries(value: i64) -> Result<u32, ConfigError> {
    let bad =
        || ConfigError { field: "tries", value: value.to_string(), allowed: "a whole number of at least 1" };
    u32::try_from(value).ok().filter(|tries| *tries >= 1).ok_or_else(bad)
}

/// Seconds that may be zero but not negative or endless.
fn wait(field: &'static str, value: f64) -> Result<f64, ConfigError> {
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
    }

    #[test]
    fn good_values_are_kept() {
        let policy = Policy::new(Fields { deadline: Some(4.5), ..fields() }).expect("these are the defaults");
        assert_eq!(policy.deadline, Some(Duration::from_millis(4500)));
        assert_eq!(policy.backoff, FullJitter { base: 1.0, cap: 30.0 });
    }
}
