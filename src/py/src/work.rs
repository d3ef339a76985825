//! What one logical call has done and has still to do: its engine, its request, its way through the gates.
//!
//! Every method runs with the GIL held and sends nothing.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use steadycall_core::call::{Call, Report, Step, StopReason};
use steadycall_core::failure::{Failure, Kind};
use steadycall_core::passage::{self, Refusal};
use steadycall_core::remaining::{Remaining, remaining};
use steadycall_core::time::{Deadline, Moment};
use steadycall_core::{classify, usage};
use steadycall_net::doorway::Pass;
use steadycall_net::transport::{Answer, Fault, Outcome};

use crate::ending::Last;
use crate::errors;
use crate::hooks::{Clock, Draws};
use crate::job::Done;
use crate::judging::{self, Judged};
use crate::membership::Client;
use crate::options::Options;
use crate::reply::{Answered, request_id};
use crate::secrets::Secrets;
use crate::telling::Telling;

/// One call's state, taken out of its lock while a method works on it.
pub struct Work {
    pub call: Call,
    pub options: Options,
    pub clock: Clock,
    pub draws: Draws,
    /// Came back from the background thread, to be looked at by the awaiting task.
    pub kept: Option<Done>,
    pub last: Option<Last>,
    /// The wait decided on, and when.
    pub waiting: Option<(f64, Moment)>,
    /// The gates of its client.
    pub client: Option<Client>,
    /// Why its route gave up, where the next one is wanted.
    pub rerouting: Option<StopReason>,
    good: Option<Good>,
    /// Answers that failed their validation: they were paid for.
    spoilt: Vec<Py<PyAny>>,
}

/// A good answer, given to the caller or still to be validated.
struct Good {
    answer: Answer,
    json: Py<PyAny>,
    report: Report,
    cut_short: bool,
}

impl Work {
    /// Nothing done yet.
    pub fn new(call: Call, options: Options, clock: Clock, draws: Draws) -> Self {
        Self {
            call,
            options,
            clock,
            draws,
            kept: None,
            last: None,
            waiting: None,
            client: None,
            rerouting: None,
            good: None,
            spoilt: Vec::new(),
        }
    }

    /// Judges what an attempt brought: the parsed answer, or `None` after a failure. An answer that is to be validated
    /// is told neither to the engine nor to the gates yet; `told` says that an observer will hear of it.
    pub fn settle(
        &mut self,
        py: Python<'_>,
        outcome: Outcome,
        admitted: Option<Moment>,
        validates: bool,
        told: bool,
    ) -> PyResult<Option<Py<PyAny>>> {
        let Outcome { result, replays, fully_sent, received } = outcome;
        // An error body that was cut short is still that error.
        let found = match result {
            Err(Fault { head: Some((status, headers)), partial, .. }) if !(200..300).contains(&status) => {
                Ok(Answer { status, headers, body: partial })
            }
            other => other,
        };
        if let Some(admitted) = admitted {
            self.call.admitted(admitted);
        }
        let judged = match &found {
            Ok(answer) => {
                judging::judge(py, &self.options, self.call.policy().retry_status.as_ref(), answer)?
            }
            Err(fault) => Judged::Failed(Failure::transport(fault.reason, fault.sent), None),
        };
        let mut report = Report {
            failure: None,
            status: found.as_ref().ok().map(|answer| answer.status),
            request_id: None,
            fully_sent,
            received,
            replays,
            requests: replays.saturating_add(1),
        };
        let cut_short = self.call.is_cut_by_deadline();
        match (judged, found) {
            (Judged::Answer(json), Ok(answer)) => {
                if self.client.is_none() && !told {
                    return Ok(Some(json)); // nobody asks for more
                }
                if told {
                    report.request_id = request_id(&answer, &self.options.request);
                }
                let value = json.clone_ref(py);
                self.good = Some(Good { answer, json, report, cut_short });
                if !validates {
                    self.accept(py)?;
                }
                Ok(Some(value))
            }
            (Judged::Answer(_), Err(_)) => Err(errors::our_fault(py, "an answer out of a fault")),
            (Judged::Failed(mut failure, parse_error), found) => {
                let secrets = Secrets::of(&self.options.request);
                failure.provider_code.take_if(|code| secrets.are_in(code));
                report.request_id =
                    found.as_ref().ok().and_then(|found| request_id(found, &self.options.request));
                report.failure = Some(failure.clone());
                self.tell_gates(py, found.as_ref().ok(), Some(&failure), cut_short)?;
                self.record(py, report)?;
                self.last = Some(Last { failure, found, fully_sent, parse_error, elsewhere: None });
                Ok(None)
            }
        }
    }

