//! One attempt from request to outcome, over the connections of one runtime.
//!
//! A lane sends, follows what may be followed (307 and 308, and of a GET all redirects, on the same origin) and sends
//! again at once what the server surely did not look at. Whether to try again after that is not its business.
//!
//! Dropping an attempt's future gives its connection up. On a `current_thread` runtime the socket closes when
//! the runtime is next driven or shut down, so a front that drops one must do either.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{LOCATION, PROXY_AUTHORIZATION};
use http::{Method, StatusCode, Uri};
use steadycall_core::failure::{Reason, Sent};
use tower_service::Service;

use crate::answer::{self, Bounds};
use crate::client::{self, Client, Clients, Reply, is_https};
use crate::clock::{Alarm, Duration, Instant, now};
use crate::connect::{CURRENT, Proxies};
use crate::fault::{self, Cause};
use crate::progress::{Progress, TrackedBody};
use crate::stream::{Opening, Stream};
use crate::transport::{Answer, Fault, Limits, Outcome, Phase, Request, Route, SetupError, Url};

/// Routes whose connections are kept; beyond it the one not used for longest goes.
const ROUTES: usize = 16;
/// Same-origin hops before the redirect itself is the answer.
const HOPS: u32 = 5;
/// How long after the last byte was handed over a kept connection can still turn out to have been stale:
/// that shows within a round trip. One that breaks later has been at work, and may have been billed.
const STALE_SHOWS_WITHIN: Duration = Duration::from_secs(1);
/// Idle for longer than this, the runtime looks at its sockets before it trusts them.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// The connections of one runtime; cheap to clone.
#[derive(Debug, Clone)]
pub struct Lane {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Most recently used first.
    routes: Mutex<Vec<Kept>>,
    born: Instant,
    /// When an attempt last ended, in milliseconds after `born`.
    active: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    route: Route,
    https: bool,
    clients: Arc<Clients>,
}

