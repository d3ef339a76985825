//! Stops calling what is surely down: closed, open, half-open.
//!
//! Calls are counted by key: faults of the connection by host, all else by host and model. Which failures count is
//! one function, `verdict`; how a circuit changes is one table, `Circuit::step`. A permit carries the generation in
//! which it was given, and every change begins a new one: what began before a trip says nothing about the time after
//! it. A probe that brings no verdict - cancelled, refused, rate limited - gives its place back, so that a half-open
//! circuit cannot stay so for ever.

use std::time::Duration;

use crate::failure::{Failure, Kind, Reason};
use crate::keys::{Key, Keyed, MOST_KEYS};
use crate::policy::{ConfigError, count, limit, share};
use crate::time::Moment;
use crate::window::Window;

/// What opens a circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trip {
    /// When so many failures come in a row.
    Row(u32),
    /// When this share of the calls within the window failed, and there were enough of them.
    Ratio {
        /// The share of failures.
        ratio: f64,
        /// With fewer calls than this nothing is concluded.
        minimum_calls: u32,
        /// How far back is looked.
        window: Duration,
    },
}

/// When a circuit opens and closes, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitBreaker {
    /// What opens it.
    pub trip: Trip,
    /// How long it stays open before it is probed.
    pub recovery_timeout: Duration,
    /// Probes at once, and good ones it takes to close.
    pub half_open_probes: u32,
    /// An answer slower than this counts as a failure; `None` is never too slow.
    pub slow_call: Option<Duration>,
}

impl CircuitBreaker {
    /// Opens after so many failures in a row.
    pub fn after(
        failure_threshold: i64,
        recovery_timeout: f64,
        half_open_probes: i64,
        slow_call: Option<f64>,
    ) -> Result<Self, ConfigError> {
        let trip = Trip::Row(count("failure_threshold", failure_threshold)?);
        Self::checked(trip, recovery_timeout, half_open_probes, slow_call)
    }

    /// Opens when `failure_ratio` of at least `minimum_calls` within `window` seconds failed.
    pub fn at_ratio(
        (failure_ratio, minimum_calls, window): (f64, i64, f64),
        recovery_timeout: f64,
        half_open_probes: i64,
        slow_call: Option<f64>,
    ) -> Result<Self, ConfigError> {
        let ratio = share("failure_ratio", failure_ratio)?;
        if ratio == 0.0 {
            let allowed = "a share above 0 and up to 1";
            return Err(ConfigError { field: "failure_ratio", value: ratio.to_string(), allowed });
        }
        let minimum_calls = count("minimum_calls", minimum_calls)?;
        let window = limit("window", Some(window))?.unwrap_or(Duration::MAX);
        let trip = Trip::Ratio { ratio, minimum_calls, window };
        Self::checked(trip, recovery_timeout, half_open_probes, slow_call)
    }

    fn checked(
        trip: Trip,
        recovery_timeout: f64,
        half_open_probes: i64,
        slow_call: Option<f64>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            trip,
            recovery_timeout: limit("recovery_timeout", Some(recovery_timeout))?.unwrap_or(Duration::MAX),
            half_open_probes: count("half_open_probes", half_open_probes)?,
            slow_call: limit("slow_call", slow_call)?,
        })
    }
}

/// What an attempt says about the health of what it called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// When a good answer came.
    Success,
    /// When what was called is at fault.
    Failure,
    /// When the host could not even be reached.
    Unreachable,
    /// When it says nothing: limits, other 4xx, validation, the caller's own doing.
    Neutral,
}

