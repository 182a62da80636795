//! From the backlog to the wire.

use std::sync::Arc;

use lookaside_wire::postgres::{Parse, Request as Wire, TransactionStatus};

use super::in_flight::InFlight;
use super::portal::portal_name;
use super::statement::{PortalName, Statement};
use super::statement_kind::{StatementKind, session_effect};
use super::{Key, PostgresDriver, QueryRange, SMALL};
use crate::Syncs;
use crate::driver::Found;
use crate::request::{Fetch, Goal, RequestScope};
use crate::{Error, ErrorKind};

/// The maximum number of queries that share a Sync. The server sends answers when it meets a Sync:
/// with 32 callers that wait for their answers and a limit of 64, client and server took turns,
/// each idle for half of the time; with 16 they work at the same time, and the cost of a Sync is
/// hardly seen in that of 16 queries (`benchmarks/runs/2026-11-22-shared-syncs`).
const FLIGHT_COUNT_MAX: usize = 16;

/// The number of statements that are closed when one is prepared. Each Prepare evicts at most one,
/// so two are enough.
const CLOSE_COUNT_MAX: usize = 2;

/// A query is at most so many requests: those that prepare it, or those that run it.
pub(super) const REQUEST_COUNT_MAX: usize = CLOSE_COUNT_MAX + 3;

impl PostgresDriver {
    /// Queues as many queries as fit into the window.
    #[inline]
    pub(super) fn dispatch(&mut self) {
        if !self.session.backlog.is_empty() {
            self.dispatch_backlog();
        }
    }

    fn dispatch_backlog(&mut self) {
        let is_held = self.session.cancel.is_under_way()
            || self.session.is_copying()
            || matches!(
                self.session.in_flight.front(),
                Some(InFlight::Script { .. })
            );
        if !self.session.is_ready || self.session.end.is_some() || is_held {
            return;
        }
        self.check();
        while self.has_room() && !self.is_barred() {
            let Some(mut range) = self.session.backlog.pop_front() else {
                break;
            };
            let Some(request) = self.session.requests.get(range.ticket) else {
                // It was abandoned.
                continue;
            };
            match request.goal {
                Goal::Run | Goal::Describe | Goal::Open(_) => {}
                Goal::Fetch(fetch) => {
                    self.fetch(range, fetch);
                    continue;
                }
                Goal::Close(portal) => {
                    self.close_portal(range, portal);
                    continue;
                }
                Goal::Reset => panic!("a reset is a statement of PostgreSQL"),
                Goal::Script { row_count_max } => {
                    self.script(range, row_count_max);
                    break;
                }
                Goal::Copy => {
                    let key = request.details.key.clone();
                    self.end_flight();
                    // A server that waits for COPY data treats any other message as fatal.
                    if self.session.in_flight.is_empty() {
                        self.copy(range, key);
                    } else {
                        self.session.backlog.push_front(range);
                    }
                    break;
                }
            }
            if let Some(statement) = range.statement.take() {
                self.proceed(range, statement);
                continue;
            }
            let valid_from = self.session.valid_from;
            match self
                .session
                .statements
                .cache
                .find(&request.details.key, valid_from)
            {
                Found::Ready(statement) => self.proceed(range, statement),
                Found::Preparing => self
                    .session
                    .statements
                    .cache
                    .wait(&request.details.key, range),
                Found::Absent => {
                    let key = request.details.key.clone();
                    let is_run = request.goal == Goal::Run;
                    let is_shared = is_run && range.scope == RequestScope::Shared;
                    if is_shared && let Some(error) = session_effect(&key.sql).refusal() {
                        self.session.requests.refuse(range, &error);
                    } else if is_run && StatementKind::of(&key.sql).is_control() {
                        self.control(range, key);
                    } else {
                        self.prepare(range, key);
                    }
                }
            }
        }
        self.end_flight();
        self.check();
    }

    /// What holds before and after requests are dispatched.
    fn check(&self) {
        assert_eq!(self.flight_count, 0, "each query has a Sync after it");
        assert!(
            self.session.in_flight_count <= self.window,
            "queries in flight fit the window"
        );
        self.session.check();
    }

    /// Whether one more query may be queued.
    fn has_room(&self) -> bool {
        let session = &self.session;
        let is_synced = matches!(session.in_flight.back(), Some(InFlight::Sync));
        session.in_flight_count < self.window && !(session.is_pooled && is_synced)
    }

    /// Whether the next request waits until all queued ones are answered.
    ///
    /// A pooler treats the answer to a Sync as the end of a transaction and gives the session to
    /// another client, even if half of the following messages were already sent there: the other
    /// half reaches another session, or none. So only queries that share a Sync are sent in one
    /// batch, and no second batch follows before the first is answered
    /// (<https://github.com/pgbouncer/pgbouncer/issues/759>).
    fn is_barred(&self) -> bool {
        self.session.is_pooled && !self.session.in_flight.is_empty()
    }

    /// Queues a statement that begins or ends a transaction, in one round trip.
    ///
    /// It is not prepared, because it must not depend on what the server remembers: in a
    /// transaction that has failed nothing can be prepared again, and one that cannot be rolled back
    /// stays open.
    fn control(&mut self, range: QueryRange, key: Key) {
        let sequence = self.session.next_sequence();
        let statement = Statement::new(key, Box::default(), sequence, Box::default(), None);
        self.run(range, Arc::new(statement), None);
    }

