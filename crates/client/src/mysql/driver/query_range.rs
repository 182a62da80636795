//! Queries that are not sent: neighbours in one request.

use std::sync::Arc;

use super::statement::Statement;
use crate::Ticket;
use crate::request::Place;

/// The queries `start..end` of a request.
#[derive(Debug)]
pub(super) struct QueryRange {
    pub(super) ticket: Ticket,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) place: Place,
    /// How often they were sent and failed for a reason of ours.
    pub(super) retry_count: u8,
    /// The statement that was just prepared for the first of them. It is used even if the cache has
    /// no room for it, or there is reason to prepare it again the next time.
    pub(super) statement: Option<Arc<Statement>>,
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryRef {
    pub(super) ticket: Ticket,
    pub(super) index: usize,
    pub(super) place: Place,
    pub(super) retry_count: u8,
}

impl QueryRange {
    /// All queries of a request.
    pub(super) fn all(ticket: Ticket, count: usize, place: Place) -> Self {
        Self {
            ticket,
            start: 0,
            end: count,
            place,
            retry_count: 0,
            statement: None,
        }
    }

    /// One query, as if it had not been sent yet.
    pub(super) fn of(run: QueryRef, statement: Option<Arc<Statement>>) -> Self {
        Self {
            ticket: run.ticket,
            start: run.index,
            end: run.index + 1,
            place: run.place,
            retry_count: run.retry_count,
            statement,
        }
    }

    /// One query once more.
    pub(super) fn again(run: QueryRef) -> Self {
        Self {
            ticket: run.ticket,
            start: run.index,
            end: run.index + 1,
            place: run.place,
            retry_count: run.retry_count + 1,
            statement: None,
        }
    }

    /// Its first query.
    pub(super) fn first(&self) -> QueryRef {
        QueryRef {
            ticket: self.ticket,
            index: self.start,
            place: self.place,
            retry_count: self.retry_count,
        }
    }

    /// Takes the first `count` queries off.
    pub(super) fn split(&mut self, count: usize) -> Self {
        assert!(count <= self.end - self.start, "a part is no larger");
        let start = self.start;
        self.start += count;
        Self {
            start,
            end: start + count,
            statement: self.statement.take(),
            ..*self
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}
