//! The engine, told as scripts: what the provider did, and what was answered.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use steadycall_core::backoff::{Backoff, Backoffs};
use steadycall_core::call::{Around, Call, End, Report, Stage, Step, StopReason};
use steadycall_core::failure::{Failure, Reason, Sent};
use steadycall_core::hint::{Hint, Source};
use steadycall_core::passage::Refusal;
use steadycall_core::policy::Policy;
use steadycall_core::time::{Deadline, Moment};

const HALF: f64 = 0.5;

fn policy() -> Policy {
    Policy {
        tries: 5,
        backoffs: Backoffs::same(Backoff::full_jitter(1.0, 30.0)),
        max_wait: 60.0,
        deadline: None,
        attempt_timeout: None,
        retry_status: None,
        retry_transport: true,
        retry_maybe_processed: true,
        min_attempt: Duration::ZERO,
        validation_tries: None,
        max_requests: None,
        hint_jitter: 0.0,
    }
}

fn at(seconds: f64) -> Moment {
    Moment::from_origin(Duration::from_secs_f64(seconds))
}

fn failed(reason: Reason) -> Failure {
    Failure::transport(reason, Sent::Maybe)
}

fn asking(seconds: f64) -> Failure {
    let hint = Some(Hint { seconds, source: Source::RetryAfter });
    Failure { hint, ..failed(Reason::RateLimited) }
}

fn report(failure: Option<Failure>) -> Report {
    Report { failure, status: None, request_id: None, fully_sent: true, received: 0, replays: 0, requests: 1 }
}

/// Plays failures one after the other on a clock that waits move; each attempt takes `each` seconds.
fn play(policy: Policy, failures: &[Failure], each: f64) -> (Vec<f64>, u32, End) {
    let mut now = at(0.0);
    let mut call = Call::new(Arc::new(policy), now);
    let (mut waits, mut attempts) = (Vec::new(), 0);
    loop {
        match call.next(|| HALF, now) {
            Step::Attempt { number, .. } => {
                attempts += 1;
                assert_eq!(number, attempts, "attempts are numbered one by one");
                now = now.after(Duration::from_secs_f64(each));
                call.record(report(failures.get(attempts as usize - 1).cloned()), now);
            }
            Step::Wait { seconds } => {
                waits.push(seconds);
                now = now.after(Duration::from_secs_f64(seconds));
            }
            Step::Finish(end) => return (waits, attempts, end),
        }
    }
}

fn gave_up(why: StopReason) -> End {
    End::GaveUp(why)
}

#[test]
fn two_server_errors_are_waited_out_with_growing_jitter() {
    let (waits, attempts, end) =
        play(policy(), &[failed(Reason::ServerError), failed(Reason::ServerError)], 0.1);
    assert_eq!((waits, attempts, end), (vec![0.5, 1.0], 3, End::Answered));
}

#[test]
fn a_hint_is_waited_to_the_last_digit() {
    let (waits, ..) = play(policy(), &[asking(53.016342224)], 0.1);
    assert_eq!(waits, [53.016342224]);
}

#[test]
fn a_hint_equal_to_max_wait_is_honoured_and_a_longer_one_ends_the_call() {
    assert_eq!(play(policy(), &[asking(60.0)], 0.0).2, End::Answered);
    let (waits, attempts, end) = play(policy(), &[asking(60.000001)], 0.0);
    assert_eq!((waits, attempts, end), (vec![], 1, gave_up(StopReason::HintTooLong)));
}

#[test]
fn an_endless_hint_is_too_long() {
    assert_eq!(play(policy(), &[asking(f64::INFINITY)], 0.0).2, gave_up(StopReason::HintTooLong));
}

#[test]
fn what_no_retry_can_fix_ends_the_call_at_once() {
    let (waits, attempts, end) = play(policy(), &[failed(Reason::CertificateRejected)], 0.0);
    assert_eq!((waits, attempts, end), (vec![], 1, gave_up(StopReason::NotRetryable)));
}

#[test]
fn three_tries_are_three_attempts_and_two_waits() {
    let failures = vec![failed(Reason::ServerError); 9];
    let (waits, attempts, end) = play(Policy { tries: 3, ..policy() }, &failures, 0.0);
    assert_eq!((waits.len(), attempts, end), (2, 3, gave_up(StopReason::Tries)));
}

