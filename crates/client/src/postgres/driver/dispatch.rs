//! From the backlog to the wire.

use std::sync::Arc;

use lookaside_wire::postgres::{Parse, Request as Wire, TransactionStatus};

use super::in_flight::InFlight;
use super::portal::portal_name;
use super::statement::{PortalName, Statement};
use super::statement_kind::{SessionEffect, StatementKind};
use super::statements::Found;
use super::{Driver, Key, QueryRange, SMALL};
use crate::Syncs;
use crate::request::{Fetch, Goal, Place};
use crate::{Error, ErrorKind};

/// How many queries share a Sync at most. The server sends answers when it meets a Sync: with 32
/// callers that wait for their answers and a limit of 64, client and server took turns, each idle for
/// half of the time; with 16 they work at the same time, and the cost of a Sync is hardly seen in that
/// of 16 queries (`benchmarks/runs/2026-11-22-shared-syncs`).
const FLIGHT_COUNT_MAX: usize = 16;

/// How many statements the server is told to forget when it prepares one. Each that is prepared
/// makes at most one superfluous, so two keep up.
const CLOSE_COUNT_MAX: usize = 2;

/// A query is at most so many requests: those that prepare it, or those that run it.
pub(super) const REQUEST_COUNT_MAX: usize = CLOSE_COUNT_MAX + 3;

impl Driver {
    /// Queues what has room in the window.
    #[inline]
    pub(super) fn dispatch(&mut self) {
        if !self.session.backlog.is_empty() {
            self.dispatch_backlog();
        }
    }

    fn dispatch_backlog(&mut self) {
        let is_held = self.session.cancel.is_under_way()
            || self.session.is_copying()
            || matches!(self.session.steps.front(), Some(InFlight::Script { .. }));
        if !self.session.is_ready || self.session.end.is_some() || is_held {
            return;
        }
        while self.has_room() && !self.is_barred() {
            let Some(mut span) = self.session.backlog.pop_front() else {
                break;
            };
            let Some(job) = self.session.jobs.get(span.ticket) else {
                // It was given up.
                continue;
            };
            match job.goal {
                Goal::Run | Goal::Describe | Goal::Open(_) => {}
                Goal::Fetch(fetch) => {
                    self.fetch(span, fetch);
                    continue;
                }
                Goal::Close(portal) => {
                    self.close_portal(span, portal);
                    continue;
                }
                Goal::Reset => panic!("a reset is a statement of PostgreSQL"),
                Goal::Script { row_count_max } => {
                    self.script(span, row_count_max);
                    break;
                }
                Goal::Copy => {
                    let key = job.key.clone();
                    self.end_flight();
                    // A server that waits for data takes any other request for the end of the
                    // world.
                    if self.session.steps.is_empty() {
                        self.copy(span, key);
                    } else {
                        self.session.backlog.push_front(span);
                    }
                    break;
                }
            }
            if let Some(statement) = span.statement.take() {
                self.proceed(span, statement);
                continue;
            }
            let valid_from = self.session.valid_from;
            match self.session.statements.find(&job.key, valid_from) {
                Found::Ready(statement) => self.proceed(span, statement),
                Found::Preparing => self.session.statements.wait(&job.key, span),
                Found::Absent => {
                    let key = job.key.clone();
                    let is_run = job.goal == Goal::Run;
                    let is_shared = is_run && span.place == Place::Shared;
                    if is_shared && let Some(error) = SessionEffect::of(&key.sql).refusal() {
                        self.session.refuse(span, &error);
                    } else if is_run && StatementKind::of(&key.sql).is_control() {
                        self.control(span, key);
                    } else {
                        self.prepare(span, key);
                    }
                }
            }
        }
        self.end_flight();
    }

    /// Whether one more query may be queued.
    fn has_room(&self) -> bool {
        let session = &self.session;
        let is_synced = matches!(session.steps.back(), Some(InFlight::Sync));
        session.in_flight_count < self.window && !(session.is_pooled && is_synced)
    }

    /// Whether what is next waits until all that was queued is answered.
    ///
    /// A pooler takes the answer to a Sync for the end of a transaction and gives the session to
    /// somebody else, though the half of what follows may have gone there already: the other half
    /// reaches another session, or nobody. So only what shares a Sync goes in one flight, and no
    /// second flight follows before the first is answered
    /// (<https://github.com/pgbouncer/pgbouncer/issues/759>).
    fn is_barred(&self) -> bool {
        self.session.is_pooled && !self.session.steps.is_empty()
    }

    /// Queues what begins or ends a transaction, in one round trip.
    ///
    /// It is not prepared, because it must not depend on what the server remembers: in a
    /// transaction that has failed nothing can be prepared again, and one that cannot be rolled back
    /// stays open.
    fn control(&mut self, span: QueryRange, key: Key) {
        let moment = self.session.next_moment();
        let statement = Statement::new(key, Box::default(), moment, Box::default(), None);
        self.run(span, Arc::new(statement), None);
    }

    /// Queues a COPY, with nothing else on its way.
    #[cold]
    fn copy(&mut self, span: QueryRange, key: Key) {
        if StatementKind::of(&key.sql) != StatementKind::Copy {
            return self.session.refuse(span, &Error::no_copy());
        }
        let moment = self.session.next_moment();
        let statement = Statement::new(key, Box::default(), moment, Box::default(), None);
        match statement.execute(&mut self.connection, &[]) {
            Ok(execute) => {
                self.session.steps.push_back(InFlight::Run {
                    run: span.first(),
                    statement: Arc::new(statement),
                    execute,
                    moment,
                    chunk: self.output.next_chunk(),
                    portal: None,
                });
                self.session.in_flight_count += 1;
                self.sync();
            }
            Err(error) => self.session.refuse(span, &error),
        }
    }

