//! A line of those who wait, first come first served, from which anybody may step out at any time.
//!
//! A doubly linked list in one vector: joining, leaving and asking are each a few array accesses, however long the
//! line, and places of those who left are used again, so nothing grows with time. A ticket carries a serial number
//! that is never given twice: a ticket used late or twice finds nothing, so nothing can be given back twice.

/// Somebody's place, in the line or called up from it. Worth nothing once removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: usize,
    serial: u64,
}

const NOBODY: usize = usize::MAX;

#[derive(Debug)]
struct Place<T> {
    serial: u64,
    /// `None` when the place is free.
    held: Option<T>,
    in_line: bool,
    before: usize,
    behind: usize,
}

/// The line, and those called up from it who have not given their ticket back.
#[derive(Debug)]
pub struct Line<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
    first: usize,
    last: usize,
    waiting: usize,
    serial: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), first: NOBODY, last: NOBODY, waiting: 0, serial: 0 }
    }
}

impl<T> Line<T> {
    /// A ticket for somebody who need not wait.
    pub fn pass(&mut self, held: T) -> Ticket {
        self.serial += 1;
        let place =
            Place { serial: self.serial, held: Some(held), in_line: false, before: NOBODY, behind: NOBODY };
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index] = place;
                index
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        Ticket { index, serial: self.serial }
    }

    /// A ticket for somebody at the end of the line.
    pub fn join(&mut self, held: T) -> Ticket {
        let ticket = self.pass(held);
        let last = std::mem::replace(&mut self.last, ticket.index);
        let place = &mut self.places[ticket.index];
        (place.in_line, place.before) = (true, last);
        match last {
            NOBODY => self.first = ticket.index,
            last => self.places[last].behind = ticket.index,
        }
        self.waiting += 1;
        ticket
    }

    /// Who is first in line.
    pub fn first(&self) -> Option<Ticket> {
        let place = self.places.get(self.first)?;
        Some(Ticket { index: self.first, serial: place.serial })
    }

    /// Calls somebody up: out of the line, the ticket still good.
    pub fn call_up(&mut self, ticket: Ticket) {
        let Some(place) = self.place(ticket).filter(|place| place.in_line) else { return };
        place.in_line = false;
        let (before, behind) = (place.before, place.behind);
        match before {
            NOBODY => self.first = behind,
            before => self.places[before].behind = behind,
        }
        match behind {
            NOBODY => self.last = before,
            behind => self.places[behind].before = before,
        }
        self.waiting -= 1;
    }

    /// Takes a ticket back, and with it what was held for it; `None` when it was taken back before.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        self.call_up(ticket);
        let held = self.place(ticket)?.held.take();
        self.free.push(ticket.index);
        held
    }

    /// What is held for a ticket.
    pub fn get(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.place(ticket)?.held.as_mut()
    }

    /// Whether this ticket stands in the line.
    pub fn is_waiting(&mut self, ticket: Ticket) -> bool {
        self.place(ticket).is_some_and(|place| place.in_line)
    }

    /// How many stand in the line.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether nobody holds a ticket, in the line or called up from it.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// What is held for each in the line, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let mut index = self.first;
        std::iter::from_fn(move || {
            let place = self.places.get(index)?;
            index = place.behind;
            place.held.as_ref()
        })
    }

    fn place(&mut self, ticket: Ticket) -> Option<&mut Place<T>> {
        self.places
            .get_mut(ticket.index)
            .filter(|place| place.serial == ticket.serial && place.held.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ticket_is_taken_back_once() {
        let mut line = Line::default();
        let (first, second) = (line.join("a"), line.join("b"));
        assert_eq!(line.remove(first), Some("a"));
        assert_eq!(line.remove(first), None);
        let third = line.join("c");
        assert_eq!((line.remove(first), line.first()), (None, Some(second)));
        assert_eq!((line.is_waiting(third), line.waiting()), (true, 2));
    }

    #[test]
    fn ten_thousand_who_come_and_go_leave_no_more_places_than_stood_at_once() {
        let mut line = Line::default();
        let patient = line.join(0);
        for _ in 0..10 {
            let tickets: Vec<Ticket> = (0..1_000).map(|n| line.join(n)).collect();
            tickets.into_iter().for_each(|ticket| assert!(line.remove(ticket).is_some()));
        }
        assert_eq!((line.places.len(), line.waiting(), line.first()), (1_001, 1, Some(patient)));
    }

    proptest! {
        #[test]
        fn a_line_behaves_like_a_list(steps in prop::collection::vec((0..4u8, any::<prop::sample::Index>()), 1..200)) {
            let mut line = Line::default();
            let (mut model, mut called): (Vec<(Ticket, usize)>, Vec<Ticket>) = (Vec::new(), Vec::new());
            for (number, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => model.push((line.join(number), number)),
                    2 if !model.is_empty() => {
                        let (ticket, held) = model.remove(which.index(model.len()));
                        prop_assert_eq!(line.remove(ticket), Some(held));
                    }
                    3 if !model.is_empty() => {
                        let (ticket, _) = model.remove(which.index(model.len()));
                        line.call_up(ticket);
                        line.call_up(ticket);
                        called.push(ticket);
                    }
                    _ => {}
                }
                prop_assert_eq!(line.first(), model.first().map(|(ticket, _)| *ticket));
                prop_assert_eq!(line.waiting(), model.len());
                prop_assert!(line.iter().eq(model.iter().map(|(_, held)| held)));
            }
            for ticket in called {
                prop_assert!(!line.is_waiting(ticket) && line.remove(ticket).is_some());
            }
            model.into_iter().for_each(|(ticket, _)| assert!(line.remove(ticket).is_some()));
            prop_assert!(line.is_empty());
        }
    }
}
