//! Reads an answer to its end or to its limit; keeps what arrived when it breaks in between.

use std::future::poll_fn;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use serde::de::IgnoredAny;
use steadycall_core::failure::{Reason, Sent};

use crate::client::Reply;
use crate::clock::{Alarm, Instant, now};
use crate::fault;
use crate::progress::judge;
use crate::transport::{Answer, Fault, Limits, Phase};

/// How much is kept of an error's body, and of a body that broke.
pub const KEPT: usize = 1024 * 1024;

/// Memory is reserved in advance only up to this: the length is the server's word.
const RESERVED: usize = 8 * 1024 * 1024;

/// What bounds the reading.
pub struct Bounds<'a> {
    pub limits: &'a Limits,
    pub end: Option<Instant>,
}

/// Whether a body is JSON, and can stand in a line of a file as it is.
pub fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Reads the body; `received` counts its decoded bytes.
pub async fn read(
    response: Reply,
    bounds: Bounds<'_>,
    alarm: &mut Alarm,
    received: &mut u64,
) -> Result<Answer, Fault> {
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status, head.headers);
    let mut stream = pin!(body);
    let limit = usize::try_from(bounds.limits.max_response_bytes).unwrap_or(usize::MAX);
    // Decoding removes the header, so what is left is the length of what we shall read.
    let length = declared(&headers);
    let broken = |reason, phase, detail: String, partial: Bytes, headers| Fault {
        reason,
        sent: Sent::Maybe,
        phase,
        detail,
        head: Some((status.as_u16(), headers)),
        partial: partial.slice(..partial.len().min(KEPT)),
    };
    let too_large = || format!("the body is larger than {limit} bytes");
    if status.is_success() && length.is_some_and(|length| length > bounds.limits.max_response_bytes) {
        return Err(broken(Reason::TooLargeAnswer, None, too_large(), Bytes::new(), headers));
    }

    let mut body = Gathered::default();
    let mut last = now();
    loop {
        let due = bounds.limits.timeouts.read;
        let verdict = alarm
            .guard(pin!(poll_fn(|context| stream.as_mut().poll_frame(context))), |now| {
                let due = due.and_then(|limit| last.checked_add(limit));
                judge(Phase::Read, due, bounds.end, now, [None, None])
            })
            .await;
        match verdict {
            Ok(Some(Ok(frame))) => {
                last = now();
                // What is no data is a trailer, and no business of ours.
                let Ok(piece) = frame.into_data() else { continue };
                *received += piece.len() as u64;
                let most = if status.is_success() { limit } else { KEPT };
                let room = most.saturating_sub(body.len());
                if piece.len() <= room {
                    body.push(piece, length);
                    continue;
                }
                body.push(piece.slice(..room), length);
                if status.is_success() {
                    let partial = body.whole();
                    return Err(broken(Reason::TooLargeAnswer, None, too_large(), partial, headers));
                }
                // Enough to know the error by; the connection is given up with the rest.
                break;
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                let cause = fault::read(&*error);
                let reason = if cause.corrupt { Reason::BodyCorrupt } else { Reason::Truncated };
                return Err(broken(reason, None, cause.detail, body.whole(), headers));
            }
            Err(phase) => {
                let (reason, detail) = timed_out(phase);
                return Err(broken(reason, Some(phase), detail, body.whole(), headers));
            }
        }
    }
    Ok(Answer { status: status.as_u16(), headers, body: body.whole() })
}

/// The reason and words for a phase that took too long.
pub fn timed_out(phase: Phase) -> (Reason, String) {
    let (reason, detail) = match phase {
        Phase::Connect | Phase::Pool => (Reason::ConnectTimeout, "connecting took too long"),
        Phase::Write => (Reason::WriteTimeout, "the server stopped reading the request"),
        Phase::Read => (Reason::ReadTimeout, "the server was silent for too long"),
        Phase::Attempt => (Reason::AttemptTimeout, "the attempt took too long"),
    };
    (reason, detail.to_owned())
}

/// Where providers put their id for a request; the first that is there.
const REQUEST_ID_HEADERS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-amzn-trace-id"];

/// The server's id for a request.
pub fn request_id(headers: &HeaderMap) -> Option<String> {
    let found = REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name))?;
    Some(found.to_str().ok()?.chars().take(200).collect())
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body in one piece is not copied.
#[derive(Debug, Default)]
pub enum Gathered {
    #[default]
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Gathered {
    pub fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(piece) => piece.len(),
            Self::Many(pieces) => pieces.len(),
        }
    }

    pub fn push(&mut self, piece: Bytes, length: Option<u64>) {
        match self {
            Self::Nothing => *self = Self::One(piece),
            Self::One(first) => {
                let length = length.and_then(|length| usize::try_from(length).ok());
                let room = length.unwrap_or(0).min(RESERVED).max(first.len() + piece.len());
                let mut pieces = BytesMut::with_capacity(room);
                pieces.extend_from_slice(first);
                pieces.extend_from_slice(&piece);
                *self = Self::Many(pieces);
            }
            Self::Many(pieces) => pieces.extend_from_slice(&piece),
        }
    }

    pub fn whole(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(piece) => piece,
            Self::Many(pieces) => pieces.freeze(),
        }
    }
}
