//! Requests that wait for a query, and what cancels it when their clients are gone.

use std::collections::HashMap;
use std::time::Duration;

use lookaside_http::{Io, Presence, Ticket};
use lookaside_knowledge::CancelHandle;
use tokio::task::AbortHandle;

use super::job::Job;

/// How often clients are looked after. One that sends no more is given up at the second look: it may
/// have closed its side only, and read an answer that comes soon.
const LOOK: Duration = Duration::from_millis(500);

/// What cancels a query.
pub(super) enum Cancel {
    /// The task that waits for it is dropped.
    Task(AbortHandle),
    /// The same at the end of the server only: others may wait for the same query.
    SharedTask(AbortHandle),
    /// The session that asks is told.
    Session(CancelHandle),
    /// So is the session of a job, which is dropped if it has not begun.
    Job(CancelHandle, Job),
}

/// The requests of one I/O thread whose queries can be cancelled.
#[derive(Default)]
pub(super) struct Waiters {
    by_ticket: HashMap<u64, Waiter, foldhash::fast::RandomState>,
    /// Whether a timer runs.
    is_timed: bool,
}

struct Waiter {
    cancel: Cancel,
    /// The client sent no more when it was looked after last.
    is_ended: bool,
}

impl Waiters {
    /// Looks after the client of a request from now on.
    pub(super) fn add(&mut self, ticket: u64, cancel: Cancel) {
        let waiter = Waiter {
            cancel,
            is_ended: false,
        };
        self.by_ticket.insert(ticket, waiter);
    }

    /// The request is answered.
    pub(super) fn remove(&mut self, ticket: u64) {
        self.by_ticket.remove(&ticket);
    }

    /// Sets the timer if requests wait.
    pub(super) fn set_timer(&mut self, io: &mut Io) {
        if !self.is_timed && !self.by_ticket.is_empty() {
            io.timer(io.now() + LOOK, 0);
            self.is_timed = true;
        }
    }

    /// Cancels all, which answers them: those of tasks, and of jobs that have not begun, before a
    /// thread has noticed, since the threads of many queries leave each other little time.
    pub(super) fn cancel_all(&mut self) {
        for (_, waiter) in self.by_ticket.drain() {
            waiter.cancel.cancel();
        }
    }

    /// Cancels the queries of clients that are gone. The end of the batch sets the timer again.
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
            Self::Job(handle, job) => {
                handle.cancel();
                job.discard();
            }
        }
    }
}
