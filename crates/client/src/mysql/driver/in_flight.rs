//! What was queued on the wire and is not answered, in its order.

use std::sync::Arc;

use super::statement::{Key, QueryRange, Statement};
use super::statement_kind::StatementKind;
use crate::Error;
use crate::driver::QueryRef;
use crate::request::Fetch;

/// A request on the wire that is answered.
#[derive(Debug)]
pub(super) enum InFlight {
    /// COM_QUERY of the driver itself: to change whether definitions are sent, or to query the
    /// status.
    Own {
        /// When it was queued.
        sequence: u64,
    },
    /// COM_PING, to query the status of a shared session after an error.
    Ping {
        /// When it was queued.
        sequence: u64,
    },
    /// COM_RESET_CONNECTION
    Reset {
        query: QueryRef,
        /// When it was queued.
        sequence: u64,
        /// The chunk of the output that it is in.
        chunk: u64,
    },
    /// COM_STMT_PREPARE
    Prepare {
        key: Key,
        /// When it was queued.
        sequence: u64,
    },
    /// COM_STMT_PREPARE of the no-op statement.
    Guard {
        /// The number of other Prepares before it.
        count: u64,
        /// When it was queued.
        sequence: u64,
    },
    /// A part of what answers a query.
    Query {
        query: QueryRef,
        work: Work,
        statement: Option<Arc<Statement>>,
        kind: StatementKind,
        /// When it was queued.
        sequence: u64,
        /// The chunk of the output that it is in.
        chunk: u64,
    },
    /// COM_STMT_BULK_EXECUTE
    Bulk {
        range: QueryRange,
        statement: Arc<Statement>,
        /// When it was queued.
        sequence: u64,
        /// The chunk of the output that it is in.
        chunk: u64,
    },
    /// COM_STMT_EXECUTE of a statement that failed to prepare, so it has no effect.
    Void {
        query: QueryRef,
        /// The error of the Prepare; `None` if the query has to be sent again.
        error: Option<Error>,
        /// When it was queued.
        sequence: u64,
    },
}

/// What the server does for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// COM_STMT_EXECUTE, or COM_QUERY without a prepared statement.
    Execute,
    /// COM_STMT_EXECUTE of the statement that the preceding Prepare prepares.
    Last,
    /// COM_STMT_PREPARE for one stream only.
    Prepare,
    /// COM_STMT_EXECUTE with a cursor, or COM_QUERY without a prepared statement.
    Open(Fetch),
    /// COM_STMT_FETCH
    Fetch(Fetch),
}

impl InFlight {
    pub(super) fn sequence(&self) -> u64 {
        match *self {
            Self::Own { sequence }
            | Self::Ping { sequence }
            | Self::Reset { sequence, .. }
            | Self::Prepare { sequence, .. }
            | Self::Guard { sequence, .. }
            | Self::Query { sequence, .. }
            | Self::Bulk { sequence, .. }
            | Self::Void { sequence, .. } => sequence,
        }
    }

    /// Whether it opens a transaction.
    pub(super) fn is_begin(&self) -> bool {
        matches!(self, Self::Query { kind, .. } if *kind == StatementKind::Begin)
    }

    /// Whether it can be sent again after an interruption without being executed twice.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            // It is over before it could be interrupted, and it is not known whether it was done.
            Self::Own { .. } | Self::Reset { .. } | Self::Bulk { .. } => false,
            Self::Ping { .. } | Self::Prepare { .. } | Self::Guard { .. } | Self::Void { .. } => {
                true
            }
            Self::Query { work, kind, .. } => *kind == StatementKind::Read && work.is_repeatable(),
        }
    }
}

impl Work {
    /// Whether it can be repeated. A cursor that has advanced cannot go back.
    pub(super) fn is_repeatable(self) -> bool {
        !matches!(self, Self::Fetch(_))
    }
}