#[test]
fn a_wait_that_reaches_the_deadline_ends_the_call_before_it() {
    // 1 s used, 4 s of hint, 5 s of deadline: the wait would end exactly at the deadline.
    let limited = Policy { deadline: Some(Duration::from_secs(5)), ..policy() };
    let (waits, attempts, end) = play(limited, &[asking(4.0)], 1.0);
    assert_eq!((waits, attempts, end), (vec![], 1, gave_up(StopReason::Deadline(Stage::RetryDelay))));
}

#[test]
fn reasons_to_give_up_are_asked_in_their_order() {
    // Both the tries and the deadline are spent, and the hint is too long: the tries come first.
    let spent = Policy { tries: 1, deadline: Some(Duration::from_secs(1)), ..policy() };
    assert_eq!(play(spent, &[asking(100.0)], 2.0).2, gave_up(StopReason::Tries));
    let long = Policy { deadline: Some(Duration::from_secs(1)), ..policy() };
    assert_eq!(play(long, &[asking(100.0)], 2.0).2, gave_up(StopReason::HintTooLong));
}

#[test]
fn a_deadline_that_passed_sends_nothing() {
    let mut call = Call::new(Arc::new(policy()), at(3.0));
    call.end_within(Duration::ZERO, at(3.0));
    assert_eq!(
        call.next(|| HALF, at(3.0)),
        Step::Finish(gave_up(StopReason::Deadline(Stage::BeforeAttempt)))
    );
    assert!(call.records().is_empty());
}

#[test]
fn an_attempt_is_cut_to_what_is_left_of_the_deadline() {
    let both = Policy {
        deadline: Some(Duration::from_secs(10)),
        attempt_timeout: Some(Duration::from_secs(30)),
        ..policy()
    };
    let mut call = Call::new(Arc::new(both), at(0.0));
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Attempt { number: 1, until: Deadline::At(at(10.0)) });
    // The clock of the call may be a fake one: that the deadline cut the attempt is not asked of it.
    call.record(report(Some(failed(Reason::AttemptTimeout))), at(0.0));
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Finish(gave_up(StopReason::Deadline(Stage::Attempt))));
}

#[test]
fn silence_after_a_fully_sent_request_allows_one_more_attempt() {
    for silence in [Reason::ReadTimeout, Reason::AttemptTimeout] {
        let (_, attempts, end) = play(policy(), &vec![failed(silence); 9], 0.0);
        assert_eq!((attempts, end), (2, gave_up(StopReason::Tries)));
    }
    let mixed = [failed(Reason::ServerError), failed(Reason::ReadTimeout), failed(Reason::ServerError)];
    assert_eq!(play(policy(), &mixed, 0.0).1, 3);
}

#[test]
fn silence_before_the_request_was_sent_is_an_ordinary_failure() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    for _ in 0..4 {
        assert!(matches!(call.next(|| HALF, at(0.0)), Step::Attempt { .. }));
        let unsent = Report { fully_sent: false, ..report(Some(failed(Reason::AttemptTimeout))) };
        call.record(unsent, at(0.0));
        assert!(matches!(call.next(|| HALF, at(0.0)), Step::Wait { .. }));
    }
}

#[test]
fn transport_faults_are_not_retried_when_switched_off() {
    let off = Policy { retry_transport: false, ..policy() };
    assert_eq!(play(off.clone(), &[failed(Reason::ConnectFailed)], 0.0).2, gave_up(StopReason::NotRetryable));
    assert_eq!(play(off, &[failed(Reason::ServerError)], 0.0).2, End::Answered);
}

#[test]
fn what_may_have_been_processed_is_sent_again_only_when_allowed() {
    let careful = Policy { retry_maybe_processed: false, ..policy() };
    let lost = failed(Reason::ConnectionLost);
    let unsent = Failure { sent: Sent::No, ..failed(Reason::ConnectFailed) };
    assert_eq!(play(careful.clone(), std::slice::from_ref(&lost), 0.0).2, gave_up(StopReason::NotRetryable));
    assert_eq!(play(careful, &[unsent], 0.0).2, End::Answered);
    assert_eq!(play(policy(), &[lost], 0.0).2, End::Answered);
}

