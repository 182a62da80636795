//! Ranges of unsent queries of one request.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::request::RequestScope;
use crate::{Syncs, Ticket};

/// The queries `start..end` of a request. `S` is a prepared statement of the protocol.
#[derive(Debug)]
pub(crate) struct QueryRange<S> {
    pub(crate) ticket: Ticket,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether they may share a Sync with other queries. MySQL has none.
    pub(crate) syncs: Syncs,
    pub(crate) scope: RequestScope,
    /// How often they were sent and failed because of another query.
    pub(crate) retry_count: u8,
    /// The statement that was just prepared for the first of them. It is used even if the cache has
    /// no room for it, or there is reason to prepare it again the next time.
    pub(crate) statement: Option<Arc<S>>,
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryRef {
    pub(crate) ticket: Ticket,
    pub(crate) index: usize,
    pub(crate) scope: RequestScope,
    pub(crate) retry_count: u8,
}

impl<S> QueryRange<S> {
    /// All queries of a request.
    #[inline]
    pub(crate) fn all(ticket: Ticket, count: usize, scope: RequestScope, syncs: Syncs) -> Self {
        Self {
            ticket,
            start: 0,
            end: count,
            syncs,
            scope,
            retry_count: 0,
            statement: None,
        }
    }

    /// One query, to be sent alone, as if it had not been sent before.
    pub(crate) fn one(query: QueryRef, statement: Option<Arc<S>>) -> Self {
        Self {
            ticket: query.ticket,
            start: query.index,
            end: query.index + 1,
            syncs: Syncs::Each,
            scope: query.scope,
            retry_count: query.retry_count,
            statement,
        }
    }

    /// One query, to be sent alone and once more.
    pub(crate) fn retry(query: QueryRef) -> Self {
        let retry_count = query.retry_count + 1;
        Self::one(
            QueryRef {
                retry_count,
                ..query
            },
            None,
        )
    }

    /// The first query.
    #[inline]
    pub(crate) fn first(&self) -> QueryRef {
        debug_assert!(self.start < self.end, "the range has a query");
        QueryRef {
            ticket: self.ticket,
            index: self.start,
            scope: self.scope,
            retry_count: self.retry_count,
        }
    }

    /// Splits off the first `count` queries.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        assert!(count <= self.end - self.start, "a part is not larger");
        let start = self.start;
        self.start += count;
        Self {
            start,
            end: start + count,
            statement: self.statement.take(),
            ..*self
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(
            self.start <= self.end,
            "a range does not end before it begins"
        );
        self.start == self.end
    }
}

/// Puts ranges in front of a backlog, in their order.
pub(crate) fn requeue<S>(backlog: &mut VecDeque<QueryRange<S>>, ranges: Vec<QueryRange<S>>) {
    for range in ranges.into_iter().rev() {
        backlog.push_front(range);
    }
}
