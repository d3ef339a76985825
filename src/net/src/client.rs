//! The HTTP client as we set it up: one per route, doing only what its caller cannot do better.
//!
//! It follows nothing, retries nothing and times nothing; the lane does. It keeps idle connections and decodes
//! bodies. This file, `connect.rs`, `fault.rs`, `answer.rs` and `lane.rs` name it.

use std::sync::OnceLock;
use std::time::Duration;

use http::{Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tower_http::decompression::{Decompression, DecompressionBody};

use crate::connect::{Connector, Proxies};
use crate::progress::TrackedBody;
use crate::tls;
use crate::transport::{Route, SetupError, Via};

/// Below the shortest idle limit of the load balancers in front of LLM APIs (60 s).
const IDLE: Duration = Duration::from_secs(50);

/// Sends requests; cheap to clone.
pub type Client = Decompression<legacy::Client<Connector, TrackedBody>>;
/// The head of an answer, its body to be read.
pub type Reply = Response<ReplyBody>;
/// The decoded body of an answer, as it arrives.
pub type ReplyBody = DecompressionBody<Incoming>;

/// The clients of one route.
#[derive(Debug)]
pub struct Clients {
    /// Keeps connections and reuses them.
    pub pooled: Client,
    /// Whose headers a request through a proxy must carry.
    pub proxies: Proxies,
    /// Opens a connection for each request; for what must not meet a stale one.
    fresh: OnceLock<Client>,
    tls: ClientConfig,
}

impl Clients {
    /// The clients for this route; they trust nobody, and cost nothing, when all they speak is http.
    pub fn build(route: &Route, https: bool) -> Result<Self, SetupError> {
        let tls = match https || proxy_is_https(route) {
            true => tls::trusting(route.ca_bundle.as_deref())?,
            false => tls::unused()?,
        };
        let proxies = Proxies::new(&route.via);
        Ok(Self { pooled: build(&proxies, &tls, usize::MAX), fresh: OnceLock::new(), proxies, tls })
    }

    /// The client that reuses nothing, made when first needed.
    pub fn fresh(&self) -> Client {
        self.fresh.get_or_init(|| build(&self.proxies, &self.tls, 0)).clone()
    }
}

/// Whether the URL is an https one.
pub fn is_https(uri: &Uri) -> bool {
    uri.scheme() == Some(&http::uri::Scheme::HTTPS)
}

/// Whether even an http call goes through TLS, to its proxy.
fn proxy_is_https(route: &Route) -> bool {
    matches!(&route.via, Via::Proxy(proxy) if proxy.scheme() == "https")
}

/// Whether the certificates that somebody named can be used, before any request.
pub fn check(route: &Route, https: bool) -> Result<(), SetupError> {
    match &route.ca_bundle {
        Some(path) => tls::trusting(Some(path)).map(drop),
        None if (https || proxy_is_https(route)) && tls::environment_names_roots() => {
            tls::trusting(None).map(drop)
        }
        None => Ok(()),
    }
}

fn build(proxies: &Proxies, tls: &ClientConfig, idle_connections: usize) -> Client {
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle_connections)
        .build(Connector::new(proxies.clone(), tls));
    Decompression::new(client)
}