/// What an attempt says, judged by kind and reason before status. `cut_short` tells that the caller's deadline left
/// the attempt less than its own timeout.
pub fn verdict(failure: Option<&Failure>, cut_short: bool) -> Verdict {
    use Reason::*;
    let Some(failure) = failure else { return Verdict::Success };
    let client_error = failure.status.is_some_and(|status| (400..500).contains(&status));
    let server_error = failure.status.is_some_and(|status| status >= 500);
    match failure.reason {
        ConnectFailed | ConnectTimeout | TlsFailed | CertificateRejected | ProxyFailed => {
            Verdict::Unreachable
        }
        _ if matches!(failure.kind, Kind::RateLimited | Kind::Validation) => Verdict::Neutral,
        AttemptTimeout if cut_short => Verdict::Neutral,
        Overloaded if failure.status != Some(429) => Verdict::Failure,
        _ if client_error => Verdict::Neutral,
        ServerTimeout | WriteTimeout | ReadTimeout | AttemptTimeout | TimedOut | ConnectionLost | NotHttp
        | BodyCorrupt | Truncated | EmptyBody => Verdict::Failure,
        // Some say so inside of a 200.
        ServerError | UpstreamFailed => Verdict::Failure,
        // Told or made not to retry, it is a sick server all the same.
        ToldNotToRetry | StatusNotListed if server_error => Verdict::Failure,
        _ if server_error && failure.kind == Kind::Call => Verdict::Failure,
        _ => Verdict::Neutral,
    }
}

/// The state of one circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// When calls go through and are counted.
    Closed,
    /// When none goes through until this moment.
    Open(Moment),
    /// When a few go through to see whether it works again.
    HalfOpen {
        /// Probes under way.
        probing: u32,
        /// Probes that succeeded.
        succeeded: u32,
    },
    /// When the user holds it open.
    ForcedOpen,
    /// When the user holds it closed.
    ForcedClosed,
}

/// What a user may do to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// When nothing shall go through until told otherwise.
    Open,
    /// When everything shall, whatever comes of it.
    Closed,
    /// When it shall judge for itself again, beginning closed.
    Released,
}

/// What happens to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// When a call wants to go.
    Asked,
    /// When a call succeeded.
    Succeeded,
    /// When a call failed.
    Failed,
    /// When a call ended without a verdict.
    Left,
    /// When the user takes it in hand, or lets go of it.
    Held(Hold),
}

/// Leave to make one attempt. Given back by `record` or `leave`, once.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    generation: u64,
}

/// When it is refused: the time until it is probed, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// `None` when nobody can say: probes are under way, or the user holds it open.
    pub retry_after: Option<Duration>,
}

#[derive(Debug)]
struct Circuit {
    state: State,
    generation: u64,
    row: u32,
    /// Calls and failures of late.
    recent: Option<Window>,
}

/// All circuits of a client.
#[derive(Debug)]
pub struct Breakers {
    config: CircuitBreaker,
    keyed: Keyed<Circuit>,
    /// Never given twice, not even to a circuit that was forgotten and begun again.
    generations: u64,
}

impl Breakers {
    /// All closed.
    pub fn new(config: CircuitBreaker) -> Self {
        Self { config, keyed: Keyed::new(MOST_KEYS), generations: 0 }
    }

    /// Whether a call could go now; nothing is taken.
    pub fn allows(&mut self, key: &Key, now: Moment) -> Result<(), Open> {
        let config = self.config;
        self.keyed.get(key).map_or(Ok(()), |circuit| circuit.allows(&config, now))
    }

    /// Asks leave for one attempt.
    pub fn admit(&mut self, key: &Key, now: Moment) -> Result<Permit, Open> {
        let config = self.config;
        let circuit = self.circuit(key);
        circuit.allows(&config, now)?;
        self.step(key, Event::Asked, now);
        Ok(Permit { generation: self.circuit(key).generation })
    }

    /// Told what the attempt said. Returns the new state, if it changed.
    pub fn record(
        &mut self,
        key: &Key,
        permit: Permit,
        verdict: Verdict,
        elapsed: Duration,
        now: Moment,
    ) -> Option<State> {
        if self.keyed.get(key).is_none_or(|circuit| circuit.generation != permit.generation) {
            return None;
        }
        let slow = self.config.slow_call.is_some_and(|limit| elapsed > limit);
        let event = match verdict {
            Verdict::Success if slow => Event::Failed,
            Verdict::Success => Event::Succeeded,
            Verdict::Failure | Verdict::Unreachable => Event::Failed,
            Verdict::Neutral => Event::Left,
        };
        self.step(key, event, now)
    }

