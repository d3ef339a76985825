//! Opens connections: straight to the host, or through a proxy; plain, or with TLS.
//!
//! Every piece is a library's: the TCP connector (name look-up, both address families raced), the CONNECT tunnel,
//! TLS. This file says in which order they are put together, and tells the waiting request what was opened for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector, HttpInfo};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::progress::{Ends, Progress};
use crate::transport::Via;

/// A peer that vanished without a word is noticed after about a minute, in which a busy one keeps its connection.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;
/// Bytes that nobody acknowledged for this long: the peer is gone.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

tokio::task_local! {
    /// The request on whose behalf the running task opens connections.
    pub static CURRENT: Arc<Progress>;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Opening<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;
/// To the host or to its proxy.
type FirstLeg = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Which proxy a request goes through, if any.
#[derive(Debug, Clone)]
pub struct Proxies(Option<Arc<Matcher>>);

impl Proxies {
    /// As the route says.
    pub fn new(via: &Via) -> Self {
        Self(match via {
            Via::Proxy(proxy) => Some(Arc::new(Matcher::builder().all(proxy.as_str()).build())),
            // Elsewhere the system's word is the environment's, which the front has read.
            Via::System if cfg!(any(target_os = "macos", windows)) => Some(Arc::new(Matcher::from_system())),
            Via::System | Via::Direct => None,
        })
    }

    fn intercept(&self, uri: &Uri) -> Option<Intercept> {
        self.0.as_ref()?.intercept(uri)
    }

    /// What a request that goes to the proxy itself, without a tunnel, must say to it.
    pub fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let tunnelled = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let auth = if tunnelled { None } else { self.intercept(uri)?.basic_auth().cloned() };
        auth.map(|mut value| {
            value.set_sensitive(true);
            value
        })
    }
}

/// Opens what a request needs.
#[derive(Debug, Clone)]
pub struct Connector(HttpsConnector<Dialer>);

impl Connector {
    /// A connector whose https connections are made by `tls`.
    pub fn new(proxies: Proxies, tls: &ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        // A proxy is spoken to in HTTP/1.1, whatever the host behind it takes.
        let mut to_proxy = tls.clone();
        to_proxy.alpn_protocols = vec![b"http/1.1".to_vec()];
        let dialer = Dialer { proxies, proxy: HttpsConnector::from((tcp.clone(), to_proxy)), tcp };
        Self(HttpsConnector::from((dialer, tls.clone())))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Opening<Stream>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let opening = self.0.call(uri);
        Box::pin(async move {
            let stream = Stream(opening.await?);
            // A connection that lost the race against one that became idle is finished by another task, outside
            // of `CURRENT`, and so is not noted: what is noted is what the request waited for.
            if let Some(ends) = ends(&stream.connected()) {
                let _ = CURRENT.try_with(|progress| progress.note_opened(ends));
            }
            Ok(stream)
        })
    }
}

/// The first leg, and the tunnel on it when there is a proxy and the host wants TLS.
#[derive(Debug, Clone)]
struct Dialer {
    proxies: Proxies,
    tcp: HttpConnector,
    proxy: HttpsConnector<HttpConnector>,
}

impl Service<Uri> for Dialer {
    type Response = Leg;
    type Error = BoxError;
    type Future = Opening<Leg>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.intercept(&uri) else {
            let opening = self.tcp.call(uri);
            return Box::pin(async move { Ok(Leg { io: FirstLeg::Http(opening.await?), proxied: false }) });
        };
        if uri.scheme() == Some(&http::uri::Scheme::HTTPS) {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), self.proxy.clone());
            if let Some(auth) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            return Box::pin(async move { Ok(Leg { io: tunnel.call(uri).await?, proxied: false }) });
        }
        let opening = self.proxy.call(proxy.uri().clone());
        Box::pin(async move { Ok(Leg { io: opening.await?, proxied: true }) })
    }
}

/// A connection to the host, or as good as one.
#[derive(Debug)]
pub struct Leg {
    io: FirstLeg,
    /// Whether requests on it must name the host, for a proxy to pass them on.
    proxied: bool,
}

/// A connection on which requests can be sent.
#[derive(Debug)]
pub struct Stream(MaybeHttpsStream<Leg>);

/// Both ends of the connection this describes.
pub fn ends(connected: &Connected) -> Option<Ends> {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    extras.get::<HttpInfo>().map(|info| (info.local_addr(), info.remote_addr()))
}

impl Connection for Leg {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.proxied)
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

/// Reads and writes by what is inside.
macro_rules! delegate_io {
    ($outer:ty, $inner:tt) => {
        impl Read for $outer {
            fn poll_read(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: ReadBufCursor<'_>,
            ) -> Poll<std::io::Result<()>> {
                Pin::new(&mut self.$inner).poll_read(context, buffer)
            }
        }

        impl Write for $outer {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<std::io::Result<usize>> {
                Pin::new(&mut self.$inner).poll_write(context, bytes)
            }

            fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
                Pin::new(&mut self.$inner).poll_flush(context)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<std::io::Result<()>> {
                Pin::new(&mut self.$inner).poll_shutdown(context)
            }

            fn is_write_vectored(&self) -> bool {
                self.$inner.is_write_vectored()
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                pieces: &[std::io::IoSlice<'_>],
            ) -> Poll<std::io::Result<usize>> {
                Pin::new(&mut self.$inner).poll_write_vectored(context, pieces)
            }
        }
    };
}

delegate_io!(Leg, io);
delegate_io!(Stream, 0);
