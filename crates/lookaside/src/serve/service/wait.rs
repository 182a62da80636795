//! Answers that do not come from the I/O thread itself: from a provider, SQLite on another thread,
//! or a batch.
//!
//! The I/O thread defers the request and goes on. The answer is sent to that thread's queue, and
//! the thread is woken. So the state of a thread, including its cache of bodies, is accessed by
//! that thread only.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use lookaside_http::negotiate::Encoding;
use lookaside_http::{Ticket, Waker};
use lookaside_knowledge::{
    Coverage, Error, Freshness, LogPosition, Position, Provenance, RowSet, Session, Statement,
    Value,
};

use super::super::catalog::Catalog;
use super::super::counters::Layer;
use super::super::encode::BodyFormat;
use super::super::problem::Problem;
use super::coding::{BodyCompressor, CODED_SIZE_MIN};
use super::freshness::check_position;
use super::head::KeptHead;
use super::job::BlockingJob;
use super::share::Share;
use super::waiters::Cancel;
use super::{RequestContext, Responder, Shared, Thread};

/// The number of requests that may wait at once. Each costs about a kilobyte, and the databases
/// serve fewer at once: more requests would only wait longer.
const WAITING_COUNT_MAX: u64 = 20_000;

/// A lookup that waits for its rows.
pub(super) struct Question {
    pub(super) catalog: Arc<Catalog>,
    pub(super) index: usize,
    pub(super) format: BodyFormat,
    pub(super) query: Box<str>,
    pub(super) generation: u64,
    pub(super) if_none_match: Option<Box<[u8]>>,
    pub(super) freshness: Freshness,
    /// A position that the server is asked for first.
    pub(super) unconfirmed: Option<LogPosition>,
    /// How far the change feed had brought the caches when the request came.
    pub(super) coverage: Coverage,
}

/// An answer that is sent to its I/O thread.
pub(super) struct Completion {
    pub(super) ticket: u64,
    pub(super) context: RequestContext,
    pub(super) outcome: WaitOutcome,
    /// The memory that it is accounted for until it is written to its connection.
    pub(super) share: Share,
}

impl Completion {
    /// The request that it answers.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket::from_u64(self.ticket)
    }

    /// Sets the rows that have just arrived, if there is room for them.
    pub(super) fn set_rows(
        &mut self,
        question: Question,
        rows: Result<(RowSet, Provenance), Error>,
    ) {
        let size = rows.as_ref().map_or(0, |(rows, _)| rows_size(rows));
        self.outcome = match self.share.grow(size) {
            Ok(()) => WaitOutcome::Rows(Box::new(question), rows, Instant::now()),
            Err(problem) => WaitOutcome::Body(Err(problem)),
        };
    }
}

/// The result of a deferred request.
pub(super) enum WaitOutcome {
    /// There is no answer yet.
    Unanswered,
    /// The rows, and the time of their arrival, which their age refers to.
    Rows(Box<Question>, Result<(RowSet, Provenance), Error>, Instant),
    Body(Result<(Ready, Option<Encoding>), Problem>),
    /// A compressed body, with a head that was made before.
    Coded(Box<KeptHead>, Vec<u8>),
}

/// A body that was made on another thread.
pub(super) struct Ready {
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) layer: Option<Layer>,
    /// The age of its oldest part, if it contains stale answers.
    pub(super) age: Option<Duration>,
    /// A header with a number.
    pub(super) extra: Option<(&'static str, u64)>,
}

impl Ready {
    /// Compresses the body if that is worthwhile; also returns the coding that was used.
    fn coded(mut self, coding: Encoding) -> (Self, Option<Encoding>) {
        if self.body.len() < CODED_SIZE_MIN {
            return (self, None);
        }
        if coding != Encoding::Identity {
            self.body = BodyCompressor::default().with(coding, &self.body, <[u8]>::to_vec);
        }
        (self, Some(coding))
    }
}

