//! The HTTP client's errors, by type and source chain, to our reasons; never by message.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use steadycall_core::failure::Reason;
use tower_service::Service;

use crate::connect::ends;
use crate::progress::Ends;

/// The tunnel's error is not exported, but the service that returns it is.
type TunnelError = <Tunnel<HttpConnector> as Service<http::Uri>>::Error;

/// Causes deeper than this are not looked at: a chain that long is a circle.
const DEPTH: usize = 20;

/// What an error of the HTTP client means.
#[derive(Debug)]
pub struct Cause {
    /// By type, as far as known.
    pub reason: Reason,
    /// The innermost cause in words.
    pub detail: String,
    /// The server said in so many words that it did not look at the request.
    pub not_processed: bool,
    /// The connection went away, rather than saying something we did not like.
    pub went_away: bool,
    /// The decoder, not the connection, found fault with the body.
    pub corrupt: bool,
    /// The connection on which it happened, once there was one.
    pub ends: Option<Ends>,
}

/// Reads an error of the HTTP client.
pub fn read(error: &(dyn Error + 'static)) -> Cause {
    let mut seen = Seen::default();
    let mut innermost = error;
    for cause in causes(error) {
        seen.note(cause);
        innermost = cause;
    }
    Cause {
        reason: seen.reason(),
        detail: innermost.to_string(),
        not_processed: seen.not_processed,
        went_away: seen.went_away,
        corrupt: !seen.transport && !seen.short,
        ends: seen.ends,
    }
}

/// What was met along the chain of sources.
#[derive(Debug, Default)]
struct Seen {
    certificate: bool,
    tls: bool,
    proxy: bool,
    no_tunnel: bool,
    connect: bool,
    not_http: bool,
    not_processed: bool,
    went_away: bool,
    transport: bool,
    short: bool,
    ends: Option<Ends>,
}

impl Seen {
    fn note(&mut self, cause: &(dyn Error + 'static)) {
        if let Some(error) = cause.downcast_ref::<legacy::Error>() {
            self.connect |= error.is_connect();
            self.ends = error.connect_info().and_then(ends);
        } else if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            self.transport = true;
            self.not_http |= error.is_parse();
            self.went_away |= error.is_incomplete_message() || error.is_canceled() || error.is_closed();
        } else if let Some(error) = cause.downcast_ref::<h2::Error>() {
            self.transport = true;
            self.not_processed |= not_processed(error);
        } else if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            self.transport = true;
            let certificate = matches!(
                error,
                rustls::Error::InvalidCertificate(_)
                    | rustls::Error::NoCertificatesPresented
                    | rustls::Error::UnsupportedNameType
            );
            self.certificate |= certificate;
            self.tls |= !certificate;
        } else if let Some(error) = cause.downcast_ref::<TunnelError>() {
            self.proxy |= matches!(error, TunnelError::ProxyAuthRequired | TunnelError::ProxyHeadersTooLong);
            // Every status but 200 and 407: which one it was is not kept.
            self.no_tunnel |= matches!(error, TunnelError::TunnelUnsuccessful);
        } else if let Some(error) = cause.downcast_ref::<io::Error>() {
            self.went_away |= matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::UnexpectedEof
            );
            self.short |= error.kind() == io::ErrorKind::UnexpectedEof;
        }
    }

    fn reason(&self) -> Reason {
        if self.certificate {
            Reason::CertificateRejected
        } else if self.tls {
            Reason::TlsFailed
        } else if self.proxy {
            Reason::ProxyRefused
        } else if self.no_tunnel {
            Reason::ProxyFailed
        } else if self.connect {
            Reason::ConnectFailed
        } else if self.not_http {
            Reason::NotHttp
        } else {
            Reason::ConnectionLost
        }
    }
}

/// The two ways in which HTTP/2 promises that a request was not looked at (RFC 9113, 8.7).
///
/// h2 hands a remote GOAWAY only to streams beyond its last stream id (`recv_go_away`), whatever its code;
/// those below it that never get an answer end with an I/O error instead.
fn not_processed(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.is_go_away() || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)))
}

/// The error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        // An io::Error's `source` skips the error it wraps.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
    .take(DEPTH)
}