    /// Queues a COPY, while nothing else is in flight.
    #[cold]
    fn copy(&mut self, range: QueryRange, key: Key) {
        if StatementKind::of(&key.sql) != StatementKind::Copy {
            return self.session.requests.refuse(range, &Error::no_copy());
        }
        let sequence = self.session.next_sequence();
        let statement = Statement::new(key, Box::default(), sequence, Box::default(), None);
        match statement.execute(&mut self.connection, &[]) {
            Ok(execute) => {
                self.session.in_flight.push_back(InFlight::Query {
                    query: range.first(),
                    statement: Arc::new(statement),
                    execute,
                    sequence,
                    chunk: self.output.next_chunk(),
                    portal: None,
                });
                self.session.in_flight_count += 1;
                self.sync();
            }
            Err(error) => self.session.requests.refuse(range, &error),
        }
    }

    /// Queues a script, or keeps it waiting until nothing else is in flight.
    #[cold]
    fn script(&mut self, range: QueryRange, row_count_max: usize) {
        if !self.session.in_flight.is_empty() {
            return self.session.backlog.push_front(range);
        }
        let ticket = range.ticket;
        let request = self.session.requests.get(ticket);
        let sql = Arc::clone(
            &request
                .expect("a script is dispatched while its request is pending")
                .details
                .key
                .sql,
        );
        if let Err(error) = self.connection.queue(Wire::Query(&sql)) {
            return self.session.requests.refuse(range, &Error::request(error));
        }
        let chunk = self.output.next_chunk();
        self.session.begin_script(ticket, row_count_max, chunk);
    }

    /// Queues the messages that prepare a statement, followed by a separate Sync.
    #[cold]
    fn prepare(&mut self, range: QueryRange, key: Key) {
        if StatementKind::of(&key.sql) == StatementKind::Copy {
            return self.session.requests.refuse(range, &Error::copy_refused());
        }
        self.end_flight();
        // First, because they would be skipped after a Parse that is refused.
        for _ in 0..CLOSE_COUNT_MAX {
            let Some(name) = self.session.statements.pop_evicted() else {
                break;
            };
            let close = self.connection.queue(Wire::CloseStatement(&name));
            close.expect(SMALL);
            self.session.in_flight.push_back(InFlight::Close(None));
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
                let sequence = self.session.next_sequence();
                self.session.statements.cache.begin(key.clone(), range);
                self.session.in_flight_count += 1;
                self.session.in_flight.push_back(InFlight::Prepare {
                    key,
                    name,
                    sequence,
                });
            }
            Err(error) => self.session.requests.refuse(range, &Error::request(error)),
        }
        self.sync();
    }

    /// Processes a range with its prepared statement.
    fn proceed(&mut self, range: QueryRange, statement: Arc<Statement>) {
        let request = self.session.requests.get(range.ticket);
        match request.map(|request| request.goal) {
            Some(Goal::Run) => self.run(range, statement, None),
            Some(Goal::Open(fetch)) => self.run(range, statement, Some(fetch)),
            Some(Goal::Describe) => {
                let answer = statement.described();
                self.session.requests.answer(range.first(), Ok(answer));
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
    fn run(&mut self, mut range: QueryRange, statement: Arc<Statement>, fetch: Option<Fetch>) {
        let session = &self.session;
        if range.scope == RequestScope::Shared
            && let Some(error) = statement.effect.refusal()
        {
            return self.session.requests.refuse(range, &error);
        }
        let shares = range.syncs == Syncs::Shared
            && statement.kind == StatementKind::Read
            && session.begin_count == 0
            && self.connection.transaction_status() == TransactionStatus::Idle;
        let flight_count_max = if shares { FLIGHT_COUNT_MAX } else { 1 };
        if !shares {
            self.end_flight();
        }
        while !range.is_empty() && self.has_room() {
            let query = range.first();
            let Some(request) = self.session.requests.get(query.ticket) else {
                panic!("a request with open queries is pending");
            };
            let submitted = request.details.sequence;
            let values = request.params.set(query.index);
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
                    let sequence = self.session.next_sequence();
                    self.session.in_flight.push_back(InFlight::Query {
                        query,
                        statement: statement.clone(),
                        execute,
                        sequence,
                        chunk: self.output.next_chunk(),
                        portal: fetch.map(|fetch| fetch.portal),
                    });
                    self.session.in_flight_count += 1;
                    if statement.kind == StatementKind::Begin {
                        self.session.begin_count += 1;
                    }
                    self.flight_count += 1;
                }
                // The parameters may have other types than when the statement was prepared.
                Err(error) if is_misfit(&error) && statement.sequence < submitted => {
                    self.session.statements.cache.evict(&statement);
                    break;
                }
                Err(error) => self.session.requests.answer(query, Err(error)),
            }
            range.start += 1;
            if self.flight_count == flight_count_max {
                self.end_flight();
            }
        }
        if !range.is_empty() {
            self.session.backlog.push_front(range);
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
        self.session.in_flight.push_back(InFlight::Sync);
    }
}

fn is_misfit(error: &Error) -> bool {
    error.kind() == ErrorKind::Misuse
}
