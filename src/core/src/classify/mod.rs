//! Status, headers and body of an answer to a `Failure`, or to none when it is a good answer.
//!
//! One decision, in one order: proofs (window, zero limit, request above the limit), words that settle it,
//! phrases, words that say "later", `x-should-retry`, the status. Everything a provider says of its own stands
//! in the tables, one per dialect; what it says in which field is `facts`' business, how long to wait `hint`'s.
//! Whether and when to try again is left to the engine.

mod clouds;
mod dialect;
mod facts;
mod good;
mod google;
pub mod hidden;
mod inside;
mod keys;
mod labs;
mod limits;
mod routers;
mod servers;
mod shared;
mod table;
mod text;

pub use dialect::Dialect;
pub use good::surely_good;

use self::facts::{Facts, first_json};
use self::inside::Found;
use self::limits::Window;
use self::shared::SHARED;
use self::table::Verdict;
use self::text::Shape;
use crate::failure::{Failure, Kind, Reason, Sent};
use crate::hint::Largest;

/// A wait this long on a 429 is a quota, whatever it is called.
const A_DAY: f64 = 86_400.0;

/// An HTTP answer as it came, by reference.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The HTTP status; 0 where there is none and the body alone tells, as for a line of a batch.
    pub status: u16,
    /// Header names and values in order; names in any case, values as raw bytes.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body after content decoding; may be cut short.
    pub body: &'a [u8],
    /// The URL asked, when known; only its host is looked at.
    pub url: Option<&'a str>,
    /// The client's wall clock, seconds since the epoch; used where the answer has no `Date`.
    pub now: Option<f64>,
    /// The dialect to read it in; `None` finds it from the URL or the body's shape.
    pub dialect: Option<Dialect>,
}

/// The statuses a caller wants retried, in place of our own table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusSet(Vec<u16>);

impl StatusSet {
    /// Whether the status is to be retried.
    pub fn contains(&self, status: u16) -> bool {
        self.0.contains(&status)
    }
}

impl FromIterator<u16> for StatusSet {
    fn from_iter<T: IntoIterator<Item = u16>>(statuses: T) -> Self {
        Self(statuses.into_iter().collect())
    }
}

/// Judges an answer. `None` when it is a good one.
pub fn classify(answer: &Answer<'_>) -> Option<Failure> {
    classify_with(answer, None)
}

