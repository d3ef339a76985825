//! Scripts and laws of the gates: what a call was told, and that nobody is forgotten or served twice.

use std::time::Duration;

use proptest::prelude::*;
use steadycall_core::adaptive::Adaptive;
use steadycall_core::backoff::Backoff;
use steadycall_core::breaker::{CircuitBreaker, Hold, State};
use steadycall_core::bucket::{Ask, Oversized, RateLimit};
use steadycall_core::budget::RetryBudget;
use steadycall_core::ceiling::{OnSpent, TokenBudget};
use steadycall_core::failure::{Failure, Reason, Sent};
use steadycall_core::gates::{Config, Gates};
use steadycall_core::hint::{Hint, Source};
use steadycall_core::passage::{Keys, Passage, Refusal, Report, Step};
use steadycall_core::remaining::Remaining;
use steadycall_core::slots::ConcurrencyLimit;
use steadycall_core::time::{Deadline, Moment};

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

fn open() -> Config {
    Config {
        concurrency: None,
        adaptive: None,
        rate: RateLimit::default(),
        ceiling: None,
        breaker: None,
        retry_budget: None,
        pauses: Backoff::Fixed(4.0),
    }
}

fn slots(max: i64, queue: i64) -> Option<ConcurrencyLimit> {
    Some(ConcurrencyLimit::new(max, queue).expect("good"))
}

fn breaker(failures: i64) -> Option<CircuitBreaker> {
    Some(CircuitBreaker::after(failures, 1.0, 1, None).expect("good"))
}

fn requests(per_minute: i64, burst: i64) -> RateLimit {
    RateLimit::new(Some(per_minute), None, Some(burst), Oversized::Pass).expect("good")
}

fn gates(config: Config) -> Gates<usize> {
    Gates::new(config, at(0))
}

fn keys() -> Keys {
    Keys { host: "host".into(), circuit: "host model".into(), bucket: "host model key".into() }
}

fn passage(number: usize, tokens: u64, deadline: Deadline) -> Passage<usize> {
    Passage::new(keys(), Ask { tokens, deadline, max_pause: Duration::from_secs(60) }, number)
}

fn patient(number: usize) -> Passage<usize> {
    passage(number, 10, Deadline::Never)
}

fn failed(reason: Reason, status: Option<u16>, hint: Option<f64>) -> Failure {
    let hint = hint.map(|seconds| Hint { seconds, source: Source::RetryAfter });
    let sent = if reason == Reason::ConnectFailed { Sent::No } else { Sent::Maybe };
    Failure { status, hint, ..Failure::transport(reason, sent) }
}

fn report(failure: Option<&Failure>) -> Report<'_> {
    Report { failure, cut_short: false, used: None, remaining: Remaining::default() }
}

fn goes(gates: &mut Gates<usize>, number: usize, now: u64) -> Passage<usize> {
    let mut passage = patient(number);
    assert_eq!(gates.next(&mut passage, at(now)).0, Step::Go);
    passage
}

fn refused(gates: &mut Gates<usize>, mut passage: Passage<usize>, now: u64) -> Refusal {
    match gates.next(&mut passage, at(now)).0 {
        Step::Refused(why) => why,
        step => panic!("it is to be refused, not {step:?}"),
    }
}

#[test]
fn without_gates_everything_goes() {
    let mut gates = gates(open());
    let passages: Vec<Passage<usize>> = (0..1_000).map(|number| goes(&mut gates, number, 0)).collect();
    for passage in passages {
        assert!(gates.record(passage, report(None), || 0.0, at(1)).wake.is_empty());
    }
}

#[test]
fn a_slot_is_free_once_the_answer_is_there_and_not_only_when_it_is_judged() {
    let mut gates = gates(Config { concurrency: slots(1, 5), ..open() });
    let mut first = goes(&mut gates, 1, 0);
    let mut second = patient(2);
    assert_eq!(gates.next(&mut second, at(0)).0, Step::Wait(Deadline::Never));
    assert_eq!(gates.leave_slot(&mut first, at(1)), [2]);
    assert_eq!(gates.next(&mut second, at(1)).0, Step::Go);
    assert_eq!(gates.record(first, report(None), || 0.0, at(2)).wake, [0; 0]);
    assert_eq!(gates.in_flight(), Some(1));
}