/// What an attempt costs beside its result.
#[derive(Debug, Default)]
struct Tally {
    replays: u32,
    fully_sent: bool,
    received: u64,
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a route's settings can be used for calls to `url`: a front calls this before the first request.
///
/// # Errors
/// The setting that is wrong: `ca_bundle`, or the environment variable that names the roots.
pub fn check_route(route: &Route, url: &Url) -> Result<(), SetupError> {
    client::check(route, url.scheme() == "https")
}

impl Lane {
    /// A lane without connections.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner { routes: Mutex::new(Vec::new()), born: now(), active: AtomicU64::new(0) }),
        }
    }

    /// Makes ready for calls to `uri` over `route`, so that the attempt finds nothing wrong with them.
    ///
    /// # Errors
    /// The setting that is wrong: `ca_bundle`, or the environment variable that names the roots.
    pub fn prepare(&self, route: &Route, uri: &Uri) -> Result<(), SetupError> {
        self.clients(route, uri).map(drop)
    }

    /// Sends `request` and reads its answer, within `limits`.
    pub async fn attempt(&self, route: &Route, request: &Request, limits: &Limits) -> Outcome {
        let mut tally = Tally::default();
        let result = self.run(route, request, limits, &mut tally).await;
        if result.is_err() {
            // The connection we dropped is closed by its own task. On a runtime that stops being driven when we
            // return, that task must have its turn now. (After a success it had it: a `current_thread` runtime
            // runs every waiting task before it looks at the future it blocks on.)
            tokio::task::yield_now().await;
        }
        self.inner.note_active();
        Outcome { result, replays: tally.replays, fully_sent: tally.fully_sent, received: tally.received }
    }

    /// Sends `request` and waits for the head of its answer; the body is read as it arrives.
    ///
    /// `follows` says whether redirects are followed as in `attempt`, or are answers like any other. Of `limits` the
    /// attempt's end bounds the body too; its size is the reader's business.
    pub async fn open(&self, route: &Route, request: &Request, limits: &Limits, follows: bool) -> Opening {
        let mut tally = Tally::default();
        let result = self.head(route, request, limits, follows, &mut tally).await;
        if result.is_err() {
            // As in `attempt`.
            tokio::task::yield_now().await;
        }
        self.inner.note_active();
        Opening { result, replays: tally.replays, fully_sent: tally.fully_sent }
    }

    /// Reads more of an opened answer: see `Stream::gather`.
    ///
    /// # Errors
    /// The fault that ended it, with what had been read just now as `partial`.
    pub async fn read(&self, stream: &mut Stream, least: usize) -> Result<Bytes, Fault> {
        let read = stream.gather(least).await;
        if read.is_err() || stream.is_over() {
            // The connection's task must have its turn, to close it or to put it back into the pool.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        self.inner.note_active();
        read
    }

    async fn head(
        &self,
        route: &Route,
        request: &Request,
        limits: &Limits,
        follows: bool,
        tally: &mut Tally,
    ) -> Result<Stream, Fault> {
        let clients = self.clients(route, &request.uri).map_err(unusable)?;
        let mut exchange = Exchange::begin(request, &clients, limits);
        self.look_after().await;
        let response = exchange.follow(&clients, if follows { HOPS } else { 0 }, tally).await?;
        let Exchange { end, alarm, .. } = exchange;
        Ok(Stream::new(response, limits.timeouts.read, end, alarm))
    }

    async fn run(
        &self,
        route: &Route,
        request: &Request,
        limits: &Limits,
        tally: &mut Tally,
    ) -> Result<Answer, Fault> {
        let clients = self.clients(route, &request.uri).map_err(unusable)?;
        let mut exchange = Exchange::begin(request, &clients, limits);
        self.look_after().await;
        let response = exchange.follow(&clients, HOPS, tally).await?;
        exchange.read(response, tally).await
    }

    /// The peer may have closed kept connections while nobody looked. In the first turn the runtime looks at its
    /// sockets, in the second the connections hear of it (it asks us again before them).
    async fn look_after(&self) {
        if self.inner.idle() > LOOK_AFTER {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
    }

    fn clients(&self, route: &Route, uri: &Uri) -> Result<Arc<Clients>, SetupError> {
        let https = is_https(uri);
        if let Some(clients) = self.inner.find(route, https) {
            return Ok(clients);
        }
        // Outside of the lock: reading the system's roots takes milliseconds.
        let clients = Arc::new(Clients::build(route, https)?);
        Ok(self.inner.keep(route, https, clients))
    }
}

impl Inner {
    fn find(&self, route: &Route, https: bool) -> Option<Arc<Clients>> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = routes.iter().position(|kept| kept.https == https && kept.route == *route)?;
        if let Some(recent) = routes.get_mut(..=place) {
            recent.rotate_right(1);
        }
        routes.first().map(|kept| kept.clients.clone())
    }

    fn keep(&self, route: &Route, https: bool, clients: Arc<Clients>) -> Arc<Clients> {
        if let Some(known) = self.find(route, https) {
            return known;
        }
        let kept = Kept { route: route.clone(), https, clients: clients.clone() };
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.insert(0, kept);
        routes.truncate(ROUTES);
        clients
    }

    fn note_active(&self) {
        let millis = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.active.store(millis, Ordering::Relaxed);
    }

    fn idle(&self) -> Duration {
        let active = Duration::from_millis(self.active.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(active)
    }
}

/// A request that brought no answer.
struct Broken {
    fault: Fault,
    /// The server surely did not look at it: it may be sent again at once.
    unseen: bool,
}

/// What all requests of one attempt share.
struct Exchange<'a> {
    request: &'a Request,
    proxies: &'a Proxies,
    limits: &'a Limits,
    end: Option<Instant>,
    alarm: Alarm,
}

impl<'a> Exchange<'a> {
    fn begin(request: &'a Request, clients: &'a Clients, limits: &'a Limits) -> Self {
        let end = limits.attempt.and_then(|limit| now().checked_add(limit));
        Self { request, proxies: &clients.proxies, limits, end, alarm: Alarm::default() }
    }

    /// Delivers the request, where redirects lead too: the answer that is none, or is not to be followed.
    async fn follow(&mut self, clients: &Clients, most: u32, tally: &mut Tally) -> Result<Reply, Fault> {
        let mut uri = self.request.uri.clone();
        let mut hops = 0;
        let mut client = clients.pooled.clone();
        loop {
            let response = self.deliver(&mut client, clients, &uri, tally).await?;
            match next_hop(&self.request.method, &uri, &response) {
                Some(next) if hops < most => {
                    hops += 1;
                    uri = next;
                }
                _ => return Ok(response),
            }
        }
    }

