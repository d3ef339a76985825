//! What turns a row into a call: where it goes, what it shares with others, and what is noted of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use steadycall_core::estimate;
use steadycall_core::failure::Failure;
use steadycall_core::model;
use steadycall_core::passage::Keys;
use steadycall_core::usage::Usage;
use tokio::sync::Notify;

use super::counts::{Counts, add};
use super::look::Trouble;
use super::rows::Row;
use super::store::Journal;
use crate::clock::Duration;
use crate::driver::{self, Ended, Shared, Watch};
use crate::transport::{Request, Url};

/// Models and URLs of late: a file names few.
const KEPT: usize = 32;

/// Where rows go.
#[derive(Debug, Clone)]
pub enum Whereto {
    /// When all go to one URL.
    One(Uri),
    /// When each names a path below this one.
    Below(Url),
}

/// What all rows of a run share.
#[derive(Debug)]
pub struct Crew {
    shared: Shared,
    whereto: Whereto,
    place: String,
    headers: HeaderMap,
    /// The value of the header that holds the key, told apart by its digest only.
    credential: Vec<u8>,
    /// Whether tokens are limited, or may turn out to be.
    estimates: bool,
    uris: Mutex<VecDeque<(String, Uri)>>,
    keys: Mutex<VecDeque<(String, Keys)>>,
    /// Rung when a row begins or ends to wait for an open circuit.
    pub parked: Notify,
    /// An outage as long as this ends a run.
    give_up_after: Option<Duration>,
    /// What was done so far.
    pub counts: Counts,
}

/// What came of a row.
#[derive(Debug)]
pub struct Landed {
    /// The row, without its body.
    pub row: Row,
    /// How its call ended.
    pub ended: Ended,
    /// Whether it stands in the journal.
    pub noted: bool,
    /// Why it could not be noted.
    pub trouble: Option<Trouble>,
    /// What it held of the memory for rows read ahead.
    pub bytes: usize,
}

impl Crew {
    /// Nobody sent yet.
    pub fn new(
        shared: Shared,
        whereto: Whereto,
        headers: HeaderMap,
        credential: Vec<u8>,
        estimates: bool,
        give_up_after: Option<Duration>,
    ) -> Self {
        let place = match &whereto {
            Whereto::One(uri) => uri.to_string(),
            Whereto::Below(base) => base.to_string(),
        };
        Self {
            place: place.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned(),
            estimates: estimates || shared.learned.is_some(),
            shared,
            whereto,
            headers,
            credential,
            uris: Mutex::default(),
            keys: Mutex::default(),
            parked: Notify::new(),
            give_up_after,
            counts: Counts::default(),
        }
    }

    /// What all calls share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Where rows go, without a query, which may hold a key.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether nothing but failures of the server or the network came back for so long that a run ends.
    pub fn gives_up(&self) -> bool {
        self.give_up_after.is_some_and(|most| self.counts.outage() >= most)
    }

    /// Where a row goes; `None` for a URL that cannot be sent to, or leads to another host.
    pub fn uri(&self, row: &Row) -> Option<Uri> {
        let (base, path) = match (&self.whereto, &row.url) {
            (Whereto::One(uri), _) => return Some(uri.clone()),
            (Whereto::Below(base), path) => (base, path.as_deref()?),
        };
        kept(&self.uris, path, || Uri::try_from(join(base, path)?.as_str()).ok())
    }

    /// Sends a row and waits for what comes of it. `doubted` tells that it may have been billed before.
    pub async fn send(&self, mut row: Row, uri: Uri, journal: Option<&Journal>, doubted: bool) -> Landed {
        let keys = self.keys_of(&uri, &row.body);
        let tokens = if self.estimates { estimate::tokens(&row.body) } else { 0 };
        let body = std::mem::take(&mut row.body);
        let request = Request { method: Method::POST, uri, headers: self.headers.clone(), body };
        let look = Look {
            crew: self,
            host: request.uri.host().unwrap_or_default(),
            journal,
            number: row.number,
            doubted,
            noted: AtomicBool::new(false),
            trouble: OnceLock::new(),
        };
        let ask = driver::patient(tokens, &self.shared.policy);
        let ended = driver::call(&self.shared, &request, &keys, ask, &look).await;
        let (noted, trouble) = (look.noted.into_inner(), look.trouble.into_inner());
        Landed { row, ended, noted, trouble, bytes: request.body.len() }
    }

