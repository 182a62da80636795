//! Queries that are not sent: neighbours in one request.

use std::sync::Arc;

use super::statement::Statement;
use crate::request::Place;
use crate::{Syncs, Ticket};

/// The queries `start..end` of a request.
#[derive(Debug)]
pub(super) struct QueryRange {
    pub(super) ticket: Ticket,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) syncs: Syncs,
    pub(super) place: Place,
    /// How often they were sent and failed for a reason of ours.
    pub(super) retry_count: u8,
    /// The statement that was just prepared for it. It is used even if the cache has no room for
    /// it, or there is reason to prepare it again the next time.
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
    /// One query, to be sent alone.
    pub(super) fn of(run: QueryRef) -> Self {
        Self {
            ticket: run.ticket,
            start: run.index,
            end: run.index + 1,
            syncs: Syncs::Each,
            place: run.place,
            retry_count: run.retry_count,
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

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}
