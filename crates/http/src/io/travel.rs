//! The way of requests to the serial stage and back, as their I/O thread sees it.

use std::mem;

use super::Due;
use crate::connection::{Answer, Pending};
use crate::parse::Head;
use crate::render::Manner;
use crate::request::Request;
use crate::serial::{Job, REQUEST_COUNT_MAX};
use crate::slab::Key;
use crate::station::Entrance;
use crate::{Io, Reply, Ticket};

/// As many jobs are kept for later ones.
const JOB_COUNT_MAX: usize = 256;

/// Jobs that a thread does for the stage before its own connections have their turn: as many as
/// come back together.
const WORK_COUNT_MAX: usize = 64;

/// A thread's share of the serial stage.
#[derive(Default)]
pub(crate) struct Travel {
    /// `None` where the server has no serial stage.
    pub(crate) entrance: Option<Entrance>,
    /// The job that the requests of a connection are put into.
    open: Option<Job>,
    /// Jobs that go out at the end of the batch, or when the ring has room.
    leaving: Vec<Job>,
    /// Jobs that have come back.
    pub(crate) returned: Vec<Job>,
    spare: Vec<Job>,
    /// How many jobs may still be done here in this batch of events.
    budget: usize,
    /// Whether this thread left the stage with work to do, and has to go on.
    is_owing: bool,
}

impl Travel {
    /// A batch of events ends.
    pub(crate) fn renew(&mut self) {
        self.budget = WORK_COUNT_MAX;
    }

    /// Whether there is work that nobody else may do.
    pub(crate) fn is_owing(&self) -> bool {
        self.is_owing
    }
}

impl Io {
    /// Puts a request on its way to the serial stage, with those that came before it in the same
    /// read.
    pub(crate) fn depart(
        &mut self,
        key: Key,
        request: &Request<'_>,
        head: &Head<'_>,
        manner: Manner,
        tag: u32,
    ) {
        if self.travel.entrance.is_none() {
            // There is no such stage.
            return drop(Reply::of_call(self, key, manner));
        }
        let Some(connection) = self.connections.get(key) else {
            return;
        };
        let last = connection.pending.back().map(|last| last.sequence);
        let fits = |job: &Job| {
            let ticket = last.map(|sequence| u64::from(Ticket::new(key, sequence)));
            ticket == Some(job.ticket) && job.requests.len() < REQUEST_COUNT_MAX
        };
        if !self.travel.open.as_ref().is_some_and(fits) {
            let sequence = self.next_sequence();
            let Some(connection) = self.connections.get_mut(key) else {
                return;
            };
            connection.pending.push_back(Pending {
                sequence,
                manner,
                progress: Answer::Departed,
                bytes: Vec::new(),
            });
            let travel = &mut self.travel;
            let mut job = travel.spare.pop().unwrap_or_default();
            job.thread = self.index;
            job.ticket = Ticket::new(key, sequence).into();
            job.input = self.pool.take();
            job.output = self.pool.take();
            travel.leaving.extend(travel.open.replace(job));
        }
        let manner = Manner {
            close: manner.close || self.is_draining,
            ..manner
        };
        if let Some(job) = &mut self.travel.open {
            job.push(request, head.bytes, manner, tag);
        }
    }

    /// Lets the jobs of the batch go together. Those that find the ring full go when others have
    /// come back.
    pub(crate) fn send_jobs(&mut self) {
        let travel = &mut self.travel;
        travel.leaving.extend(travel.open.take());
        if travel.leaving.is_empty() && !travel.is_owing {
            return;
        }
        let Some(entrance) = &mut travel.entrance else {
            return;
        };
        let mut returned = mem::take(&mut travel.returned);
        let entered = entrance.enter(&mut travel.leaving, &mut returned, &mut travel.budget);
        travel.is_owing = entered.unwrap_or(false);
        for job in returned.drain(..) {
            self.arrive(job);
        }
        self.travel.returned = returned;
        if entered.is_err() {
            // The stage is no more, which a defect of the pipeline alone can bring about.
            for mut job in mem::take(&mut self.travel.leaving) {
                job.output.clear();
                job.close = true;
                self.arrive(job);
            }
        } else if !self.travel.leaving.is_empty() {
            // The ring may be full of others' jobs, so that nobody would tell us of room.
            self.wheel.insert(self.clock.tick() + 1, Due::Depart);
        }
    }

    /// Takes the replies of a job.
    pub(crate) fn arrive(&mut self, mut job: Job) {
        self.counters.add(&job.counters);
        let ticket = Ticket::from_u64(job.ticket);
        if let Some(key) = self.connections.key_at(ticket.index())
            && let Some(connection) = self.connections.get_mut(key)
            && let Some(position) = connection.position(ticket.sequence())
        {
            let pending = &mut connection.pending[position];
            pending.progress = Answer::Done;
            pending.manner.close = job.close;
            pending.bytes = mem::take(&mut job.output);
            self.advance(key);
            self.mark(key);
        }
        self.pool.give(mem::take(&mut job.output));
        self.pool.give(mem::take(&mut job.input));
        if self.travel.spare.len() < JOB_COUNT_MAX {
            job.reset();
            self.travel.spare.push(job);
        }
    }
}
