//! What works: answers, reuse, redirects on the same origin, decoding.
#![allow(clippy::disallowed_methods, reason = "scripted servers pause")]

mod common;

use std::io::Write as _;

use common::*;
use steadycall_net::lane::Lane;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn an_answer_arrives_whole_with_status_headers_and_count() {
    let (address, seen) = always(OK).await;
    let outcome = attempt(&Lane::new(), &to(address, "/v1/chat?key=1")).await;
    assert!(outcome.fully_sent);
    assert_eq!((outcome.replays, outcome.received), (0, 11));
    let answer = outcome.result.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, OK_BODY));
    assert_eq!(answer.headers["content-type"], "application/json");
    let request = &seen.requests()[0];
    assert!(request.starts_with("POST /v1/chat?key=1 HTTP/1.1\r\n"));
    assert!(request.contains("content-length: 18\r\n"));
    assert!(request.contains("authorization: Bearer secret\r\n"));
    assert!(!request.contains("referer") && !request.contains("transfer-encoding"));
    assert!(request.ends_with("{\"prompt\":\"hello\"}"));
}

#[tokio::test]
async fn an_empty_body_is_sent_with_its_length_and_counts_as_sent() {
    let (address, seen) = always(OK).await;
    let outcome = attempt(&Lane::new(), &to_url(&format!("http://{address}/"), "")).await;
    assert!(outcome.fully_sent && outcome.result.is_ok());
    assert!(seen.requests()[0].contains("content-length: 0\r\n"));
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let (address, seen) = always(OK).await;
    let lane = Lane::new();
    for _ in 0..20 {
        attempt(&lane, &to(address, "/")).await.result.unwrap();
    }
    assert_eq!(seen.connections(), 1);
}

#[test]
fn a_runtime_that_is_driven_only_during_calls_shares_its_connection_too() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            sender.send(always(OK).await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let (address, seen) = receiver.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lane = Lane::new();
    for _ in 0..50 {
        let outcome = runtime.block_on(attempt(&lane, &to(address, "/")));
        outcome.result.unwrap();
    }
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn an_error_status_is_an_answer_and_a_huge_error_body_is_cut_to_its_first_mebibyte() {
    let mut answer = b"HTTP/1.1 503 Busy\r\nretry-after: 2\r\ncontent-length: 5000000\r\n\r\n".to_vec();
    answer.extend(vec![b'x'; 5_000_000]);
    let (address, _) = serve(move |_, mut stream, seen| {
        let answer = answer.clone();
        async move {
            request(&mut stream, &seen).await;
            let _ = stream.write_all(&answer).await;
        }
    })
    .await;
    let mut few = limits();
    few.max_response_bytes = 10;
    let outcome = Lane::new().attempt(&Default::default(), &to(address, "/"), &few).await;
    let answer = outcome.result.unwrap();
    assert_eq!((answer.status, answer.body.len()), (503, 1024 * 1024));
    assert_eq!(answer.headers["retry-after"], "2");
}

#[tokio::test]
async fn a_308_on_the_same_origin_is_followed_with_method_body_and_headers() {
    let (address, seen) = serve(|_, mut stream, seen| async move {
        while let Some(text) = request(&mut stream, &seen).await {
            let answer = if text.starts_with("POST /old ") {
                "HTTP/1.1 308 Moved\r\nlocation: /new?x=1\r\ncontent-length: 0\r\n\r\n"
            } else {
                OK
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let outcome = attempt(&Lane::new(), &to(address, "/old")).await;
    assert_eq!(outcome.replays, 0);
    assert_eq!(outcome.result.unwrap().status, 200);
    let second = &seen.requests()[1];
    assert!(second.starts_with("POST /new?x=1 "));
    assert!(second.contains("authorization: Bearer secret"));
    assert!(second.ends_with("{\"prompt\":\"hello\"}"));
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_the_answer_and_nothing_is_sent_there() {
    let (other, elsewhere) = always(OK).await;
    let moved = format!("HTTP/1.1 307 Moved\r\nlocation: http://{other}/\r\ncontent-length: 0\r\n\r\n");
    let (address, _) = always(moved).await;
    let outcome = attempt(&Lane::new(), &to(address, "/")).await;
    assert_eq!(outcome.result.unwrap().status, 307);
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_redirect_cannot_bring_credentials_of_its_own() {
    let (address, seen) = serve(|_, mut stream, seen| async move {
        while let Some(text) = request(&mut stream, &seen).await {
            let host = text.split("host: ").nth(1).unwrap().lines().next().unwrap();
            let moved = format!(
                "HTTP/1.1 307 Moved\r\nlocation: http://evil:evil@{host}/new\r\ncontent-length: 0\r\n\r\n"
            );
            let answer = if text.starts_with("POST /old ") { &moved } else { OK };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    attempt(&Lane::new(), &to(address, "/old")).await.result.unwrap();
    let requests = seen.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|text| text.matches("authorization: ").count() == 1));
    assert!(requests.iter().all(|text| text.contains("authorization: Bearer secret\r\n")));
    assert!(requests.iter().all(|text| text.contains(&format!("host: {address}\r\n"))));
}

#[tokio::test]
async fn a_302_is_not_followed_even_on_the_same_origin() {
    let (address, seen) = always("HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n").await;
    let outcome = attempt(&Lane::new(), &to(address, "/")).await;
    assert_eq!(outcome.result.unwrap().status, 302);
    assert_eq!(seen.requests().len(), 1);
}

#[tokio::test]
async fn a_circle_of_redirects_ends_after_five_hops_with_the_redirect_as_answer() {
    let (address, seen) = always("HTTP/1.1 307 Moved\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n").await;
    let outcome = attempt(&Lane::new(), &to(address, "/")).await;
    assert_eq!(outcome.result.unwrap().status, 307);
    assert_eq!(seen.requests().len(), 6);
}

#[tokio::test]
async fn gzip_deflate_brotli_and_zstd_answers_are_decoded() {
    let plain = OK_BODY.repeat(2000);
    let gzip = {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        writer.write_all(&plain).unwrap();
        writer.finish().unwrap()
    };
    let deflate = {
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        writer.write_all(&plain).unwrap();
        writer.finish().unwrap()
    };
    let br = {
        let mut out = Vec::new();
        let mut writer = brotli::CompressorWriter::new(&mut out, 4096, 5, 22);
        writer.write_all(&plain).unwrap();
        drop(writer);
        out
    };
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    for (name, body) in [("gzip", gzip), ("deflate", deflate), ("br", br), ("zstd", zstd)] {
        let (address, seen) = always(encoded(name, &body)).await;
        let outcome = attempt(&Lane::new(), &to(address, "/")).await;
        assert_eq!(outcome.received, plain.len() as u64, "{name}");
        let answer = outcome.result.unwrap();
        assert_eq!(answer.body, plain, "{name}");
        assert!(!answer.headers.contains_key("content-encoding"));
        assert!(seen.requests()[0].contains(name), "{name} is offered");
    }
}

fn encoded(name: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {name}\r\ncontent-length: {}\r\n\r\n", body.len())
            .into_bytes();
    answer.extend_from_slice(body);
    answer
}