#[test]
fn the_line_is_bounded_over_all_gates() {
    let mut gates = gates(Config { concurrency: slots(1, 2), rate: requests(60, 2), ..open() });
    let _first = goes(&mut gates, 0, 0);
    let [mut for_a_slot, mut for_the_rate] = [patient(1), patient(2)];
    assert_eq!(gates.next(&mut for_a_slot, at(0)).0, Step::Wait(Deadline::Never));
    assert_eq!(gates.next(&mut for_the_rate, at(0)).0, Step::Wait(Deadline::At(at(1_000))));
    assert_eq!(refused(&mut gates, patient(3), 0), Refusal::QueueFull);
    assert_eq!(gates.waiting(), 2);
    // The rate lets it on, into the line for a slot.
    assert_eq!(gates.next(&mut for_the_rate, at(1_000)).0, Step::Wait(Deadline::Never));
    assert_eq!(gates.waiting(), 2);
}

#[test]
fn who_waits_for_the_rate_holds_no_slot() {
    let mut gates = gates(Config { concurrency: slots(2, 9), rate: requests(60, 1), ..open() });
    let _first = goes(&mut gates, 0, 0);
    let mut second = patient(1);
    gates.next(&mut second, at(0));
    assert_eq!((gates.in_flight(), gates.waiting()), (Some(1), 1));
}

#[test]
fn a_pause_that_began_while_it_stood_in_line_is_waited_for_without_the_slot() {
    let mut gates = gates(Config { concurrency: slots(1, 5), ..open() });
    let first = goes(&mut gates, 1, 0);
    let mut second = patient(2);
    gates.next(&mut second, at(0));
    let limited = failed(Reason::RateLimited, Some(429), Some(2.0));
    assert_eq!(gates.record(first, report(Some(&limited)), || 0.0, at(0)).wake, [2]);
    assert_eq!(gates.next(&mut second, at(0)).0, Step::Wait(Deadline::At(at(2_000))));
    assert_eq!(gates.in_flight(), Some(0));
    assert_eq!(gates.next(&mut second, at(2_000)).0, Step::Go);
    let mut hurried = passage(3, 0, Deadline::At(at(1_500)));
    assert_eq!(gates.next(&mut hurried, at(1_500)).0, Step::Refused(Refusal::Late));
}

#[test]
fn the_breaker_is_asked_before_the_line_and_again_after_it() {
    let mut gates = gates(Config { concurrency: slots(1, 5), breaker: breaker(1), ..open() });
    let first = goes(&mut gates, 1, 0);
    let mut second = patient(2);
    gates.next(&mut second, at(0));
    let sick = failed(Reason::ServerError, Some(500), None);
    let after = gates.record(first, report(Some(&sick)), || 0.0, at(0));
    assert_eq!(after.wake, [2]);
    assert_eq!(after.changed, [(keys().circuit, State::Open(at(1_000)))]);
    let open = Refusal::CircuitOpen(Some(Duration::from_secs(1)));
    assert_eq!(gates.next(&mut second, at(0)).0, Step::Refused(open));
    assert_eq!(refused(&mut gates, patient(3), 0), open);
    assert_eq!((gates.in_flight(), gates.waiting()), (Some(0), 0));
    assert_eq!(gates.delay(&keys(), at(400)), Duration::from_millis(600));
}