    /// Told that the answer is the call's: the engine and the gates hear of it.
    pub fn accept(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(good) = self.good.take() else { return Ok(()) };
        self.tell_gates(py, Some(&good.answer), None, good.cut_short)?;
        self.record(py, good.report.clone())?;
        self.good = Some(good);
        Ok(())
    }

    /// Told that the answer failed its validation.
    pub fn reject(&mut self, py: Python<'_>, failure: Failure, error: PyErr) -> PyResult<()> {
        let Some(Good { answer, json, mut report, cut_short }) = self.good.take() else {
            return Err(errors::our_fault(py, "a verdict on no answer"));
        };
        let failure = Failure { status: Some(answer.status), ..failure };
        self.spoilt.push(json);
        self.tell_gates(py, Some(&answer), Some(&failure), cut_short)?;
        report.failure = Some(failure.clone());
        report.request_id = request_id(&answer, &self.options.request);
        let fully_sent = report.fully_sent;
        self.record(py, report)?;
        let parse_error = Some(error);
        self.last = Some(Last { failure, found: Ok(answer), fully_sent, parse_error, elsewhere: None });
        Ok(())
    }

    /// The good answer as it came, for the caller to keep.
    pub fn answer(&mut self, py: Python<'_>) -> PyResult<Option<Answered>> {
        let now = self.clock.now(py)?;
        let Some(good) = self.good.take() else { return Ok(None) };
        let mut paid = std::mem::take(&mut self.spoilt);
        paid.push(good.json);
        Ok(Some(Answered {
            answer: good.answer,
            request: Arc::clone(&self.options.request),
            records: self.call.records().to_vec(),
            requests: self.call.requests(),
            elapsed: self.call.elapsed(now).as_secs_f64(),
            paid,
            host: self.options.target.host.clone(),
        }))
    }

    /// Every answer so far that cost tokens.
    pub fn paid(&self) -> impl Iterator<Item = &Py<PyAny>> {
        self.spoilt.iter().chain(self.good.iter().map(|good| &good.json))
    }

    fn record(&mut self, py: Python<'_>, report: Report) -> PyResult<()> {
        let now = self.clock.now(py)?;
        self.call.record(report, now);
        self.tell_attempt(py)
    }

    /// The engine's next step after a failure, with the client asked.
    pub fn next(&mut self, py: Python<'_>, now: Moment) -> PyResult<Step> {
        let Self { call, draws, client, .. } = self;
        let around = client.as_ref().and_then(|client| Some((&client.entrance, client.keys.as_ref()?)));
        match around {
            Some((entrance, keys)) => {
                let mut around = entrance.doorway.around(keys);
                draws.lend(py, |draw| call.next_within(&mut around, draw, now))
            }
            None => draws.lend(py, |draw| call.next(draw, now)),
        }
    }

    /// The error of a call that gave up.
    pub fn gave_up(&mut self, py: Python<'_>, stop: StopReason, now: Moment) -> PyResult<PyErr> {
        let whither =
            self.last.as_ref().and_then(|last| last.elsewhere.as_ref()).map(|other| other.whither());
        let whither = whither.unwrap_or_else(|| self.options.whither());
        let barrier = self.client.as_ref().and_then(|client| client.barrier);
        errors::gave_up(py, &self.call, stop, self.last.as_ref(), barrier, &whither, now)
    }
}

// The gates.

