//! The gates of a client as its calls meet them: one lock, a bell for each who waits, a pass that is always given back.
//!
//! What is decided is `steadycall_core::gates`'s. Here the lock is held for as long as one answer takes, never while
//! anybody waits, sends or runs somebody else's code; bells are rung after it is let go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadycall_core::breaker::State;
use steadycall_core::bucket::Ask;
use steadycall_core::call::Around;
use steadycall_core::failure::{Failure, Sent};
use steadycall_core::gates::{Config, Gates};
use steadycall_core::keys::Key;
use steadycall_core::passage::{Keys, Passage, Refusal, Report, Step};
use steadycall_core::time::{Deadline, Moment};
use tokio::sync::Notify;

use crate::clock::{self, Duration, Instant};

/// How somebody who waits is called up. It remembers one ring, so that none is lost between a look and a wait.
type Bell = Arc<Notify>;

/// The gates that the calls of one client share. Belongs to the process it was made in.
#[derive(Debug)]
pub struct Doorway {
    gates: Mutex<Gates<Bell>>,
    time: Time,
    /// Nanoseconds that fake sleeps did not take.
    moved_on: AtomicU64,
    process: u32,
}

/// Whose time the gates keep.
#[derive(Debug)]
enum Time {
    /// When it is the machine's, since this instant.
    Machine(Instant),
    /// When somebody tells it, in nanoseconds: a fake clock of a test.
    Told(AtomicU64),
}

impl Doorway {
    /// All open, in the machine's time.
    #[must_use]
    pub fn new(config: Config) -> Arc<Self> {
        Self::keeping(config, Time::Machine(clock::now()))
    }

    /// All open, in the time that `tell` tells.
    #[must_use]
    pub fn told(config: Config) -> Arc<Self> {
        Self::keeping(config, Time::Told(AtomicU64::new(0)))
    }

    fn keeping(config: Config, time: Time) -> Arc<Self> {
        let gates = Mutex::new(Gates::new(config, Moment::default()));
        Arc::new(Self { gates, time, moved_on: AtomicU64::new(0), process: std::process::id() })
    }

    /// What time it is here.
    pub fn now(&self) -> Moment {
        let elapsed = match &self.time {
            Time::Machine(opened) => opened.elapsed(),
            Time::Told(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
        };
        Moment::from_origin(elapsed).after(Duration::from_nanos(self.moved_on.load(Ordering::Relaxed)))
    }

    /// Told what a fake clock reads; it only ever moves on. Nothing to one that keeps the machine's time.
    pub fn tell(&self, elapsed: Duration) {
        if let Time::Told(told) = &self.time {
            told.fetch_max(nanos(elapsed), Ordering::Relaxed);
        }
    }

    /// Told that a fake sleep has not taken so long.
    pub fn move_on(&self, by: Duration) {
        self.moved_on.fetch_add(nanos(by), Ordering::Relaxed);
    }

    /// Told that a call begins.
    pub fn observe_call(&self) {
        let now = self.now();
        self.lock().observe_call(now);
    }

    /// A pass for one attempt, before the first gate.
    pub fn approach(self: &Arc<Self>, keys: Keys, ask: Ask) -> Pass {
        let bell = Bell::default();
        let passage = Passage::new(keys, ask, Arc::clone(&bell));
        Pass { doorway: Arc::clone(self), passage: Some(passage), bell }
    }

    /// Goes through all gates, waiting as long as they say.
    ///
    /// # Errors
    /// Why the attempt may not be made; then nothing is held.
    pub async fn admit(self: &Arc<Self>, keys: Keys, ask: Ask) -> Result<Pass, Refusal> {
        let mut pass = self.approach(keys, ask);
        pass.go().await?;
        Ok(pass)
    }

    /// What a call asks of its client before a retry.
    pub fn around<'a>(&'a self, keys: &'a Keys) -> Surroundings<'a> {
        Surroundings { doorway: self, keys }
    }

    /// Looks at the gates, or holds a circuit: whatever is not part of one attempt's way.
    pub fn with<T>(&self, look: impl FnOnce(&mut Gates<Arc<Notify>>, Moment) -> T) -> T {
        let now = self.now();
        look(&mut self.lock(), now)
    }

    fn lock(&self) -> MutexGuard<'_, Gates<Bell>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call asks of its client before a retry.
#[derive(Debug)]
pub struct Surroundings<'a> {
    doorway: &'a Doorway,
    keys: &'a Keys,
}

impl Around for Surroundings<'_> {
    fn delay(&mut self, _now: Moment) -> Duration {
        let now = self.doorway.now();
        self.doorway.lock().delay(self.keys, now)
    }

