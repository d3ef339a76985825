//! A stream that is read for its caller: bytes in, events out, and how it ended.
//!
//! Nothing is given out before the first content (see `opening`), so that whatever goes wrong until then can be tried
//! again unseen. From then on every event is given out as it comes, and looked at once, cheaply: for an error, for its
//! text, for the tokens it tells of, and for the end. A body that is over before its protocol's end was cut short,
//! however well it was closed.

use serde_json::{Value, json};

use crate::classify::{Answer, StatusSet, surely_good, unreadable};
use crate::delta::{self, DONE, Progress, Protocol};
use crate::failure::{Failure, Reason, Sent};
use crate::opening::{self, Look, MOST_HELD};
use crate::sse::{Event, Events, Format};
use crate::usage::{Counts, Usage};

/// The longest event that is waited for.
pub const MOST_PENDING: usize = 64 * 1024 * 1024;

/// So many bytes tell the format where the content type does not.
const TELLING: usize = 6;

/// An event for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// As it came.
    pub event: Event,
    /// Its part of the visible text; `None` when nobody here knows the protocol, and the data is all there is.
    pub text: Option<String>,
}

/// How far a stream is.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// When no content came yet: all of it may be thrown away and asked for again.
    Opening,
    /// When content was given out.
    Running,
    /// When it ended in good order; what may still come is of no interest.
    Complete,
    /// When it failed, before its first content or after it.
    Failed(Box<Failure>),
}

/// What an answer's head tells, for the judgement of its events.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The answer; its body is not looked at.
    pub answer: Answer<'a>,
    /// The caller's own table of transient statuses.
    pub statuses: Option<&'a StatusSet>,
}

/// One stream.
#[derive(Debug)]
pub struct Reading {
    /// `None` until the format is known.
    events: Option<Events>,
    /// What came before it was.
    start: Vec<u8>,
    /// How many choices were asked for.
    choices: usize,
    held: Vec<Item>,
    held_bytes: usize,
    any: bool,
    started: bool,
    over: bool,
    protocol: Option<Protocol>,
    progress: Progress,
    counts: Counts,
    id: Option<String>,
    text: String,
    /// The data of all events, as long as nobody knows the protocol.
    unknown: String,
    /// How long the text and the data are of each event that was given out last.
    last: Vec<(usize, usize)>,
}

impl Reading {
    /// At the start of an answer to a request for so many choices, usually one.
    pub fn new(choices: usize) -> Self {
        Self {
            events: None,
            start: Vec::new(),
            choices,
            held: Vec::new(),
            held_bytes: 0,
            any: false,
            started: false,
            over: false,
            protocol: None,
            progress: Progress::default(),
            counts: Counts::default(),
            id: None,
            text: String::new(),
            unknown: String::new(),
            last: Vec::new(),
        }
    }

    /// Told the next bytes of the body; the events they complete go to `given`, those held back among them.
    pub fn feed(&mut self, bytes: &[u8], head: &Head<'_>, given: &mut Vec<Item>) -> Status {
        if self.over {
            return Status::Complete;
        }
        self.last.clear();
        let found = match self.events.as_mut() {
            Some(events) => events.feed(bytes),
            None => match self.begin(bytes, &head.answer, false) {
                Ok(found) => found,
                Err(failure) => return Status::Failed(Box::new(failure)),
            },
        };
        if !self.started {
            self.held_bytes = self.held_bytes.saturating_add(bytes.len());
        }
        if let Some(status) = self.take_all(found, head, given) {
            return status;
        }
        if !self.started && self.held_bytes > MOST_HELD && self.any {
            self.release(given);
        }
        if self.events.as_ref().is_some_and(|events| events.pending() > MOST_PENDING) {
            return ended(Reason::TooLargeAnswer, &head.answer);
        }
        self.status()
    }

    /// Told that the body is over.
    pub fn end(&mut self, head: &Head<'_>, given: &mut Vec<Item>) -> Status {
        if self.over {
            return Status::Complete;
        }
        self.last.clear();
        if self.events.is_none() {
            match self.begin(b"", &head.answer, true) {
                Ok(found) => {
                    if let Some(status) = self.take_all(found, head, given) {
                        return status;
                    }
                }
                Err(failure) => return Status::Failed(Box::new(failure)),
            }
        }
        let last = self.events.as_mut().and_then(Events::end);
        let cut = last.as_ref().is_some_and(|last| opening::is_cut(&last.data));
        self.any |= cut;
        if let Some(status) = self.take_all(last.filter(|_| !cut), head, given) {
            return status;
        }
        if !self.any {
            return ended(Reason::EmptyBody, &head.answer);
        }
        // What is cut behind the end was no part of the answer: counts of tokens, most often.
        if (cut && !self.is_complete()) || !self.progress.may_end(self.protocol, self.choices) {
            return ended(Reason::Truncated, &head.answer);
        }
        self.release(given);
        self.over = true;
        Status::Complete
    }

    /// Whether the answer is complete by its protocol, so that a connection which breaks now takes nothing away.
    pub fn is_complete(&self) -> bool {
        self.over || (self.protocol.is_some() && self.progress.may_end(self.protocol, self.choices))
    }

    /// Whether content was given out.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Whether the protocol is known, and with it what of an event is text.
    pub fn knows_text(&self) -> bool {
        self.protocol.is_some()
    }

    /// The visible text of what was given out; of a stream whose protocol nobody here knows, the data of its events.
    pub fn text(&self) -> &str {
        self.text_before(0)
    }