#[test]
fn a_fault_of_the_connection_opens_the_host_for_all_its_models() {
    let mut gates = gates(Config { breaker: breaker(1), ..open() });
    let first = goes(&mut gates, 1, 0);
    let unreachable = failed(Reason::ConnectFailed, None, None);
    let after = gates.record(first, report(Some(&unreachable)), || 0.0, at(0));
    assert_eq!(after.changed, [(keys().host, State::Open(at(1_000)))]);
    let other = Keys { circuit: "host other".into(), ..keys() };
    let ask = Ask { tokens: 0, deadline: Deadline::Never, max_pause: Duration::ZERO };
    let why = refused(&mut gates, Passage::new(other, ask, 2), 0);
    assert!(matches!(why, Refusal::CircuitOpen(_)), "{why:?}");
}

#[test]
fn a_500_closes_the_half_open_circuit_of_the_host_which_could_be_reached() {
    let mut gates = gates(Config { breaker: breaker(1), ..open() });
    let first = goes(&mut gates, 1, 0);
    gates.record(first, report(Some(&failed(Reason::ConnectFailed, None, None))), || 0.0, at(0));
    let probe = goes(&mut gates, 2, 1_000);
    let after =
        gates.record(probe, report(Some(&failed(Reason::ServerError, Some(500), None))), || 0.0, at(1_000));
    assert_eq!(after.changed, [(keys().host, State::Closed), (keys().circuit, State::Open(at(2_000)))]);
}

#[test]
fn a_cancelled_probe_gives_its_place_back() {
    let mut gates = gates(Config { breaker: breaker(1), ..open() });
    let first = goes(&mut gates, 1, 0);
    gates.record(first, report(Some(&failed(Reason::ServerError, Some(500), None))), || 0.0, at(0));
    let probe = goes(&mut gates, 2, 1_000);
    assert_eq!(refused(&mut gates, patient(3), 1_000), Refusal::CircuitOpen(None));
    gates.cancel(probe, Sent::Maybe, at(1_000));
    goes(&mut gates, 4, 1_000);
}

#[test]
fn a_user_may_hold_a_circuit_open() {
    let mut gates = gates(Config { breaker: breaker(1), ..open() });
    let breakers = gates.breakers().expect("there is a breaker");
    breakers.hold(&keys().circuit, Hold::Open, at(0));
    assert_eq!(refused(&mut gates, patient(0), 0), Refusal::CircuitOpen(None));
    assert_eq!(gates.delay(&keys(), at(0)), Duration::MAX);
}

#[test]
fn what_was_not_sent_costs_nothing_and_what_may_have_been_stays_paid() {
    let mut gates = gates(Config { rate: requests(60, 1), ..open() });
    let first = goes(&mut gates, 1, 0);
    gates.record(first, report(Some(&failed(Reason::ConnectFailed, None, None))), || 0.0, at(0));
    let second = goes(&mut gates, 2, 0);
    gates.cancel(second, Sent::No, at(0));
    let third = goes(&mut gates, 3, 0);
    gates.cancel(third, Sent::Maybe, at(0));
    assert_eq!(gates.next(&mut patient(4), at(0)).0, Step::Wait(Deadline::At(at(1_000))));
}

#[test]
fn the_days_tokens_are_settled_and_refused_beyond_their_ceiling() {
    let ceiling = Some(TokenBudget::new(25, OnSpent::Refuse).expect("good"));
    let mut gates = gates(Config { ceiling, ..open() });
    let [first, second] = [1, 2].map(|number| goes(&mut gates, number, 0));
    let spent = Refusal::TokensSpent(Duration::from_secs(25 * 3_600));
    assert_eq!(refused(&mut gates, patient(3), 0), spent);
    gates.record(first, Report { used: Some(2), ..report(None) }, || 0.0, at(0));
    gates.record(second, Report { used: Some(20), ..report(None) }, || 0.0, at(0));
    assert_eq!(refused(&mut gates, passage(4, 4, Deadline::Never), 0), spent);
    assert_eq!(gates.next(&mut passage(5, 3, Deadline::Never), at(0)).0, Step::Go);
}

#[test]
fn a_rate_that_cannot_meet_the_deadline_is_refused_at_once_with_the_wait() {
    let mut gates = gates(Config { rate: requests(60, 1), ..open() });
    goes(&mut gates, 1, 0);
    let why = refused(&mut gates, passage(2, 0, Deadline::At(at(1_000))), 0);
    assert_eq!(why, Refusal::TooSlow(Duration::from_secs(1)));
}