#[test]
fn asking_twice_gives_the_same_answer() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    let first = call.next(|| HALF, at(0.0));
    assert_eq!(call.next(|| HALF, at(0.0)), first);
    call.record(report(None), at(1.0));
    assert_eq!(call.next(|| HALF, at(1.0)), Step::Finish(End::Answered));
    assert_eq!(call.next(|| HALF, at(2.0)), Step::Finish(End::Answered));
}

#[test]
fn a_record_tells_each_attempt_and_the_wait_after_it() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    call.next(|| HALF, at(0.0));
    call.record(report(Some(asking(2.0))), at(0.25));
    call.next(|| HALF, at(0.25));
    let record = call.records().first().expect("one attempt was made");
    assert_eq!((record.number, record.wait, record.delivered), (1, Some(2.0), false));
    assert_eq!(record.elapsed, Duration::from_millis(250));
}

fn any_failure() -> impl Strategy<Value = Failure> {
    let reasons = prop::sample::select(Reason::ALL.to_vec());
    (reasons, any::<bool>(), prop::option::of(0.001..200.0f64)).prop_map(|(reason, maybe, hint)| Failure {
        hint: hint.map(|seconds| Hint { seconds, source: Source::RetryAfter }),
        ..Failure::transport(reason, if maybe { Sent::Maybe } else { Sent::No })
    })
}

proptest! {
    #[test]
    fn a_call_keeps_its_laws_whatever_fails(
        failures in prop::collection::vec(any_failure(), 0..12),
        tries in 1u32..8,
        deadline in prop::option::of(0.1..100.0f64),
        each in 0.0..20.0f64,
        draw in 0.0..1.0f64,
    ) {
        let limited = Policy { tries, deadline: deadline.map(Duration::from_secs_f64), ..policy() };
        let mut now = at(0.0);
        let mut call = Call::new(Arc::new(limited), now);
        let mut attempts = 0u32;
        let end = loop {
            match call.next(|| draw, now) {
                Step::Attempt { until, .. } => {
                    attempts += 1;
                    prop_assert!(!until.passed(now), "an attempt has time left");
                    now = now.after(Duration::from_secs_f64(each));
                    call.record(report(failures.get(attempts as usize - 1).cloned()), now);
                }
                Step::Wait { seconds } => {
                    let last = failures.get(attempts as usize - 1).expect("a wait follows a failure");
                    let asked = last.hint.as_ref().map_or(0.0, |hint| hint.seconds);
                    prop_assert!(seconds >= asked, "never early");
                    prop_assert!(seconds <= 60.0, "no longer than max_wait or cap");
                    now = now.after(Duration::from_secs_f64(seconds));
                    if let Some(deadline) = deadline {
                        prop_assert!(now < at(deadline), "never past the deadline");
                    }
                }
                Step::Finish(end) => break end,
            }
        };
        prop_assert!(attempts <= tries);
        prop_assert_eq!(call.records().len(), attempts as usize);
        if end == End::Answered {
            prop_assert!(failures.len() < attempts as usize, "success is the attempt that did not fail");
        }
    }
}

// ---- validation, budgets and what a deadline must leave ---------------------------------------

fn invalid() -> Failure {
    failed(Reason::ValidationFailed)
}

#[test]
fn failed_validation_shares_the_tries_and_is_tried_again_at_once() {
    let three = Policy { tries: 3, ..policy() };
    let (waits, attempts, end) = play(three, &[invalid(), failed(Reason::ServerError), invalid()], 0.1);
    assert_eq!((waits, attempts, end), (vec![0.0, 1.0], 3, gave_up(StopReason::Tries)));
}

#[test]
fn each_validation_try_starts_with_fresh_transport_tries() {
    let both = Policy { tries: 3, validation_tries: Some(2), ..policy() };
    let busy = || failed(Reason::ServerError);
    let script = [busy(), busy(), invalid(), busy(), busy(), invalid(), busy()];
    let (waits, attempts, end) = play(both, &script, 0.1);
    assert_eq!((waits, attempts), (vec![0.5, 1.0, 0.0, 0.5, 1.0], 6));
    assert_eq!(end, gave_up(StopReason::Validation));
}

