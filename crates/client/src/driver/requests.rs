//! Requests and the answers that they have so far.

use std::collections::VecDeque;
use std::time::Instant;

use super::deadlines::Deadlines;
use super::query_range::{QueryRange, QueryRef};
use super::tickets::Tickets;
use crate::answers::{AnswerSlots, ONCE};
use crate::request::{Goal, Params};
use crate::{Answer, Error, Reply, Result, Ticket};

/// The requests that wait for answers, and the replies that wait to be taken.
pub(crate) struct Requests<D> {
    pending: Tickets<PendingRequest<D>>,
    pub(crate) replies: VecDeque<Reply>,
    deadlines: Deadlines,
    query_count: usize,
    ticket_count: u64,
}

/// A request and the answers that it has so far.
pub(crate) struct PendingRequest<D> {
    pub(crate) params: Params,
    pub(crate) goal: Goal,
    /// Data of one protocol.
    pub(crate) details: D,
    deadline: Option<Instant>,
    answers: AnswerSlots,
    /// Set once the caller has dropped its future; replaces every answer.
    discards: Option<Error>,
    open_count: usize,
}

impl<D> PendingRequest<D> {
    /// Creates a request without answers.
    #[inline]
    pub(crate) fn new(params: Params, goal: Goal, deadline: Option<Instant>, details: D) -> Self {
        let count = params.len();
        Self {
            params,
            goal,
            details,
            deadline,
            answers: AnswerSlots::new(count),
            discards: None,
            open_count: count,
        }
    }

    /// Answers a query with an error, unless it has an answer.
    pub(crate) fn fail(&mut self, index: usize, error: impl FnOnce() -> Error) {
        self.answers.at(index).get_or_insert_with(|| Err(error()));
    }

    /// Replaces all answers, including outstanding ones.
    pub(crate) fn set_answers(&mut self, answers: AnswerSlots) {
        self.answers = answers;
    }

    /// Discards its answers, including outstanding ones.
    pub(crate) fn discard(&mut self, error: Error) {
        self.answers.replace(&error);
        self.discards = Some(error);
    }

    /// What replaces every answer, once they are discarded.
    #[inline]
    pub(crate) fn discards(&self) -> Option<&Error> {
        self.discards.as_ref()
    }
}

impl<D> Default for Requests<D> {
    fn default() -> Self {
        Self {
            pending: Tickets::default(),
            replies: VecDeque::new(),
            deadlines: Deadlines::default(),
            query_count: 0,
            ticket_count: 0,
        }
    }
}

impl<D> Requests<D> {
    /// What holds between two calls.
    #[inline]
    fn check(&self) {
        assert_eq!(
            self.pending.is_empty(),
            self.query_count == 0,
            "each pending request has a query without an answer"
        );
    }

    /// Adds a request. One without queries is answered at once.
    #[inline]
    pub(crate) fn add(&mut self, request: PendingRequest<D>) -> Ticket {
        self.check();
        self.ticket_count += 1;
        let ticket = Ticket(self.ticket_count);
        if request.open_count == 0 {
            let answers = Vec::new().into();
            self.replies.push_back(Reply { ticket, answers });
            return ticket;
        }
        self.query_count += request.open_count;
        if let Some(deadline) = request.deadline {
            self.deadlines.insert(deadline, ticket);
        }
        self.pending.insert(ticket, request);
        self.check();
        ticket
    }

    /// The request, unless it was answered or abandoned.
    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&PendingRequest<D>> {
        self.pending.get(ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut PendingRequest<D>> {
        self.pending.get_mut(ticket)
    }

    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.pending.contains(ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many queries have no answer, sent or not.
    #[inline]
    pub(crate) fn query_count(&self) -> usize {
        self.query_count
    }

    /// Takes a request out without a reply.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<PendingRequest<D>> {
        let request = self.pending.remove(ticket)?;
        assert!(
            request.open_count > 0,
            "a pending request has an open query"
        );
        self.query_count -= request.open_count;
        if let Some(deadline) = request.deadline {
            self.deadlines.remove(deadline, ticket);
        }
        self.check();
        Some(request)
    }

    /// Answers a query, and its request if that was the last. Does nothing if the request was
    /// abandoned.
    ///
    /// # Panics
    ///
    /// When the query has an answer.
    pub(crate) fn answer(&mut self, query: QueryRef, answer: Result<Answer>) {
        let Some(request) = self.pending.get_mut(query.ticket) else {
            return;
        };
        let answer = request.discards.clone().map_or(answer, Err);
        assert!(
            request.open_count > 0,
            "a pending request has an open query"
        );
        assert!(
            query.index < request.params.len(),
            "the query index is within its request"
        );
        request.open_count -= 1;
        self.query_count -= 1;
        if request.open_count > 0 {
            let before = request.answers.at(query.index).replace(answer);
            assert!(before.is_none(), "{ONCE}");
            return;
        }
        let answers = request.answers.complete(query.index, answer);
        let deadline = request.deadline;
        self.pending.forget(query.ticket);
        if let Some(deadline) = deadline {
            self.deadlines.remove(deadline, query.ticket);
        }
        self.check();
        self.replies.push_back(Reply {
            ticket: query.ticket,
            answers,
        });
    }

    /// Answers all queries of a range with an error.
    pub(crate) fn refuse<S>(&mut self, mut range: QueryRange<S>, error: &Error) {
        while !range.is_empty() {
            self.answer(range.first(), Err(error.clone()));
            range.start += 1;
        }
    }

    /// Answers a request that was taken out, with `error` where there is no answer yet.
    pub(crate) fn reply(&mut self, ticket: Ticket, request: PendingRequest<D>, error: &Error) {
        let answers = request.answers.or_error(|| error.clone());
        self.replies.push_back(Reply { ticket, answers });
    }

    /// Answers all requests, oldest first, with `error` where there is no answer yet.
    pub(crate) fn fail_all(&mut self, error: &Error) {
        let tickets: Vec<_> = self.pending.iter().collect();
        for ticket in tickets {
            let request = self.remove(ticket).expect("the ticket is of a request");
            self.reply(ticket, request, error);
        }
        assert!(self.pending.is_empty(), "no request waits");
        assert!(self.deadlines.first().is_none(), "no deadline is left");
    }

    /// A request whose deadline has passed.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Ticket> {
        let (deadline, ticket) = self.deadlines.first()?;
        (deadline <= now).then_some(ticket)
    }

    /// The nearest deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| deadline)
    }
}
