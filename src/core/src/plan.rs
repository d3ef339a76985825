//! What a policy may cost before anything is sent: seconds and requests, at the worst.
//!
//! Each wait counts as the larger of its own backoff's top and the longest hint that is honoured, because a server
//! may ask for that much. Nested layers multiply; the caller says how many such calls follow one another.

use crate::failure::Kind;
use crate::policy::Policy;

/// What a policy may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorstCase {
    /// Seconds; `None` when neither an attempt timeout nor a deadline bounds them.
    pub seconds: Option<f64>,
    /// Attempts, each a request or more where a layer below retries too.
    pub requests: u64,
    /// What the longest waits are for.
    pub longest: Row,
}

/// What a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// When a server asks for it.
    Hint,
    /// When a kind of failure waits by its own backoff.
    Backoff(Kind),
    /// When there is no wait at all.
    None,
}

/// Ceilings stand still from here on at the latest, whatever their base.
const SETTLED: u32 = 1_100;

impl Policy {
    /// The worst of `chains` calls one after the other; without `hints` no server asks for a wait.
    pub fn worst_case(&self, chains: u32, hints: bool) -> WorstCase {
        let attempts = self.attempts();
        let one = match (self.attempt_timeout, self.deadline) {
            (None, None) => None,
            (None, Some(deadline)) => Some(deadline.as_secs_f64()),
            (Some(timeout), deadline) => {
                let whole = attempts as f64 * timeout.as_secs_f64() + self.waits(hints);
                Some(deadline.map_or(whole, |deadline| whole.min(deadline.as_secs_f64())))
            }
        };
        WorstCase {
            seconds: one.map(|one| one * f64::from(chains)),
            requests: attempts.saturating_mul(u64::from(chains)),
            longest: self.longest(hints),
        }
    }

    /// The longest attempt timeout with which `chains` calls still fit into `within` seconds, hints included;
    /// zero or less when the waits alone do not.
    pub fn max_attempt_timeout(&self, within: f64, chains: u32) -> f64 {
        let each = within / f64::from(chains);
        match self.deadline {
            // No attempt outlives the deadline, and the deadline fits.
            Some(deadline) if deadline.as_secs_f64() <= each => deadline.as_secs_f64(),
            _ => (each - self.waits(true)) / self.attempts() as f64,
        }
    }

    fn attempts(&self) -> u64 {
        let rounds = u64::from(self.validation_tries.unwrap_or(1));
        let all = u64::from(self.tries).saturating_mul(rounds);
        self.max_requests.map_or(all, |most| all.min(u64::from(most)))
    }

    /// The longest hint that is waited for.
    fn longest_hint(&self, hints: bool) -> f64 {
        if hints { self.max_wait * (1.0 + self.hint_jitter) } else { 0.0 }
    }

