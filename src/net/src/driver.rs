//! One logical call from first to last attempt, wholly in Rust: for runs of many rows, where nobody's code is asked.
//!
//! The core decides, the lane sends, the doorway says when. An answer is looked at as every front looks at it; that it
//! is JSON is checked, and nothing is built of it. Dropping the future gives everything up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use steadycall_core::bucket::{Ask, Oversized, RateLimit};
use steadycall_core::call::{Call, End, Report, Step, StopReason};
use steadycall_core::classify::{self, Dialect};
use steadycall_core::failure::{Failure, Kind, Sent};
use steadycall_core::keys::Key;
use steadycall_core::passage::{self, Keys, Refusal};
use steadycall_core::policy::Policy;
use steadycall_core::remaining::{self, Remaining};
use steadycall_core::time::{Deadline, seconds};
use steadycall_core::usage::{self, Usage};
use tokio::sync::Notify;

use crate::answer;
use crate::clock::{self, Duration};
use crate::dice::Dice;
use crate::doorway::{Doorway, Pass};
use crate::lane::Lane;
use crate::transport::{Answer, Fault, Limits, Outcome, Request, Route};

/// How long an open circuit is left alone that does not say when it may be probed.
const PROBED: Duration = Duration::from_millis(250);

/// How long the first request goes alone at the most.
const ALONE: Duration = Duration::from_secs(10);

/// What all calls of a run share.
#[derive(Debug)]
pub struct Shared {
    /// Its connections.
    pub lane: Lane,
    /// Which client.
    pub route: Route,
    /// How a call is retried.
    pub policy: Arc<Policy>,
    /// I/O timeouts and the size limit.
    pub limits: Limits,
    /// When a request may go.
    pub doorway: Arc<Doorway>,
    /// Buckets whose limits of a minute were learned from answers; `None` where limits were given.
    pub learned: Option<Mutex<Vec<Key>>>,
    /// Nothing new is sent once it is raised, and who waits comes back.
    pub stop: Flag,
    /// The first request goes alone where its answer may tell limits that the others must keep.
    pub first: First,
}

/// A flag that is raised once, and can be waited for.
#[derive(Debug, Default)]
pub struct Flag {
    raised: AtomicBool,
    bell: Notify,
}

impl Flag {
    /// Raises it.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// Whether it is.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits until it is.
    pub async fn wait(&self) {
        let mut rung = std::pin::pin!(self.bell.notified());
        rung.as_mut().enable();
        if !self.is_raised() {
            rung.await;
        }
    }
}

/// Who goes first, and whether it is back.
#[derive(Debug, Default)]
pub struct First {
    gone: AtomicBool,
    back: Flag,
}

/// Tells the others that the first is back, however it ended.
struct Back<'a>(&'a Flag);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// What is told of a call while it is made.
pub trait Watch {
    /// Told before each request; false ends the call with nothing more sent.
    fn sending(&self) -> bool;
    /// Told after each, with how it was judged and what it used.
    fn came_back(&self, requests: u32, failure: Option<&Failure>, used: Option<Usage>);
    /// Told that the call begins or ends to wait for an open circuit.
    fn parks(&self, parked: bool);
    /// Told of a wait that concerns everybody.
    fn holds(&self, wait: Duration);
}

/// How a call ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The last answer, good or bad.
    pub answer: Option<Answer>,
    /// How it was judged, or what came instead; `None` for a good one and where nothing was sent.
    pub failure: Option<Failure>,
    /// Why it ended without a good answer.
    pub stop: Option<StopReason>,
    /// The server's id for the last request.
    pub request_id: Option<String>,
    /// Requests it cost.
    pub requests: u32,
    /// A wait that was asked for and is longer than the policy's `max_wait`.
    pub too_long: Option<Duration>,
    /// Whether any of them may have reached a model.
    maybe_sent: bool,
    answered: bool,
}

impl Ended {
    /// Whether it brought a good answer.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Whether it was cut off by the flag, or by who watches it, before its end.
    pub fn is_cut_off(&self) -> bool {
        !self.answered && self.stop.is_none()
    }

    /// Whether any request may have been processed.
    pub fn sent(&self) -> Sent {
        if self.maybe_sent { Sent::Maybe } else { Sent::No }
    }
}

