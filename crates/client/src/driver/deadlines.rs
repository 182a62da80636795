//! The deadlines of requests.
//!
//! Nearly all deadlines come in order, because each is the time of its request plus the same timeout.
//! They are kept in a queue whose first entry is the nearest deadline, which needs no allocation for
//! each; the few that are out of order are kept in a set.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use crate::Ticket;

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// In order, by time and then by ticket. Removed entries are marked until all before them are
    /// removed; the first one is never marked.
    row: VecDeque<Entry>,
    /// Those that were earlier than the last of the row when they were inserted.
    others: BTreeSet<(Instant, Ticket)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    ticket: Ticket,
    is_over: bool,
}

impl Deadlines {
    /// Inserts the deadline of a request, whose ticket is higher than all earlier ones.
    #[inline]
    pub(crate) fn insert(&mut self, at: Instant, ticket: Ticket) {
        if self.row.back().is_none_or(|last| last.at <= at) {
            self.row.push_back(Entry {
                at,
                ticket,
                is_over: false,
            });
        } else {
            self.others.insert((at, ticket));
        }
    }

    /// Removes the deadline of an answered request.
    #[inline]
    pub(crate) fn remove(&mut self, at: Instant, ticket: Ticket) {
        let key = |entry: &Entry| (entry.at, entry.ticket);
        match self.row.binary_search_by_key(&(at, ticket), key) {
            Ok(index) => {
                self.row[index].is_over = true;
                while self.row.front().is_some_and(|entry| entry.is_over) {
                    self.row.pop_front();
                }
            }
            Err(_) => {
                self.others.remove(&(at, ticket));
            }
        }
    }

    /// The nearest deadline, and its ticket.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Instant, Ticket)> {
        let first = self.row.front().map(|entry| (entry.at, entry.ticket));
        match (first, self.others.first()) {
            (Some(first), Some(&other)) => Some(first.min(other)),
            (first, other) => first.or_else(|| other.copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_are_found_as_in_a_set() {
        let mut random = fastrand::Rng::with_seed(7);
        let begin = Instant::now();
        let mut deadlines = Deadlines::default();
        let mut model = BTreeSet::new();
        for step in 0..50_000_u64 {
            if random.bool() && model.len() < 20 {
                // Mostly in order, and sometimes at the same time.
                let at = match random.u8(..4) {
                    0 => step.saturating_sub(random.u64(..50)),
                    _ => step,
                };
                let at = begin + Duration::from_millis(at / 3);
                deadlines.insert(at, Ticket(step));
                model.insert((at, Ticket(step)));
            } else if let Some(&(at, ticket)) = random.choice(&model) {
                deadlines.remove(at, ticket);
                model.remove(&(at, ticket));
            }
            assert_eq!(deadlines.first(), model.first().copied(), "{step}");
            if model.is_empty() {
                assert!(deadlines.row.is_empty() && deadlines.others.is_empty());
            }
        }
    }
}