    fn keys_of(&self, uri: &Uri, body: &Bytes) -> Keys {
        let host = uri.authority().map_or("", http::uri::Authority::as_str);
        let model = model::of(uri.path(), body).unwrap_or_default();
        let fresh = || Some(Keys::new(host, &model, &self.credential, ""));
        kept(&self.keys, &model, fresh).unwrap_or_else(|| Keys::new(host, &model, &self.credential, ""))
    }
}

/// What is kept under a name, or made anew and kept.
fn kept<T: Clone>(
    held: &Mutex<VecDeque<(String, T)>>,
    name: &str,
    fresh: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = held.iter().find(|(known, _)| known == name) {
        return Some(found.clone());
    }
    let made = fresh()?;
    held.push_front((name.to_owned(), made.clone()));
    held.truncate(KEPT);
    Some(made)
}

/// A path below a base. The paths of the Batch format begin with `/v1`, and so ends the base of most providers: it
/// stands there once.
fn join(base: &Url, path: &str) -> Option<Url> {
    if path.chars().any(char::is_control) {
        return None;
    }
    let before = base.path().trim_end_matches('/');
    let first = path.trim_start_matches('/').split('/').next().filter(|first| !first.is_empty())?;
    let before = before.strip_suffix(first).and_then(|rest| rest.strip_suffix('/')).unwrap_or(before);
    let joined = base.join(&format!("{before}/{}", path.trim_start_matches('/'))).ok()?;
    // Dots may lead up, but not to what stands beside the base: the key is not meant for that.
    let below = joined.path().strip_prefix(base.path().trim_end_matches('/'));
    let stays = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (stays && joined.origin() == base.origin()).then_some(joined)
}

/// Who notes what is told of a row.
struct Look<'a> {
    crew: &'a Crew,
    host: &'a str,
    journal: Option<&'a Journal>,
    number: u64,
    doubted: bool,
    noted: AtomicBool,
    trouble: OnceLock<Trouble>,
}

impl Watch for Look<'_> {
    fn sending(&self) -> bool {
        let counts = &self.crew.counts;
        if let Some(journal) = self.journal.filter(|_| !self.noted.load(Ordering::Relaxed)) {
            if let Err(trouble) = journal.note(self.number) {
                let _ = self.trouble.set(trouble);
                return false;
            }
            self.noted.store(true, Ordering::Relaxed);
            add(&counts.maybe_billed_twice, u64::from(self.doubted));
        }
        add(&counts.in_flight, 1);
        true
    }

    fn came_back(&self, requests: u32, failure: Option<&Failure>, used: Option<Usage>) {
        let counts = &self.crew.counts;
        counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        add(&counts.requests, requests.into());
        counts.observe_request(self.host, failure);
        if failure.is_some_and(|failure| failure.status == Some(429)) {
            add(&counts.rate_limited, 1);
        }
        if let Some(used) = used {
            add(&counts.input_tokens, used.input);
            add(&counts.output_tokens, used.output);
        }
    }

    fn parks(&self, parked: bool) {
        let counter = &self.crew.counts.parked;
        match parked {
            true => counter.fetch_add(1, Ordering::Relaxed),
            false => counter.fetch_sub(1, Ordering::Relaxed),
        };
        self.crew.parked.notify_one();
    }

    fn holds(&self, wait: Duration) {
        self.crew.counts.observe_wait(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_at_the_end_of_a_base_stands_there_once() {
        let joined = |base: &str, path| join(&base.parse().unwrap(), path).map(|url| url.to_string());
        let right = |text: &str| Some(text.to_owned());
        assert_eq!(joined("https://a/v1", "/v1/x"), right("https://a/v1/x"));
        assert_eq!(joined("https://a/v1/", "/v1/x"), right("https://a/v1/x"));
        assert_eq!(joined("https://a", "/v1/x"), right("https://a/v1/x"));
        assert_eq!(joined("https://a/gate/v1", "/v1/x"), right("https://a/gate/v1/x"));
        assert_eq!(joined("https://a/gate", "/v1/x?y=z"), right("https://a/gate/v1/x?y=z"));
        assert_eq!(joined("https://a/v1", "//elsewhere/x"), right("https://a/v1/elsewhere/x"));
        assert_eq!(joined("https://a/v1", "/"), None);
    }

    #[test]
    fn no_path_leads_out_of_the_base() {
        let joined = |path| join(&"https://a/v1".parse().unwrap(), path).map(|url| url.to_string());
        for path in ["/v1/../../admin", "/../admin", "/v1/%2e%2e/admin", "/x\\..\\..\\admin", "/v1/x\r\ny"] {
            assert_eq!(joined(path), None, "{path:?}");
        }
        assert_eq!(joined("/v1/x/../y").as_deref(), Some("https://a/v1/y"));
    }
}
