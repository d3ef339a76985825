//! The HTTP client as we set it up: one per route, doing only what its caller cannot do better.
//!
//! It follows nothing, retries nothing and times nothing; the lane does. It decodes bodies, keeps idle
//! connections, speaks to proxies and does TLS. This file, `fault.rs`, `answer.rs` and `lane.rs` name it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection, HttpInfo};
use reqwest::{Client, ClientBuilder, Proxy};
use rustls::ClientConfig;
use tower_layer::Layer;
use tower_service::Service;

use crate::progress::{Ends, Progress};
use crate::tls;
use crate::transport::{Route, SetupError, Via};

/// Below the shortest idle limit of the load balancers in front of LLM APIs (60 s).
const IDLE: Duration = Duration::from_secs(50);

tokio::task_local! {
    /// The request on whose behalf the running task opens connections.
    pub static CURRENT: Arc<Progress>;
}

/// The clients of one route.
#[derive(Debug)]
pub struct Clients {
    /// Keeps connections and reuses them.
    pub pooled: Client,
    /// Opens a connection for each request; for what must not meet a stale one.
    fresh: OnceLock<Client>,
    route: Route,
    tls: bool,
}

impl Clients {
    /// The clients for this route; they trust nobody, and cost nothing, when all they speak is http.
    pub fn build(route: &Route, https: bool) -> Result<Self, SetupError> {
        let tls = https || proxy_is_https(route);
        Ok(Self { pooled: build(route, tls, usize::MAX)?, fresh: OnceLock::new(), route: route.clone(), tls })
    }

    /// The client that reuses nothing, made when first needed.
    pub fn fresh(&self) -> Result<Client, SetupError> {
        if let Some(client) = self.fresh.get() {
            return Ok(client.clone());
        }
        let client = build(&self.route, self.tls, 0)?;
        Ok(self.fresh.get_or_init(|| client).clone())
    }
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

fn build(route: &Route, tls: bool, idle_connections: usize) -> Result<Client, SetupError> {
    let config: ClientConfig = if tls { tls::trusting(route.ca_bundle.as_deref())? } else { tls::unused()? };
    let mut builder = ClientBuilder::new()
        .tls_backend_preconfigured(config)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle_connections)
        .connector_layer(NoteOpened);
    let wrong =
        |error: reqwest::Error| SetupError { field: "proxy", detail: error.without_url().to_string() };
    builder = match &route.via {
        Via::System => builder,
        Via::Direct => builder.no_proxy(),
        Via::Proxy(proxy) => builder.proxy(Proxy::all(proxy.clone()).map_err(wrong)?),
    };
    builder.build().map_err(wrong)
}

/// Both ends of the connection this describes.
pub fn ends(connected: &Connected) -> Option<Ends> {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    extras.get::<HttpInfo>().map(|info| (info.local_addr(), info.remote_addr()))
}

/// Tells the request that is waiting for a connection which one was opened for it.
///
/// A connection that lost the race against one that became idle is finished by another task, outside of
/// `CURRENT`, and so is not noted: what is noted is what the request waited for.
#[derive(Debug, Clone, Copy)]
struct NoteOpened;

impl<S> Layer<S> for NoteOpened {
    type Service = NotingOpened<S>;

    fn layer(&self, inner: S) -> NotingOpened<S> {
        NotingOpened(inner)
    }
}

#[derive(Debug, Clone)]
struct NotingOpened<S>(S);

impl<S, T> Service<T> for NotingOpened<S>
where
    S: Service<T>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: T) -> Self::Future {
        let opening = self.0.call(target);
        Box::pin(async move {
            let connection = opening.await?;
            if let Some(ends) = ends(&connection.connected()) {
                // Outside of a request there is nobody to tell.
                let _ = CURRENT.try_with(|progress| progress.note_opened(ends));
            }
            Ok(connection)
        })
    }
}
