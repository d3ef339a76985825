//! What breaks: resets, cuts, silence, lies about length; each told apart, with what may have been billed.
#![allow(clippy::disallowed_methods, reason = "scripted servers pause")]

mod common;

use std::time::Instant;

use common::*;
use steadycall_core::failure::{Reason, Sent};
use steadycall_net::lane::Lane;
use steadycall_net::transport::{Fault, Limits, Outcome, Phase, Request, Route};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

async fn with(limits: Limits, request: &Request) -> Outcome {
    Lane::new().attempt(&Route::default(), request, &limits).await
}

fn fault(outcome: Outcome) -> Fault {
    outcome.result.expect_err("a fault")
}

#[tokio::test]
async fn a_refused_connection_was_surely_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outcome = attempt(&Lane::new(), &to(address, "/?key=secret")).await;
    assert!(!outcome.fully_sent);
    let fault = fault(outcome);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectFailed, Sent::No));
    assert!(fault.detail.contains("refused"), "{}", fault.detail);
    assert!(!fault.detail.contains("secret"));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_a_failed_connection_not_sent() {
    let fault = fault(attempt(&Lane::new(), &to_url("http://no-such-host.invalid/?k=secret", "{}")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectFailed, Sent::No));
    assert!(!fault.detail.contains("secret"), "{}", fault.detail);
}

#[tokio::test]
async fn a_reset_before_the_answer_on_a_fresh_connection_is_lost_and_may_have_been_processed() {
    let (address, seen) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        reset(stream);
    })
    .await;
    let outcome = attempt(&Lane::new(), &to(address, "/")).await;
    assert!(outcome.fully_sent);
    assert_eq!(outcome.replays, 0);
    let fault = fault(outcome);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe));
    assert_eq!(seen.connections(), 1, "a fresh connection is not replayed");
}

#[tokio::test]
async fn an_end_in_the_middle_of_the_head_is_a_lost_connection() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await.unwrap();
    })
    .await;
    let fault = fault(attempt(&Lane::new(), &to(address, "/")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe));
    assert_eq!(fault.head, None);
}

#[tokio::test]
async fn a_body_cut_short_keeps_its_head_and_what_came_of_it() {
    for (cut, with_reset) in [
        ("HTTP/1.1 200 OK\r\nx-id: 7\r\ncontent-length: 100\r\n\r\nhalf", false),
        ("HTTP/1.1 200 OK\r\nx-id: 7\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", false),
        ("HTTP/1.1 200 OK\r\nx-id: 7\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n99\r\n", false),
        ("HTTP/1.1 200 OK\r\nx-id: 7\r\ncontent-length: 100\r\n\r\nhalf", true),
    ] {
        let (address, _) = serve(move |_, mut stream, seen| async move {
            request(&mut stream, &seen).await;
            stream.write_all(cut.as_bytes()).await.unwrap();
            if with_reset {
                tokio::time::sleep(ms(30)).await;
                reset(stream);
            }
        })
        .await;
        let outcome = attempt(&Lane::new(), &to(address, "/")).await;
        assert_eq!(outcome.received, 4);
        let fault = fault(outcome);
        assert_eq!((fault.reason, fault.sent), (Reason::Truncated, Sent::Maybe), "{cut}");
        let (status, headers) = fault.head.unwrap();
        assert_eq!((status, &headers["x-id"]), (200, &http::HeaderValue::from_static("7")));
        assert_eq!(fault.partial, "half");
    }
}

#[tokio::test]
async fn a_slow_drip_ends_at_the_attempt_timeout_with_what_came() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n").await.unwrap();
        while stream.write_all(b".").await.is_ok() {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    let mut limits = limits();
    limits.timeouts.read = Some(ms(50));
    limits.attempt = Some(ms(100));
    let begin = Instant::now();
    let fault = fault(with(limits, &to(address, "/")).await);
    assert!(begin.elapsed() < ms(160), "{:?}", begin.elapsed());
    assert_eq!((fault.reason, fault.phase), (Reason::AttemptTimeout, Some(Phase::Attempt)));
    assert!(!fault.partial.is_empty());
    assert_eq!(fault.head.unwrap().0, 200);
}

