//! Raw loopback servers scripted per test: what they say goes onto a real socket, byte for byte.
#![allow(dead_code)] // each test file uses its own part

pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use steadycall_net::lane::Lane;
use steadycall_net::transport::{Limits, Outcome, Request, Route, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a test server saw.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Seen {
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A server that handles connection number `n` (from 0) with `handle`.
pub async fn serve<H, F>(handle: H) -> (SocketAddr, Seen)
where
    H: Fn(usize, TcpStream, Seen) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let noted = seen.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = noted.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(handle(number, stream, noted.clone()));
        }
    });
    (address, seen)
}

/// A server that answers every request on every connection with the same bytes.
pub async fn always(answer: impl Into<Vec<u8>>) -> (SocketAddr, Seen) {
    let answer = Arc::new(answer.into());
    serve(move |_, mut stream, seen| {
        let answer = answer.clone();
        async move {
            while request(&mut stream, &seen).await.is_some() {
                stream.write_all(&answer).await.unwrap();
            }
        }
    })
    .await
}

/// Reads one whole request with a content-length; `None` at the end of the connection.
pub async fn request(stream: &mut (impl AsyncRead + Unpin), seen: &Seen) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 65536];
    loop {
        let n = stream.read(&mut piece).await.ok()?;
        if n == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length = text[..head]
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ").map(|n| n.parse::<usize>().unwrap()))
            .unwrap_or(0);
        if bytes.len() >= head + 4 + length {
            let text = text.into_owned();
            seen.requests.lock().unwrap().push(text.clone());
            return Some(text);
        }
    }
}

pub const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
pub const OK_BODY: &[u8] = b"{\"ok\":true}";

/// Closes with a reset rather than an end.
pub fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
}

pub fn to(address: SocketAddr, path: &str) -> Request {
    to_url(&format!("http://{address}{path}"), "{\"prompt\":\"hello\"}")
}

pub fn to_url(url: &str, body: &str) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("authorization", HeaderValue::from_static("Bearer secret"));
    Request {
        method: http::Method::POST,
        uri: url.parse().unwrap(),
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn limits() -> Limits {
    Limits {
        timeouts: Timeouts {
            connect: Some(ms(5000)),
            read: Some(ms(5000)),
            write: Some(ms(5000)),
            pool: None,
        },
        attempt: Some(ms(10000)),
        max_response_bytes: 64 * 1024 * 1024,
    }
}

pub async fn attempt(lane: &Lane, request: &Request) -> Outcome {
    lane.attempt(&Route::default(), request, &limits()).await
}
