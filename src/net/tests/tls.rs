//! Whom we trust, and what proxies may say.
#![allow(clippy::disallowed_methods, reason = "scripted servers pause")]

mod common;

use common::tls::{Identity, shake};
use common::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa};
use steadycall_core::failure::{Reason, Sent};
use steadycall_net::lane::{Lane, check_route};
use steadycall_net::transport::{Fault, Outcome, Route, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

async fn secure(identity: &Identity) -> (u16, Seen) {
    let acceptor = identity.acceptor("http/1.1");
    let (address, seen) = serve(move |_, stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let Some(mut stream) = shake(&acceptor, stream).await else { return };
            while request(&mut stream, &seen).await.is_some() {
                stream.write_all(OK.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (address.port(), seen)
}

async fn over(route: &Route, url: &str) -> Outcome {
    Lane::new().attempt(route, &to_url(url, "{}"), &limits()).await
}

fn fault(outcome: Outcome) -> Fault {
    outcome.result.expect_err("a fault")
}

fn through(address: std::net::SocketAddr) -> Route {
    Route { via: Via::Proxy(format!("http://user:secret@{address}").parse().unwrap()), ..Route::default() }
}

#[tokio::test]
async fn a_certificate_of_the_bundle_is_trusted() {
    let identity = Identity::new("localhost");
    let (port, seen) = secure(&identity).await;
    let lane = Lane::new();
    for _ in 0..3 {
        let request = to_url(&format!("https://localhost:{port}/"), "{}");
        let outcome = lane.attempt(&identity.route(), &request, &limits()).await;
        assert_eq!(outcome.result.unwrap().body, OK_BODY);
    }
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn a_self_signed_certificate_is_rejected_and_nothing_is_sent() {
    let (identity, other) = (Identity::new("localhost"), Identity::new("localhost"));
    let (port, seen) = secure(&identity).await;
    let fault = fault(over(&other.route(), &format!("https://localhost:{port}/")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::CertificateRejected, Sent::No), "{}", fault.detail);
    assert!(seen.requests().is_empty());
}

fn authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

#[tokio::test]
async fn a_server_whose_own_certificate_is_trusted_is_trusted_whatever_it_says_of_itself() {
    for identity in
        [Identity::signing_itself("localhost", authority), Identity::signed_by_a_stranger("localhost")]
    {
        let (port, seen) = secure(&identity).await;
        let outcome = over(&identity.route(), &format!("https://localhost:{port}/")).await;
        assert_eq!(outcome.result.unwrap().body, OK_BODY);
        assert_eq!(seen.connections(), 1);
    }
}

#[tokio::test]
async fn a_trusted_certificate_is_rejected_outside_of_its_name_and_time_and_in_the_hands_of_another() {
    let expired = |params: &mut CertificateParams| {
        authority(params);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    };
    let not_yet = |params: &mut CertificateParams| {
        authority(params);
        params.not_before = rcgen::date_time_ymd(4000, 1, 1);
    };
    for identity in [
        Identity::signing_itself("elsewhere.example", authority),
        Identity::signed_by_a_stranger("elsewhere.example"),
        Identity::signing_itself("localhost", expired),
        Identity::signing_itself("localhost", not_yet),
    ] {
        let (port, seen) = secure(&identity).await;
        let fault = fault(over(&identity.route(), &format!("https://localhost:{port}/")).await);
        assert_eq!((fault.reason, fault.sent), (Reason::CertificateRejected, Sent::No), "{}", fault.detail);
        assert!(seen.requests().is_empty());
    }
    let (one, other) =
        (Identity::signing_itself("localhost", authority), Identity::signing_itself("localhost", authority));
    let (port, _) = secure(&one).await;
    let fault = fault(over(&other.route(), &format!("https://localhost:{port}/")).await);
    assert_eq!(fault.reason, Reason::CertificateRejected, "{}", fault.detail);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_rejected() {
    let identity = Identity::new("elsewhere.example");
    let (port, _) = secure(&identity).await;
    let fault = fault(over(&identity.route(), &format!("https://localhost:{port}/")).await);
    assert_eq!((fault.reason, fault.sent), (Reason::CertificateRejected, Sent::No), "{}", fault.detail);
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_not_a_certificate_problem() {
    let (address, _) = serve(|_, mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1000]).await;
    })
    .await;
    let identity = Identity::new("localhost");
    let fault = fault(over(&identity.route(), &format!("https://localhost:{}/", address.port())).await);
    assert_eq!((fault.reason, fault.sent), (Reason::TlsFailed, Sent::No), "{}", fault.detail);
}

#[tokio::test]
async fn a_connection_closed_during_the_handshake_is_a_failed_connection() {
    let (address, _) = serve(|_, stream, _| async move { drop(stream) }).await;
    let identity = Identity::new("localhost");
    let fault = fault(over(&identity.route(), &format!("https://localhost:{}/", address.port())).await);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectFailed, Sent::No), "{}", fault.detail);
}

#[tokio::test]
async fn a_handshake_that_hangs_ends_at_the_connect_timeout() {
    let (address, _) = serve(|_, stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let identity = Identity::new("localhost");
    let mut limits = limits();
    limits.timeouts.connect = Some(ms(60));
    let request = to_url(&format!("https://localhost:{}/", address.port()), "{}");
    let fault = fault(Lane::new().attempt(&identity.route(), &request, &limits).await);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectTimeout, Sent::No));
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_is_told_from_one_that_opens_no_tunnel() {
    for (refusal, reason) in [
        ("407 Proxy Authentication Required", Reason::ProxyRefused),
        ("403 Forbidden", Reason::ProxyFailed),
        ("502 Bad Gateway", Reason::ProxyFailed),
        ("503 Service Unavailable", Reason::ProxyFailed),
        ("504 Gateway Timeout", Reason::ProxyFailed),
    ] {
        let answer = format!("HTTP/1.1 {refusal}\r\ncontent-length: 0\r\n\r\n");
        let (address, seen) = always(answer).await;
        let fault = fault(over(&through(address), "https://localhost:1/?key=hidden").await);
        assert_eq!((fault.reason, fault.sent), (reason, Sent::No), "{refusal}: {}", fault.detail);
        assert!(!fault.detail.contains("secret") && !fault.detail.contains("hidden"));
        assert!(seen.requests()[0].starts_with("CONNECT localhost:1 "));
    }
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_a_failed_connection() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let fault = fault(over(&through(gone), "https://localhost:1/").await);
    assert_eq!((fault.reason, fault.sent), (Reason::ConnectFailed, Sent::No), "{}", fault.detail);
}

#[tokio::test]
async fn an_https_call_goes_through_the_proxys_tunnel() {
    let identity = Identity::new("localhost");
    let (port, seen) = secure(&identity).await;
    let (address, asked) = serve(move |_, mut stream, seen| async move {
        request(&mut stream, &seen).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut target = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = copy_bidirectional(&mut stream, &mut target).await;
    })
    .await;
    let route = Route { ca_bundle: Some(identity.bundle.clone()), ..through(address) };
    let outcome = over(&route, &format!("https://localhost:{port}/")).await;
    assert_eq!(outcome.result.unwrap().status, 200);
    assert_eq!((asked.connections(), seen.connections()), (1, 1));
    assert!(asked.requests()[0].to_ascii_lowercase().contains("proxy-authorization: basic"));
    assert!(!seen.requests()[0].to_ascii_lowercase().contains("proxy-authorization"));
}

#[tokio::test]
async fn a_407_to_a_plain_http_call_is_an_ordinary_answer() {
    let (address, seen) =
        always("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n").await;
    let outcome = over(&through(address), "http://api.example/v1").await;
    assert_eq!(outcome.result.unwrap().status, 407);
    assert!(seen.requests()[0].starts_with("POST http://api.example/v1 HTTP/1.1\r\n"));
}

#[test]
fn a_bundle_that_cannot_work_is_found_before_any_request() {
    let bundle = |path: &std::path::Path| {
        check_route(
            &Route { ca_bundle: Some(path.into()), ..Route::default() },
            &"http://h/".parse().unwrap(),
        )
    };
    assert_eq!(bundle("/no/such/file.pem".as_ref()).unwrap_err().field, "ca_bundle");
    assert_eq!(bundle("/dev/null".as_ref()).unwrap_err().field, "ca_bundle");
    let identity = Identity::new("localhost");
    assert_eq!(bundle(&identity.bundle), Ok(()));
    std::fs::write(&identity.bundle, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    let changed = identity.bundle.with_extension("changed.pem");
    std::fs::rename(&identity.bundle, &changed).unwrap();
    assert_eq!(bundle(&changed).unwrap_err().field, "ca_bundle");
    std::fs::remove_file(changed).unwrap();
}

/// Run by the next test in a process of its own, because the environment belongs to the whole process.
#[tokio::test]
#[ignore = "needs the environment the next test gives it"]
async fn with_ssl_cert_file() {
    let port = std::env::var("TEST_PORT").unwrap();
    let route = Route::default();
    let url = format!("https://localhost:{port}/").parse().unwrap();
    let lane = Lane::new();
    match std::env::var("TEST_EXPECT").unwrap().as_str() {
        "trusted" => {
            lane.prepare(&route, &url).unwrap();
            assert_eq!(over(&route, &url.to_string()).await.result.unwrap().status, 200);
        }
        expected => {
            let error = lane.prepare(&route, &url).unwrap_err();
            assert_eq!(error.field, "SSL_CERT_FILE");
            assert!(error.detail.contains(expected), "{error}");
        }
    }
}

#[tokio::test]
async fn ssl_cert_file_and_dir_replace_the_systems_roots_and_a_broken_file_is_named() {
    let identity = Identity::new("localhost");
    let (port, _) = secure(&identity).await;
    let good = identity.bundle.as_os_str();
    let junk = std::env::current_exe().unwrap();
    let directory = tempdir_with(&identity);
    for (file, dir, expect) in [
        (Some(good), None, "trusted"),
        (Some(good), Some("/no/such/directory".as_ref()), "trusted"),
        (None, Some(directory.as_os_str()), "trusted"),
        (Some("/no/such/file".as_ref()), None, "No such file"),
        (Some("/no/such/file".as_ref()), Some(directory.as_os_str()), "No such file"),
        (Some(junk.as_os_str()), None, "no certificate in it"),
        (Some(junk.as_os_str()), Some(directory.as_os_str()), "no certificate in it"),
    ] {
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        for (name, value) in [("SSL_CERT_FILE", file), ("SSL_CERT_DIR", dir)] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let status = command
            .args(["--exact", "with_ssl_cert_file", "--ignored"])
            .env("TEST_PORT", port.to_string())
            .env("TEST_EXPECT", expect)
            .stdout(std::process::Stdio::null())
            .status()
            .await
            .unwrap();
        assert!(status.success(), "{file:?} {dir:?}: {expect}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// A directory with nothing but this identity's certificate.
fn tempdir_with(identity: &Identity) -> std::path::PathBuf {
    let directory = identity.bundle.with_extension("d");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(&identity.bundle, directory.join("one.pem")).unwrap();
    directory
}
