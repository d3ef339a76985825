//! How far one request has got: the connection it opened, when its body was taken, when all of it was.
//!
//! The body we hand to the HTTP client tells: it is polled by whichever task drives the connection, only after
//! the connection is there. Hence "not sent" is a fact and not a guess: a request whose body was never taken
//! can be withdrawn, and is then never taken later.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use steadycall_core::failure::Sent;

use crate::clock::{Duration, Instant, Verdict, now};
use crate::transport::{Phase, Timeouts};

/// Small enough that a peer that stopped reading is noticed, large enough that a prompt is one piece.
const PIECE: usize = 64 * 1024;

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Both ends of a connection: enough to tell it from every other one alive.
pub type Ends = (SocketAddr, SocketAddr);

/// The state of one request on its way; shared with the connection's task.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    body: AtomicU8,
    /// Nanoseconds after `start` at which a piece of the body was last taken.
    taken: AtomicU64,
    /// The same for the last piece; zero while there is more.
    whole: AtomicU64,
    opened: OnceLock<Ends>,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            start: now(),
            body: AtomicU8::new(WAITING),
            taken: AtomicU64::new(0),
            whole: AtomicU64::new(0),
            opened: OnceLock::new(),
        }
    }

    /// Notes the connection that was opened for this request.
    pub fn note_opened(&self, ends: Ends) {
        // Only the first counts: a request opens one connection.
        let _ = self.opened.set(ends);
    }

    /// Whether this request opened the connection with these ends.
    pub fn opened(&self, ends: Ends) -> bool {
        self.opened.get() == Some(&ends)
    }

    /// Ends the sending: whether any of it may have reached the server.
    pub fn withdraw(&self) -> Sent {
        match self.body.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(WITHDRAWN) => Sent::No,
            Err(_) => Sent::Maybe,
        }
    }

    /// When the whole body had been handed over.
    pub fn whole(&self) -> Option<Instant> {
        self.at(self.whole.load(Ordering::Acquire))
    }

    /// When a piece of the body was last handed over.
    pub fn last_taken(&self) -> Option<Instant> {
        self.at(self.taken.load(Ordering::Acquire))
    }

    fn at(&self, nanos: u64) -> Option<Instant> {
        (nanos != 0).then(|| self.start + Duration::from_nanos(nanos))
    }

    /// Which phase the sending is in, and whether it is over.
    pub fn judge(&self, timeouts: &Timeouts, end: Option<Instant>, now: Instant) -> Verdict {
        // A phase that has not begun cannot be over earlier than its own length from now: looking again then
        // catches its beginning in time, without being woken for it.
        let (phase, since, limit, later) = match (self.whole(), self.last_taken()) {
            (Some(whole), _) => (Phase::Read, whole, timeouts.read, [None, None]),
            (None, Some(last)) => (Phase::Write, last, timeouts.write, [timeouts.read, None]),
            (None, None) => (Phase::Connect, self.start, timeouts.connect, [timeouts.write, timeouts.read]),
        };
        let due = limit.and_then(|limit| since.checked_add(limit));
        judge(phase, due, end, now, later)
    }

    fn take(&self) -> bool {
        let before = self.body.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire);
        before != Err(WITHDRAWN)
    }

    fn note_taken(&self, all: bool) {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let nanos = nanos.max(1);
        self.taken.store(nanos, Ordering::Release);
        if all {
            self.whole.store(nanos, Ordering::Release);
        }
    }
}

/// The verdict of one phase's end and the attempt's end.
pub fn judge(
    phase: Phase,
    due: Option<Instant>,
    end: Option<Instant>,
    now: Instant,
    later: [Option<Duration>; 2],
) -> Verdict {
    if end.is_some_and(|end| end <= now) {
        return Verdict::Over(Phase::Attempt);
    }
    if due.is_some_and(|due| due <= now) {
        return Verdict::Over(phase);
    }
    let later = later.into_iter().flatten().filter_map(|limit| now.checked_add(limit));
    match due.into_iter().chain(end).chain(later).min() {
        Some(until) => Verdict::GoOnUntil(until),
        None => Verdict::Unlimited,
    }
}

/// A request body that reports when it is taken.
#[derive(Debug)]
pub struct TrackedBody {
    rest: Bytes,
    progress: Arc<Progress>,
    /// Whether an empty one is spoken of (`content-length: 0`): by a POST, not by a GET.
    announced: bool,
}

impl TrackedBody {
    pub fn new(body: Bytes, progress: Arc<Progress>, announced: bool) -> Self {
        Self { rest: body, progress, announced }
    }
}

/// When a request was given up before the connection took it.
#[derive(Debug)]
pub struct Withdrawn;

impl std::fmt::Display for Withdrawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the request was withdrawn before it was sent")
    }
}

impl std::error::Error for Withdrawn {}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withdrawn>>> {
        if !self.progress.take() {
            return Poll::Ready(Some(Err(Withdrawn)));
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        self.progress.note_taken(self.rest.is_empty());
        if piece.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        // The connection asks this first of all, and of an empty body nothing else: this is how that one is
        // seen. The answer is then "no" for a POST, which says `content-length: 0` only if there is a body.
        let unseen_and_empty = self.rest.is_empty() && self.progress.body.load(Ordering::Acquire) == WAITING;
        if unseen_and_empty && self.progress.take() {
            self.progress.note_taken(true);
            return !self.announced;
        }
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