    /// Queues a script, or leaves it where it was until nothing else is under way.
    #[cold]
    fn script(&mut self, span: QueryRange, row_count_max: usize) {
        if !self.session.steps.is_empty() {
            return self.session.backlog.push_front(span);
        }
        let ticket = span.ticket;
        let job = self.session.jobs.get(ticket);
        let sql = Arc::clone(&job.expect("it is in the books").key.sql);
        if let Err(error) = self.connection.queue(Wire::Query(&sql)) {
            return self.session.refuse(span, &Error::request(error));
        }
        let chunk = self.output.next_chunk();
        self.session.begin_script(ticket, row_count_max, chunk);
    }

    /// Queues what prepares a statement, in a flight of its own.
    #[cold]
    fn prepare(&mut self, span: QueryRange, key: Key) {
        if StatementKind::of(&key.sql) == StatementKind::Copy {
            return self.session.refuse(span, &Error::copy_refused());
        }
        self.end_flight();
        // First, because they would be skipped behind a Parse that is refused.
        for _ in 0..CLOSE_COUNT_MAX {
            let Some(name) = self.session.statements.pop_evicted() else {
                break;
            };
            let close = self.connection.queue(Wire::CloseStatement(&name));
            close.expect(SMALL);
            self.session.steps.push_back(InFlight::Close(None));
        }
        let name = self.session.statements.new_name();
        let parse = self.connection.queue(Wire::Parse(Parse {
            statement: &name,
            sql: &key.sql,
            parameter_types: key.parameter_types.as_deref().unwrap_or_default(),
        }));
        match parse {
            Ok(_) => {
                let describe = self.connection.queue(Wire::DescribeStatement(&name));
                describe.expect(SMALL);
                let moment = self.session.next_moment();
                self.session.statements.begin(key.clone(), span);
                self.session.in_flight_count += 1;
                self.session
                    .steps
                    .push_back(InFlight::Prepare { key, name, moment });
            }
            Err(error) => self.session.refuse(span, &Error::request(error)),
        }
        self.sync();
    }

    /// Does with a prepared statement what was asked.
    fn proceed(&mut self, span: QueryRange, statement: Arc<Statement>) {
        let job = self.session.jobs.get(span.ticket);
        match job.map(|job| job.goal) {
            Some(Goal::Run) => self.run(span, statement, None),
            Some(Goal::Open(fetch)) => self.run(span, statement, Some(fetch)),
            Some(Goal::Describe) => {
                let answer = statement.described();
                self.session.answer(span.first(), Ok(answer));
            }
            Some(Goal::Script { .. }) => panic!("a script is not prepared"),
            Some(Goal::Copy) => panic!("a COPY is not prepared"),
            Some(Goal::Fetch(_) | Goal::Close(_)) => panic!("a portal is not prepared"),
            Some(Goal::Reset) => panic!("a reset is not prepared"),
            None => {}
        }
    }

    /// Queues the queries of a span, as many as have room; or the only one, whose rows are fetched
    /// part by part.
    fn run(&mut self, mut span: QueryRange, statement: Arc<Statement>, fetch: Option<Fetch>) {
        let session = &self.session;
        if span.place == Place::Shared
            && let Some(error) = statement.effect.refusal()
        {
            return self.session.refuse(span, &error);
        }
        let shares = span.syncs == Syncs::Shared
            && statement.verb == StatementKind::Read
            && session.begin_count == 0
            && self.connection.transaction_status() == TransactionStatus::Idle;
        let flight_count_max = if shares { FLIGHT_COUNT_MAX } else { 1 };
        if !shares {
            self.end_flight();
        }
        while !span.is_empty() && self.has_room() {
            let run = span.first();
            let Some(job) = self.session.jobs.get(run.ticket) else {
                panic!("a request with open queries is in the books");
            };
            let submitted = job.moment;
            let values = job.params.set(run.index);
            let queued = match fetch {
                None => statement.execute(&mut self.connection, values),
                Some(fetch) => {
                    let portal = PortalName {
                        name: &portal_name(fetch.portal),
                        row_count_max: fetch.row_count,
                    };
                    statement.open(&mut self.connection, values, portal)
                }
            };
            match queued {
                Ok(execute) => {
                    let moment = self.session.next_moment();
                    self.session.steps.push_back(InFlight::Run {
                        run,
                        statement: statement.clone(),
                        execute,
                        moment,
                        chunk: self.output.next_chunk(),
                        portal: fetch.map(|fetch| fetch.portal),
                    });
                    self.session.in_flight_count += 1;
                    if statement.verb == StatementKind::Begin {
                        self.session.begin_count += 1;
                    }
                    self.flight_count += 1;
                }
                // What the parameters were when somebody else asked they need not be now.
                Err(error) if is_misfit(&error) && statement.moment < submitted => {
                    self.session.statements.evict(&statement);
                    break;
                }
                Err(error) => self.session.answer(run, Err(error)),
            }
            span.start += 1;
            if self.flight_count == flight_count_max {
                self.end_flight();
            }
        }
        if !span.is_empty() {
            self.session.backlog.push_front(span);
        }
    }

    /// Queues the Sync of the queries that wait for one. They may be those of many callers.
    pub(super) fn end_flight(&mut self) {
        if self.flight_count > 0 {
            self.flight_count = 0;
            self.sync();
        }
    }

    pub(super) fn sync(&mut self) {
        self.connection.queue(Wire::Sync).expect(SMALL);
        self.session.steps.push_back(InFlight::Sync);
    }
}

fn is_misfit(error: &Error) -> bool {
    error.kind() == ErrorKind::Misuse
}