    /// Sends the request, and once more at once where the server surely did not look at it.
    async fn deliver(
        &mut self,
        client: &mut Client,
        clients: &Clients,
        uri: &Uri,
        tally: &mut Tally,
    ) -> Result<Reply, Fault> {
        loop {
            match self.send(client, uri.clone(), tally).await {
                Ok(response) => return Ok(response),
                Err(Broken { unseen: true, .. }) if tally.replays == 0 => {
                    tally.replays = 1;
                    *client = clients.fresh();
                }
                Err(broken) => return Err(broken.fault),
            }
        }
    }

    /// Sends the request and waits for the head of its answer.
    async fn send(&mut self, client: &mut Client, uri: Uri, tally: &mut Tally) -> Result<Reply, Broken> {
        let progress = Arc::new(Progress::new());
        let body =
            TrackedBody::new(self.request.body.clone(), progress.clone(), announces(&self.request.method));
        let mut request = http::Request::new(body);
        *request.method_mut() = self.request.method.clone();
        *request.headers_mut() = self.request.headers.clone();
        if let Some(authorization) = self.proxies.authorization(&uri) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        *request.uri_mut() = uri;

        let (limits, end) = (self.limits, self.end);
        let result = {
            // In a block of its own: the connection is given up before `sent` is asked for.
            let work = pin!(CURRENT.scope(progress.clone(), client.call(request)));
            let judge = |now| progress.judge(&limits.timeouts, end, now);
            self.alarm.guard(work, judge).await
        };
        tally.fully_sent |= progress.whole().is_some();
        match result {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(lost(fault::read(&error), &progress)),
            Err(phase) => Err(late(phase, progress.withdraw())),
        }
    }

    async fn read(&mut self, response: Reply, tally: &mut Tally) -> Result<Answer, Fault> {
        let bounds = Bounds { limits: self.limits, end: self.end };
        answer::read(response, bounds, &mut self.alarm, &mut tally.received).await
    }
}

/// Whether a request without a body says so (RFC 9110, 8.6).
fn announces(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS | Method::TRACE)
}

fn lost(cause: Cause, progress: &Progress) -> Broken {
    let sent = progress.withdraw();
    let reused = cause.ends.is_some_and(|ends| !progress.opened(ends));
    let at_once = progress.last_taken().is_none_or(|last| last.elapsed() <= STALE_SHOWS_WITHIN);
    let stale = reused && cause.went_away && at_once;
    Broken {
        unseen: cause.not_processed || stale,
        fault: Fault {
            reason: cause.reason,
            sent: if cause.not_processed { Sent::No } else { sent },
            phase: None,
            detail: cause.detail,
            head: None,
            partial: Bytes::new(),
        },
    }
}

fn late(phase: Phase, sent: Sent) -> Broken {
    let (reason, detail) = answer::timed_out(phase);
    Broken {
        unseen: false,
        fault: Fault { reason, sent, phase: Some(phase), detail, head: None, partial: Bytes::new() },
    }
}

/// A setting that was good when the front checked it and is not now (a file that went away).
fn unusable(error: SetupError) -> Fault {
    let reason = if error.field == "proxy" { Reason::ProxyRefused } else { Reason::CertificateRejected };
    Fault {
        reason,
        sent: Sent::No,
        phase: None,
        detail: error.to_string(),
        head: None,
        partial: Bytes::new(),
    }
}

/// Where a redirect leads, if it may be followed: same method, same body, same origin. Those that may turn a POST into
/// a GET (RFC 9110, 15.4) are followed by what is a GET already.
fn next_hop(method: &Method, from: &Uri, response: &Reply) -> Option<Uri> {
    let asks = matches!(*method, Method::GET | Method::HEAD);
    match response.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER if asks => {}
        _ => return None,
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let from: Url = from.to_string().parse().ok()?;
    let mut next = from.join(location).ok()?;
    if next.origin() != from.origin() {
        return None;
    }
    // A server must not choose our credentials: the location's own are dropped.
    next.set_username("").ok()?;
    next.set_password(None).ok()?;
    Uri::try_from(next.as_str()).ok()
}
