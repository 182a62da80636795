//! Requests that wait for a query, which is cancelled when their clients disconnect.

use std::collections::HashMap;
use std::time::Duration;

use lookaside_http::{Io, Presence, Ticket};
use lookaside_knowledge::CancelHandle;
use tokio::task::AbortHandle;

use super::job::BlockingJob;

/// The interval at which clients are checked. A client that has closed its sending side is given up
/// at the second check: it may still read an answer that comes soon.
const LOOK: Duration = Duration::from_millis(500);

/// How a query is cancelled.
pub(super) enum Cancel {
    /// Aborts the task that waits for it.
    Task(AbortHandle),
    /// Aborts the task, but only at the end of the server: other requests may wait for the same
    /// query.
    SharedTask(AbortHandle),
    /// Cancels the session that runs it.
    Session(CancelHandle),
    /// Cancels the session of a job, and drops the job if it has not begun.
    BlockingJob(CancelHandle, BlockingJob),
}

/// The requests of one I/O thread whose queries can be cancelled.
#[derive(Default)]
pub(super) struct Waiters {
    by_ticket: HashMap<u64, Waiter, foldhash::fast::RandomState>,
    /// Whether the timer is set.
    is_timed: bool,
}

struct Waiter {
    cancel: Cancel,
    /// The client had closed its sending side at the last check.
    is_ended: bool,
}

impl Waiters {
    /// Checks the client of a request from now on.
    pub(super) fn add(&mut self, ticket: u64, cancel: Cancel) {
        let waiter = Waiter {
            cancel,
            is_ended: false,
        };
        self.by_ticket.insert(ticket, waiter);
    }

    /// Removes a request that is answered.
    pub(super) fn remove(&mut self, ticket: u64) {
        self.by_ticket.remove(&ticket);
    }

    /// Sets the timer if any requests wait.
    pub(super) fn set_timer(&mut self, io: &mut Io) {
        if !self.is_timed && !self.by_ticket.is_empty() {
            io.timer(io.now() + LOOK, 0);
            self.is_timed = true;
        }
    }

    /// Cancels all requests, which answers them. Tasks, and jobs that have not begun, are answered
    /// without waiting for their threads to notice, since the threads of many queries compete for
    /// CPU time.
    pub(super) fn cancel_all(&mut self) {
        for (_, waiter) in self.by_ticket.drain() {
            waiter.cancel.cancel();
        }
    }

    /// Cancels the queries of clients that have disconnected. The end of the batch sets the timer
    /// again.
    pub(super) fn look(&mut self, io: &Io) {
        self.is_timed = false;
        self.by_ticket.retain(|ticket, waiter| {
            if let Cancel::SharedTask(_) = waiter.cancel {
                return true;
            }
            let presence = io.presence(Ticket::from_u64(*ticket));
            let was_ended = std::mem::replace(&mut waiter.is_ended, presence == Presence::Ended);
            let waits = match presence {
                Presence::Here => true,
                Presence::Ended => !was_ended,
                Presence::Gone => false,
            };
            if !waits {
                waiter.cancel.cancel();
            }
            waits
        });
    }
}

impl Cancel {
    fn cancel(&self) {
        match self {
            Self::Task(task) | Self::SharedTask(task) => task.abort(),
            Self::Session(handle) => handle.cancel(),
            Self::BlockingJob(handle, job) => {
                handle.cancel();
                job.discard();
            }
        }
    }
}
