//! Submits requests to the serial stage and completes them, on their I/O thread.

use std::mem;

use super::Due;
use crate::connection::{Answer, Pending};
use crate::parse::Head;
use crate::render::ResponseFraming;
use crate::request::Request;
use crate::serial::{REQUEST_COUNT_MAX, SerialJob};
use crate::serial_executor::Submitter;
use crate::slab::Key;
use crate::{Io, Reply, Ticket};

/// The number of unused jobs that are kept for reuse.
const JOB_COUNT_MAX: usize = 256;

/// The number of jobs that a thread runs for the stage before it serves its own connections again:
/// as many as are returned together.
const WORK_COUNT_MAX: usize = 64;

/// A thread's share of the serial stage.
#[derive(Default)]
pub(crate) struct Submissions {
    /// `None` where the server has no serial stage.
    pub(crate) submitter: Option<Submitter>,
    /// The job that the requests of a connection are put into.
    open: Option<SerialJob>,
    /// Jobs that go out at the end of the batch, or when the ring has room.
    outgoing: Vec<SerialJob>,
    /// Jobs that have come back.
    pub(crate) returned: Vec<SerialJob>,
    spare: Vec<SerialJob>,
    /// How many jobs may still be run by this thread in this batch of events.
    budget: usize,
    /// Whether this thread left work at the stage, and has to continue it.
    has_work: bool,
}

impl Submissions {
    /// Called at the end of a batch of events.
    pub(crate) fn renew(&mut self) {
        self.budget = WORK_COUNT_MAX;
    }

    /// Whether there is work that only this thread may do.
    pub(crate) fn has_work(&self) -> bool {
        self.has_work
    }
}

impl Io {
    /// Submits a request to the serial stage, with those that came before it in the same read.
    pub(crate) fn submit(
        &mut self,
        key: Key,
        request: &Request<'_>,
        head: &Head<'_>,
        framing: ResponseFraming,
        tag: u32,
    ) {
        if self.submissions.submitter.is_none() {
            // There is no serial stage; dropping the reply sends 500.
            return drop(Reply::of_call(self, key, framing));
        }
        let Some(connection) = self.connections.get(key) else {
            return;
        };
        let last = connection.pending.back().map(|last| last.sequence);
        let fits = |job: &SerialJob| {
            let ticket = last.map(|sequence| u64::from(Ticket::new(key, sequence)));
            ticket == Some(job.ticket) && job.requests.len() < REQUEST_COUNT_MAX
        };
        if !self.submissions.open.as_ref().is_some_and(fits) {
            let sequence = self.next_sequence();
            let Some(connection) = self.connections.get_mut(key) else {
                return;
            };
            connection.pending.push_back(Pending {
                sequence,
                framing,
                progress: Answer::Departed,
                bytes: Vec::new(),
            });
            let submissions = &mut self.submissions;
            let mut job = submissions.spare.pop().unwrap_or_default();
            job.thread = self.index;
            job.ticket = Ticket::new(key, sequence).into();
            job.input = self.pool.take();
            job.output = self.pool.take();
            submissions.outgoing.extend(submissions.open.replace(job));
        }
        let framing = ResponseFraming {
            close: framing.close || self.is_draining,
            ..framing
        };
        if let Some(job) = &mut self.submissions.open {
            job.push(request, head.bytes, framing, tag);
        }
    }

    /// Submits the jobs of the batch together. Jobs that find the ring full are submitted when
    /// others have been returned.
    pub(crate) fn send_jobs(&mut self) {
        let submissions = &mut self.submissions;
        submissions.outgoing.extend(submissions.open.take());
        if submissions.outgoing.is_empty() && !submissions.has_work {
            return;
        }
        let Some(submitter) = &mut submissions.submitter else {
            return;
        };
        let mut returned = mem::take(&mut submissions.returned);
        let entered = submitter.enter(
            &mut submissions.outgoing,
            &mut returned,
            &mut submissions.budget,
        );
        submissions.has_work = entered.unwrap_or(false);
        for job in returned.drain(..) {
            self.complete(job);
        }
        self.submissions.returned = returned;
        if entered.is_err() {
            // The stage has ended, which only a bug in the pipeline can cause.
            for mut job in mem::take(&mut self.submissions.outgoing) {
                job.output.clear();
                job.close = true;
                self.complete(job);
            }
        } else if !self.submissions.outgoing.is_empty() {
            // The ring may be full of other threads' jobs, so that this thread would not be
            // notified of room.
            self.wheel.insert(self.clock.tick() + 1, Due::Depart);
        }
    }

    /// Takes the replies of a job.
    pub(crate) fn complete(&mut self, mut job: SerialJob) {
        self.counters.add(&job.counters);
        let ticket = Ticket::from_u64(job.ticket);
        if let Some(key) = self.connections.key_at(ticket.index())
            && let Some(connection) = self.connections.get_mut(key)
            && let Some(position) = connection.position(ticket.sequence())
        {
            let pending = &mut connection.pending[position];
            pending.progress = Answer::Done;
            pending.framing.close = job.close;
            pending.bytes = mem::take(&mut job.output);
            self.advance(key);
            self.mark(key);
        }
        self.pool.give(mem::take(&mut job.output));
        self.pool.give(mem::take(&mut job.input));
        if self.submissions.spare.len() < JOB_COUNT_MAX {
            job.reset();
            self.submissions.spare.push(job);
        }
    }
}
