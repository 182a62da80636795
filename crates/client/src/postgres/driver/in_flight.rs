//! What was queued on the wire and is not answered, in its order.

use std::sync::Arc;

use lookaside_wire::RequestId;
use lookaside_wire::postgres::ErrorResponse;

use super::statement::{Key, Statement};
use crate::Answer;
use crate::Error;
use crate::Ticket;
use crate::driver::QueryRef;
use crate::request::Portal;

/// One or two requests on the wire that belong together.
#[derive(Debug)]
pub(super) enum InFlight {
    /// A Close; of a query, if a caller asked for it.
    Close(Option<QueryRef>),
    /// Parse and Describe.
    Prepare {
        key: Key,
        name: Box<str>,
        sequence: u64,
    },
    /// Bind and Execute; without a name for the statement, what prepares it as well.
    Query {
        query: QueryRef,
        statement: Arc<Statement>,
        execute: RequestId,
        /// When it was queued.
        sequence: u64,
        /// The chunk of the output that it is in.
        chunk: u64,
        /// Where the rest of its rows can be fetched.
        portal: Option<Portal>,
    },
    /// A Sync.
    Sync,
    /// A Query, which is alone on the wire.
    Script {
        ticket: Ticket,
        sequence: u64,
        chunk: u64,
    },
}

impl InFlight {
    /// Whether it prepares or runs something, and so takes up room in the window.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Query { .. })
    }
}

/// A query whose outcome is known as soon as the Sync after it is answered.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) query: QueryRef,
    pub(super) statement: Arc<Statement>,
    pub(super) outcome: SyncedOutcome,
}

#[derive(Debug)]
pub(super) enum SyncedOutcome {
    /// It was executed.
    Done(Answer),
    /// It was executed, and its rows cannot be handed out.
    Unreadable(Error),
    /// It was executed, and its rows came in a form that their new types cannot be read from.
    Unforeseen(Error),
    /// Its caller is gone.
    Discarded,
    /// The server refused it.
    Refused {
        error: ErrorResponse<'static>,
        stage: Stage,
        /// Whether the server may have been asked to cancel something while it was on its way.
        at_risk: bool,
    },
    /// Another one that shared its Sync was refused.
    Skipped,
}

/// Where a query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before it began.
    Bind,
    /// While it ran.
    Execute,
}
