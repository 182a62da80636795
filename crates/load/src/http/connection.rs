//! One connection: its requests in flight, unsent bytes, and partial input.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::plan::LoadPlan;
use super::response::Reader;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) template: usize,
    /// When it was due; its latency begins here.
    pub(super) due_ns: u64,
    /// When it was passed to the connection; its timeout begins here.
    pub(super) sent_ns: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// `None` while it waits to be reopened.
    pub(super) socket: Option<OwnedFd>,
    /// The earliest time to reopen it.
    pub(super) retry_ns: u64,
    /// The template that it sends, until it is reopened.
    pub(super) template: usize,
    pub(super) in_flight: VecDeque<InFlight>,
    /// Requests since it was opened.
    pub(super) sent_count: u64,
    pub(super) answered: u64,
    pub(super) reader: Reader,
    /// A partial line of an answer, which cannot be parsed before the rest has arrived.
    pub(super) pending: Vec<u8>,
    pub(super) unsent: Unsent,
    /// Whether epoll is watching for writability.
    pub(super) awaits_writable: bool,
    /// Whether it is in the queue of free connections, at a fixed rate.
    pub(super) is_queued: bool,
}

/// Requests that the kernel has not accepted completely.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// The template and the number of copies if it is constant; otherwise the bytes themselves.
    copies: Option<(usize, usize)>,
    bytes: Vec<u8>,
    /// The number of bytes that were sent.
    sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_none() && self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.copies = None;
        self.bytes.clear();
        self.sent = 0;
    }

    pub(super) fn set_copies(&mut self, template: usize, count: usize, sent: usize) {
        self.copies = Some((template, count));
        self.sent = sent;
    }

    pub(super) fn set_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn rest<'a>(&'a self, plan: &'a LoadPlan) -> &'a [u8] {
        let all = match self.copies {
            Some((template, count)) => plan.templates[template]
                .copies(count)
                .expect("they were there when they were sent"),
            None => &self.bytes,
        };
        &all[self.sent..]
    }

    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
    }
}

impl Connection {
    pub(super) fn new(template: usize, depth: usize) -> Self {
        Self {
            socket: None,
            retry_ns: 0,
            template,
            in_flight: VecDeque::with_capacity(depth),
            sent_count: 0,
            answered: 0,
            reader: Reader::default(),
            pending: Vec::new(),
            unsent: Unsent::default(),
            awaits_writable: false,
            is_queued: false,
        }
    }

    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    /// How many requests may be sent on it now.
    pub(super) fn room(&self, plan: &LoadPlan) -> usize {
        if self.socket.is_none() || !self.unsent.is_empty() {
            return 0;
        }
        let free = plan.options.depth - self.in_flight.len();
        match plan.options.requests_per_connection {
            Some(limit) => free.min(usize::try_from(limit - self.sent_count).unwrap_or(usize::MAX)),
            None => free,
        }
    }

    /// Closes the connection, and resets its state.
    pub(super) fn reset(&mut self) {
        self.socket = None;
        self.in_flight.clear();
        self.sent_count = 0;
        self.answered = 0;
        self.reader = Reader::default();
        self.pending.clear();
        self.unsent.clear();
        self.awaits_writable = false;
    }
}