    /// The same without the last so many events, of those that were given out at once.
    pub fn text_before(&self, untaken: usize) -> &str {
        let is_known = self.protocol.is_some();
        let whole = if is_known { &self.text } else { &self.unknown };
        let sizes = self.last.iter().rev().take(untaken);
        let without: usize = sizes.map(|(text, data)| if is_known { *text } else { *data }).sum();
        whole.get(..whole.len().saturating_sub(without)).unwrap_or_default()
    }

    /// The tokens told of so far.
    pub fn usage(&self) -> Option<Usage> {
        self.counts.usage()
    }

    /// The provider's id for the answer.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn status(&self) -> Status {
        match (self.over, self.started) {
            (true, _) => Status::Complete,
            (false, true) => Status::Running,
            (false, false) => Status::Opening,
        }
    }

    /// Finds the format out, as soon as enough is there.
    fn begin(&mut self, bytes: &[u8], answer: &Answer<'_>, at_end: bool) -> Result<Vec<Event>, Failure> {
        let content_type = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map_or(&b""[..], |(_, value)| value);
        let start = [&self.start, bytes].concat();
        let known = Format::of(content_type);
        if known.is_none() && start.trim_ascii().len() < TELLING && !at_end {
            self.start = start;
            return Ok(Vec::new());
        }
        let Some(format) = known.or_else(|| Format::of_stream(content_type, &start)) else {
            return Err(unreadable(&Answer { body: &start, ..*answer }));
        };
        self.start = Vec::new();
        Ok(self.events.insert(Events::new(format)).feed(&start))
    }

    fn take_all(
        &mut self,
        found: impl IntoIterator<Item = Event>,
        head: &Head<'_>,
        given: &mut Vec<Item>,
    ) -> Option<Status> {
        for event in found {
            if let Some(failure) = self.take(event, head, given) {
                return Some(Status::Failed(Box::new(failure)));
            }
            if self.progress.is_over() {
                self.release(given);
                self.over = true;
                return Some(Status::Complete);
            }
        }
        None
    }

    /// Takes one event; the failure it tells of.
    fn take(&mut self, event: Event, head: &Head<'_>, given: &mut Vec<Item>) -> Option<Failure> {
        let Head { answer, statuses } = head;
        if event.data.trim() == DONE {
            // The end of a stream that said nothing is no answer.
            delta::read("", DONE, &mut self.progress);
            return (!self.any).then(|| without_an_end(Reason::EmptyBody, answer));
        }
        self.any = true;
        let mut has_content = self.started;
        if self.started {
            if let Some(failure) = failure_after_content(&event, head) {
                return Some(failure);
            }
        } else {
            match opening::look(&event, answer, *statuses) {
                Look::Failed(hidden) => return Some(hidden.failure),
                Look::Hold => {}
                Look::Release | Look::Ended(_) => has_content = true,
            }
        }
        let item = self.read(event);
        if has_content {
            self.release(given);
            self.give(item, given);
        } else {
            self.held.push(item);
        }
        None
    }

    fn read(&mut self, event: Event) -> Item {
        let said = delta::read(&event.name, &event.data, &mut self.progress);
        self.protocol = self.protocol.or(said.protocol);
        let text = self.protocol.map(|_| said.text.into_owned());
        if self.id.is_none() {
            self.id = said.id.map(|id| id.into_owned());
        }
        if let Some(counts) = Counts::of(event.data.as_bytes()) {
            self.counts.observe(counts);
        }
        Item { event, text }
    }

    /// Gives out what was held back; from now on nothing is.
    fn release(&mut self, given: &mut Vec<Item>) {
        self.started = true;
        for item in std::mem::take(&mut self.held) {
            self.give(item, given);
        }
    }

    fn give(&mut self, item: Item, given: &mut Vec<Item>) {
        let (text, data) = (item.text.as_deref().unwrap_or_default(), &item.event.data);
        self.last.push((text.len(), data.len()));
        self.text.push_str(text);
        if self.protocol.is_none() {
            self.unknown.push_str(data);
        } else if !self.unknown.is_empty() {
            self.unknown = String::new();
        }
        given.push(item);
    }
}

fn ended(reason: Reason, answer: &Answer<'_>) -> Status {
    Status::Failed(Box::new(without_an_end(reason, answer)))
}

fn without_an_end(reason: Reason, answer: &Answer<'_>) -> Failure {
    Failure { status: Some(answer.status), ..Failure::transport(reason, Sent::Maybe) }
}

/// The failure an event tells of, after content: an outcome that no retry would change is the caller's to judge, as
/// an answer that stopped early is.
fn failure_after_content(event: &Event, head: &Head<'_>) -> Option<Failure> {
    let Head { answer, statuses } = head;
    let is_error = event.name == "error";
    let may_be_json = event.data.trim_start().starts_with(['{', '[']);
    if !is_error && (!may_be_json || surely_good(answer.status, None, event.data.as_bytes())) {
        return None;
    }
    let value = serde_json::from_str(&event.data).ok();
    let found = opening::failure_in(event, value.as_ref(), answer, *statuses);
    if let Some(found) =
        found.filter(|found| found.shown.is_some() || found.failure.reason == Reason::UpstreamFailed)
    {
        return Some(found.failure);
    }
    // Cohere's end says that the generation failed, with all of its text beside that; `ERROR_TOXIC` and `ERROR_LIMIT`
    // are to it what `content_filter` and `length` are to others.
    let ends_in_error = value.as_ref().is_some_and(|value: &Value| {
        [Some(value), value.get("delta")]
            .iter()
            .flatten()
            .any(|end| end.get("finish_reason") == Some(&json!("ERROR")))
    });
    let end = ends_in_error.then(|| json!({"finish_reason": "ERROR"}))?;
    opening::failure_in(event, Some(&end), answer, *statuses).map(|found| found.failure)
}