#[test]
fn a_limit_that_adapts_comes_down_once_for_all_that_were_in_flight() {
    let adaptive = Some(Adaptive::new(4, 100, 0.5).expect("good"));
    let mut gates = gates(Config { concurrency: slots(8, 100), adaptive, ..open() });
    let mut grown = 0;
    for round in 0..60 {
        let mut all: Vec<Passage<usize>> = (0..8).map(patient).collect();
        let went = all.iter_mut().map(|held| gates.next(held, at(round)).0 == Step::Go).collect::<Vec<_>>();
        grown = went.iter().filter(|went| **went).count();
        for (held, went) in all.into_iter().zip(went) {
            match went {
                true => drop(gates.record(held, report(None), || 0.0, at(round))),
                false => drop(gates.cancel(held, Sent::No, at(round))),
            }
        }
    }
    assert_eq!(grown, 8);
    let all: Vec<Passage<usize>> = (0..8).map(|number| goes(&mut gates, number, 100)).collect();
    let overloaded = failed(Reason::Overloaded, Some(529), None);
    all.into_iter().for_each(|held| drop(gates.record(held, report(Some(&overloaded)), || 0.0, at(100))));
    let _four: Vec<Passage<usize>> = (0..4).map(|number| goes(&mut gates, number, 100)).collect();
    assert!(matches!(gates.next(&mut patient(9), at(100)).0, Step::Wait(_)));
}

#[test]
fn retries_are_paid_from_the_budget_of_all_calls() {
    let mut gates = gates(Config { retry_budget: Some(RetryBudget::default()), ..open() });
    let sick = failed(Reason::ServerError, Some(500), None);
    let asking = failed(Reason::ServerError, Some(503), Some(1.0));
    assert_eq!((0..20).filter(|_| gates.admit_retry(&sick, at(0))).count(), 10);
    (0..5).for_each(|_| gates.observe_call(at(0)));
    assert!(gates.admit_retry(&sick, at(0)) && !gates.admit_retry(&sick, at(0)));
    assert!(gates.admit_retry(&asking, at(0)));
    assert!(Gates::<usize>::new(open(), at(0)).admit_retry(&sick, at(0)));
}

/// One call as a driver sees it: asked when it is woken or when its moment comes, and at no other time.
struct Driven {
    passage: Option<Passage<usize>>,
    wakes_at: Option<Deadline>,
    deadline: Deadline,
}

/// Drives all that are due until none is.
fn drive(gates: &mut Gates<usize>, calls: &mut [Driven], mut woken: Vec<usize>, now: u64) {
    let due = |call: &Driven| call.wakes_at.is_some_and(|until| until.passed(at(now)));
    loop {
        woken.extend((0..calls.len()).filter(|number| due(&calls[*number])));
        let Some(number) = woken.pop() else { return };
        let call = &mut calls[number];
        let (Some(passage), Some(_)) = (&mut call.passage, call.wakes_at) else { continue };
        let (step, wake) = gates.next(passage, at(now));
        woken.extend(wake);
        call.wakes_at = match step {
            Step::Wait(until) => {
                assert!(!until.passed(at(now)), "told to wait for what is past");
                Some(until)
            }
            Step::Go => None,
            Step::Refused(_) => {
                call.passage = None;
                None
            }
        };
    }
}

fn busy(which: u8) -> Config {
    let tokens = RateLimit::new(Some(600), Some(6_000), Some(5), Oversized::Pass).expect("good");
    Config {
        concurrency: slots(3, 6).filter(|_| which & 1 == 0),
        rate: if which & 2 == 0 { tokens } else { RateLimit::default() },
        breaker: breaker(2).filter(|_| which & 4 == 0),
        ceiling: Some(TokenBudget::new(100_000, OnSpent::Wait).expect("good")).filter(|_| which & 8 == 0),
        adaptive: Some(Adaptive::new(1, 3, 0.5).expect("good")).filter(|_| which & 16 == 0),
        ..open()
    }
}