    /// Told that the attempt was not made, or was cancelled.
    pub fn leave(&mut self, key: &Key, permit: Permit, now: Moment) {
        self.record(key, permit, Verdict::Neutral, Duration::ZERO, now);
    }

    /// Takes a circuit in hand, or lets go of it. Returns the new state, if it changed.
    pub fn hold(&mut self, key: &Key, hold: Hold, now: Moment) -> Option<State> {
        self.circuit(key);
        self.step(key, Event::Held(hold), now)
    }

    /// How long it surely lets nothing through: not at all when closed or probed, for ever when the user says so.
    pub fn delay(&mut self, key: &Key, now: Moment) -> Duration {
        match self.state(key) {
            State::Open(until) => until.since(now),
            State::ForcedOpen => Duration::MAX,
            State::Closed | State::HalfOpen { .. } | State::ForcedClosed => Duration::ZERO,
        }
    }

    /// The state of a circuit.
    pub fn state(&mut self, key: &Key) -> State {
        self.keyed.get(key).map_or(State::Closed, |circuit| circuit.state)
    }

    /// All circuits that are known, in order of their keys.
    pub fn states(&self) -> impl Iterator<Item = (&Key, State)> {
        self.keyed.iter().map(|(key, circuit)| (key, circuit.state))
    }

    fn circuit(&mut self, key: &Key) -> &mut Circuit {
        let trip = self.config.trip;
        let generations = &mut self.generations;
        let held = |circuit: &Circuit| matches!(circuit.state, State::ForcedOpen | State::ForcedClosed);
        self.keyed.entry(key, held, || {
            *generations += 1;
            Circuit::closed(trip, *generations)
        })
    }

    fn step(&mut self, key: &Key, event: Event, now: Moment) -> Option<State> {
        let config = self.config;
        let circuit = self.keyed.get(key)?;
        let before = circuit.state;
        circuit.state = circuit.step(event, &config, now);
        if std::mem::discriminant(&before) == std::mem::discriminant(&circuit.state) {
            return None;
        }
        self.generations += 1;
        circuit.generation = self.generations;
        circuit.forget(config.trip);
        Some(circuit.state)
    }
}

impl Circuit {
    fn closed(trip: Trip, generation: u64) -> Self {
        let mut circuit = Self { state: State::Closed, generation, row: 0, recent: None };
        circuit.forget(trip);
        circuit
    }

    fn allows(&self, config: &CircuitBreaker, now: Moment) -> Result<(), Open> {
        match self.state {
            State::Closed | State::ForcedClosed => Ok(()),
            State::Open(until) if until <= now => Ok(()),
            State::Open(until) => Err(Open { retry_after: Some(until.since(now)) }),
            State::HalfOpen { probing, succeeded } if probing + succeeded < config.half_open_probes => Ok(()),
            State::HalfOpen { .. } | State::ForcedOpen => Err(Open { retry_after: None }),
        }
    }

    /// The table of all changes. Whoever is told `Asked` was allowed to ask, and whoever is told a result belongs to
    /// the present generation.
    fn step(&mut self, event: Event, config: &CircuitBreaker, now: Moment) -> State {
        let opened = State::Open(now.after(config.recovery_timeout));
        match (self.state, event) {
            (_, Event::Held(Hold::Open)) => State::ForcedOpen,
            (_, Event::Held(Hold::Closed)) => State::ForcedClosed,
            (_, Event::Held(Hold::Released)) => State::Closed,
            (State::Closed, Event::Failed) if self.trips(config.trip, true, now) => opened,
            (State::Closed, Event::Succeeded) if self.trips(config.trip, false, now) => opened,
            (State::Open(_), Event::Asked) => State::HalfOpen { probing: 1, succeeded: 0 },
            (State::HalfOpen { probing, succeeded }, Event::Asked) => {
                State::HalfOpen { probing: probing + 1, succeeded }
            }
            (State::HalfOpen { succeeded, .. }, Event::Succeeded)
                if succeeded + 1 >= config.half_open_probes =>
            {
                State::Closed
            }
            (State::HalfOpen { probing, succeeded }, Event::Succeeded) => {
                State::HalfOpen { probing: probing.saturating_sub(1), succeeded: succeeded + 1 }
            }
            (State::HalfOpen { .. }, Event::Failed) => opened,
            (State::HalfOpen { probing, succeeded }, Event::Left) => {
                State::HalfOpen { probing: probing.saturating_sub(1), succeeded }
            }
            (state, _) => state,
        }
    }

