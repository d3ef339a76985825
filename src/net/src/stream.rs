//! An answer read as it arrives: its head first, then its body in the pieces the reader asks for.
//!
//! Nothing is read ahead, so a slow reader holds the server back instead of filling memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body::{Body, Frame};
use steadycall_core::failure::{Reason, Sent};

use crate::answer::{Gathered, KEPT, timed_out};
use crate::client::{Reply, ReplyBody};
use crate::clock::{Alarm, Duration, Instant, now};
use crate::fault;
use crate::progress::judge;
use crate::transport::{Fault, Phase};

/// So much of what has arrived is given out at once.
const AT_ONCE: usize = 64 * 1024;

/// How the opening of one went, and what it cost beside.
#[derive(Debug)]
pub struct Opening {
    /// The answer, or what came instead of one.
    pub result: Result<Stream, Fault>,
    /// Requests replayed at once on a fresh connection because the server surely had not looked at them.
    pub replays: u32,
    /// Whether every byte of the request was handed to the connection.
    pub fully_sent: bool,
}

/// An answer whose head is there. Dropping it gives its connection up, unless it was read to its end.
pub struct Stream {
    /// The HTTP status.
    pub status: u16,
    /// The headers as received; content decoding has removed its own.
    pub headers: HeaderMap,
    /// `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    /// `None` once it is over.
    body: Option<Pin<Box<ReplyBody>>>,
    /// Longest silence.
    silence: Option<Duration>,
    end: Option<Instant>,
    alarm: Alarm,
    /// What broke it, to be told when what came before was taken.
    broken: Option<Fault>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(
        response: Reply,
        silence: Option<Duration>,
        end: Option<Instant>,
        alarm: Alarm,
    ) -> Self {
        let (head, body) = response.into_parts();
        let version = match head.version {
            Version::HTTP_2 => "HTTP/2",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        };
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            version,
            body: Some(Box::pin(body)),
            silence,
            end,
            alarm,
            broken: None,
        }
    }

    /// Whether the body was read to its end, or broke.
    pub fn is_over(&self) -> bool {
        self.body.is_none() && self.broken.is_none()
    }

    /// From now on the longest silence; `None` is not limited.
    pub fn limit_silence(&mut self, limit: Option<Duration>) {
        self.silence = limit;
    }

    /// At least `least` bytes of the body, or all that is left; empty once it is over. What has arrived beside is
    /// given along, up to 64 KiB: a server may send each event in a chunk of its own.
    ///
    /// # Errors
    /// The fault that ended it, with what had been gathered as `partial`.
    pub(crate) async fn gather(&mut self, least: usize) -> Result<Bytes, Fault> {
        let mut gathered = Gathered::default();
        while gathered.len() < least.max(1) {
            match self.piece().await {
                Ok(None) => return Ok(gathered.whole()),
                Ok(Some(piece)) => gathered.push(piece, None),
                Err(fault) => {
                    let partial = gathered.whole();
                    return Err(Fault { partial: partial.slice(..partial.len().min(KEPT)), ..fault });
                }
            }
        }
        // The connection's task hands over one chunk at a time, so it has its turn before each.
        let mut had_its_turn = false;
        while gathered.len() < AT_ONCE {
            let Some(body) = self.body.as_mut() else { break };
            let polled = poll_fn(|context| Poll::Ready(body.as_mut().poll_frame(context))).await;
            let Poll::Ready(frame) = polled else {
                if std::mem::replace(&mut had_its_turn, true) {
                    break;
                }
                tokio::task::yield_now().await;
                continue;
            };
            had_its_turn = false;
            if let Some(piece) = self.taken(frame) {
                gathered.push(piece, None);
            }
        }
        Ok(gathered.whole())
    }

    /// The next bytes that are there; `None` at the end.
    async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        // Silence is counted while somebody listens.
        let since = now();
        let due = self.silence.and_then(|limit| since.checked_add(limit));
        loop {
            if let Some(fault) = self.broken.take() {
                return Err(fault);
            }
            let Some(body) = self.body.as_mut() else { return Ok(None) };
            let mut frame = poll_fn(|context| body.as_mut().poll_frame(context));
            let end = self.end;
            let read = Pin::new(&mut frame);
            let verdict = self.alarm.guard(read, |now| judge(Phase::Read, due, end, now, [None, None])).await;
            match verdict {
                Ok(frame) => {
                    if let Some(piece) = self.taken(frame) {
                        return Ok(Some(piece));
                    }
                }
                Err(phase) => {
                    let (reason, detail) = timed_out(phase);
                    return Err(self.broke(reason, Some(phase), detail));
                }
            }
        }
    }

    /// The bytes of a frame; what is no data is a trailer, and no business of ours. What broke is kept, to be told next.
    fn taken<E>(&mut self, frame: Option<Result<Frame<Bytes>, E>>) -> Option<Bytes>
    where
        E: std::ops::Deref<Target = dyn std::error::Error + Send + Sync>,
    {
        match frame {
            Some(Ok(frame)) => return frame.into_data().ok().filter(|piece| !piece.is_empty()),
            Some(Err(error)) => {
                let cause = fault::read(&*error);
                let reason = if cause.corrupt { Reason::BodyCorrupt } else { Reason::Truncated };
                self.broken = Some(self.broke(reason, None, cause.detail));
            }
            None => self.body = None,
        }
        None
    }

    fn broke(&mut self, reason: Reason, phase: Option<Phase>, detail: String) -> Fault {
        self.body = None;
        Fault {
            reason,
            sent: Sent::Maybe,
            phase,
            detail,
            head: Some((self.status, self.headers.clone())),
            partial: Bytes::new(),
        }
    }
}