impl Work {
    /// Whether the attempt that the engine allowed is on its way through the gates.
    pub fn is_at_the_gates(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.pass.is_some())
    }

    /// A pass for the attempt that the engine allowed; `within` is how long it may wait for it, where that is less
    /// than the deadline leaves.
    pub fn approach(&mut self, py: Python<'_>, within: Option<Duration>) -> PyResult<()> {
        let now = self.clock.now(py)?;
        let (mut ask, keys) = match &self.client {
            Some(client) => (client.ask(&self.call, &self.options), client.keys_for(&self.options)),
            None => return Ok(()),
        };
        ask.deadline = ask.deadline.earliest(Deadline::after(within, now));
        if let Some(client) = &mut self.client {
            client.pass = Some(client.entrance.doorway.approach(keys.clone(), ask));
            (client.keys, client.inside, client.barrier) = (Some(keys), false, None);
            client.telling.iter_mut().for_each(|telling| telling.approaches(now));
        }
        Ok(())
    }

    /// Takes the pass to do something with it, and whether it is through; put back by `hold` or `wait_with`.
    pub fn take_pass(&mut self) -> Option<(Pass, bool)> {
        let client = self.client.as_mut()?;
        Some((client.pass.take()?, client.inside))
    }

    /// Puts the pass back.
    pub fn hold(&mut self, pass: Pass, inside: bool) {
        if let Some(client) = &mut self.client {
            (client.pass, client.inside) = (Some(pass), inside);
        }
    }

    /// Puts the pass back, to be looked at again after so many seconds.
    pub fn wait_with(&mut self, pass: Pass, wait: f64) {
        self.hold(pass, false);
        if let Some(client) = &mut self.client {
            client.gate_wait = Some(wait);
        }
    }

    /// What is to be dropped when the call is given up, outside of its lock.
    pub fn leave(&mut self) -> Option<Pass> {
        self.client.as_mut()?.pass.take()
    }

    /// Told that the unit of work around it lets the attempt begin no more: its pass is given back.
    pub fn withdrawn(&mut self) -> StopReason {
        self.call.refused();
        if let Some(client) = &mut self.client {
            (client.pass, client.inside) = (None, false);
        }
        StopReason::RequestBudget
    }

    /// Told that a gate refused the attempt: why the call ends.
    pub fn barred(&mut self, why: Refusal) -> StopReason {
        let stop = StopReason::from(why);
        self.call.refused_for(stop);
        if let Some(client) = &mut self.client {
            (client.pass, client.inside, client.barrier) = (None, false, Some(why));
        }
        stop
    }

    fn tell_gates(
        &mut self,
        py: Python<'_>,
        answer: Option<&Answer>,
        failure: Option<&Failure>,
        cut_short: bool,
    ) -> PyResult<()> {
        // A pause that no hint gives grows by chance; the caller's dice must not be rolled under a lock.
        let grows =
            failure.is_some_and(|failure| failure.kind == Kind::RateLimited && failure.hint.is_none());
        let draw = if grows { self.draws.draw(py)? } else { 0.0 };
        let Some(client) = &mut self.client else { return Ok(()) };
        let Some(pass) = client.pass.take() else { return Ok(()) };
        client.inside = false;
        client.entrance.now(py)?;
        let gates = client.gates.get();
        let used = answer.filter(|_| gates.counts_tokens()).and_then(|answer| usage::of_body(&answer.body));
        let left = match answer {
            Some(answer) if gates.reads_remaining() => {
                let dialect = classify::Dialect::of_url(&self.options.target.url);
                judging::with_pairs(answer, |pairs| remaining(pairs, dialect))
            }
            _ => Remaining::default(),
        };
        let used = used.map(|used| used.total);
        let changed = pass.record(passage::Report { failure, cut_short, used, remaining: left }, draw);
        match &client.telling {
            Some(telling) => telling.circuits(py, &changed),
            None => Telling::log_circuits(py, &changed),
        }
    }
}

// Other routes.

impl Work {
    /// Whether another route may answer what this one did not.
    pub fn leads_elsewhere(&self, stop: StopReason) -> bool {
        let barrier = self.client.as_ref().and_then(|client| client.barrier);
        stop.leads_elsewhere(self.last.as_ref().map(|last| &last.failure), barrier)
    }

    /// Goes on with another call's request, which may be for another model.
    pub fn reroute(&mut self, options: Options, other: Option<Client>) {
        let before = std::mem::replace(&mut self.options, options);
        if let Some(last) = self.last.as_mut().filter(|last| last.elsewhere.is_none()) {
            last.elsewhere = Some(before.elsewhere());
        }
        if let (Some(client), Some(other)) = (&mut self.client, other) {
            client.model = other.model;
        }
        self.rerouting = None;
        self.call.reroute();
    }
}