/// Makes the call. Its deadline counts from when its first request may go.
pub async fn call(shared: &Shared, request: &Request, keys: &Keys, ask: Ask, watch: &impl Watch) -> Ended {
    let mut ended = Ended::default();
    let Some(mut first) = unless_stopped(shared, line_up(shared)).await else { return ended };
    let mut call: Option<Call> = None;
    let mut dice = Dice::unforeseeable();
    loop {
        let ask = Ask { deadline: call.as_ref().map_or(ask.deadline, Call::deadline), ..ask };
        let pass = match unless_stopped(shared, enter(shared, keys, ask, watch)).await {
            Some(Ok(pass)) => pass,
            Some(Err(refusal)) => {
                let too_long = if let Refusal::PausedTooLong(wait) = refusal { Some(wait) } else { None };
                return Ended { stop: Some(refusal.into()), too_long, ..ended };
            }
            None => return ended,
        };
        let now = shared.doorway.now();
        let call = call.get_or_insert_with(|| Call::new(Arc::clone(&shared.policy), now));
        if let Step::Finish(End::GaveUp(stop)) = call.next(|| 0.0, now) {
            pass.give_back();
            return Ended { stop: Some(stop), ..ended };
        }
        if shared.stop.is_raised() || !watch.sending() {
            pass.give_back();
            return ended;
        }
        let limits = Limits { attempt: call.admitted(now).left(now), ..shared.limits };
        let outcome = shared.lane.attempt(&shared.route, request, &limits).await;
        drop(first.take());
        let came = Came::look(shared, request, outcome);
        came.tell(shared, keys, pass, call, watch, &mut dice);
        ended.take(came);
        match call.next(|| dice.draw(), shared.doorway.now()) {
            Step::Attempt { .. } => {}
            Step::Wait { seconds } => {
                if unless_stopped(shared, sleep(seconds)).await.is_none() {
                    return ended;
                }
            }
            Step::Finish(End::Answered) => return Ended { answered: true, ..ended },
            Step::Finish(End::GaveUp(stop)) => {
                let hint = ended.failure.as_ref().and_then(|failure| seconds(failure.hint.as_ref()?.seconds));
                let too_long = hint.filter(|_| stop == StopReason::HintTooLong);
                return Ended { stop: Some(stop), too_long, ..ended };
            }
        }
    }
}

/// The first goes at once, and the others when it is back: its answer may tell limits that they must keep.
async fn line_up(shared: &Shared) -> Option<Back<'_>> {
    let First { gone, back } = &shared.first;
    shared.learned.as_ref()?;
    if !gone.swap(true, Ordering::AcqRel) {
        return Some(Back(back));
    }
    tokio::select! {
        () = back.wait() => {}
        // It may take as long as an answer may; nobody else has to.
        () = clock::sleep_until(clock::now() + ALONE) => back.raise(),
    }
    None
}

/// Goes through the gates. A circuit that is open is waited for: rows have time, and must not use up their tries on a
/// host that is down.
async fn enter(shared: &Shared, keys: &Keys, ask: Ask, watch: &impl Watch) -> Result<Pass, Refusal> {
    loop {
        let wait = match shared.doorway.admit(keys.clone(), ask).await {
            Err(Refusal::CircuitOpen(wait)) => wait.unwrap_or(PROBED).max(PROBED),
            other => return other,
        };
        if ask.deadline.left(shared.doorway.now()).is_some_and(|left| left <= wait) {
            return Err(Refusal::Late);
        }
        if wait > PROBED {
            watch.holds(wait);
        }
        watch.parks(true);
        let _parked = Parked(watch);
        clock::sleep_until(clock::now() + wait).await;
    }
}

/// Tells that the wait for a circuit is over, however it ended.
struct Parked<'a, W: Watch>(&'a W);

impl<W: Watch> Drop for Parked<'_, W> {
    fn drop(&mut self) {
        self.0.parks(false);
    }
}

/// What `work` gives; `None` once the flag is raised.
async fn unless_stopped<T>(shared: &Shared, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = shared.stop.wait() => None,
    }
}

