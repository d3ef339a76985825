//! How many calls may be in flight, and a bounded line of those who wait for a slot.
//!
//! First come first served: a slot that comes free is handed to the first in line there and then, so nobody can slip
//! in between. What a driver has to do about it - wake those it was handed to - is returned as a list, to be acted on
//! outside the lock. Leaving is one verb whatever the state: who waits is forgotten, who holds a slot gives it on, and
//! a ticket used twice does nothing.

use crate::line::{Line, Ticket};
use crate::policy::{ConfigError, count};
use crate::time::{Deadline, Moment};

/// How many calls may be in flight and how many may wait, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// Calls in flight at once.
    pub max: u32,
    /// Calls that may wait; none waits at 0.
    pub queue: u32,
}

impl ConcurrencyLimit {
    /// Checks both numbers.
    pub fn new(max: i64, queue: i64) -> Result<Self, ConfigError> {
        let bad = |_| ConfigError {
            field: "queue",
            value: queue.to_string(),
            allowed: "a whole number of at least 0",
        };
        Ok(Self { max: count("max", max)?, queue: u32::try_from(queue).map_err(bad)? })
    }
}

/// What becomes of somebody who asks for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// When a slot is theirs; the ticket gives it back.
    Admitted(Ticket),
    /// When they stand in line, until they are woken or their deadline.
    Wait(Ticket),
    /// When the line is as long as it may be.
    QueueFull,
}

/// What became of somebody who waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// When a slot is theirs.
    Go,
    /// When they still stand in line.
    Wait,
    /// When their deadline passed first; the ticket is worth nothing any more.
    Late,
}

#[derive(Debug)]
struct Waiter<W> {
    deadline: Deadline,
    /// How to reach them; `None` once they were called up.
    waker: Option<W>,
}

/// The slots and the line before them. `W` is how the driver wakes somebody.
#[derive(Debug)]
pub struct Slots<W> {
    max: u32,
    queue: u32,
    in_flight: u32,
    line: Line<Waiter<W>>,
}

impl<W> Slots<W> {
    /// All free.
    pub fn new(limit: ConcurrencyLimit) -> Self {
        Self { max: limit.max, queue: limit.queue, in_flight: 0, line: Line::default() }
    }

    /// Asks for a slot. `waker` reaches who asks, if they must wait.
    pub fn admit(&mut self, deadline: Deadline, waker: impl FnOnce() -> W) -> Admission {
        if self.is_free() {
            self.in_flight += 1;
            return Admission::Admitted(self.line.pass(Waiter { deadline, waker: None }));
        }
        if self.line.waiting() >= self.queue as usize {
            return Admission::QueueFull;
        }
        Admission::Wait(self.line.join(Waiter { deadline, waker: Some(waker()) }))
    }

    /// Asked by who waits, when woken or at their deadline.
    pub fn next(&mut self, ticket: Ticket, now: Moment) -> Turn {
        let Some(waiter) = self.line.get(ticket) else { return Turn::Late };
        let late = waiter.deadline.passed(now);
        match self.line.is_waiting(ticket) {
            false => Turn::Go,
            true if late => {
                self.line.remove(ticket);
                Turn::Late
            }
            true => Turn::Wait,
        }
    }

    /// Told that somebody goes, from the line or from their slot. Returns whom to wake.
    pub fn leave(&mut self, ticket: Ticket, now: Moment) -> Vec<W> {
        let held_a_slot = self.line.get(ticket).is_some() && !self.line.is_waiting(ticket);
        self.line.remove(ticket);
        self.in_flight -= u32::from(held_a_slot);
        self.call_up(now)
    }

    /// Told another limit. Nobody loses a slot: those in flight above it are waited for. Returns whom to wake.
    pub fn observe_limit(&mut self, max: u32, now: Moment) -> Vec<W> {
        self.max = max.max(1);
        self.call_up(now)
    }

