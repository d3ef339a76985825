//! A call wholly in Rust: what it waits for, and what ends it. No real second passes.

mod common;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use http::Method;
use steadycall_core::backoff::Backoff;
use steadycall_core::breaker::CircuitBreaker;
use steadycall_core::bucket::RateLimit;
use steadycall_core::failure::{Failure, Reason, Sent};
use steadycall_core::gates::Config;
use steadycall_core::passage::Keys;
use steadycall_core::policy::{Fields, More, Policy};
use steadycall_core::usage::Usage;
use steadycall_net::clock;
use steadycall_net::doorway::Doorway;
use steadycall_net::driver::{self, Ended, First, Flag, Shared, Watch};
use steadycall_net::lane::Lane;
use steadycall_net::transport::{Limits, Request, Route, Timeouts};

/// Remembers what it is told.
#[derive(Debug, Default)]
struct Told {
    sent: Mutex<u32>,
    failures: Mutex<Vec<Reason>>,
    holds: Mutex<Vec<Duration>>,
    refuses: bool,
}

impl Watch for Told {
    fn sending(&self) -> bool {
        *self.sent.lock().unwrap() += 1;
        !self.refuses
    }

    fn came_back(&self, _requests: u32, failure: Option<&Failure>, _used: Option<Usage>) {
        self.failures.lock().unwrap().extend(failure.map(|failure| failure.reason));
    }

    fn parks(&self, _parked: bool) {}

    fn holds(&self, wait: Duration) {
        self.holds.lock().unwrap().push(wait);
    }
}

fn shared(tries: i64, breaker: Option<CircuitBreaker>) -> Shared {
    let policy = Policy::new(Fields {
        tries,
        base: 1.0,
        cap: 1.0,
        max_wait: 60.0,
        deadline: Some(300.0),
        attempt_timeout: None,
        retry_status: None,
        retry_transport: true,
        retry_maybe_processed: true,
        more: More::default(),
    });
    let doorway = Doorway::new(Config {
        concurrency: None,
        adaptive: None,
        rate: RateLimit::default(),
        ceiling: None,
        breaker,
        retry_budget: None,
        pauses: Backoff::None,
    });
    Shared {
        lane: Lane::new(),
        route: Route::default(),
        policy: Arc::new(policy.unwrap()),
        limits: Limits { timeouts: Timeouts::default(), attempt: None, max_response_bytes: 1_000_000 },
        doorway,
        learned: None,
        stop: Flag::default(),
        first: First::default(),
    }
}

async fn call(shared: &Shared, to: &str, told: &Told) -> Ended {
    let request = Request {
        method: Method::POST,
        uri: to.parse().unwrap(),
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::from_static(b"{}"),
    };
    let keys = Keys::new("host", "model", b"", "");
    driver::call(shared, &request, &keys, driver::patient(0, &shared.policy), told).await
}

/// Nobody listens there.
const DOWN: &str = "http://127.0.0.1:1/";

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_waited_for_and_costs_no_try() {
    let shared = shared(1, Some(CircuitBreaker::after(3, 20.0, 1, None).unwrap()));
    let told = Told::default();
    for _ in 0..3 {
        assert_eq!(call(&shared, DOWN, &told).await.requests, 0, "a refused connection carries none");
    }
    let (began, before) = (clock::now(), *told.sent.lock().unwrap());
    let ended = call(&shared, DOWN, &told).await;
    assert!(began.elapsed() >= Duration::from_secs(20));
    assert_eq!((ended.requests, *told.sent.lock().unwrap() - before), (0, 1));
    assert!(told.holds.lock().unwrap().first().is_some_and(|wait| *wait > Duration::from_secs(19)));
    assert_eq!((ended.sent(), ended.is_answered(), ended.is_cut_off()), (Sent::No, false, false));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_retry_comes_back_when_the_flag_is_raised() {
    let shared = Arc::new(shared(9, None));
    let told = Arc::new(Told::default());
    let waiting = tokio::spawn({
        let (shared, told) = (shared.clone(), told.clone());
        async move { call(&shared, DOWN, &told).await }
    });
    while told.failures.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    shared.stop.raise();
    let ended = waiting.await.unwrap();
    assert!(ended.is_cut_off() && ended.sent() == Sent::No && ended.requests < 9);
    assert!(call(&shared, DOWN, &told).await.is_cut_off());
}

#[tokio::test(start_paused = true)]
async fn who_watches_may_forbid_a_request() {
    let told = Told { refuses: true, ..Told::default() };
    let ended = call(&shared(3, None), DOWN, &told).await;
    assert!(ended.is_cut_off() && ended.requests == 0 && told.failures.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_is_checked_to_be_json() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    for (body, answered) in [("{\"n\": 1}", true), ("{\"n\": 1]}", false), ("{\"n\": \"\u{1}\"}", false)] {
        let (address, _) =
            common::always(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
        let ended = call(&shared(1, None), &format!("http://{address}/"), &Told::default()).await;
        assert_eq!(ended.is_answered(), answered, "{body}");
    }
}