async fn sleep(wait: f64) {
    match clock::now().checked_add(seconds(wait).unwrap_or(Duration::MAX)) {
        Some(until) => clock::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// What an attempt brought, judged.
struct Came {
    found: Result<Answer, Fault>,
    failure: Option<Failure>,
    used: Option<Usage>,
    /// What its headers say is left, and what the limits are.
    left: Remaining,
    limits: Remaining,
    fully_sent: bool,
    received: u64,
    replays: u32,
}

impl Came {
    fn look(shared: &Shared, request: &Request, outcome: Outcome) -> Self {
        let Outcome { result, replays, fully_sent, received } = outcome;
        // An error body that was cut short is still that error.
        let found = match result {
            Err(Fault { head: Some((status, headers)), partial, .. }) if !(200..300).contains(&status) => {
                Ok(Answer { status, headers, body: partial })
            }
            other => other,
        };
        let none = Remaining::default();
        let came = Self {
            found,
            failure: None,
            used: None,
            left: none,
            limits: none,
            fully_sent,
            received,
            replays,
        };
        match &came.found {
            Err(fault) => Self { failure: Some(Failure::transport(fault.reason, fault.sent)), ..came },
            Ok(answer) => {
                let (failure, left, limits) = judge(shared, request, answer);
                Self { failure, used: usage::of_body(&answer.body), left, limits, ..came }
            }
        }
    }

    /// Requests that left: a connection that was refused carried none.
    fn requests(&self) -> u32 {
        let sent = !matches!(&self.found, Err(fault) if fault.sent == Sent::No);
        self.replays.saturating_add(sent.into())
    }

    /// Tells the gates, the engine and whoever watches.
    fn tell(
        &self,
        shared: &Shared,
        keys: &Keys,
        mut pass: Pass,
        call: &mut Call,
        watch: &impl Watch,
        dice: &mut Dice,
    ) {
        pass.leave_slot();
        learn(shared, keys, self.limits);
        let limited = self.failure.as_ref().filter(|failure| failure.kind == Kind::RateLimited);
        if let Some(wait) = limited.and_then(|failure| seconds(failure.hint.as_ref()?.seconds)) {
            watch.holds(wait);
        }
        let requests = self.replays.saturating_add(1);
        watch.came_back(self.requests(), self.failure.as_ref(), self.used);
        let report = passage::Report {
            failure: self.failure.as_ref(),
            cut_short: call.is_cut_by_deadline(),
            used: self.used.map(|used| used.total),
            remaining: self.left,
        };
        // Drawn only where a pause may grow by it: most calls draw nothing.
        pass.record(report, if limited.is_some() { dice.draw() } else { 0.0 });
        let report = Report {
            failure: self.failure.clone(),
            status: self.found.as_ref().ok().map(|answer| answer.status),
            request_id: None,
            fully_sent: self.fully_sent,
            received: self.received,
            replays: self.replays,
            requests,
        };
        call.record(report, shared.doorway.now());
    }
}

impl Ended {
    fn take(&mut self, came: Came) {
        self.requests = self.requests.saturating_add(came.requests());
        self.maybe_sent |= came.failure.as_ref().is_none_or(|failure| failure.sent == Sent::Maybe);
        self.request_id = came.found.as_ref().ok().and_then(|answer| answer::request_id(&answer.headers));
        (self.answer, self.failure) = (came.found.ok(), came.failure);
    }
}

/// How an answer is judged, what it says is left, and what the limits are.
fn judge(shared: &Shared, request: &Request, answer: &Answer) -> (Option<Failure>, Remaining, Remaining) {
    let headers: Vec<(&str, &[u8])> =
        answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let content_type = answer.headers.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes());
    let url = request.uri.to_string();
    let facts = classify::Answer {
        status: answer.status,
        headers: &headers,
        body: &answer.body,
        url: Some(&url),
        now: clock::wall(),
        dialect: None,
    };
    let good = classify::surely_good(answer.status, content_type, &answer.body);
    let failure =
        if good { None } else { classify::classify_with(&facts, shared.policy.retry_status.as_ref()) };
    let failure = failure.or_else(|| (!answer::is_json(&answer.body)).then(|| classify::unreadable(&facts)));
    let dialect = failure.as_ref().map_or_else(|| Dialect::of_url(&url), |failure| failure.dialect);
    let limits = match shared.learned {
        Some(_) => remaining::limits(&headers, dialect),
        None => Remaining::default(),
    };
    (failure, remaining::remaining(&headers, dialect), limits)
}

/// Takes the limits of a minute that an answer tells for those of its bucket, once.
fn learn(shared: &Shared, keys: &Keys, told: Remaining) {
    let Some(learned) = shared.learned.as_ref().filter(|_| told != Remaining::default()) else { return };
    let whole = |amount: Option<u64>| amount.and_then(|amount| i64::try_from(amount).ok());
    // A tenth of a minute's worth at once: a provider's own window may be shorter than a minute.
    let burst = told.requests.or(told.tokens).map(|amount| (amount / 10).max(1));
    let limit = RateLimit::new(whole(told.requests), whole(told.tokens), whole(burst), Oversized::Pass);
    let mut learned = learned.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Ok(limit), false) = (limit, learned.contains(&keys.bucket)) {
        learned.push(Key::clone(&keys.bucket));
        let wake = shared.doorway.with(|gates, now| gates.observe_limit(&keys.bucket, limit, now));
        wake.iter().for_each(|bell| bell.notify_one());
    }
}

/// What a row asks for that has time: no deadline before it is sent, and no pause longer than its policy waits.
pub fn patient(tokens: u64, policy: &Policy) -> Ask {
    let max_pause = seconds(policy.max_wait).unwrap_or(Duration::MAX);
    Ask { tokens, deadline: Deadline::Never, max_pause }
}