    fn admit_retry(&mut self, failure: &Failure, _now: Moment) -> bool {
        let now = self.doorway.now();
        self.doorway.lock().admit_retry(failure, now)
    }
}

/// One attempt's way through the gates, and what it holds. Dropping it gives everything back: what was under way may
/// have been sent, and stays paid.
#[derive(Debug)]
pub struct Pass {
    doorway: Arc<Doorway>,
    /// `None` once it was ended.
    passage: Option<Passage<Bell>>,
    bell: Bell,
}

impl Pass {
    /// What to do next, by the present state of the gates.
    pub fn look(&mut self) -> Step {
        let now = self.doorway.now();
        let Some(passage) = &mut self.passage else { return Step::Refused(Refusal::Late) };
        let (step, wake) = self.doorway.lock().next(passage, now);
        ring(wake);
        step
    }

    /// Waits in the machine's time until all gates are passed.
    ///
    /// # Errors
    /// Why the attempt may not be made; then nothing is held.
    pub async fn go(&mut self) -> Result<(), Refusal> {
        loop {
            match self.look() {
                Step::Go => return Ok(()),
                Step::Refused(why) => {
                    self.passage = None;
                    return Err(why);
                }
                Step::Wait(until) => self.wait(until).await,
            }
        }
    }

    /// Waits to be called up, or for a moment in the machine's time.
    async fn wait(&self, until: Deadline) {
        let instant = until.left(self.doorway.now()).and_then(|left| clock::now().checked_add(left));
        match instant {
            Some(instant) => tokio::select! {
                biased;
                () = self.bell.notified() => {}
                () = clock::sleep_until(instant) => {}
            },
            None => self.bell.notified().await,
        }
    }

    /// Waits to be called up, for `most` at the longest: for one who keeps another time than the machine's.
    pub async fn listen(&self, most: Duration) {
        tokio::select! {
            biased;
            () = self.bell.notified() => {}
            () = clock::sleep_until(clock::now() + most) => {}
        }
    }

    /// What time it is at its gates.
    pub fn now(&self) -> Moment {
        self.doorway.now()
    }

    /// How long a wait until then is, if it is for something that is known to come, and not for a turn in a line.
    pub fn known_wait(&self, until: Deadline) -> Option<Duration> {
        let known = self.passage.as_ref().is_some_and(|passage| passage.knows(until));
        until.left(self.doorway.now()).filter(|_| known)
    }

    /// Told that the answer is there: its slot is free while it is validated.
    pub fn leave_slot(&mut self) {
        let now = self.doorway.now();
        let Some(passage) = &mut self.passage else { return };
        let wake = self.doorway.lock().leave_slot(passage, now);
        ring(wake);
    }

    /// Told what came of the attempt, which ends its way. `draw` is used where a pause must grow without a hint.
    /// Returns the circuits that changed.
    pub fn record(mut self, report: Report<'_>, draw: f64) -> Vec<(Key, State)> {
        let now = self.doorway.now();
        let Some(passage) = self.passage.take() else { return Vec::new() };
        let after = self.doorway.lock().record(passage, report, || draw, now);
        ring(after.wake);
        after.changed
    }

    /// Ends it by hand, for an attempt that surely sent nothing.
    pub fn give_back(mut self) {
        self.end(Sent::No);
    }

    fn end(&mut self, sent: Sent) {
        let Some(passage) = self.passage.take() else { return };
        if self.doorway.process != std::process::id() {
            // In a child of fork it is the parent's, whose lock may be held for ever.
            std::mem::forget(passage);
            return;
        }
        let now = self.doorway.now();
        let wake = self.doorway.lock().cancel(passage, sent, now);
        ring(wake);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.end(Sent::Maybe);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn ring(bells: Vec<Bell>) {
    for bell in bells {
        bell.notify_one();
    }
}
