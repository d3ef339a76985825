//! Answers read as they arrive: head first, then the body in the pieces the reader asks for.

#![allow(clippy::disallowed_methods, reason = "a reader pauses")]

mod common;

use std::io::Write;

use bytes::Bytes;
use common::{attempt, limits, ms, request, serve, to};
use http::Method;
use steadycall_core::failure::{Reason, Sent};
use steadycall_net::lane::Lane;
use steadycall_net::stream::Opening;
use steadycall_net::transport::{Limits, Phase, Request, Route, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: 1\r\n\r\n";

async fn open(lane: &Lane, method: Method, request: &Request, limits: &Limits) -> Opening {
    lane.open(&Route::default(), &Request { method, ..request.clone() }, limits, false).await
}

async fn post(lane: &Lane, request: &Request) -> Opening {
    open(lane, Method::POST, request, &limits()).await
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A server that sends what it is told, when it is told.
async fn told() -> (std::net::SocketAddr, mpsc::Sender<String>, common::Seen) {
    let (tell, told) = mpsc::channel::<String>(16);
    let told = std::sync::Arc::new(tokio::sync::Mutex::new(told));
    let (address, seen) = serve(move |_, mut stream, seen| {
        let told = told.clone();
        async move {
            let mut told = told.lock().await;
            while request(&mut stream, &seen).await.is_some() {
                while let Some(text) = told.recv().await {
                    if text.is_empty() {
                        break;
                    }
                    stream.write_all(text.as_bytes()).await.unwrap();
                }
            }
        }
    })
    .await;
    (address, tell, seen)
}

#[tokio::test]
async fn the_head_is_there_before_the_body_and_each_piece_before_the_next() {
    let (address, tell, _) = told().await;
    let lane = Lane::new();
    tell.send(HEAD.to_owned()).await.unwrap();
    let opening = post(&lane, &to(address, "/")).await;
    let mut stream = opening.result.unwrap();
    assert_eq!(
        (stream.status, stream.version, opening.fully_sent, opening.replays),
        (200, "HTTP/1.1", true, 0)
    );
    assert_eq!(stream.headers["x-a"], "1");
    for text in ["one", "two"] {
        tell.send(chunk(text)).await.unwrap();
        assert_eq!(lane.read(&mut stream, 1).await.unwrap(), text);
    }
    tell.send(chunk("three") + &chunk("four") + "0\r\n\r\n").await.unwrap();
    assert_eq!(lane.read(&mut stream, usize::MAX).await.unwrap(), "threefour");
    assert!(stream.is_over());
    assert_eq!(lane.read(&mut stream, 1).await.unwrap(), "");
}

#[tokio::test]
async fn a_body_read_to_its_end_leaves_its_connection_to_the_next_request() {
    let (address, seen) = common::always(format!("{HEAD}{}0\r\n\r\n", chunk("one"))).await;
    let lane = Lane::new();
    for _ in 0..3 {
        let mut stream = post(&lane, &to(address, "/")).await.result.unwrap();
        assert_eq!(lane.read(&mut stream, usize::MAX).await.unwrap(), "one");
        assert!(attempt(&lane, &to(address, "/")).await.result.is_ok());
    }
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let (gone, mut is_gone) = mpsc::channel(1);
    let (address, _) = serve(move |_, mut stream, seen| {
        let gone = gone.clone();
        async move {
            request(&mut stream, &seen).await;
            stream.write_all(HEAD.as_bytes()).await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
            gone.send(()).await.unwrap();
        }
    })
    .await;
    let lane = Lane::new();
    drop(post(&lane, &to(address, "/")).await.result.unwrap());
    tokio::time::timeout(ms(2000), is_gone.recv()).await.expect("the connection is still open");
}

#[tokio::test]
async fn any_method_is_sent_and_only_those_with_a_body_tell_its_length() {
    let (address, seen) = common::always(common::OK).await;
    let lane = Lane::new();
    let empty = Request { body: Bytes::new(), ..to(address, "/x?y=1") };
    for method in [Method::GET, Method::DELETE, Method::POST, Method::PUT] {
        let mut stream = open(&lane, method, &empty, &limits()).await.result.unwrap();
        lane.read(&mut stream, usize::MAX).await.unwrap();
    }
    let told: Vec<(bool, bool)> = seen
        .requests()
        .iter()
        .map(|text| (text.contains("content-length: 0\r\n"), text.contains("transfer-encoding")))
        .collect();
    assert_eq!(told, [(false, false), (false, false), (true, false), (true, false)]);
    assert!(seen.requests()[0].starts_with("GET /x?y=1 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let (address, seen) =
        common::always("HTTP/1.1 307 Temporary Redirect\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n").await;
    let stream = post(&Lane::new(), &to(address, "/x")).await.result.unwrap();
    assert_eq!((stream.status, seen.requests().len()), (307, 1));
}

#[tokio::test]
async fn a_compressed_body_is_decoded_as_it_arrives() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"data: 1\n\n").unwrap();
    encoder.flush().unwrap();
    let first = encoder.get_ref().clone();
    let (address, _) = serve(move |_, mut stream, seen| {
        let first = first.clone();
        async move {
            request(&mut stream, &seen).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 999\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&first).await.unwrap();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let lane = Lane::new();
    let mut stream = post(&lane, &to(address, "/")).await.result.unwrap();
    assert!(
        !stream.headers.contains_key("content-encoding") && !stream.headers.contains_key("content-length")
    );
    assert_eq!(lane.read(&mut stream, 1).await.unwrap(), "data: 1\n\n");
}

#[tokio::test]
async fn what_had_been_gathered_of_a_body_that_breaks_comes_with_the_fault() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(format!("{HEAD}{}", chunk("half")).as_bytes()).await.unwrap();
    })
    .await;
    let lane = Lane::new();
    let mut stream = post(&lane, &to(address, "/")).await.result.unwrap();
    let fault = lane.read(&mut stream, usize::MAX).await.unwrap_err();
    assert_eq!(
        (fault.reason, fault.sent, &fault.partial[..]),
        (Reason::Truncated, Sent::Maybe, &b"half"[..])
    );
    assert!(stream.is_over());
}

#[tokio::test]
async fn silence_is_counted_while_somebody_reads_and_the_attempts_end_always() {
    let (address, tell, _) = told().await;
    let lane = Lane::new();
    let timeouts = Timeouts { read: Some(ms(100)), ..Timeouts::default() };
    let patient = Limits { timeouts, attempt: Some(ms(60_000)), ..limits() };
    tell.send(HEAD.to_owned()).await.unwrap();
    let mut stream = open(&lane, Method::POST, &to(address, "/"), &patient).await.result.unwrap();
    tokio::time::sleep(ms(300)).await;
    tell.send(chunk("late")).await.unwrap();
    assert_eq!(lane.read(&mut stream, 1).await.unwrap(), "late");
    let fault = lane.read(&mut stream, 1).await.unwrap_err();
    assert_eq!((fault.reason, fault.phase), (Reason::ReadTimeout, Some(Phase::Read)));

    let (address, tell, _) = told().await;
    let hurried = Limits { timeouts: Timeouts::default(), attempt: Some(ms(200)), ..limits() };
    tell.send(HEAD.to_owned()).await.unwrap();
    let mut stream = open(&lane, Method::POST, &to(address, "/"), &hurried).await.result.unwrap();
    let fault = lane.read(&mut stream, 1).await.unwrap_err();
    assert_eq!((fault.reason, fault.phase), (Reason::AttemptTimeout, Some(Phase::Attempt)));
}

#[tokio::test]
async fn a_connection_that_had_gone_stale_is_replaced_at_once() {
    let (address, seen) = serve(|number, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(common::OK.as_bytes()).await.unwrap();
        // The first one takes another request and hangs up on it.
        if number > 0 || request(&mut stream, &seen).await.is_none() {
            std::future::pending::<()>().await;
        }
    })
    .await;
    let lane = Lane::new();
    assert!(attempt(&lane, &to(address, "/")).await.result.is_ok());
    let opening = post(&lane, &to(address, "/")).await;
    assert_eq!((opening.result.unwrap().status, opening.replays, seen.connections()), (200, 1, 2));
}

#[tokio::test]
async fn where_no_answer_comes_the_opening_says_what_came_instead() {
    let (address, _) = serve(|_, stream, _| async move { drop(stream) }).await;
    let opening = post(&Lane::new(), &to(address, "/")).await;
    assert_eq!(opening.result.unwrap_err().reason, Reason::ConnectionLost);
}