/// Sends the answer of a deferred request to its I/O thread. If this is dropped unused, the request
/// gets 503, since its work was cancelled, or 500 if a panic drops it.
pub(super) struct DeferredAnswer {
    completion: Option<Completion>,
    sender: Sender<Completion>,
    waker: Waker,
}

impl DeferredAnswer {
    /// Sends a body or a problem. The body is compressed on this thread, which may take its time.
    pub(super) fn answer(mut self, body: Result<Ready, Problem>) {
        if let Some(completion) = &mut self.completion {
            let coding = completion.context.coding;
            let body = body.map(|ready| ready.coded(coding));
            let size = body.as_ref().map_or(0, |(ready, _)| ready.body.capacity());
            completion.share.set(size);
            completion.outcome = WaitOutcome::Body(body);
        }
    }

    /// The memory accounted to the answer.
    pub(super) fn share(&mut self) -> &mut Share {
        let completion = self.completion.as_mut();
        &mut completion.expect("it is there until it is sent").share
    }

    /// Compresses a body, and sends it.
    pub(super) fn compress(mut self, head: KeptHead, coding: Encoding, body: &[u8]) {
        if let Some(completion) = &mut self.completion {
            let body = BodyCompressor::default().with(coding, body, <[u8]>::to_vec);
            completion.share.set(body.capacity());
            completion.outcome = WaitOutcome::Coded(Box::new(head), body);
        }
    }

    /// Sends rows that have just arrived.
    fn rows(mut self, question: Question, rows: Result<(RowSet, Provenance), Error>) {
        if let Some(completion) = &mut self.completion {
            completion.set_rows(question, rows);
        }
    }
}

impl Drop for DeferredAnswer {
    fn drop(&mut self) {
        if let Some(mut completion) = self.completion.take() {
            if let WaitOutcome::Unanswered = completion.outcome {
                completion.outcome = WaitOutcome::Body(Err(match thread::panicking() {
                    true => Problem::new(
                        500,
                        "an internal error occurred while this request was processed",
                    ),
                    false => Problem::cancelled(),
                }));
            }
            // If the thread has ended, no request waits any more.
            let _ = self.sender.send(completion);
            self.waker.wake();
        }
    }
}

/// The size of rows in bytes.
pub(super) fn rows_size(rows: &RowSet) -> usize {
    let values = rows.iter().flatten();
    values
        .map(|value| size_of::<Value>() + value.heap_size())
        .sum()
}

