//! The session: requests in flight, and the handling of the server's events.

mod cancel;
mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use lookaside_value::Text;
use lookaside_wire::RequestId;
use lookaside_wire::mysql::{Columns, ErrPacket, Event, OkPacket, Prepared, SessionChange};

use super::answer::Incoming;
use super::in_flight::{InFlight, Work};
use super::options::Options;
use super::pipelined_prepare::PrepareGuard;
use super::row_layout::RowLayout;
use super::statement::{self, Key, QueryRange, Statement};
use super::statement_kind::{StatementKind, session_effect};
use super::statements::Statements;
use super::status::Status;
use super::stream::Source;
use crate::driver::{Cancellation, PendingRequest, QueryRef, Requests, requeue};
use crate::mysql::kill::Peer;
use crate::output::Output;
use crate::request::{Portal, Shape};
use crate::{Answer, Description, Error, ErrorKind, Request, Syncs, Ticket};

use cancel::is_interrupted;

/// `ER_UNSUPPORTED_PS`
pub(super) const CANNOT_BE_PREPARED: u16 = 1295;

/// How often a query is sent again because the cancellation of another query hit it.
pub(super) const VICTIM_RETRY_COUNT_MAX: u8 = 3;

/// `ER_ACCESS_DENIED_ERROR`, `ER_ACCESS_DENIED_NO_PASSWORD_ERROR`
const ACCESS_DENIED: [u16; 2] = [1045, 1698];

/// The smallest default of any of these servers; below it, errors do not mention the limit.
const ALLOWED_PACKET_MIN: usize = 1 << 20;

/// The whole driver except the wire.
pub(super) struct ServerSession {
    pub(super) is_ready: bool,
    pub(super) end: Option<Error>,
    /// Whether there is a password to log in with.
    pub(super) has_password: bool,
    /// The size of the largest request among those that wait for answers.
    request_size: usize,
    /// Where to cancel queries.
    pub(super) peer: Peer,
    pub(super) requests: Requests<Details>,
    /// Unsent queries that only wait for room.
    pub(super) backlog: VecDeque<QueryRange>,
    /// A database was chosen where the log-in named none.
    pub(super) has_chosen: bool,
    pub(super) statements: Statements,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) guard: PrepareGuard,
    /// The source of the rest of each result in chunks.
    pub(super) streams: HashMap<Portal, Source, RandomState>,
    /// The number of requests in flight that open a transaction.
    pub(super) begin_count: usize,
    /// What the server will send for the next queued request.
    pub(super) mode: Mode,
    /// The session status after the last answers.
    pub(super) status: Status,
    /// The state of the open transaction.
    pub(super) transaction: TransactionState,
    pub(super) incoming: Incoming,
    result_size_max: usize,
    /// The last sequence number, which orders events in time.
    sequence: u64,
    /// Statements that were prepared before this sequence number are not used any more.
    pub(super) valid_from: u64,
    pub(super) cancel: Cancellation,
}

/// The protocol-specific data of a request.
pub(super) struct Details {
    pub(super) sql: Arc<str>,
    pub(super) shape: Shape,
    pub(super) is_bulk: bool,
    pub(super) keeps_results: bool,
}

/// Whether a transaction that was begun is still open. To resolve a deadlock, a server rolls back a
/// whole transaction, and executes later statements outside of it; the error does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionState {
    /// It is open, as far as is known.
    Open,
    /// A statement in it has failed.
    Uncertain,
    /// The status is being queried.
    Queried,
    /// It has ended, until another is begun.
    Gone,
}

/// A statement whose answer only contains the session status.
pub(super) const WHERE: &str = "do 0";

/// Whether the server sends the definitions of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are sent with each result.
    Full,
    /// No.
    Pinned,
}

impl Mode {
    /// The statement that sets this mode.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Full => "set session resultset_metadata = full",
            Self::Pinned => "set session resultset_metadata = none",
        }
    }
}

