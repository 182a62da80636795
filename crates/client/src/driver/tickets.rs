//! A map from the tickets of unanswered requests to values.
//!
//! Tickets are consecutive numbers, and requests are answered roughly in order. So all entries
//! between the oldest and the newest open ticket are kept in one queue, indexed by subtraction:
//!
//! ```text
//!   ticket   7   8   9  10  11
//!          ┌───┬───┬───┬───┬───┐
//!          │ x │   │   │ x │ x │     8 and 9 are answered, and go when 7 does
//!          └───┴───┴───┴───┴───┘
//! ```

use std::collections::VecDeque;

use crate::Ticket;

#[derive(Debug)]
pub(crate) struct Tickets<T> {
    /// The ticket of the first entry.
    first: u64,
    /// Neither the first nor the last entry is empty.
    entries: VecDeque<Option<T>>,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self {
            first: 0,
            entries: VecDeque::new(),
        }
    }
}

impl<T> Tickets<T> {
    /// What holds between two calls. Only in debug builds, as this is at each query's cost.
    #[inline]
    fn check(&self) {
        debug_assert!(
            self.entries.front().is_none_or(Option::is_some),
            "the first entry is not empty"
        );
        debug_assert!(
            self.entries.back().is_none_or(Option::is_some),
            "the last entry is not empty"
        );
    }

    /// Inserts a value for a ticket that is higher than all open ones.
    #[inline]
    pub(crate) fn insert(&mut self, ticket: Ticket, value: T) {
        if self.entries.is_empty() {
            self.first = ticket.0;
        }
        let index = self.index(ticket);
        assert!(
            index.is_some_and(|index| index >= self.entries.len()),
            "a ticket is later than those before it"
        );
        while index > Some(self.entries.len()) {
            self.entries.push_back(None);
        }
        self.entries.push_back(Some(value));
        self.check();
        debug_assert!(self.contains(ticket), "the entered span is found");
    }

    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.entries.get(self.index(ticket)?)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let index = self.index(ticket)?;
        self.entries.get_mut(index)?.as_mut()
    }

    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.get(ticket).is_some()
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let index = self.index(ticket)?;
        let value = self.entries.get_mut(index)?.take();
        self.trim();
        value
    }

    /// Removes a value in place, which for a large value costs less than returning it.
    #[inline]
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        match self.index(ticket) {
            // A single entry is dropped in place, too.
            Some(0) if self.entries.len() == 1 => self.entries.clear(),
            Some(index) if index < self.entries.len() => {
                self.entries[index] = None;
                self.trim();
            }
            _ => {}
        }
    }

    /// Removes empty entries at both ends.
    #[inline]
    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
        while let Some(None) = self.entries.back() {
            self.entries.pop_back();
        }
        self.check();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All that were not removed, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ticket> {
        let tickets = (self.first..).map(Ticket).zip(&self.entries);
        tickets.filter_map(|(ticket, entry)| entry.as_ref().map(|_| ticket))
    }

    /// The index of a ticket, present or not.
    fn index(&self, ticket: Ticket) -> Option<usize> {
        usize::try_from(ticket.0.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn tickets_are_found_as_in_a_map() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut tickets = Tickets::default();
        let mut model = BTreeMap::new();
        let mut last = 0_u64;
        for step in 0..50_000 {
            let near = Ticket(last.saturating_sub(random.u64(..12)) + random.u64(..2));
            match random.u8(..4) {
                0 if model.len() < 8 => {
                    last += random.u64(1..4);
                    tickets.insert(Ticket(last), step);
                    model.insert(last, step);
                }
                1 => assert_eq!(tickets.remove(near), model.remove(&near.0), "{step}"),
                2 => {
                    tickets.forget(near);
                    model.remove(&near.0);
                }
                _ => {}
            }
            assert_eq!(tickets.get(near), model.get(&near.0), "{step}");
            assert_eq!(tickets.get_mut(near).copied(), model.get(&near.0).copied());
            assert_eq!(tickets.contains(near), model.contains_key(&near.0));
            assert_eq!(tickets.is_empty(), model.is_empty());
            assert!(
                tickets
                    .iter()
                    .map(|ticket| ticket.0)
                    .eq(model.keys().copied())
            );
            // Removed entries at either end take no space.
            let extent = model.last_key_value().zip(model.first_key_value());
            let extent = extent.map_or(0, |((last, _), (first, _))| last - first + 1);
            assert_eq!(tickets.entries.len() as u64, extent, "{step}");
        }
    }

    #[test]
    #[should_panic(expected = "a ticket is later than those before it")]
    fn tickets_ascend() {
        let mut tickets = Tickets::default();
        tickets.insert(Ticket(2), ());
        tickets.insert(Ticket(2), ());
    }
}