impl Responder {
    /// Counts a request among those that wait; it takes `size` bytes meanwhile.
    pub(super) fn begin_waiting(&self, size: usize) -> Result<(), Problem> {
        self.shared.check_room(size)?;
        let waiting = &self.shared.waiting;
        // Relaxed: the number limits memory and synchronizes nothing.
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_COUNT_MAX {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Problem::new(503, "too many requests wait for a database").retry_after(1));
        }
        Ok(())
    }

    /// Reverts `begin_waiting`.
    pub(super) fn end_waiting(&self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Creates the completion of a deferred request, after `begin_waiting`, still without an
    /// answer.
    fn completion(&self, context: RequestContext, ticket: Ticket) -> Completion {
        Completion {
            ticket: ticket.into(),
            context,
            outcome: WaitOutcome::Unanswered,
            share: Share::new(&self.shared),
        }
    }

    /// Creates the sender of a deferred request's answer, after `begin_waiting`.
    pub(super) fn deferred_answer(
        &self,
        context: RequestContext,
        ticket: Ticket,
    ) -> DeferredAnswer {
        self.deferred_answer_of(self.completion(context, ticket))
    }

    fn deferred_answer_of(&self, completion: Completion) -> DeferredAnswer {
        DeferredAnswer {
            completion: Some(completion),
            sender: self.sender.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl Thread {
    /// Queries rows that are not available locally: on this thread if a provider has them,
    /// otherwise on another thread.
    pub(super) fn wait_for_answer(
        &mut self,
        context: RequestContext,
        question: Question,
        ticket: Ticket,
    ) {
        let mut waiting = Box::new((self.responder.completion(context, ticket), question));
        let catalog = waiting.1.catalog.clone();
        let lookup = &catalog.lookups[waiting.1.index];
        let prepared = lookup.prepared.as_ref();
        // A provider's queries have their own limit, and equal ones are shared.
        let is_local = prepared.is_some_and(|it| it.explanation.provider.is_none());
        let awaited = waiting.1.freshness.contract.after;
        let awaited = awaited.filter(|_| !lookup.config.wait.is_zero());
        // The server or the feed is asked before the query is sent.
        let is_query_only = waiting.1.unconfirmed.is_none() && awaited.is_none();
        if let (false, true, Some(queries), Some(prepared)) = (
            is_local,
            is_query_only,
            &mut self.provider_queries,
            prepared,
        ) {
            let terms = (lookup.extent(), waiting.1.freshness);
            let (session, params) = (&mut self.session, &self.values);
            match queries.begin(waiting, session, &prepared.statement, params, terms) {
                Ok(()) => return,
                Err(back) => waiting = back,
            }
        }
        let (completion, mut question) = *waiting;
        let deferred = self.responder.deferred_answer_of(completion);
        let shared = self.responder.shared.clone();
        let params = self.values.clone();
        let task = self.responder.shared.runtime.spawn(async move {
            let lookup = &question.catalog.lookups[question.index];
            let prepared = lookup.prepared.as_ref();
            let statement = &prepared.expect("it was asked whether it is").statement;
            let (extent, freshness) = (lookup.extent(), question.freshness);
            let _permit = match is_local {
                true => shared.own_queries.acquire().await.ok(),
                false => None,
            };
            // Other answers may have taken the memory meanwhile.
            if let Err(problem) = shared.check_room(0) {
                return deferred.answer(Err(problem));
            }
            // Before the wait, which would be in vain.
            if let Some(position) = question.unconfirmed
                && let Some(end) = shared.knowledge.log_end_async(statement).await
                && let Err(problem) = check_position(position, end)
            {
                return deferred.answer(Err(problem));
            }
            if let Some(position) = awaited {
                let wait = lookup.config.wait;
                if let Some(coverage) = wait_for_position(&shared, statement, position, wait).await
                {
                    question.coverage = coverage;
                }
            }
            let rows = (shared.knowledge)
                .answer_async(statement, &params, extent, freshness)
                .await;
            deferred.rows(question, rows);
        });
        let cancel = match is_local {
            true => Cancel::Task(task.abort_handle()),
            false => Cancel::SharedTask(task.abort_handle()),
        };
        self.waiters.add(ticket.into(), cancel);
    }

    /// Hands work to a blocking thread. If the request is cancelled, so is the session, and work
    /// that has not begun is dropped; the work owns the request's [`DeferredAnswer`], which then
    /// answers 503.
    pub(super) fn hand_over(
        &mut self,
        ticket: Ticket,
        work: impl FnOnce(&mut Session) + Send + 'static,
    ) {
        let shared = &self.responder.shared;
        let mut session = shared.knowledge.session();
        let handle = session.cancel_handle();
        let job = BlockingJob::new(move || work(&mut session));
        let cancel = Cancel::BlockingJob(handle, job.clone());
        self.waiters.add(ticket.into(), cancel);
        shared.runtime.spawn_blocking(move || job.run());
    }
}

/// How often a request that waits for the change feed looks whether the server is to end.
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// Waits for the change feed to reach a position, not while the server is to end: the database is queried
/// then, as after the wait.
async fn wait_for_position(
    shared: &Shared,
    statement: &Statement,
    position: Position,
    wait: Duration,
) -> Option<Coverage> {
    let end = Instant::now() + wait;
    loop {
        let next = (Instant::now() + DRAIN_LOOK).min(end);
        let left = next.saturating_duration_since(Instant::now());
        let waiting = shared
            .knowledge
            .wait_for_position(statement, position, left);
        let reached = waiting.await;
        let now = Instant::now();
        // Without a live feed, nothing is waited for.
        let is_over = reached.is_some() || now < next || now >= end;
        if is_over || shared.is_draining.load(Ordering::Relaxed) {
            return reached;
        }
    }
}