impl ServerSession {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_ready: false,
            end: None,
            has_password: true,
            request_size: 0,
            peer: Peer::default(),
            requests: Requests::default(),
            backlog: VecDeque::new(),
            has_chosen: false,
            statements: Statements::new(options.statement_count_max),
            in_flight: VecDeque::new(),
            guard: PrepareGuard::default(),
            streams: HashMap::default(),
            begin_count: 0,
            mode: Mode::Full,
            status: Status::default(),
            transaction: TransactionState::Open,
            incoming: Incoming::default(),
            result_size_max: options.result_size_max,
            sequence: 0,
            valid_from: 0,
            cancel: Cancellation::default(),
        }
    }

    /// What holds after each step that is added or taken.
    fn check(&self) {
        assert!(
            self.begin_count <= self.in_flight.len(),
            "counted BEGINs are in flight"
        );
        // Only in debug builds, as it looks at each step.
        debug_assert_eq!(
            self.in_flight.iter().filter(|it| it.is_begin()).count(),
            self.begin_count,
            "the steps that open a transaction are counted"
        );
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn add(&mut self, request: Request) -> Ticket {
        let details = Details {
            sql: request.sql,
            shape: request.shape,
            is_bulk: request.is_bulk,
            keeps_results: request.keeps_results,
        };
        let count = request.params.len();
        let pending = PendingRequest::new(request.params, request.goal, request.deadline, details);
        let ticket = self.requests.add(pending);
        if count > 0 {
            let range = QueryRange::all(ticket, count, request.scope, Syncs::Each);
            self.backlog.push_back(range);
        }
        ticket
    }

    /// Records a queued request.
    pub(super) fn push(&mut self, step: InFlight) {
        self.begin_count += usize::from(step.is_begin());
        self.in_flight.push_back(step);
        self.check();
    }

    pub(super) fn take(&mut self, event: Event<'_>, output: &Output) {
        match event {
            Event::Greeting(greeting) => self.peer = Peer::of(&greeting),
            Event::Authentication(_) => {}
            Event::Ok {
                id: RequestId::STARTUP,
                ok,
            } => {
                self.is_ready = true;
                self.status.begin(ok.status);
            }
            Event::Ok { ok, .. } => {
                self.incoming.end_changes(ok.affected_row_count);
                self.done(&ok, output);
            }
            Event::Prepared { prepared, .. } => self.prepared(prepared),
            Event::Columns { columns, .. } => self.columns(columns),
            Event::Row { row, .. } => {
                self.begin_chunk();
                self.incoming.row(row, self.result_size_max);
            }
            Event::RowsEnd { ok, .. } => {
                self.begin_chunk();
                self.incoming.end_rows();
                self.done(&ok, output);
            }
            Event::Unreadable { ok, .. } => self.unreadable(&ok, output),
            Event::LocalInfile { .. } => self.incoming.fail(Error::local_infile_refused()),
            Event::Failed { error, .. }
                if matches!(self.in_flight.front(), Some(InFlight::Own { .. })) =>
            {
                // The form of the following answers is then unknown.
                self.end(Error::mysql_refused(error.into_owned()), output);
            }
            Event::Failed { error, .. }
                if matches!(self.in_flight.front(), Some(InFlight::Ping { .. })) =>
            {
                if !is_interrupted(&error) {
                    return self.end(Error::mysql_refused(error.into_owned()), output);
                }
                self.pop();
                self.status.ping_failed();
            }
            Event::Failed { error, .. } => self.failed(error.into_owned()),
            Event::Fatal { error } => {
                let error = error.into_owned();
                let error = if self.is_ready {
                    Error::mysql_session_ended(error)
                } else if ACCESS_DENIED.contains(&error.code()) && !self.has_password {
                    Error::mysql_password_missing(error)
                } else {
                    Error::mysql_log_in_refused(error)
                };
                self.end(error, output);
            }
            Event::Closed => self.fail(Error::end_of_stream(), output),
            // Events of newer versions of the wire.
            _ => {}
        }
    }

    /// The query that is being answered, if it is a caller's.
    fn head(&self) -> Option<(QueryRef, Option<&Arc<Statement>>)> {
        match self.in_flight.front() {
            Some(InFlight::Query {
                query, statement, ..
            }) => Some((*query, statement.as_ref())),
            _ => None,
        }
    }

    fn columns(&mut self, columns: &Arc<Columns>) {
        let Some((query, statement)) = self.head() else {
            // The server sends rows for a request that returns none.
            return self.incoming.discard();
        };
        let id = statement.and_then(|statement| Some(statement.prepared.as_ref()?.id));
        if !self.incoming.wants_rows() {
            return;
        }
        // The layout of a statement is kept even if the rows of this run are not wanted.
        let layout = match id {
            Some(id) => self.statements.layout(id, columns),
            None => Arc::new(RowLayout::of(columns)),
        };
        self.begin_rows(query, layout);
    }

    /// Rows of a query follow, which are kept if its caller waits for them.
    pub(super) fn begin_rows(&mut self, query: QueryRef, layout: Arc<RowLayout>) {
        match self
            .requests
            .get(query.ticket)
            .map(PendingRequest::discards)
        {
            Some(None) => self.incoming.begin(layout),
            Some(Some(error)) => self.incoming.fail(error.clone()),
            None => self.incoming.discard(),
        }
    }

    /// Whether all results of the query that is being answered are requested.
    fn keeps_results(&self) -> bool {
        let request = self
            .head()
            .and_then(|(query, _)| self.requests.get(query.ticket));
        request.is_some_and(|request| request.details.keeps_results)
    }

    /// Handles a query that was not executed because its statement was not prepared.
    fn voided(&mut self, query: QueryRef, error: Option<Error>) {
        match error {
            Some(error) => self.requests.answer(query, Err(error)),
            None => self.backlog.push_back(QueryRange::one(query, None)),
        }
    }

    /// Handles the end of a result, and possibly of its query.
    fn done(&mut self, ok: &OkPacket<'_>, output: &Output) {
        let has_rows = !self.incoming.wants_rows();
        for change in ok.session_changes() {
            // A statement keeps the database that it was prepared in.
            if matches!(change, SessionChange::Schema(_)) {
                self.valid_from = self.next_sequence();
            }
            if let SessionChange::SystemVariable { name, value } = change
                && self.has_other_charset(name, value, output)
            {
                return;
            }
        }
        self.incoming.end_result(ok);
        if ok.status.has_more_results() {
            if self.keeps_results() {
                self.incoming.next_result(self.result_size_max);
            }
            return;
        }
        if self.report(ok.status, output).is_err() {
            return;
        }
        if let Some(InFlight::Reset { .. }) = self.in_flight.front() {
            return self.was_reset();
        }
        let (query, kind) = match self.pop() {
            Some(InFlight::Query {
                query,
                work: Work::Open(fetch),
                statement,
                ..
            }) => return self.opened(query, fetch, statement, ok),
            Some(InFlight::Query { query, kind, .. }) => (query, kind),
            Some(InFlight::Own { .. }) => {
                if self.transaction == TransactionState::Queried {
                    self.transaction = if self.status.is_in_transaction {
                        TransactionState::Open
                    } else {
                        TransactionState::Gone
                    };
                }
                return self.incoming = Incoming::default();
            }
            Some(InFlight::Ping { .. }) => {
                self.status.pinged();
                return self.incoming.reset();
            }
            Some(InFlight::Bulk { range, .. }) => {
                self.incoming.reset();
                return self.bulk_done(&range, ok.affected_row_count);
            }
            Some(InFlight::Void { query, error, .. }) => {
                self.incoming.reset();
                // A no-op has neither.
                if has_rows || ok.affected_row_count > 0 {
                    let error = Error::unprepared_execution();
                    return self.requests.answer(query, Err(error));
                }
                return self.voided(query, error);
            }
            step => panic!("{step:?} is not done this way"),
        };
        if kind == StatementKind::Begin {
            self.transaction = TransactionState::Open;
        }
        if kind == StatementKind::Set {
            self.valid_from = self.next_sequence();
        }
        if let Some(answer) = self.incoming.finish() {
            self.requests.answer(query, answer);
        }
        self.statements.cache.trim();
    }

    /// Handles rows that do not match the pinned columns.
    fn unreadable(&mut self, ok: &OkPacket<'_>, output: &Output) {
        let Some((query, statement)) = self.head() else {
            return self.done(ok, output);
        };
        let is_read = self.in_flight.front().is_some_and(InFlight::is_repeatable);
        if let Some(id) = statement.and_then(|statement| Some(statement.prepared.as_ref()?.id)) {
            self.statements.invalidate(id);
        }
        let is_last = !ok.status.has_more_results();
        if is_last && is_read && query.retry_count == 0 && self.can_repeat() {
            self.incoming.discard();
            self.done(ok, output);
            self.backlog.push_front(QueryRange::retry(query));
        } else {
            self.incoming.fail(Error::columns_unknown());
            self.done(ok, output);
        }
    }

    fn prepared(&mut self, prepared: Prepared) {
        let (key, sequence, stream) = match self.pop() {
            Some(InFlight::Prepare { key, sequence }) => (key, sequence, None),
            Some(InFlight::Query {
                query,
                work: Work::Prepare,
                sequence,
                ..
            }) => (self.key_of(query), sequence, Some(query)),
            Some(InFlight::Guard { count, .. }) => {
                if let Some(before) = self.guard.prepared(count, prepared.statement) {
                    self.statements.close(before);
                }
                return;
            }
            step => panic!("{step:?} does not get prepared"),
        };
        if let Some(columns) = &prepared.columns {
            self.statements.layout(prepared.statement, columns);
        }
        let statement = Statement {
            kind: StatementKind::of(&key.sql),
            effect: session_effect(&key.sql),
            key,
            sequence,
            prepared: Some(statement::Prepared {
                id: prepared.statement,
                parameters: prepared.parameters,
                parameter_count: prepared.parameter_count.into(),
            }),
        };
        match stream {
            None => self.ready(statement),
            Some(query) => self.resume_stream(query, statement),
        }
    }

    /// Handles a prepared statement, which is used first by the queries that waited for it.
    fn ready(&mut self, statement: Statement) {
        let statement = Arc::new(statement);
        match &statement.prepared {
            Some(prepared) if prepared.parameter_count == statement.key.types.len() => {
                self.goes_along(&statement);
            }
            // The server expects a different number of parameters than was sent along.
            Some(prepared) => {
                let (given, wanted) = (statement.key.types.len(), prepared.parameter_count);
                self.void(|| Some(Error::parameter_count(given, wanted)));
            }
            None => self.void(|| None),
        }
        let waiting = self.statements.cache.prepared(&statement);
        requeue(&mut self.backlog, waiting);
        self.statements.cache.trim();
    }

    /// Makes the execution that was sent along with the Prepare an ordinary one.
    fn goes_along(&mut self, prepared: &Arc<Statement>) {
        if let Some(InFlight::Query {
            work: work @ Work::Last,
            statement,
            ..
        }) = self.in_flight.front_mut()
        {
            *work = Work::Execute;
            *statement = Some(Arc::clone(prepared));
        }
    }

    /// Marks the execution that was sent along with a failed Prepare, which will fail as well;
    /// without an error of the Prepare, it is sent again.
    fn void(&mut self, error: impl FnOnce() -> Option<Error>) {
        if let Some(step) = self.in_flight.front_mut()
            && let InFlight::Query {
                query,
                work: Work::Last,
                sequence,
                ..
            } = *step
        {
            let error = error();
            self.begin_count -= usize::from(step.is_begin());
            *step = InFlight::Void {
                query,
                error,
                sequence,
            };
        }
    }

    fn failed(&mut self, error: ErrPacket<'static>) {
        if self.status.is_in_transaction && self.transaction == TransactionState::Open {
            self.transaction = TransactionState::Uncertain;
        }
        match self.pop() {
            Some(InFlight::Prepare { key, sequence }) => self.prepare_failed(key, sequence, error),
            // The next Prepare is then not pipelined with an execution.
            Some(InFlight::Guard { .. }) => {}
            Some(InFlight::Void { query, error, .. }) => self.voided(query, error),
            Some(InFlight::Reset { query, .. }) => {
                self.requests
                    .answer(query, Err(Error::mysql_refused(error)));
            }
            Some(InFlight::Bulk {
                range, statement, ..
            }) => self.bulk_failed(range, &statement, error),
            Some(InFlight::Query {
                query,
                work: Work::Prepare,
                sequence,
                ..
            }) => self.stream_refused(query, sequence, error),
            Some(InFlight::Query {
                query,
                work,
                statement,
                kind,
                sequence,
                ..
            }) => {
                self.incoming = Incoming::default();
                if !kind.keeps_status() {
                    self.status.forget(query.scope);
                }
                self.give_up_stream(work, statement.as_ref());
                let is_stale = error.is_stale_statement();
                if is_stale && let Some(statement) = &statement {
                    self.statements.cache.evict(statement);
                }
                let is_victim = self.is_victim(&error, sequence);
                let retry_count_max = match (is_stale, is_victim) {
                    (true, _) => 1,
                    (_, true) if kind == StatementKind::Read && work.is_repeatable() => {
                        VICTIM_RETRY_COUNT_MAX
                    }
                    _ => 0,
                };
                if query.retry_count < retry_count_max && self.can_repeat() {
                    self.backlog.push_front(QueryRange::retry(query));
                } else {
                    self.requests
                        .answer(query, Err(Error::mysql_refused(error)));
                }
            }
            step => panic!("{step:?} does not fail this way"),
        }
    }

    /// Whether a query that was not done can be sent after those that were queued later: it
    /// must not slip into another's transaction, nor change its place in its own.
    pub(super) fn can_repeat(&self) -> bool {
        !self.status.may_be_in_transaction() && self.begin_count == 0
    }

    fn prepare_failed(&mut self, key: Key, sequence: u64, error: ErrPacket<'static>) {
        if error.code() == CANNOT_BE_PREPARED && key.types.is_empty() {
            return self.ready(Statement {
                kind: StatementKind::of(&key.sql),
                effect: session_effect(&key.sql),
                key,
                sequence,
                prepared: None,
            });
        }
        let waiting = self.statements.cache.refused(&key);
        // There are fewer statements to close each time, so this terminates.
        let is_full = error.is_statement_limit();
        if self.is_victim(&error, sequence) {
            self.void(|| None);
            return requeue(&mut self.backlog, waiting);
        }
        if is_full && self.statements.evict_all() {
            self.void(|| None);
            // After the queries that still use statements to be closed.
            return self.backlog.extend(waiting);
        }
        let error = if is_full {
            Error::statement_limit(error)
        } else {
            Error::mysql_refused(error)
        };
        for range in waiting {
            self.requests.refuse(range, &error);
        }
        self.void(|| Some(error));
    }

    /// Records the size of a queued request.
    pub(super) fn note_size(&mut self, size: usize) {
        self.request_size = self.request_size.max(size);
    }

    /// The connection is lost. A server that finds a request too large closes it while the request
    /// is still written, and what it says about that is mostly lost.
    pub(super) fn fail(&mut self, error: Error, output: &Output) {
        let is_large = self.is_ready && self.request_size > ALLOWED_PACKET_MIN;
        let error = match error.kind() {
            ErrorKind::Connection if is_large => {
                Error::request_may_be_too_large(self.request_size, error)
            }
            _ => error,
        };
        self.end(error, output);
    }

    /// Takes the first step, which is done.
    pub(super) fn pop(&mut self) -> Option<InFlight> {
        let step = self.in_flight.pop_front();
        if self.in_flight.is_empty() {
            self.request_size = 0;
        }
        if step.as_ref().is_some_and(InFlight::is_begin) {
            assert!(self.begin_count > 0, "each BEGIN in flight is counted");
            self.begin_count -= 1;
        }
        self.check();
        step
    }

    /// The answer to a request that describes a statement.
    pub(super) fn describe(&self, statement: &Statement) -> Answer {
        let prepared = statement.prepared.as_ref();
        let layout = prepared.and_then(|prepared| self.statements.last_layout(prepared.id));
        let names = layout.map_or_else(Arc::default, |layout| Arc::clone(&layout.names));
        let description = Description {
            columns: Arc::clone(&names),
            column_types: layout.map_or_else(Box::default, |layout| layout.type_names().collect()),
            parameter_types: prepared.map_or_else(Box::default, parameter_types),
        };
        Answer {
            description: Some(Arc::new(description)),
            ..Answer::of_rows(lookaside_value::RowSetBuilder::with_columns(names).build())
        }
    }
}

/// The server's description of a statement's parameters. MariaDB only describes their number.
fn parameter_types(prepared: &statement::Prepared) -> Box<[Text]> {
    let count = prepared.parameter_count;
    match &prepared.parameters {
        Some(columns) if columns.iter().any(|column| column.column_type.0 != 6) => {
            RowLayout::of(columns).type_names().collect()
        }
        _ => vec![Text::from_static("any"); count].into(),
    }
}