/// Judges an answer with the caller's own table of transient statuses; body rules still apply.
pub fn classify_with(answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Option<Failure> {
    if (200..300).contains(&answer.status) {
        within_2xx(answer, statuses)
    } else {
        Some(judge_error(answer, statuses))
    }
}

/// Says what a 2xx body is that the caller's JSON parser refused.
pub fn unreadable(answer: &Answer<'_>) -> Failure {
    let text = text::decode(answer.body);
    let reason = match text::shape(&text, &content_type(answer)) {
        Shape::Empty => emptiness(answer.status),
        Shape::Html => Reason::HtmlPage,
        Shape::CutShort => Reason::Truncated,
        Shape::Json | Shape::JsonLines | Shape::Events | Shape::Other => Reason::NotJson,
    };
    outcome(answer, reason, None)
}

// ---- an error status ---------------------------------------------------------------------------

fn judge_error(answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Failure {
    let looked_at = &answer.body[..answer.body.len().min(text::MOST_READ)];
    let text = text::decode(looked_at);
    let facts = Facts::read(&text, answer.headers, answer.now);
    judge(answer, facts, statuses)
}

/// The decision itself, for errors of any status.
fn judge(answer: &Answer<'_>, mut facts: Facts, statuses: Option<&StatusSet>) -> Failure {
    let dialect = dialect_of(answer, &facts);
    // 0 is "no status": a line of a batch, a gRPC status.
    let own_status = Some(answer.status).filter(|status| *status >= 100 && !(200..300).contains(status));
    let status = facts.status.or(own_status);
    let paced =
        status.is_none_or(|status| matches!(status, 429 | 403 | 503 | 529)) || own_status == Some(429);
    facts.read_waits(answer.headers, paced);

    let mut reason = reason(&facts, dialect, status, statuses);
    match should_retry(answer) {
        Some(false) if reason.kind() != Kind::Permanent => reason = Reason::ToldNotToRetry,
        Some(true) if reason.kind() == Kind::Permanent && !is_proven(reason) => reason = Reason::ToldToRetry,
        _ => {}
    }
    let provider_code = facts.provider_code();
    let hint = facts.wait.into_hint();
    let is_429 = status == Some(429) || own_status == Some(429);
    let waits_days = hint.as_ref().is_some_and(|hint| hint.seconds >= A_DAY);
    if is_429 && waits_days && reason.kind() != Kind::Permanent {
        reason = Reason::WaitOfDays;
    }
    let kind = match reason.kind() {
        Kind::Call if is_429 => Kind::RateLimited,
        kind => kind,
    };
    Failure {
        kind,
        retryable: kind != Kind::Permanent,
        status: Some(answer.status).filter(|status| *status >= 100),
        provider_code,
        hint,
        sent: sent(own_status),
        reason,
        dialect,
    }
}

/// Whether the model may have worked on a request that was answered with this status: not when it was turned
/// away, but maybe when somebody gave up on it or failed meanwhile.
fn sent(status: Option<u16>) -> Sent {
    match status {
        Some(408 | 424 | 499) => Sent::Maybe,
        Some(300..=499 | 501 | 505) => Sent::No,
        _ => Sent::Maybe,
    }
}

fn reason(facts: &Facts, dialect: Dialect, status: Option<u16>, statuses: Option<&StatusSet>) -> Reason {
    let own = dialect.table();
    let window = limits::window(facts);
    if let Some(proven) = limits::proof(facts, window) {
        return proven;
    }
    let paced = window == Some(Window::Short);
    let hinted = facts.wait.is_some();
    // Per-minute words protect from quota words: a wait clears what refills by the minute.
    let settled = |verdict: &Verdict| match *verdict {
        Verdict::Always(Reason::QuotaSpent) if paced => Some(Reason::RateLimited),
        Verdict::Always(reason) => Some(reason),
        Verdict::SpentUnlessHinted(_) if paced || hinted => Some(Reason::RateLimited),
        Verdict::SpentUnlessHinted(reason) => Some(reason),
        Verdict::Soft(_) | Verdict::Alone(_) => None,
    };
    // A dialect's own meaning of a word or phrase hides the shared one.
    let words: Vec<Verdict> =
        facts.words.iter().filter_map(|word| own.word(word).or_else(|| SHARED.word(word))).collect();
    let phrase = own.phrase(&facts.text).or_else(|| SHARED.phrase(&facts.text));
    if let Some(reason) = words.iter().chain(&phrase).find_map(settled) {
        return reason;
    }
    let later = words.iter().chain(&phrase).find_map(|verdict| match *verdict {
        Verdict::Soft(reason) => Some(reason),
        _ => None,
    });
    let alone = words.iter().chain(&phrase).find_map(|verdict| match *verdict {
        Verdict::Alone(reason) => Some(reason),
        _ => None,
    });
    match status {
        None => later.or(alone).unwrap_or(Reason::ServerError),
        Some(status) => by_status(status, dialect, later, statuses),
    }
}

/// The status, refined or lifted by words that say "later".
fn by_status(status: u16, dialect: Dialect, later: Option<Reason>, statuses: Option<&StatusSet>) -> Reason {
    let known = dialect.table().status(status).or_else(|| SHARED.status(status)).unwrap_or(match status {
        500..=599 => Reason::ServerError,
        300..=399 => Reason::Redirected,
        _ => Reason::ClientError,
    });
    if let Some(listed) = statuses {
        return match (listed.contains(status), known.kind()) {
            (true, Kind::Permanent) => later.unwrap_or(Reason::ServerError),
            (true, _) => later.unwrap_or(known),
            (false, Kind::Permanent) => known,
            (false, _) => Reason::StatusNotListed,
        };
    }
    let may_be_lifted = !matches!(status, 401 | 402 | 404 | 405 | 413 | 422 | 501 | 505 | 526);
    later.filter(|_| may_be_lifted).unwrap_or(known)
}

/// What `x-should-retry: true` cannot overrule.
fn is_proven(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::QuotaSpent
            | Reason::WaitOfDays
            | Reason::Billing
            | Reason::ZeroLimit
            | Reason::RequestTooLarge
            | Reason::PromptTooLong
    )
}

fn should_retry(answer: &Answer<'_>) -> Option<bool> {
    let (_, value) = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-should-retry"))?;
    let value = value.trim_ascii();
    if value.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else {
        value.eq_ignore_ascii_case(b"false").then_some(false)
    }
}

fn dialect_of(answer: &Answer<'_>, facts: &Facts) -> Dialect {
    answer
        .dialect
        .or_else(|| answer.url.map(Dialect::of_url).filter(|dialect| *dialect != Dialect::Generic))
        .unwrap_or_else(|| Dialect::of_shape(answer.headers, facts))
}

// ---- a 2xx -------------------------------------------------------------------------------------

fn within_2xx(answer: &Answer<'_>, statuses: Option<&StatusSet>) -> Option<Failure> {
    if answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(":exception-type")) {
        return Some(judge_error(answer, statuses));
    }
    let content_type = content_type(answer);
    if is_binary(&content_type) && !answer.body.is_empty() {
        return None;
    }
    let text = text::decode(answer.body);
    match text::shape(&text, &content_type) {
        Shape::Empty => Some(outcome(answer, emptiness(answer.status), None)),
        Shape::Html => Some(outcome(answer, Reason::HtmlPage, None)),
        Shape::CutShort => Some(outcome(answer, Reason::Truncated, None)),
        Shape::Other => Some(outcome(answer, Reason::NotJson, None)),
        Shape::Events | Shape::JsonLines => {
            inside::failing_line(&text).and_then(|value| failure_in(answer, &value, statuses))
        }
        // What the short cut does not look at in a big body is not looked at here either.
        Shape::Json if answer.body.len() > good::WHOLE && surely_good(answer.status, None, answer.body) => {
            None
        }
        Shape::Json => failure_in(answer, &first_json(text.trim_start_matches('\u{feff}').trim())?, statuses),
    }
}

