//! What a run has done so far, to be looked at from any thread while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use steadycall_core::failure::{Failure, Kind};

use crate::clock::{self, Duration, Instant};
use crate::driver::Ended;

use super::record;

/// Counters of a run.
#[derive(Debug, Default)]
pub struct Counts {
    /// Rows there are: of the input, or taken so far.
    pub rows: AtomicU64,
    /// Rows that earlier runs answered.
    pub earlier_answered: AtomicU64,
    /// Rows that failed in earlier runs.
    pub earlier_failed: AtomicU64,
    /// Rows answered and recorded.
    pub answered: AtomicU64,
    /// Rows and bad lines recorded as failed.
    pub failed: AtomicU64,
    /// Rows read and without a record.
    pub open: AtomicU64,
    /// Rows that wait for an open circuit.
    pub parked: AtomicUsize,
    /// Requests on their way.
    pub in_flight: AtomicU64,
    /// Requests that came back, or were given up under way.
    pub requests: AtomicU64,
    /// Answers with status 429.
    pub rate_limited: AtomicU64,
    /// As the answers say.
    pub input_tokens: AtomicU64,
    /// As the answers say.
    pub output_tokens: AtomicU64,
    /// Rows sent again though they may have been billed before.
    pub maybe_billed_twice: AtomicU64,
    /// Until when somebody asked to wait.
    wait: Mutex<Option<Instant>>,
    /// The last request that failed: which host, and how.
    last_error: Mutex<Option<String>>,
    /// Since when every request failed for the server's sake or the network's.
    failing: Mutex<Option<Instant>>,
    /// Recorded rows by outcome.
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
}

/// All of it at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Rows there are.
    pub rows: u64,
    /// Rows that earlier runs answered.
    pub earlier_answered: u64,
    /// Rows that failed in earlier runs and are left alone.
    pub earlier_failed: u64,
    /// Rows answered by this run.
    pub answered: u64,
    /// Rows recorded as failed by this run.
    pub failed: u64,
    /// Requests on their way.
    pub in_flight: u64,
    /// Rows that were read and wait for a gate or a retry.
    pub waiting: u64,
    /// Requests that came back.
    pub requests: u64,
    /// Answers with status 429.
    pub rate_limited: u64,
    /// As the answers say.
    pub input_tokens: u64,
    /// As the answers say.
    pub output_tokens: u64,
    /// Rows sent again that may have been billed before.
    pub maybe_billed_twice: u64,
    /// Seconds until the wait that somebody asked for is over.
    pub wait: Option<Duration>,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counts {
    /// Told that somebody asked to wait.
    pub fn observe_wait(&self, wait: Duration) {
        let until = clock::now().checked_add(wait);
        let mut held = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        *held = until.max(*held);
    }

    /// Told how a request to a host was judged.
    pub fn observe_request(&self, host: &str, failure: Option<&Failure>) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(Failure { kind: Kind::Call, .. }) => *failing = failing.or_else(|| Some(clock::now())),
            _ => *failing = None,
        }
        if let Some(Failure { status, reason, .. }) = failure {
            let status = status.map(|status| format!("{status} ")).unwrap_or_default();
            let told = format!("{host}: {status}{}", reason.name());
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
        }
    }

    /// For how long every request has failed for the server's sake or the network's.
    pub fn outage(&self) -> Duration {
        let failing = *self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The host of the last request that failed, and its status or reason.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Told that whatever was open is given up. What was on its way was sent all the same.
    pub fn observe_close(&self) {
        add(&self.requests, self.in_flight.swap(0, Ordering::Relaxed));
        self.open.store(0, Ordering::Relaxed);
    }

    /// Told how a row ended that was recorded.
    pub fn observe_end(&self, ended: &Ended) {
        match ended.is_answered() {
            true => {
                add(&self.answered, 1);
                self.tell("answered");
            }
            false => {
                add(&self.failed, 1);
                self.tell(record::reason(ended).0);
            }
        }
    }

    /// Told that a line was recorded that is no row.
    pub fn observe_bad(&self, what: record::Bad) {
        add(&self.failed, 1);
        self.tell(what.told().0);
    }

    fn tell(&self, outcome: &'static str) {
        *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome).or_default() += 1;
    }

    /// Recorded rows by outcome.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All of it now.
    pub fn snapshot(&self) -> Snapshot {
        let in_flight = get(&self.in_flight);
        let until = *self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot {
            rows: get(&self.rows),
            earlier_answered: get(&self.earlier_answered),
            earlier_failed: get(&self.earlier_failed),
            answered: get(&self.answered),
            failed: get(&self.failed),
            in_flight,
            waiting: get(&self.open).saturating_sub(in_flight),
            requests: get(&self.requests),
            rate_limited: get(&self.rate_limited),
            input_tokens: get(&self.input_tokens),
            output_tokens: get(&self.output_tokens),
            maybe_billed_twice: get(&self.maybe_billed_twice),
            wait: until
                .map(|until| until.saturating_duration_since(clock::now()))
                .filter(|left| !left.is_zero()),
        }
    }
}
