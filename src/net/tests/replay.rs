//! What is sent again at once: only what the server surely did not look at.
#![allow(clippy::disallowed_methods, reason = "scripted servers pause")]

mod common;

use common::*;
use steadycall_core::failure::{Reason, Sent};
use steadycall_net::lane::Lane;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answers once per connection, then closes as soon as the next request is there.
async fn closing_on_the_second(after: u64) -> (std::net::SocketAddr, Seen) {
    serve(move |_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        // Reads the next request without noting it, then hangs up: what a stale connection looks like to us.
        let n = stream.read(&mut [0; 65536]).await.unwrap_or(0);
        if n > 0 {
            tokio::time::sleep(ms(after)).await;
            reset(stream);
        }
    })
    .await
}

#[tokio::test]
async fn a_kept_connection_that_turns_out_stale_is_replayed_once_with_its_body_on_a_fresh_one() {
    let (address, seen) = closing_on_the_second(0).await;
    let lane = Lane::new();
    attempt(&lane, &to(address, "/first")).await.result.unwrap();
    let outcome = attempt(&lane, &to(address, "/second")).await;
    assert_eq!(outcome.replays, 1);
    outcome.result.unwrap();
    assert_eq!(seen.connections(), 2);
    assert!(seen.requests()[1].ends_with("{\"prompt\":\"hello\"}"));
}

#[tokio::test]
async fn a_replay_meets_no_other_stale_connection() {
    let (address, seen) = closing_on_the_second(0).await;
    let lane = Lane::new();
    let request = to(address, "/");
    let (a, b, c) =
        tokio::join!(attempt(&lane, &request), attempt(&lane, &request), attempt(&lane, &request));
    assert!(a.result.is_ok() && b.result.is_ok() && c.result.is_ok());
    assert_eq!(seen.connections(), 3);
    let outcome = attempt(&lane, &request).await;
    assert_eq!(outcome.replays, 1);
    outcome.result.unwrap();
    assert_eq!(seen.connections(), 4);
}

#[tokio::test]
async fn a_replay_that_breaks_too_is_a_fault() {
    let (address, seen) = serve(|number, mut stream, seen| async move {
        if number == 0 {
            request(&mut stream, &seen).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
        let _ = stream.read(&mut [0; 65536]).await;
        reset(stream);
    })
    .await;
    let lane = Lane::new();
    attempt(&lane, &to(address, "/")).await.result.unwrap();
    let outcome = attempt(&lane, &to(address, "/")).await;
    assert_eq!(outcome.replays, 1);
    let fault = outcome.result.unwrap_err();
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe));
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn a_kept_connection_that_breaks_after_working_on_the_request_is_not_replayed() {
    let (address, seen) = closing_on_the_second(1200).await;
    let lane = Lane::new();
    attempt(&lane, &to(address, "/")).await.result.unwrap();
    let outcome = attempt(&lane, &to(address, "/")).await;
    assert_eq!(outcome.replays, 0);
    let fault = outcome.result.unwrap_err();
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe));
    assert_eq!(seen.connections(), 1);
}

#[test]
fn connections_the_server_closed_while_the_runtime_stood_still_cost_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = serve(|_, mut stream, seen| async move {
                request(&mut stream, &seen).await;
                stream.write_all(OK.as_bytes()).await.unwrap();
                // Later than our call ends, earlier than the next one begins.
                tokio::time::sleep(ms(10)).await;
            })
            .await;
            sender.send(server).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let (address, seen) = receiver.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lane = Lane::new();
    for _ in 0..8 {
        let outcome = runtime.block_on(attempt(&lane, &to(address, "/")));
        outcome.result.unwrap();
        assert_eq!(outcome.replays, 0);
        std::thread::sleep(ms(30));
    }
    assert_eq!(seen.connections(), 8);
}
