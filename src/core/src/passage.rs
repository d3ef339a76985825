//! One attempt on its way through the gates: what it asks for, how far it has come and what it holds.
//!
//! Plain data; only `gates` moves it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::adaptive::Generation;
use crate::breaker::{Permit, State};
use crate::bucket::{Ask, Reserved};
use crate::failure::Failure;
use crate::keys::Key;
use crate::line::Ticket;
use crate::remaining::Remaining;
use crate::time::{Deadline, Moment};

/// What a call shares with others.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The host, for faults of the connection.
    pub host: Key,
    /// Host, a space and the model, for all other faults; never the same as `host`.
    pub circuit: Key,
    /// Host, model, credential and partition, for limits.
    pub bucket: Key,
}

impl Keys {
    /// From what tells calls apart. `credential` is the header that holds the key; of it a digest is kept only.
    pub fn new(host: &str, model: &str, credential: &[u8], partition: &str) -> Self {
        let mut digest = DefaultHasher::new();
        (credential, partition).hash(&mut digest);
        Self {
            host: host.into(),
            circuit: format!("{host} {model}").into(),
            bucket: format!("{host} {model} {:016x}", digest.finish()).into(),
        }
    }
}

/// What a driver does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// When the attempt may be made.
    Go,
    /// When it must wait until it is woken or this moment comes, and then ask again.
    Wait(Deadline),
    /// When it may not be made; everything is given back.
    Refused(Refusal),
}

/// Why an attempt may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// When a circuit is open, for so long if that is known.
    CircuitOpen(Option<Duration>),
    /// When as many wait as may.
    QueueFull,
    /// When the rate lets it through no earlier than its deadline, with this wait.
    TooSlow(Duration),
    /// When a pause does not end before its deadline, with this wait.
    Paused(Duration),
    /// When a pause is longer than it would ever wait, with this wait.
    PausedTooLong(Duration),
    /// When the day's tokens are spent, with this wait; the longest there is for a request larger than all of them.
    TokensSpent(Duration),
    /// When it is larger than its bucket.
    Oversized,
    /// When its deadline passed while it waited.
    Late,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The failure; `None` for a good answer.
    pub failure: Option<&'a Failure>,
    /// Whether the caller's deadline left the attempt less than its own timeout.
    pub cut_short: bool,
    /// Tokens it used, if the answer says so.
    pub used: Option<u64>,
    /// What the answer says is left.
    pub remaining: Remaining,
}

/// What is to be done after an attempt.
#[derive(Debug)]
pub struct After<W> {
    /// Whom to wake.
    pub wake: Vec<W>,
    /// Circuits that changed, for observers.
    pub changed: Vec<(Key, State)>,
}

/// How far it has come.
#[derive(Debug)]
pub(crate) enum Place {
    /// When it has asked for nothing yet, or waits for the ceiling.
    Outside,
    /// When it stands in a bucket's line.
    InBucket(Ticket),
    /// When it has its tokens and wants a slot.
    Paid,
    /// When it stands in the line for a slot.
    InLine(Ticket),
    /// When it has a slot, or needs none, and is looked at once more.
    Inside,
    /// When it is under way.
    Gone(Moment),
}

/// The way of one attempt through the gates. To be ended by `record` or `cancel`.
#[derive(Debug)]
pub struct Passage<W> {
    pub(crate) keys: Keys,
    pub(crate) ask: Ask,
    pub(crate) waker: W,
    pub(crate) place: Place,
    /// Whether it is among those who wait elsewhere than in the line for a slot.
    pub(crate) counted: bool,
    pub(crate) reserved: Option<Reserved>,
    /// When the day's tokens were taken for it.
    pub(crate) spent: Option<Moment>,
    pub(crate) slot: Option<Ticket>,
    /// Of the host's circuit and of the model's.
    pub(crate) permits: Option<[Permit; 2]>,
    /// Under which size of the limit it began, and how many were in flight at its end.
    pub(crate) begun: Option<(Generation, u32)>,
}

impl<W> Passage<W> {
    /// Before the first gate.
    pub fn new(keys: Keys, ask: Ask, waker: W) -> Self {
        Self {
            keys,
            ask,
            waker,
            place: Place::Outside,
            counted: false,
            reserved: None,
            spent: None,
            slot: None,
            permits: None,
            begun: None,
        }
    }

    /// Whether a wait until then is for something that is known to come, and not for a turn in a line.
    pub fn knows(&self, until: Deadline) -> bool {
        until != Deadline::Never && until != self.ask.deadline
    }
}