    /// Counts a result, and tells whether it is one too many.
    fn trips(&mut self, trip: Trip, failed: bool, now: Moment) -> bool {
        self.row = if failed { self.row.saturating_add(1) } else { 0 };
        match (trip, &mut self.recent) {
            (Trip::Row(threshold), _) => self.row >= threshold,
            (Trip::Ratio { ratio, minimum_calls, .. }, Some(recent)) => {
                recent.add([1, u32::from(failed)], now);
                let [calls, failures] = recent.sums(now);
                failed && calls >= u64::from(minimum_calls) && failures as f64 >= ratio * calls as f64
            }
            (Trip::Ratio { .. }, None) => false,
        }
    }

    fn forget(&mut self, trip: Trip) {
        self.row = 0;
        self.recent = match trip {
            Trip::Row(_) => None,
            Trip::Ratio { window, .. } => Some(Window::new(window)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Sent;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    fn key() -> Key {
        "host model".into()
    }

    fn after(failures: i64, probes: i64) -> Breakers {
        Breakers::new(CircuitBreaker::after(failures, 1.0, probes, Some(9.0)).expect("good"))
    }

    fn call(breakers: &mut Breakers, verdict: Verdict, now: u64) -> Option<State> {
        let permit = breakers.admit(&key(), at(now)).expect("it is let through");
        breakers.record(&key(), permit, verdict, Duration::ZERO, at(now))
    }

    fn failed(reason: Reason, status: Option<u16>) -> Failure {
        Failure { status, ..Failure::transport(reason, Sent::Maybe) }
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_good_probe_closes_it() {
        let mut breakers = after(3, 1);
        for verdict in
            [Verdict::Failure, Verdict::Failure, Verdict::Success, Verdict::Failure, Verdict::Failure]
        {
            assert_eq!(call(&mut breakers, verdict, 0), None);
        }
        assert_eq!(call(&mut breakers, Verdict::Failure, 0), Some(State::Open(at(1_000))));
        let open = breakers.admit(&key(), at(400)).expect_err("it is open");
        assert_eq!(open.retry_after, Some(Duration::from_millis(600)));
        assert_eq!(call(&mut breakers, Verdict::Failure, 1_000), Some(State::Open(at(2_000))));
        assert_eq!(call(&mut breakers, Verdict::Success, 2_000), Some(State::Closed));
    }

    #[test]
    fn a_400_between_failures_neither_breaks_the_row_nor_adds_to_it() {
        let mut breakers = after(3, 1);
        for verdict in [Verdict::Failure, Verdict::Failure, Verdict::Neutral] {
            assert_eq!(call(&mut breakers, verdict, 0), None);
        }
        assert!(call(&mut breakers, Verdict::Failure, 0).is_some());
    }

    #[test]
    fn a_probe_that_says_nothing_gives_its_place_back() {
        let mut breakers = after(1, 1);
        call(&mut breakers, Verdict::Failure, 0);
        let probe = breakers.admit(&key(), at(1_000)).expect("it is time");
        assert_eq!(breakers.admit(&key(), at(1_000)), Err(Open { retry_after: None }));
        breakers.leave(&key(), probe, at(1_000));
        assert_eq!(call(&mut breakers, Verdict::Neutral, 1_000), None);
        assert_eq!(call(&mut breakers, Verdict::Success, 1_000), Some(State::Closed));
    }

    #[test]
    fn what_began_before_the_trip_does_not_count() {
        let mut breakers = after(1, 1);
        let permits: Vec<Permit> = (0..3).map(|_| breakers.admit(&key(), at(0)).expect("closed")).collect();
        call(&mut breakers, Verdict::Failure, 0);
        let probe = breakers.admit(&key(), at(1_000)).expect("it is time");
        for (permit, verdict) in
            permits.into_iter().zip([Verdict::Success, Verdict::Failure, Verdict::Neutral])
        {
            assert_eq!(breakers.record(&key(), permit, verdict, Duration::ZERO, at(1_000)), None);
        }
        assert_eq!(breakers.state(&key()), State::HalfOpen { probing: 1, succeeded: 0 });
        breakers.record(&key(), probe, Verdict::Success, Duration::ZERO, at(1_000));
        assert_eq!(breakers.state(&key()), State::Closed);
    }

    #[test]
    fn it_takes_as_many_good_probes_as_there_may_be_at_once() {
        let mut breakers = after(1, 2);
        call(&mut breakers, Verdict::Failure, 0);
        assert_eq!(call(&mut breakers, Verdict::Success, 1_000), None);
        assert_eq!(breakers.state(&key()), State::HalfOpen { probing: 0, succeeded: 1 });
        assert_eq!(call(&mut breakers, Verdict::Success, 1_000), Some(State::Closed));
    }

    #[test]
    fn a_share_of_failures_opens_it_once_there_are_enough_calls() {
        let config = CircuitBreaker::at_ratio((0.5, 4, 10.0), 1.0, 1, None).expect("good");
        let mut breakers = Breakers::new(config);
        for (verdict, now) in [(Verdict::Failure, 0), (Verdict::Failure, 0), (Verdict::Success, 1)] {
            assert_eq!(call(&mut breakers, verdict, now), None);
        }
        // The two failures are forgotten by then.
        assert_eq!(call(&mut breakers, Verdict::Failure, 10_000), None);
        assert_eq!(call(&mut breakers, Verdict::Success, 10_000), None);
        assert_eq!(call(&mut breakers, Verdict::Success, 10_000), None);
        assert!(call(&mut breakers, Verdict::Failure, 10_000).is_some());
    }

    #[test]
    fn an_answer_that_is_too_slow_is_a_failure() {
        let mut breakers = after(1, 1);
        let permit = breakers.admit(&key(), at(0)).expect("closed");
        let slow = Duration::from_millis(9_001);
        assert!(breakers.record(&key(), permit, Verdict::Success, slow, at(9_001)).is_some());
    }

    #[test]
    fn a_user_holds_it_open_or_closed_and_lets_go() {
        let mut breakers = after(1, 1);
        assert_eq!(breakers.hold(&key(), Hold::Open, at(0)), Some(State::ForcedOpen));
        assert_eq!(breakers.admit(&key(), at(9_999)), Err(Open { retry_after: None }));
        assert_eq!(breakers.delay(&key(), at(9_999)), Duration::MAX);
        breakers.hold(&key(), Hold::Closed, at(0));
        assert_eq!(call(&mut breakers, Verdict::Failure, 0), None);
        breakers.hold(&key(), Hold::Released, at(0));
        assert!(call(&mut breakers, Verdict::Failure, 0).is_some());
    }

    #[test]
    fn a_circuit_that_was_forgotten_does_not_hear_of_its_former_life() {
        let mut breakers = after(1, 1);
        let old = breakers.admit(&key(), at(0)).expect("closed");
        (0..1_000).for_each(|n| drop(breakers.admit(&n.to_string().into(), at(0))));
        assert_eq!(breakers.states().count(), 1_000);
        breakers.admit(&key(), at(0)).expect("closed");
        assert_eq!(breakers.record(&key(), old, Verdict::Failure, Duration::ZERO, at(0)), None);
    }

    #[test]
    fn a_verdict_goes_by_kind_and_reason_before_status() {
        let of = |failure: Failure| verdict(Some(&failure), false);
        let limited = Failure { kind: Kind::RateLimited, ..failed(Reason::RateLimited, Some(503)) };
        let told = Failure { kind: Kind::Permanent, ..failed(Reason::ToldNotToRetry, Some(500)) };
        let cases = [
            (limited, Verdict::Neutral),
            (failed(Reason::Overloaded, Some(429)), Verdict::Neutral),
            (failed(Reason::Overloaded, Some(529)), Verdict::Failure),
            (failed(Reason::ServerError, Some(500)), Verdict::Failure),
            (failed(Reason::ModelLoading, Some(503)), Verdict::Failure),
            (told, Verdict::Failure),
            (failed(Reason::NotSupported, Some(501)), Verdict::Neutral),
            (failed(Reason::BadRequest, Some(400)), Verdict::Neutral),
            (failed(Reason::ServerTimeout, Some(408)), Verdict::Neutral),
            (failed(Reason::ReadTimeout, None), Verdict::Failure),
            (failed(Reason::ConnectFailed, None), Verdict::Unreachable),
            (failed(Reason::CertificateRejected, None), Verdict::Unreachable),
            (failed(Reason::ValidationFailed, Some(200)), Verdict::Neutral),
            (failed(Reason::Truncated, Some(200)), Verdict::Failure),
        ];
        for (failure, expected) in cases {
            assert_eq!(of(failure.clone()), expected, "{failure:?}");
        }
        assert_eq!(verdict(None, false), Verdict::Success);
    }

    #[test]
    fn an_attempt_that_the_callers_deadline_cut_says_nothing() {
        let cut = failed(Reason::AttemptTimeout, None);
        assert_eq!(
            [verdict(Some(&cut), true), verdict(Some(&cut), false)],
            [Verdict::Neutral, Verdict::Failure]
        );
    }

    #[test]
    fn a_bad_value_is_named() {
        let field = |result: Result<CircuitBreaker, ConfigError>| result.expect_err("bad").field;
        assert_eq!(field(CircuitBreaker::after(0, 1.0, 1, None)), "failure_threshold");
        assert_eq!(field(CircuitBreaker::after(1, 0.0, 1, None)), "recovery_timeout");
        assert_eq!(field(CircuitBreaker::after(1, 1.0, 0, None)), "half_open_probes");
        assert_eq!(field(CircuitBreaker::after(1, 1.0, 1, Some(-1.0))), "slow_call");
        assert_eq!(field(CircuitBreaker::at_ratio((0.0, 1, 1.0), 1.0, 1, None)), "failure_ratio");
        assert_eq!(field(CircuitBreaker::at_ratio((0.5, 0, 1.0), 1.0, 1, None)), "minimum_calls");
        assert_eq!(field(CircuitBreaker::at_ratio((0.5, 1, 0.0), 1.0, 1, None)), "window");
    }

    proptest! {
        #[test]
        fn an_open_circuit_lets_nothing_through_and_none_stays_half_open_for_ever(
            steps in prop::collection::vec((0..6u8, any::<prop::sample::Index>(), 0..700u64), 1..200),
            probes in 1..4i64,
        ) {
            let mut breakers = after(2, probes);
            let mut time = 0;
            let mut out: Vec<Permit> = Vec::new();
            for (step, which, passed) in steps {
                time += passed / 3;
                match step {
                    0..=2 => {
                        let before = breakers.state(&key());
                        let admitted = breakers.admit(&key(), at(time));
                        if let (State::Open(until), Ok(_)) = (before, &admitted) {
                            prop_assert!(until <= at(time));
                        }
                        out.extend(admitted);
                    }
                    _ if !out.is_empty() => {
                        let permit = out.swap_remove(which.index(out.len()));
                        let verdict = [Verdict::Success, Verdict::Failure, Verdict::Neutral][step as usize - 3];
                        let (before, current) = (breakers.state(&key()), permit.generation);
                        let late = breakers.keyed.get(&key()).is_none_or(|held| held.generation != current);
                        breakers.record(&key(), permit, verdict, Duration::ZERO, at(time));
                        prop_assert!(!late || breakers.state(&key()) == before);
                    }
                    _ => {}
                }
                if let State::HalfOpen { probing, succeeded } = breakers.state(&key()) {
                    let generation = breakers.keyed.get(&key()).map_or(0, |held| held.generation);
                    let under_way = out.iter().filter(|permit| permit.generation == generation).count();
                    prop_assert_eq!(probing as usize, under_way);
                    prop_assert!(i64::from(probing + succeeded) <= probes);
                }
            }
            out.into_iter().for_each(|permit| breakers.leave(&key(), permit, at(time)));
            prop_assert!(breakers.admit(&key(), at(time + 1_000)).is_ok());
        }
    }
}
