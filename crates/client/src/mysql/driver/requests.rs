//! Requests and the answers that they have so far.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::query_range::{QueryRange, QueryRef};
use crate::answers::{ONCE, Places};
use crate::deadlines::Deadlines;
use crate::request::{Goal, Params, Place, Shape};
use crate::tickets::Tickets;
use crate::{Answer, Error, Reply, Request, Result, Ticket};

/// What callers wait for.
#[derive(Default)]
pub(super) struct Requests {
    jobs: Tickets<Job>,
    pub(super) replies: VecDeque<Reply>,
    deadlines: Deadlines,
    /// Queries without an answer, sent or not.
    pub(super) query_count: usize,
    ticket_count: u64,
}

/// A request and the answers that it has so far.
pub(super) struct Job {
    pub(super) sql: Arc<str>,
    pub(super) params: Params,
    pub(super) goal: Goal,
    pub(super) shape: Shape,
    pub(super) place: Place,
    pub(super) is_bulk: bool,
    pub(super) keeps_results: bool,
    deadline: Option<Instant>,
    answers: Places,
    /// Set once the caller has dropped its future: replaces every answer.
    pub(super) discards: Option<Error>,
    open_count: usize,
}

impl Job {
    /// Says what became of a query, if nobody has yet.
    pub(super) fn settle(&mut self, index: usize, error: impl FnOnce() -> Error) {
        self.answers.at(index).get_or_insert_with(|| Err(error()));
    }

    /// Keeps none of its answers.
    pub(super) fn discard(&mut self, error: Error) {
        self.answers.replace(&error);
        self.discards = Some(error);
    }
}

impl Requests {
    /// Enters a request; says where to begin with it, unless it asks nothing.
    pub(super) fn add(&mut self, request: Request) -> (Ticket, Option<QueryRange>) {
        self.ticket_count += 1;
        let ticket = Ticket(self.ticket_count);
        let count = request.params.len();
        if count == 0 {
            let answers = Vec::new().into();
            self.replies.push_back(Reply { ticket, answers });
            return (ticket, None);
        }
        self.query_count += count;
        if let Some(deadline) = request.deadline {
            self.deadlines.insert(deadline, ticket);
        }
        let place = request.place;
        let job = Job {
            sql: request.sql,
            params: request.params,
            goal: request.goal,
            shape: request.shape,
            place,
            is_bulk: request.is_bulk,
            keeps_results: request.keeps_results,
            deadline: request.deadline,
            answers: Places::new(count),
            discards: None,
            open_count: count,
        };
        self.jobs.insert(ticket, job);
        (ticket, Some(QueryRange::all(ticket, count, place)))
    }

    /// The request, unless it was given up.
    pub(super) fn job(&self, ticket: Ticket) -> Option<&Job> {
        self.jobs.get(ticket)
    }

    pub(super) fn job_mut(&mut self, ticket: Ticket) -> Option<&mut Job> {
        self.jobs.get_mut(ticket)
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.jobs.contains(ticket)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// All requests that are open, oldest first.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.jobs.iter().collect()
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Job> {
        let job = self.jobs.remove(ticket)?;
        self.query_count -= job.open_count;
        if let Some(deadline) = job.deadline {
            self.deadlines.remove(deadline, ticket);
        }
        Some(job)
    }

    /// A query has its answer.
    pub(super) fn answer(&mut self, run: QueryRef, answer: Result<Answer>) {
        let Some(job) = self.jobs.get_mut(run.ticket) else {
            return;
        };
        let answer = job.discards.clone().map_or(answer, Err);
        job.open_count -= 1;
        self.query_count -= 1;
        if job.open_count > 0 {
            let before = job.answers.at(run.index).replace(answer);
            assert!(before.is_none(), "{ONCE}");
            return;
        }
        let answers = job.answers.complete(run.index, answer);
        self.remove(run.ticket);
        self.replies.push_back(Reply {
            ticket: run.ticket,
            answers,
        });
    }

    /// All queries of a span have this error.
    pub(super) fn refuse(&mut self, mut span: QueryRange, error: &Error) {
        while !span.is_empty() {
            self.answer(span.first(), Err(error.clone()));
            span.start += 1;
        }
    }

    /// Answers a request that was taken out, with `error` where there is no answer yet.
    pub(super) fn reply(&mut self, ticket: Ticket, job: Job, error: &Error) {
        let answers = job.answers.or_error(|| error.clone());
        self.replies.push_back(Reply { ticket, answers });
    }

    /// A request whose deadline has passed.
    pub(super) fn overdue(&self, now: Instant) -> Option<Ticket> {
        let (deadline, ticket) = self.deadlines.first()?;
        (deadline <= now).then_some(ticket)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| deadline)
    }
}
