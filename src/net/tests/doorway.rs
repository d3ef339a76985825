//! Calls at the gates of one client: many tasks and threads, waiting, given up, passed through. No real second passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadycall_core::backoff::Backoff;
use steadycall_core::bucket::{Ask, Oversized, RateLimit};
use steadycall_core::budget::RetryBudget;
use steadycall_core::gates::Config;
use steadycall_core::passage::{Keys, Refusal, Report, Step};
use steadycall_core::remaining::Remaining;
use steadycall_core::slots::ConcurrencyLimit;
use steadycall_core::time::{Deadline, Moment};
use steadycall_net::clock;
use steadycall_net::doorway::Doorway;

const GOOD: Report<'static> = Report {
    failure: None,
    cut_short: false,
    used: None,
    remaining: Remaining { requests: None, tokens: None },
};

fn config() -> Config {
    Config {
        concurrency: None,
        adaptive: None,
        rate: RateLimit::default(),
        ceiling: None,
        breaker: None,
        retry_budget: Some(RetryBudget::default()),
        pauses: Backoff::full_jitter(1.0, 30.0),
    }
}

fn of_at_most(max: i64, queue: i64) -> Arc<Doorway> {
    Doorway::new(Config { concurrency: Some(ConcurrencyLimit::new(max, queue).unwrap()), ..config() })
}

fn keys() -> Keys {
    Keys::new("provider.test", "a-model", b"Bearer k", "")
}

fn ask(deadline: Deadline) -> Ask {
    Ask { tokens: 1, deadline, max_pause: Duration::from_secs(60) }
}

#[tokio::test(start_paused = true)]
async fn never_more_are_inside_than_may_be_and_all_come_through_in_order() {
    let doorway = of_at_most(3, 1_000);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..200_u32 {
        let (doorway, inside) = (doorway.clone(), inside.clone());
        tasks.push(tokio::spawn(async move {
            let pass = doorway.admit(keys(), ask(Deadline::Never)).await.unwrap();
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
            clock::sleep_until(clock::now() + Duration::from_millis(5)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            pass.record(GOOD, 0.0);
            number
        }));
        tokio::task::yield_now().await;
    }
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(task.await.unwrap(), number);
    }
    assert_eq!(doorway.with(|gates, _| (gates.in_flight(), gates.waiting())), (Some(0), 0));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_given_up_leave_nothing_behind() {
    let doorway = of_at_most(1, 100_000);
    let held = doorway.admit(keys(), ask(Deadline::Never)).await.unwrap();
    let waiters: Vec<_> = (0..10_000)
        .map(|_| {
            let doorway = doorway.clone();
            tokio::spawn(async move { doorway.admit(keys(), ask(Deadline::Never)).await.map(drop) })
        })
        .collect();
    while doorway.with(|gates, _| gates.waiting()) < 10_000 {
        tokio::task::yield_now().await;
    }
    for waiter in waiters {
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    assert_eq!(doorway.with(|gates, _| (gates.in_flight(), gates.waiting())), (Some(1), 0));
    drop(held);
    assert_eq!(doorway.with(|gates, _| gates.in_flight()), Some(0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_line_is_refused_when_its_deadline_comes() {
    let doorway = of_at_most(1, 10);
    // Held, so that the slot never comes free.
    let _held = doorway.admit(keys(), ask(Deadline::Never)).await.unwrap();
    let late = doorway.admit(keys(), ask(Deadline::At(Moment::from_origin(Duration::from_millis(50)))));
    assert_eq!(late.await.unwrap_err(), Refusal::Late);
}

#[test]
fn a_wait_that_is_known_to_be_too_long_is_refused_at_once() {
    let rate = RateLimit::new(Some(60), None, Some(1), Oversized::Pass).unwrap();
    let doorway = Doorway::told(Config { rate, ..config() });
    let mut first = doorway.approach(keys(), ask(Deadline::Never));
    assert_eq!(first.look(), Step::Go);
    let soon = Deadline::At(Moment::from_origin(Duration::from_millis(500)));
    let mut second = doorway.approach(keys(), ask(soon));
    let step = second.look();
    assert_eq!(step, Step::Refused(Refusal::TooSlow(Duration::from_secs(1))), "{step:?}");
}

#[test]
fn threads_that_come_and_go_leave_every_slot_free() {
    let doorway = of_at_most(4, 1_000);
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let doorway = doorway.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for turn in 0..500 {
                        let pass = doorway.admit(keys(), ask(Deadline::Never)).await.unwrap();
                        match (number + turn) % 3 {
                            0 => drop(pass),
                            1 => pass.give_back(),
                            _ => drop(pass.record(GOOD, 0.0)),
                        }
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(doorway.with(|gates, _| (gates.in_flight(), gates.waiting())), (Some(0), 0));
}
