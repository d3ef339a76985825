//! HTTP/2: many calls on one connection, and the two ways in which a server says it did not look.
#![allow(clippy::disallowed_methods, reason = "scripted servers pause")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use common::tls::{Identity, shake};
use common::*;
use h2::Reason as Code;
use steadycall_core::failure::{Reason, Sent};
use steadycall_net::lane::Lane;
use steadycall_net::transport::{Outcome, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Respond = h2::server::SendResponse<Bytes>;

/// An HTTP/2 server that answers request number `n` (over all connections) with `answer`.
async fn serve_h2<A>(identity: &Identity, answer: A) -> (Request, Seen)
where
    A: Fn(usize, Respond) + Send + Sync + 'static,
{
    let acceptor = identity.acceptor("h2");
    let answer = Arc::new(answer);
    let count = Arc::new(AtomicUsize::new(0));
    let (address, seen) = serve(move |_, stream, seen| {
        let (acceptor, answer, count) = (acceptor.clone(), answer.clone(), count.clone());
        async move {
            let stream = shake(&acceptor, stream).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                let (seen, answer, count) = (seen.clone(), answer.clone(), count.clone());
                tokio::spawn(async move {
                    let mut body = request.into_body();
                    let mut text = Vec::new();
                    while let Some(Ok(piece)) = body.data().await {
                        text.extend_from_slice(&piece);
                    }
                    seen.requests.lock().unwrap().push(String::from_utf8(text).unwrap());
                    answer(count.fetch_add(1, Ordering::SeqCst), respond);
                });
            }
        }
    })
    .await;
    let request = to_url(&format!("https://localhost:{}/", address.port()), "{\"prompt\":\"hello\"}");
    (request, seen)
}

fn ok(mut respond: Respond) {
    let mut body = respond.send_response(http::Response::new(()), false).unwrap();
    body.send_data(Bytes::from_static(OK_BODY), true).unwrap();
}

async fn call(identity: &Identity, request: &Request) -> Outcome {
    Lane::new().attempt(&identity.route(), request, &limits()).await
}

#[tokio::test]
async fn calls_share_one_connection_one_after_the_other_and_at_once() {
    let identity = Identity::new("localhost");
    let (request, seen) = serve_h2(&identity, |_, respond| ok(respond)).await;
    let (lane, route, limits) = (Lane::new(), identity.route(), limits());
    lane.attempt(&route, &request, &limits).await.result.unwrap();
    let (a, b) =
        tokio::join!(lane.attempt(&route, &request, &limits), lane.attempt(&route, &request, &limits));
    assert!(a.fully_sent && b.fully_sent);
    assert_eq!((&a.result.unwrap().body[..], &b.result.unwrap().body[..]), (OK_BODY, OK_BODY));
    assert_eq!((seen.connections(), seen.requests().len()), (1, 3));
}

#[tokio::test]
async fn an_empty_body_is_sent_over_http2_too() {
    let identity = Identity::new("localhost");
    let (mut request, seen) = serve_h2(&identity, |_, respond| ok(respond)).await;
    request.body = Bytes::new();
    let outcome = call(&identity, &request).await;
    assert!(outcome.fully_sent && outcome.result.is_ok());
    assert_eq!(seen.requests(), [""]);
}

#[tokio::test]
async fn a_refused_stream_is_replayed_once_with_its_body_on_a_fresh_connection() {
    let identity = Identity::new("localhost");
    let (request, seen) = serve_h2(&identity, |number, mut respond| match number {
        0 => respond.send_reset(Code::REFUSED_STREAM),
        _ => ok(respond),
    })
    .await;
    let outcome = call(&identity, &request).await;
    assert_eq!(outcome.replays, 1);
    assert_eq!(outcome.result.unwrap().body, OK_BODY);
    assert_eq!(seen.requests(), ["{\"prompt\":\"hello\"}"; 2]);
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn a_stream_refused_again_is_a_fault_that_was_surely_not_processed() {
    let identity = Identity::new("localhost");
    let (request, seen) =
        serve_h2(&identity, |_, mut respond| respond.send_reset(Code::REFUSED_STREAM)).await;
    let outcome = call(&identity, &request).await;
    assert_eq!((outcome.replays, seen.requests().len()), (1, 2));
    let fault = outcome.result.unwrap_err();
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::No));
}