#[test]
fn failed_validation_never_restarts_a_transport_that_was_exhausted() {
    let both = Policy { tries: 2, validation_tries: Some(5), ..policy() };
    let (_, attempts, end) =
        play(both, &[invalid(), failed(Reason::ServerError), failed(Reason::ServerError)], 0.1);
    assert_eq!((attempts, end), (3, gave_up(StopReason::Tries)));
}

#[test]
fn max_requests_ends_the_call_whatever_the_tries_allow() {
    let capped = Policy { max_requests: Some(2), ..policy() };
    let (waits, attempts, end) = play(capped, &vec![failed(Reason::ServerError); 9], 0.1);
    assert_eq!((waits, attempts, end), (vec![0.5], 2, gave_up(StopReason::RequestBudget)));
}

#[test]
fn a_budget_that_the_layers_around_have_spent_allows_no_attempt_and_no_retry() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    call.observe_budget(Some(0));
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Finish(gave_up(StopReason::RequestBudget)));

    let mut call = Call::new(Arc::new(policy()), at(0.0));
    call.observe_budget(Some(1));
    call.next(|| HALF, at(0.0));
    call.record(report(Some(failed(Reason::ServerError))), at(1.0));
    call.observe_budget(Some(0));
    assert_eq!(call.next(|| HALF, at(1.0)), Step::Finish(gave_up(StopReason::RequestBudget)));
}

#[test]
fn an_attempt_that_would_have_less_than_min_attempt_is_not_started() {
    let picky =
        Policy { deadline: Some(Duration::from_secs(4)), min_attempt: Duration::from_secs(2), ..policy() };
    let end = play(picky.clone(), &[asking(2.0)], 0.0).2;
    assert_eq!(end, End::Answered, "exactly min_attempt is enough");
    let end = play(picky.clone(), &[asking(2.1)], 0.0).2;
    assert_eq!(end, gave_up(StopReason::MinAttempt(Stage::RetryDelay)));
    let mut late = Call::new(Arc::new(picky), at(0.0));
    late.end_within(Duration::from_secs(1), at(0.0));
    assert_eq!(
        late.next(|| HALF, at(0.0)),
        Step::Finish(gave_up(StopReason::MinAttempt(Stage::BeforeAttempt)))
    );
}

#[test]
fn hint_jitter_adds_to_a_hint_what_the_deadline_leaves() {
    let jittery = Policy { hint_jitter: 0.2, ..policy() };
    assert_eq!(play(jittery.clone(), &[asking(10.0)], 0.0).0, [11.0]);
    assert_eq!(play(jittery.clone(), &[failed(Reason::ServerError)], 0.0).0, [0.5], "a hint, not a backoff");
    let soon = Policy { deadline: Some(Duration::from_secs_f64(10.5)), ..jittery };
    let (waits, attempts, end) = play(soon, &[asking(10.0)], 0.0);
    assert_eq!((waits, attempts, end), (vec![10.25], 2, End::Answered));
}

