//! The queue of pending requests: ids are consecutive, so only the first is stored.

use std::collections::VecDeque;

use crate::mysql::{Request, StatementId};
use crate::{RequestId, RequestIds};

/// The statement of a request that has none. Servers count from 1.
const NO_STATEMENT: StatementId = StatementId(0);

/// The kind of a request, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Startup,
    Query,
    Prepare,
    Execute,
    Fetch,
    /// Answered by OK or ERR: Ping, and the reset of a statement.
    Simple,
    ResetConnection,
    /// Not answered.
    Close,
}

impl RequestKind {
    pub(super) fn of(request: &Request<'_>) -> (Self, StatementId) {
        match *request {
            Request::Query(_) => (Self::Query, NO_STATEMENT),
            Request::Prepare(_) => (Self::Prepare, NO_STATEMENT),
            Request::Fetch { statement, .. } => (Self::Fetch, statement),
            Request::ResetStatement(statement) => (Self::Simple, statement),
            Request::CloseStatement(statement) => (Self::Close, statement),
            Request::Ping => (Self::Simple, NO_STATEMENT),
            Request::ResetConnection => (Self::ResetConnection, NO_STATEMENT),
        }
    }

    /// What the connection waits for while this request is the first, for error messages.
    pub(super) fn waiting(self) -> &'static str {
        match self {
            Self::Startup => "during the log-in",
            Self::Query => "at this point of the answer to COM_QUERY",
            Self::Prepare => "at this point of the answer to COM_STMT_PREPARE",
            Self::Execute => "at this point of the answer to COM_STMT_EXECUTE",
            Self::Fetch => "at this point of the answer to COM_STMT_FETCH",
            Self::Simple | Self::ResetConnection => "as the answer to this command",
            Self::Close => "while no request waits",
        }
    }
}

/// A pending request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) kind: RequestKind,
    /// The number of the first packet of the answer.
    pub(super) sequence: u8,
    /// The statement of the request, if it has one.
    pub(super) statement: StatementId,
}

/// The pending requests.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    first: u64,
}

impl Queue {
    /// The initial queue, with the log-in as pending request.
    pub(super) fn new() -> Self {
        let login = Waiting {
            kind: RequestKind::Startup,
            sequence: 0,
            statement: NO_STATEMENT,
        };
        Self {
            waiting: VecDeque::from([login]),
            first: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn ids(&self) -> RequestIds {
        RequestIds::new(self.first, self.waiting.len())
    }

    pub(super) fn push(&mut self, waiting: Waiting) -> RequestId {
        let id = self.ids().following();
        self.waiting.push_back(waiting);
        id
    }

    /// The request that the next answer is for.
    pub(super) fn head(&self) -> Option<(RequestId, Waiting)> {
        Some((self.ids().first()?, *self.waiting.front()?))
    }

    /// Removes the first request, which is answered.
    pub(super) fn pop(&mut self) {
        let popped = self.waiting.pop_front();
        assert!(popped.is_some(), "an answer is for a request");
        self.first += 1;
    }
}