#[tokio::test]
async fn a_silent_server_ends_at_the_read_timeout_which_starts_when_the_request_is_sent() {
    let (address, seen) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        std::future::pending::<()>().await;
    })
    .await;
    let mut limits = limits();
    limits.timeouts.read = Some(ms(60));
    let begin = Instant::now();
    let outcome = with(limits, &to(address, "/")).await;
    assert!(begin.elapsed() >= ms(60) && begin.elapsed() < ms(110), "{:?}", begin.elapsed());
    assert!(outcome.fully_sent);
    let fault = fault(outcome);
    assert_eq!(
        (fault.reason, fault.phase, fault.sent),
        (Reason::ReadTimeout, Some(Phase::Read), Sent::Maybe)
    );
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn a_body_that_stands_still_ends_at_the_read_timeout() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let mut limits = limits();
    limits.timeouts.read = Some(ms(60));
    let fault = fault(with(limits, &to(address, "/")).await);
    assert_eq!((fault.reason, &fault.partial[..]), (Reason::ReadTimeout, &b"abc"[..]));
}

#[tokio::test]
async fn a_connection_that_is_never_accepted_ends_at_the_connect_timeout_not_sent() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut fill = Vec::new();
    for _ in 0..4 {
        fill.push(tokio::time::timeout(ms(20), tokio::net::TcpStream::connect(address)).await);
    }
    let mut limits = limits();
    limits.timeouts.connect = Some(ms(60));
    let begin = Instant::now();
    let outcome = with(limits, &to(address, "/")).await;
    assert!(begin.elapsed() >= ms(60) && begin.elapsed() < ms(110), "{:?}", begin.elapsed());
    assert!(!outcome.fully_sent);
    let fault = fault(outcome);
    assert_eq!(
        (fault.reason, fault.phase, fault.sent),
        (Reason::ConnectTimeout, Some(Phase::Connect), Sent::No)
    );
}

#[tokio::test]
async fn a_server_that_stops_reading_ends_at_the_write_timeout() {
    let (address, _) = serve(|_, stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let mut limits = limits();
    limits.timeouts.write = Some(ms(60));
    let request = to_url(&format!("http://{address}/"), &"x".repeat(30_000_000));
    let outcome = with(limits, &request).await;
    assert!(!outcome.fully_sent);
    let fault = fault(outcome);
    assert_eq!(
        (fault.reason, fault.phase, fault.sent),
        (Reason::WriteTimeout, Some(Phase::Write), Sent::Maybe)
    );
}

#[tokio::test]
async fn no_time_at_all_means_nothing_is_sent() {
    let (address, seen) = always(OK).await;
    let mut limits = limits();
    limits.attempt = Some(ms(0));
    let fault = fault(with(limits, &to(address, "/")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::AttemptTimeout, Sent::No));
    assert_eq!(seen.requests().len(), 0);
}

#[tokio::test]
async fn what_is_not_http_is_told_apart_from_a_lost_connection() {
    let (address, _) = always("SSH-2.0-OpenSSH_9.2 hello there\r\n\r\n").await;
    let fault = fault(attempt(&Lane::new(), &to(address, "/")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::NotHttp, Sent::Maybe));
}

#[tokio::test]
async fn two_gigabytes_are_refused_by_their_announcement() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2147483648\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let outcome = attempt(&Lane::new(), &to(address, "/")).await;
    assert_eq!(outcome.received, 0);
    assert_eq!(fault(outcome).reason, Reason::TooLargeAnswer);
}