proptest! {
    #[test]
    fn a_jittered_hint_is_never_early_and_leaves_time_for_the_attempt(
        asked in 0.001..60.0f64, jitter in 0.0..=1.0f64, deadline in 0.01..120.0f64, least in 0.0..5.0f64, draw in 0.0..1.0f64,
    ) {
        let policy = Policy {
            hint_jitter: jitter,
            deadline: Some(Duration::from_secs_f64(deadline)),
            min_attempt: Duration::from_secs_f64(least),
            ..policy()
        };
        let mut call = Call::new(Arc::new(policy), at(0.0));
        prop_assume!(matches!(call.next(|| draw, at(0.0)), Step::Attempt { .. }));
        call.record(report(Some(asking(asked))), at(0.0));
        if let Step::Wait { seconds } = call.next(|| draw, at(0.0)) {
            prop_assert!(seconds >= asked && seconds <= asked * (1.0 + jitter) * (1.0 + 1e-12));
            let again = call.next(|| draw, at(seconds));
            prop_assert!(matches!(again, Step::Attempt { .. }), "{again:?} after a wait of {seconds}");
        }
    }

    #[test]
    fn no_call_makes_more_attempts_than_its_policy_allows(
        tries in 1u32..6, rounds in proptest::option::of(1u32..4), most in proptest::option::of(1u32..12),
        kinds in proptest::collection::vec(0..3, 40),
    ) {
        let policy = Policy { tries, validation_tries: rounds, max_requests: most, ..policy() };
        let script: Vec<_> = kinds
            .iter()
            .map(|kind| match kind { 0 => failed(Reason::ServerError), 1 => asking(1.0), _ => invalid() })
            .collect();
        let (_, attempts, end) = play(policy, &script, 0.0);
        let allowed = (tries * rounds.unwrap_or(1)).min(most.unwrap_or(u32::MAX));
        prop_assert!(attempts <= allowed, "{attempts} of {allowed}");
        prop_assert!(matches!(end, End::GaveUp(_)));
    }
}

/// A client whose breaker is open for so long, and with so many retries left.
struct Client {
    open: Duration,
    retries: u32,
}

impl Around for Client {
    fn delay(&mut self, _now: Moment) -> Duration {
        self.open
    }

    fn admit_retry(&mut self, _failure: &Failure, _now: Moment) -> bool {
        let left = self.retries.checked_sub(1);
        self.retries = left.unwrap_or(0);
        left.is_some()
    }
}

/// What one call is told after a failure that waits half a second.
fn after_one_failure(client: &mut Client, policy: Policy) -> Step {
    let mut call = Call::new(Arc::new(policy), at(0.0));
    call.next_within(client, || HALF, at(0.0));
    call.record(report(Some(failed(Reason::ServerError))), at(0.0));
    call.next_within(client, || HALF, at(0.0))
}

#[test]
fn a_breaker_that_is_open_beyond_the_wait_ends_the_call_and_one_that_is_not_does_not() {
    let mut client = Client { open: Duration::from_millis(501), retries: 9 };
    assert_eq!(after_one_failure(&mut client, policy()), Step::Finish(gave_up(StopReason::BreakerOpen)));
    client.open = Duration::from_millis(500);
    assert_eq!(after_one_failure(&mut client, policy()), Step::Wait { seconds: 0.5 });
}

#[test]
fn the_retry_budget_is_asked_last_so_that_nothing_is_paid_for_no_retry() {
    let mut client = Client { open: Duration::from_secs(9), retries: 1 };
    after_one_failure(&mut client, policy());
    client.open = Duration::ZERO;
    after_one_failure(&mut client, Policy { tries: 1, ..policy() });
    after_one_failure(&mut client, Policy { deadline: Some(Duration::from_millis(500)), ..policy() });
    assert_eq!(client.retries, 1);
    assert_eq!(after_one_failure(&mut client, policy()), Step::Wait { seconds: 0.5 });
    assert_eq!(after_one_failure(&mut client, policy()), Step::Finish(gave_up(StopReason::RetryBudget)));
}

#[test]
fn an_attempt_that_the_gates_refused_is_none() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    call.next(|| HALF, at(0.0));
    call.refused_for(Refusal::QueueFull.into());
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Finish(gave_up(StopReason::QueueFull)));
    assert_eq!((call.records().len(), call.requests()), (0, 0));
    let late = StopReason::from(Refusal::TooSlow(Duration::from_secs(9)));
    assert_eq!(late, StopReason::Deadline(Stage::Queue));
}

#[test]
fn a_wait_that_is_in_vain_for_the_layers_around_ends_the_call_and_is_not_told_as_waited() {
    let mut call = Call::new(Arc::new(policy()), at(0.0));
    call.next(|| HALF, at(0.0));
    call.record(report(Some(asking(7.0))), at(0.0));
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Wait { seconds: 7.0 });
    let why = call.too_late();
    assert_eq!(why, StopReason::Deadline(Stage::RetryDelay));
    assert_eq!(call.next(|| HALF, at(0.0)), Step::Finish(gave_up(why)));
    assert_eq!(call.records()[0].wait, None);
}