/// Nothing came: on purpose when the status says so (RFC 9110 15.3.5, 15.3.6), by accident otherwise.
const fn emptiness(status: u16) -> Reason {
    match status {
        204 | 205 => Reason::NoContent,
        _ => Reason::EmptyBody,
    }
}

fn failure_in(
    answer: &Answer<'_>,
    value: &serde_json::Value,
    statuses: Option<&StatusSet>,
) -> Option<Failure> {
    Some(match inside::look(value)? {
        Found::Error(error) => judge(answer, Facts::of_value(error, answer.headers, answer.now), statuses),
        Found::Outcome(reason, word) => outcome(answer, reason, Some(word).filter(|word| !word.is_empty())),
    })
}

/// A failure that is no error of the provider's but an answer that is none.
fn outcome(answer: &Answer<'_>, reason: Reason, provider_code: Option<String>) -> Failure {
    let mut wait = Largest::default();
    crate::hint::from_headers(answer.headers, crate::hint::clock(answer.headers, answer.now), &mut wait);
    Failure {
        status: Some(answer.status),
        provider_code: provider_code.map(|code| code.chars().filter(|c| !c.is_control()).take(100).collect()),
        hint: wait.into_hint(),
        dialect: dialect_of(answer, &Facts::default()),
        ..Failure::transport(reason, Sent::Maybe)
    }
}

fn content_type(answer: &Answer<'_>) -> String {
    let header = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    header.map_or_else(String::new, |(_, value)| String::from_utf8_lossy(value).to_ascii_lowercase())
}

/// Answers that are not meant to be JSON: speech, images, event streams of AWS.
fn is_binary(content_type: &str) -> bool {
    [
        "audio/",
        "image/",
        "video/",
        "application/octet-stream",
        "application/vnd.amazon.eventstream",
        "application/pdf",
        "application/zip",
    ]
    .iter()
    .any(|kind| content_type.starts_with(kind))
}
