//! The queue of pending requests, one byte each: ids are consecutive, so only the first is stored.

use std::collections::VecDeque;

use crate::postgres::Request;
use crate::{RequestId, RequestIds};

/// The kind of a request, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Startup,
    Query,
    Parse,
    DescribeStatement,
    DescribePortal,
    Bind,
    Execute,
    Close,
    Sync,
}

impl RequestKind {
    pub(super) fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Query(_) => Self::Query,
            Request::Parse(_) => Self::Parse,
            Request::DescribeStatement(_) => Self::DescribeStatement,
            Request::DescribePortal(_) => Self::DescribePortal,
            Request::Bind(..) => Self::Bind,
            Request::Execute { .. } => Self::Execute,
            Request::CloseStatement(_) | Request::ClosePortal(_) => Self::Close,
            Request::Sync => Self::Sync,
        }
    }

    /// What the connection waits for while this request is the first, for error messages.
    pub(super) fn waiting(self) -> &'static str {
        match self {
            Self::Startup => "during the log-in",
            Self::Query => "at this point of the answer to Query",
            Self::Parse => "as the answer to Parse",
            Self::DescribeStatement => "at this point of the answer to Describe of a statement",
            Self::DescribePortal => "as the answer to Describe of a portal",
            Self::Bind => "as the answer to Bind",
            Self::Execute => "at this point of the answer to Execute",
            Self::Close => "as the answer to Close",
            Self::Sync => "as the answer to Sync",
        }
    }
}

/// The progress of the answer to the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of it was received.
    Fresh,
    /// The parameters of a statement's description were received.
    Parameters,
    /// The columns of a query's result were received, and perhaps rows.
    Rows,
    /// At least one result of a query is complete.
    Between,
    /// The server waits for the client's data.
    CopyIn,
    /// The client's data was sent.
    CopyInEnded,
    /// The server sends data.
    CopyOut,
    /// The server has sent all data.
    CopyOutEnded,
    /// Both sides send data.
    CopyBoth,
    /// The client has sent all data of a COPY in both directions, and the server sends.
    CopyBothOut,
    /// The server has sent all data of a COPY in both directions, and waits for the client's.
    CopyBothIn,
    /// Only the end is missing.
    Ending,
}

impl Phase {
    /// Whether the client may send data of a COPY, and nothing else.
    pub(super) fn takes_data(self) -> bool {
        matches!(self, Self::CopyIn | Self::CopyBoth | Self::CopyBothIn)
    }
}

/// The pending requests.
#[derive(Debug)]
pub(super) struct Queue {
    kinds: VecDeque<RequestKind>,
    first: u64,
    /// The phase of the first request.
    pub(super) phase: Phase,
}

impl Queue {
    /// The initial queue, with the log-in as pending request.
    pub(super) fn new() -> Self {
        Self {
            kinds: VecDeque::from([RequestKind::Startup]),
            first: 0,
            phase: Phase::Fresh,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn ids(&self) -> RequestIds {
        RequestIds::new(self.first, self.kinds.len())
    }

    #[inline]
    pub(super) fn push(&mut self, kind: RequestKind) -> RequestId {
        let id = self.ids().following();
        self.kinds.push_back(kind);
        id
    }

    /// Appends several requests; returns the id of the last.
    #[inline]
    pub(super) fn extend(&mut self, kinds: &[RequestKind]) -> RequestId {
        let (last, others) = kinds.split_last().expect("there is a request");
        for kind in others {
            self.push(*kind);
        }
        self.push(*last)
    }

    /// The request that the next answer is for.
    #[inline]
    pub(super) fn head(&self) -> Option<(RequestId, RequestKind)> {
        Some((self.ids().first()?, *self.kinds.front()?))
    }

    /// Removes the first request, which is answered.
    #[inline]
    pub(super) fn pop(&mut self) {
        let popped = self.kinds.pop_front();
        assert!(popped.is_some(), "an answer is for a request");
        self.first += 1;
        self.phase = Phase::Fresh;
    }

    /// Removes the requests before the next Sync.
    pub(super) fn pop_until_sync(&mut self) -> RequestIds {
        assert!(
            matches!(self.phase, Phase::Fresh | Phase::Ending),
            "what is skipped was not begun"
        );
        let count = self
            .kinds
            .iter()
            .position(|&kind| kind == RequestKind::Sync);
        let ids = RequestIds::new(self.first, count.unwrap_or(self.kinds.len()));
        self.kinds.drain(..ids.len());
        self.first += ids.len() as u64;
        ids
    }

    /// How many Syncs follow the first request with nothing in between.
    pub(super) fn sync_count_behind_head(&self) -> usize {
        let behind = self.kinds.iter().skip(1);
        behind
            .take_while(|&&kind| kind == RequestKind::Sync)
            .count()
    }
}
