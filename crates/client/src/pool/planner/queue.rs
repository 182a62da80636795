//! The queue of waiters for a connection, first come, first served.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use super::Usage;

/// Identifies a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::pool) struct Waiter(u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    waiter: Waiter,
    usage: Usage,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In the order of their numbers.
    entries: VecDeque<Entry>,
    ends: BTreeSet<(Instant, Waiter)>,
    exclusive_count: usize,
    waiter_count: u64,
}

impl Queue {
    /// What holds between two calls.
    fn check(&self) {
        assert_eq!(
            self.entries.len(),
            self.ends.len(),
            "the wait of each waiter has an end"
        );
        assert!(
            self.exclusive_count <= self.entries.len(),
            "exclusive waiters are counted among the waiters"
        );
        debug_assert!(
            self.entries
                .back()
                .is_none_or(|last| last.waiter.0 <= self.waiter_count),
            "the last waiter has the greatest number"
        );
    }

    pub(super) fn push(&mut self, usage: Usage, until: Instant) -> Waiter {
        self.waiter_count += 1;
        let waiter = Waiter(self.waiter_count);
        self.exclusive_count += usize::from(usage == Usage::Exclusive);
        self.ends.insert((until, waiter));
        self.entries.push_back(Entry {
            waiter,
            usage,
            until,
        });
        self.check();
        waiter
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn exclusive_count(&self) -> usize {
        self.exclusive_count
    }

    pub(super) fn shared_count(&self) -> usize {
        self.entries.len() - self.exclusive_count
    }

    /// The usage that the waiter at `position` requests.
    pub(super) fn usage(&self, position: usize) -> Option<Usage> {
        self.entries.get(position).map(|entry| entry.usage)
    }

    pub(super) fn remove_at(&mut self, position: usize) -> Option<Waiter> {
        let entry = self.entries.remove(position)?;
        self.exclusive_count -= usize::from(entry.usage == Usage::Exclusive);
        let was_there = self.ends.remove(&(entry.until, entry.waiter));
        assert!(was_there, "the wait of each waiter has an end");
        self.check();
        Some(entry.waiter)
    }

    /// Removes the first waiter.
    pub(super) fn pop(&mut self) -> Option<Waiter> {
        self.remove_at(0)
    }

    /// Removes a waiter, which may be gone already.
    pub(super) fn remove(&mut self, waiter: Waiter) {
        let position = self
            .entries
            .binary_search_by_key(&waiter, |entry| entry.waiter);
        if let Ok(position) = position {
            self.remove_at(position);
        }
    }

    /// The earliest deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ends.first().map(|&(until, _)| until)
    }

    /// Removes a waiter whose deadline has passed.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<Waiter> {
        let &(until, waiter) = self.ends.first()?;
        if now < until {
            return None;
        }
        self.remove(waiter);
        Some(waiter)
    }
}