    /// The kinds whose backoff stands between two attempts of a round.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let shared = self.validation_tries.is_none();
        [Kind::Call, Kind::RateLimited, Kind::Validation]
            .into_iter()
            .filter(move |kind| shared || *kind != Kind::Validation)
    }

    /// The sum of the longest waits: a round of transport tries, a failed validation, the next round.
    fn waits(&self, hints: bool) -> f64 {
        let longest_hint = self.longest_hint(hints);
        let top = |index| {
            self.kinds().map(|kind| self.backoffs.of(kind).ceiling(index)).fold(longest_hint, f64::max)
        };
        let growing = |waits: u64| {
            let counted = u32::try_from(waits).unwrap_or(u32::MAX).min(SETTLED);
            (0..counted).map(top).sum::<f64>() + (waits - u64::from(counted)) as f64 * top(SETTLED)
        };
        let tries = u64::from(self.tries);
        let between = self.backoffs.validation.ceiling(self.tries.saturating_sub(1));
        let (rounds, rest) = (self.attempts() / tries, self.attempts() % tries);
        let begun = rounds + u64::from(rest > 0);
        rounds as f64 * growing(tries - 1)
            + growing(rest.saturating_sub(1))
            + begun.saturating_sub(1) as f64 * between
    }

    /// What the longest wait is for; a kind goes before the hint when both last as long.
    fn longest(&self, hints: bool) -> Row {
        let last = self.tries.saturating_sub(2);
        let waits = self.kinds().map(|kind| (self.backoffs.of(kind).ceiling(last), Row::Backoff(kind)));
        let first = (self.longest_hint(hints), Row::Hint);
        let longest =
            waits.chain([first]).fold((0.0, Row::None), |best, row| if row.0 > best.0 { row } else { best });
        if self.attempts() < 2 { Row::None } else { longest.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::{Backoff, Jitter};
    use crate::policy::{Fields, More};

    fn policy(change: impl FnOnce(&mut Fields)) -> Policy {
        let mut fields = Fields {
            tries: 3,
            base: 1.0,
            cap: 30.0,
            max_wait: 2.0,
            deadline: None,
            attempt_timeout: Some(15.0),
            retry_status: None,
            retry_transport: true,
            retry_maybe_processed: true,
            more: More::default(),
        };
        change(&mut fields);
        Policy::new(fields).expect("the fields of this test are good")
    }

    fn seconds(policy: &Policy, chains: u32, hints: bool) -> f64 {
        policy.worst_case(chains, hints).seconds.expect("it is bounded")
    }

    #[test]
    fn three_attempts_of_15_s_and_two_waits_of_2_s_are_49_s_and_two_chains_98_s() {
        let fixed = policy(|f| f.more.backoffs = [Some(Backoff::Fixed(2.0)); 3]);
        assert_eq!(seconds(&fixed, 1, true), 49.0);
        assert_eq!(
            fixed.worst_case(2, true),
            WorstCase { seconds: Some(98.0), requests: 6, longest: Row::Backoff(Kind::Call) }
        );
        assert!((fixed.max_attempt_timeout(120.0, 2) - 18.666_666).abs() < 1e-5);
    }

    #[test]
    fn the_exponential_path_alone_is_93_s_for_two_chains() {
        let grown = Backoff::Exponential { base: 0.5, cap: 1.0, jitter: Jitter::None };
        let policy = policy(|f| f.more.backoffs = [Some(grown), Some(grown), None]);
        assert_eq!(seconds(&policy, 2, false), 93.0);
    }

    #[test]
    fn without_a_timeout_or_a_deadline_there_is_no_worst_case() {
        let policy = policy(|f| f.attempt_timeout = None);
        assert_eq!(policy.worst_case(1, true).seconds, None);
    }

    #[test]
    fn a_deadline_caps_it() {
        let policy = policy(|f| f.deadline = Some(20.0));
        assert_eq!(seconds(&policy, 2, true), 40.0);
        assert_eq!(policy.max_attempt_timeout(60.0, 2), 20.0);
    }

    #[test]
    fn validation_tries_multiply_and_max_requests_caps() {
        let both = policy(|f| f.more.validation_tries = Some(2));
        assert_eq!(
            both.worst_case(1, true),
            WorstCase {
                seconds: Some(6.0 * 15.0 + 4.0 * 2.0),
                requests: 6,
                longest: Row::Backoff(Kind::Call)
            }
        );
        let capped = policy(|f| {
            f.more.validation_tries = Some(2);
            f.more.max_requests = Some(4);
        });
        assert_eq!(
            capped.worst_case(1, true),
            WorstCase {
                seconds: Some(4.0 * 15.0 + 2.0 * 2.0),
                requests: 4,
                longest: Row::Backoff(Kind::Call)
            }
        );
    }

    #[test]
    fn a_million_tries_are_summed_at_once() {
        let patient = policy(|f| f.tries = 1_000_000);
        assert_eq!(
            seconds(&patient, 1, true),
            1_000_000.0 * 15.0 + 1.0f64.max(2.0) + 2.0 + 4.0 + 8.0 + 16.0 + 999_994.0 * 30.0
        );
    }
}