#[tokio::test]
async fn an_endless_chunked_body_stops_at_the_limit() {
    let (address, _) = serve(|_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = format!("{:x}\r\n{}\r\n", 10_000, "y".repeat(10_000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
    })
    .await;
    let mut limits = limits();
    limits.max_response_bytes = 3_000_000;
    let outcome = with(limits, &to(address, "/")).await;
    assert!(outcome.received < 3_500_000, "{}", outcome.received);
    let fault = fault(outcome);
    assert_eq!((fault.reason, fault.partial.len()), (Reason::TooLargeAnswer, 1024 * 1024));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_not_too_large() {
    let (address, _) = always(OK).await;
    let mut limits = limits();
    limits.max_response_bytes = 11;
    with(limits, &to(address, "/")).await.result.unwrap();
    limits.max_response_bytes = 10;
    assert_eq!(fault(with(limits, &to(address, "/")).await).reason, Reason::TooLargeAnswer);
}

#[tokio::test]
async fn a_gzip_bomb_stops_at_the_limit_after_decoding() {
    use std::io::Write as _;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..200 {
        writer.write_all(&vec![0; 1_000_000]).unwrap();
    }
    let bomb = writer.finish().unwrap();
    assert!(bomb.len() < 300_000);
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len())
            .into_bytes();
    answer.extend(bomb);
    let (address, _) = always(answer).await;
    let mut limits = limits();
    limits.max_response_bytes = 1_000_000;
    let outcome = with(limits, &to(address, "/")).await;
    assert!(outcome.received < 1_100_000, "{}", outcome.received);
    assert_eq!(fault(outcome).reason, Reason::TooLargeAnswer);
}

#[tokio::test]
async fn broken_compression_is_corrupt_and_compression_cut_short_is_truncated() {
    use std::io::Write as _;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    writer.write_all(&OK_BODY.repeat(100)).unwrap();
    let good = writer.finish().unwrap();
    let answer = |body: &[u8]| {
        let mut answer =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len())
                .into_bytes();
        answer.extend_from_slice(body);
        answer
    };
    let mut garbled = good.clone();
    garbled[10] = 0xff;
    let (address, _) = always(answer(&garbled)).await;
    let corrupt = fault(attempt(&Lane::new(), &to(address, "/")).await);
    assert_eq!((corrupt.reason, corrupt.sent), (Reason::BodyCorrupt, Sent::Maybe), "{}", corrupt.detail);
    let (address, _) = always(answer(&good[..good.len() / 2])).await;
    let short = fault(attempt(&Lane::new(), &to(address, "/")).await);
    assert_eq!(short.reason, Reason::Truncated, "{}", short.detail);
    assert_eq!(short.head.unwrap().0, 200);
}

#[tokio::test]
async fn dropping_an_attempt_closes_its_socket_before_and_within_the_answer() {
    for head in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"] {
        let (closed, mut close) = tokio::sync::mpsc::unbounded_channel();
        let (address, _) = serve(move |_, mut stream, seen| {
            let closed = closed.clone();
            async move {
                request(&mut stream, &seen).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                let end = stream.read(&mut [0; 10]).await;
                closed.send(matches!(end, Ok(0) | Err(_))).unwrap();
            }
        })
        .await;
        let lane = Lane::new();
        assert!(tokio::time::timeout(ms(50), attempt(&lane, &to(address, "/"))).await.is_err());
        assert_eq!(tokio::time::timeout(ms(200), close.recv()).await, Ok(Some(true)));
    }
}

#[tokio::test]
async fn a_timeout_closes_the_socket_before_the_attempt_returns_to_a_runtime_that_stops() {
    let (closed, close) = std::sync::mpsc::channel();
    let (address, _) = serve(move |_, mut stream, seen| {
        let closed = closed.clone();
        async move {
            request(&mut stream, &seen).await;
            let _ = stream.read(&mut [0; 10]).await;
            closed.send(()).unwrap();
        }
    })
    .await;
    let undriven = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut limits = limits();
        limits.timeouts.read = Some(ms(30));
        runtime.block_on(with(limits, &to(address, "/"))).result.unwrap_err();
        runtime
    });
    let closed = tokio::task::spawn_blocking(move || close.recv_timeout(ms(300))).await.unwrap();
    closed.unwrap();
    drop(tokio::task::spawn_blocking(move || drop(undriven.join().unwrap())).await);
}