proptest! {
    #[test]
    fn nobody_is_forgotten_and_everything_is_given_back_once(
        which in 0..32u8,
        steps in prop::collection::vec((0..8u8, any::<prop::sample::Index>(), 0..400u64, 0..90u64), 1..150),
    ) {
        let mut gates = gates(busy(which));
        let mut calls: Vec<Driven> = Vec::new();
        let mut now = 0;
        for (step, index, passed, tokens) in steps {
            let under_way = |call: &Driven| call.passage.is_some() && call.wakes_at.is_none();
            let mut woken = Vec::new();
            match step {
                0..=2 => {
                    let deadline = if passed % 3 == 0 { Deadline::Never } else { Deadline::At(at(now + passed * 10)) };
                    let number = calls.len();
                    let passage = Some(passage(number, tokens, deadline));
                    calls.push(Driven { passage, wakes_at: Some(Deadline::At(at(now))), deadline });
                }
                3 if !calls.is_empty() => {
                    let sent = if tokens % 2 == 0 { Sent::No } else { Sent::Maybe };
                    let call = index.index(calls.len());
                    let passage = calls[call].passage.take();
                    calls[call].wakes_at = None;
                    woken = passage.map_or_else(Vec::new, |passage| gates.cancel(passage, sent, at(now)));
                }
                4..=5 => {
                    let running: Vec<usize> = (0..calls.len()).filter(|call| under_way(&calls[*call])).collect();
                    if !running.is_empty() {
                        let mut passage = calls[running[index.index(running.len())]].passage.take().expect("it runs");
                        if tokens % 2 == 0 {
                            woken = gates.leave_slot(&mut passage, at(now));
                        }
                        let failure = match passed % 6 {
                            0 => Some(failed(Reason::ServerError, Some(500), None)),
                            1 => Some(failed(Reason::RateLimited, Some(429), Some(tokens as f64 / 50.0))),
                            2 => Some(failed(Reason::RateLimited, Some(429), None)),
                            3 => Some(failed(Reason::ConnectFailed, None, None)),
                            _ => None,
                        };
                        let used = failure.is_none().then_some(passed / 4);
                        let report = Report { used, ..report(failure.as_ref()) };
                        woken.extend(gates.record(passage, report, || 0.5, at(now)).wake);
                    }
                }
                _ => now += passed,
            }
            drive(&mut gates, &mut calls, woken, now);
            let running = calls.iter().filter(|call| call.passage.is_some() && call.wakes_at.is_none()).count();
            let waiting = calls.iter().filter(|call| call.wakes_at.is_some()).count();
            prop_assert_eq!(gates.waiting(), waiting);
            if which & 1 == 0 {
                prop_assert_eq!(gates.in_flight(), Some(running as u32));
                prop_assert!(running <= 3);
            }
            let late = |call: &Driven| call.wakes_at.is_some() && call.deadline.passed(at(now));
            prop_assert!(!calls.iter().any(late), "a waiter outlived its deadline");
        }
        // Nobody new comes; those under way end, those who wait are woken or look at their own time.
        for _ in 0..400 {
            let next = calls.iter_mut().find(|call| call.passage.is_some() && call.wakes_at.is_none());
            let woken = match next.and_then(|call| call.passage.take()) {
                Some(passage) => gates.record(passage, report(None), || 0.5, at(now)).wake,
                None => Vec::new(),
            };
            now += 1_000;
            drive(&mut gates, &mut calls, woken, now);
        }
        prop_assert!(calls.iter().all(|call| call.passage.is_none()), "a call was forgotten");
        prop_assert_eq!(gates.waiting(), 0);
        prop_assert!(gates.in_flight().is_none_or(|held| held == 0));
        let mut last = passage(calls.len(), 1, Deadline::Never);
        prop_assert_eq!(gates.next(&mut last, at(now + 100_000)).0, Step::Go);
    }
}