    /// Whether who asks now need not wait.
    pub fn is_free(&self) -> bool {
        self.line.waiting() == 0 && self.in_flight < self.max
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Calls in line.
    pub fn waiting(&self) -> usize {
        self.line.waiting()
    }

    /// Hands free slots to the first in line. Who is too late is passed over, and woken to find that out.
    fn call_up(&mut self, now: Moment) -> Vec<W> {
        let mut wake = Vec::new();
        while self.in_flight < self.max {
            let Some(first) = self.line.first() else { break };
            let Some(waiter) = self.line.get(first) else { break };
            wake.extend(waiter.waker.take());
            if waiter.deadline.passed(now) {
                self.line.remove(first);
            } else {
                self.line.call_up(first);
                self.in_flight += 1;
            }
        }
        wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const MAX: u32 = 3;

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    fn slots(max: u32, queue: u32) -> Slots<usize> {
        Slots::new(ConcurrencyLimit { max, queue })
    }

    fn ticket(admission: Admission) -> Ticket {
        match admission {
            Admission::Admitted(ticket) | Admission::Wait(ticket) => ticket,
            Admission::QueueFull => panic!("there is room"),
        }
    }

    #[test]
    fn a_full_line_refuses() {
        let mut slots = slots(1, 1);
        let first = ticket(slots.admit(Deadline::Never, || 0));
        ticket(slots.admit(Deadline::Never, || 1));
        assert_eq!(slots.admit(Deadline::Never, || 2), Admission::QueueFull);
        assert_eq!(slots.leave(first, at(0)), [1]);
        assert!(matches!(slots.admit(Deadline::Never, || 3), Admission::Wait(_)));
    }

    #[test]
    fn a_slot_handed_to_somebody_who_left_goes_on_to_the_next() {
        let mut slots = slots(1, 9);
        let tickets: Vec<Ticket> = (0..3).map(|n| ticket(slots.admit(Deadline::Never, || n))).collect();
        assert_eq!(slots.leave(tickets[0], at(0)), [1]);
        assert_eq!(slots.leave(tickets[1], at(0)), [2]);
        assert_eq!(slots.next(tickets[2], at(0)), Turn::Go);
        assert_eq!(slots.leave(tickets[1], at(0)), [0; 0]);
        assert_eq!(slots.in_flight(), 1);
    }

    #[test]
    fn who_is_too_late_gets_no_slot_and_is_told() {
        let mut slots = slots(1, 9);
        let first = ticket(slots.admit(Deadline::Never, || 0));
        let late = ticket(slots.admit(Deadline::At(at(5)), || 1));
        let patient = ticket(slots.admit(Deadline::Never, || 2));
        assert_eq!(slots.next(late, at(4)), Turn::Wait);
        assert_eq!(slots.leave(first, at(5)), [1, 2]);
        assert_eq!((slots.next(late, at(5)), slots.next(patient, at(5))), (Turn::Late, Turn::Go));
    }

    #[test]
    fn a_lower_limit_takes_no_slot_away_and_a_higher_one_calls_up() {
        let mut slots = slots(3, 9);
        let tickets: Vec<Ticket> = (0..5).map(|n| ticket(slots.admit(Deadline::Never, || n))).collect();
        assert_eq!(slots.observe_limit(1, at(0)), [0; 0]);
        assert_eq!(slots.in_flight(), 3);
        assert!(tickets[..2].iter().all(|ticket| slots.leave(*ticket, at(0)).is_empty()));
        assert_eq!(slots.observe_limit(9, at(0)), [3, 4]);
    }

    #[test]
    fn ten_thousand_waiters_come_and_go_without_a_trace() {
        let mut slots = slots(1, 10_000);
        let first = ticket(slots.admit(Deadline::Never, || 0));
        for _ in 0..3 {
            let waiters: Vec<Ticket> =
                (0..10_000).map(|n| ticket(slots.admit(Deadline::Never, || n))).collect();
            waiters.into_iter().rev().for_each(|waiter| assert!(slots.leave(waiter, at(0)).is_empty()));
        }
        assert!(slots.leave(first, at(0)).is_empty());
        assert_eq!((slots.in_flight(), slots.waiting()), (0, 0));
    }

    #[test]
    fn a_bad_value_is_named() {
        let refused = |max, queue| ConcurrencyLimit::new(max, queue).expect_err("bad").to_string();
        assert_eq!(refused(0, 5), "max must be a whole number of at least 1, got 0");
        assert_eq!(refused(1, -1), "queue must be a whole number of at least 0, got -1");
    }

    proptest! {
        #[test]
        fn slots_are_never_oversold_kept_in_order_and_returned_once(
            steps in prop::collection::vec((0..4u8, any::<prop::sample::Index>(), 0..20u64), 1..200),
        ) {
            let mut slots = slots(MAX, 5);
            let (mut time, mut number) = (0, 0);
            // Waiting in order of arrival, with deadlines; and holding a slot.
            let mut waiting: Vec<(Ticket, usize, Deadline)> = Vec::new();
            let mut holding: Vec<Ticket> = Vec::new();
            let mut used: Vec<Ticket> = Vec::new();
            for (step, which, patience) in steps {
                let mut woken = Vec::new();
                match step {
                    0 | 1 => {
                        number += 1;
                        let deadline = Deadline::At(at(time + 1 + patience));
                        match slots.admit(deadline, || number) {
                            Admission::Admitted(ticket) => {
                                prop_assert!(waiting.is_empty());
                                holding.push(ticket);
                            }
                            Admission::Wait(ticket) => waiting.push((ticket, number, deadline)),
                            Admission::QueueFull => prop_assert_eq!(waiting.len(), 5),
                        }
                    }
                    2 => {
                        time += 1;
                        let all: Vec<Ticket> = waiting.iter().map(|(ticket, ..)| *ticket)
                            .chain(holding.iter().copied()).collect();
                        if !all.is_empty() {
                            let gone = all[which.index(all.len())];
                            waiting.retain(|(ticket, ..)| *ticket != gone);
                            holding.retain(|ticket| *ticket != gone);
                            used.push(gone);
                            woken = slots.leave(gone, at(time));
                        }
                    }
                    _ if !used.is_empty() => woken = slots.leave(used[which.index(used.len())], at(time)),
                    _ => {}
                }
                for woken in woken {
                    let (ticket, first, deadline) = waiting.remove(0);
                    prop_assert_eq!(woken, first);
                    match slots.next(ticket, at(time)) {
                        Turn::Go => holding.push(ticket),
                        Turn::Late => prop_assert!(deadline.passed(at(time))),
                        Turn::Wait => prop_assert!(false, "woken for nothing"),
                    }
                }
                prop_assert_eq!(slots.in_flight() as usize, holding.len());
                prop_assert_eq!(slots.waiting(), waiting.len());
                prop_assert!(holding.len() <= MAX as usize);
                prop_assert!(waiting.is_empty() || holding.len() == MAX as usize);
            }
            for ticket in waiting.into_iter().map(|(ticket, ..)| ticket).chain(holding) {
                slots.leave(ticket, at(time));
            }
            prop_assert_eq!((slots.in_flight(), slots.waiting()), (0, 0));
        }
    }
}