#[tokio::test]
async fn another_reset_is_not_replayed() {
    let identity = Identity::new("localhost");
    let (request, seen) =
        serve_h2(&identity, |_, mut respond| respond.send_reset(Code::INTERNAL_ERROR)).await;
    let outcome = call(&identity, &request).await;
    assert_eq!((outcome.replays, seen.requests().len()), (0, 1));
    let fault = outcome.result.unwrap_err();
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe));
}

#[tokio::test]
async fn a_stream_reset_within_the_body_is_a_truncated_answer() {
    let identity = Identity::new("localhost");
    let (request, _) = serve_h2(&identity, |_, mut respond| {
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"half"), false).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(ms(30)).await;
            body.send_reset(Code::INTERNAL_ERROR);
        });
    })
    .await;
    let outcome = call(&identity, &request).await;
    assert_eq!(outcome.replays, 0);
    let fault = outcome.result.unwrap_err();
    assert_eq!((fault.reason, &fault.partial[..]), (Reason::Truncated, &b"half"[..]));
}

#[tokio::test]
async fn a_kept_connection_that_dies_under_the_second_request_is_replayed() {
    let identity = Identity::new("localhost");
    let acceptor = identity.acceptor("h2");
    let (address, seen) = serve(move |number, stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let mut connection =
                h2::server::handshake(shake(&acceptor, stream).await.unwrap()).await.unwrap();
            while let Some(Ok((_, respond))) = connection.accept().await {
                if number == 0 && !seen.requests().is_empty() {
                    return;
                }
                seen.requests.lock().unwrap().push(String::new());
                ok(respond);
            }
        }
    })
    .await;
    let request = to_url(&format!("https://localhost:{}/", address.port()), "{}");
    let (lane, route, limits) = (Lane::new(), identity.route(), limits());
    lane.attempt(&route, &request, &limits).await.result.unwrap();
    let outcome = lane.attempt(&route, &request, &limits).await;
    assert_eq!((outcome.replays, seen.connections()), (1, 2));
    assert_eq!(outcome.result.unwrap().body, OK_BODY);
}

/// Speaks just enough HTTP/2 by hand to say GOAWAY to a request it has seen, claiming `last` as processed.
async fn going_away(identity: &Identity, last: u32, code: u32) -> (Request, Seen) {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_SEEN: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
    let acceptor = identity.acceptor("h2");
    let (address, seen) = serve(move |number, stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = shake(&acceptor, stream).await.unwrap();
            if number > 0 {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, respond))) = connection.accept().await {
                    seen.requests.lock().unwrap().push("second".into());
                    ok(respond);
                }
                return;
            }
            stream.write_all(SETTINGS).await.unwrap();
            stream.read_exact(&mut [0; 24]).await.unwrap();
            let mut head = [0; 9];
            while stream.read_exact(&mut head).await.is_ok() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                match head[3] {
                    4 if head[4] == 0 => stream.write_all(SETTINGS_SEEN).await.unwrap(),
                    0 => {
                        // DATA: the whole request is there.
                        seen.requests.lock().unwrap().push("first".into());
                        let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
                        frame.extend(last.to_be_bytes());
                        frame.extend(code.to_be_bytes());
                        stream.write_all(&frame).await.unwrap();
                        let _ = stream.shutdown().await;
                        return;
                    }
                    _ => {}
                }
            }
        }
    })
    .await;
    (to_url(&format!("https://localhost:{}/", address.port()), "{}"), seen)
}

#[tokio::test]
async fn a_goaway_below_our_stream_is_replayed_on_a_fresh_connection_whatever_its_code() {
    for code in [Code::NO_ERROR, Code::ENHANCE_YOUR_CALM] {
        let identity = Identity::new("localhost");
        let (request, seen) = going_away(&identity, 0, code.into()).await;
        let outcome = call(&identity, &request).await;
        assert_eq!(outcome.replays, 1, "{code:?}");
        assert_eq!(outcome.result.unwrap().body, OK_BODY);
        assert_eq!(seen.requests(), ["first", "second"]);
    }
}

#[tokio::test]
async fn a_goaway_that_counts_our_stream_as_processed_is_not_replayed() {
    for code in [Code::NO_ERROR, Code::INTERNAL_ERROR] {
        let identity = Identity::new("localhost");
        let (request, seen) = going_away(&identity, 1, code.into()).await;
        let outcome = call(&identity, &request).await;
        assert_eq!(outcome.replays, 0, "{code:?}");
        let fault = outcome.result.unwrap_err();
        assert_eq!((fault.reason, fault.sent), (Reason::ConnectionLost, Sent::Maybe), "{}", fault.detail);
        assert_eq!(seen.requests(), ["first"]);
    }
}
