//! The session: waiting requests, requests in flight, and the handling of the server's events.

mod cancel;
mod script;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use lookaside_value::{RowSetBuilder, Value};
use lookaside_wire::RequestId;
use lookaside_wire::postgres::{
    CommandTag, DataRow, ErrorResponse, Event, ParameterStatus, RowDescription,
};

use super::hook::{Hook, Notification};
use super::in_flight::{InFlight, Settled, Stage, SyncedOutcome};
use super::notices::Notices;
use super::server_role::ServerRole;
use super::statement::{Columns, MESSAGE_SIZE, Statement};
use super::statement_kind::StatementKind;
use super::statements::Statements;
use super::{Key, Options, QueryRange, Route};
use crate::Error;
use crate::copy::CopyEnd;
use crate::driver::{Cancellation, PendingRequest, Requests, requeue};
use crate::output::Output;
use crate::raw_rows::RawRows;
use crate::request::{Goal, Portal, RowForm};
use crate::types::postgres::PgType;
use crate::{Answer, Request, Ticket};

pub(super) use script::Script;

/// The server's names of the only supported encoding.
const ENCODINGS: [&str; 3] = ["UTF8", "UTF-8", "UNICODE"];

/// Settings that decide what the names in a statement mean. A server reports each change of those
/// that it knows to be of interest: `search_path` since PostgreSQL 18.
const NAMING_SETTINGS: &[&[u8]] = &[b"search_path", b"session_authorization", b"is_superuser"];

/// What is set aside at most for rows that stay as they are, by the size of those before. More comes
/// piece by piece.
const RAW_SIZE_MAX: usize = 64 * 1024;

/// The name of the only column of what a COPY brings.
const COPY_COLUMN: &str = "copy";

/// The answer to a server that waits for COPY data.
pub(super) enum CopyIn {
    /// All of this.
    Data(Arc<[u8]>),
    /// Nothing: the caller is gone, or has none.
    Refused,
}

/// The whole driver except the wire.
pub(super) struct ServerSession {
    pub(super) is_ready: bool,
    pub(super) server_role: ServerRole,
    pub(super) end: Option<Error>,
    pub(super) requests: Requests<Details>,
    /// Whether there is a pooler in front of the server, so that each transaction may run in a
    /// different session.
    pub(super) is_pooled: bool,
    /// Unsent queries that only wait for room.
    pub(super) backlog: VecDeque<QueryRange>,
    pub(super) statements: Statements,
    pub(super) in_flight: VecDeque<InFlight>,
    /// The portals that have more rows.
    pub(super) portals: HashMap<Portal, Arc<Statement>, RandomState>,
    /// The number of requests in flight that prepare or run something.
    pub(super) in_flight_count: usize,
    /// The number of requests in flight that open a transaction.
    pub(super) begin_count: usize,
    /// The parameters of the statement that is being described.
    parameters: Box<[PgType]>,
    /// Of the query that is being answered, where they were described with it.
    columns: Option<Arc<Columns>>,
    /// Of the query that is being answered.
    pub(super) rows: Rows,
    /// The size of the last raw rows.
    raw_size: usize,
    /// The pipe of the current COPY, if its data is streamed.
    pub(super) copy: Option<Arc<CopyEnd>>,
    /// Whether the server waits for what is in it.
    pub(super) is_sending: bool,
    /// The answers to the script that is under way, if its caller waits for them.
    pub(super) script: Option<Script>,
    pub(super) result_size_max: usize,
    /// Whether the last Sync or script left a transaction open.
    pub(super) is_in_transaction: bool,
    /// The queries that share the Sync which is answered next.
    pub(super) settled: Vec<Settled>,
    /// Why that Sync failed, if it did.
    pub(super) sync_error: Option<ErrorResponse<'static>>,
    /// The last sequence number, which orders events in time.
    pub(super) sequence: u64,
    /// Statements that were prepared before this sequence number are not used any more.
    pub(super) valid_from: u64,
    /// A setting was changed since the last Sync.
    pub(super) settings_changed: bool,
    /// One was changed in a transaction, whose end may change it back.
    pub(super) settings_pending: bool,
    pub(super) cancel: Cancellation,
    pub(super) notices: Notices,
    on_notice: Option<Hook<ErrorResponse<'static>>>,
    on_notification: Option<Hook<Notification>>,
    /// As reported by the server.
    pub(super) server_version: Box<str>,
}

/// The protocol-specific data of a request.
pub(super) struct Details {
    pub(super) key: Key,
    form: RowForm,
    copy: Option<Arc<CopyEnd>>,
    /// When it was submitted.
    pub(super) sequence: u64,
}

/// Whether a request returns raw rows.
fn is_raw(request: &PendingRequest<Details>) -> bool {
    request.details.form == RowForm::Raw && request.goal == Goal::Run
}

/// The rows of the query that is being answered.
pub(super) enum Rows {
    /// No rows have been received.
    Empty,
    Begun {
        rows: RowSetBuilder,
        size: usize,
    },
    /// Raw rows.
    Raw {
        rows: Box<RawRows>,
        size: usize,
    },
    /// The rest is discarded, because of an error.
    Failed(Error),
    /// They cannot be decoded, but a repeated query may succeed.
    Unforeseen(Error),
    /// The caller is gone.
    Discarded,
}

impl ServerSession {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_ready: false,
            server_role: ServerRole::default(),
            end: None,
            requests: Requests::default(),
            backlog: VecDeque::new(),
            statements: Statements::new(options.statement_count_max, options.route),
            is_pooled: options.route == Route::Pooler,
            in_flight: VecDeque::new(),
            portals: HashMap::default(),
            in_flight_count: 0,
            begin_count: 0,
            parameters: Box::default(),
            columns: None,
            rows: Rows::Empty,
            raw_size: 0,
            copy: None,
            is_sending: false,
            script: None,
            result_size_max: options.result_size_max,
            is_in_transaction: false,
            settled: Vec::new(),
            sync_error: None,
            sequence: 0,
            valid_from: 0,
            settings_changed: false,
            settings_pending: false,
            cancel: Cancellation::default(),
            notices: Notices::default(),
            on_notice: options.on_notice.clone(),
            on_notification: options.on_notification.clone(),
            server_version: Box::default(),
        }
    }

    /// What holds while nothing is dispatched or taken.
    pub(super) fn check(&self) {
        assert!(
            self.in_flight_count <= self.in_flight.len(),
            "counted steps are in flight"
        );
        assert!(
            self.begin_count <= self.in_flight_count,
            "a BEGIN is an execution"
        );
        // Only in debug builds, as it looks at each step.
        debug_assert_eq!(
            self.in_flight.iter().filter(|it| it.is_counted()).count(),
            self.in_flight_count,
            "the steps that prepare or run something are counted"
        );
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.requests.deadline(), self.cancel.deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn add(&mut self, request: Request) -> Ticket {
        let details = Details {
            key: Key {
                sql: request.sql,
                parameter_types: request.parameter_types,
            },
            form: request.form,
            copy: request.copy,
            sequence: self.next_sequence(),
        };
        let count = request.params.len();
        let pending = PendingRequest::new(request.params, request.goal, request.deadline, details);
        let ticket = self.requests.add(pending);
        if count > 0 {
            let syncs = request.syncs.unwrap_or_default();
            let range = QueryRange::all(ticket, count, request.scope, syncs);
            self.backlog.push_back(range);
        }
        ticket
    }

    /// Whether the server may be waiting for data, or be sending some.
    pub(super) fn is_copying(&self) -> bool {
        let step = self.in_flight.front();
        matches!(step, Some(InFlight::Query { statement, .. }) if statement.kind == StatementKind::Copy)
    }

    /// The answer to a server that waits for COPY data.
    fn copy_in(&mut self) -> Option<CopyIn> {
        let Some(InFlight::Query { query, .. }) = self.in_flight.front() else {
            panic!("only what runs waits for data");
        };
        let request = self.requests.get(query.ticket);
        if let Some(copy) = request.and_then(|request| request.details.copy.as_ref()) {
            if !copy.sends() {
                self.rows = Rows::Failed(Error::copy_direction("COPY … TO STDOUT"));
                return Some(CopyIn::Refused);
            }
            self.copy = Some(Arc::clone(copy));
            self.is_sending = true;
            return None;
        }
        Some(
            match request.and_then(|request| request.params.set(query.index).first()) {
                Some(Value::Bytes(data)) => CopyIn::Data(Arc::clone(data)),
                _ => CopyIn::Refused,
            },
        )
    }

    /// The pipe for the data of a COPY, if it is streamed.
    fn copy_out(&self) -> Option<Arc<CopyEnd>> {
        let Some(InFlight::Query { query, .. }) = self.in_flight.front() else {
            panic!("only what runs sends data");
        };
        let copy = self.requests.get(query.ticket)?.details.copy.as_ref()?;
        Some(Arc::clone(copy))
    }

    /// A part of what a COPY brings: a row, so far.
    fn copy_data(&mut self, data: &[u8]) {
        if let Some(copy) = &self.copy {
            return copy.give(data);
        }
        let Rows::Begun { rows, size } = &mut self.rows else {
            return;
        };
        rows.push([Value::from(data.to_vec())]);
        *size += MESSAGE_SIZE + data.len();
        if *size > self.result_size_max {
            self.rows = Rows::Failed(Error::result_too_large(self.result_size_max));
        }
    }

    /// Handles an event; returns the answer if the server waits for COPY data.
    #[inline]
    pub(super) fn take(&mut self, event: Event<'_>, output: &Output) -> Option<CopyIn> {
        // Nothing but a script takes an event away, and to look for one needs no event.
        if let Some(&InFlight::Script { ticket, .. }) = self.in_flight.front() {
            return match self.take_of_script(ticket, event) {
                ControlFlow::Continue(event) => self.take_rare(event, output),
                ControlFlow::Break(copies) => copies.then_some(CopyIn::Refused),
            };
        }
        match event {
            // Nothing follows from a Bind that went well.
            Event::BindComplete { .. } => {}
            Event::DataRow { row, .. } => self.row(row),
            Event::CommandComplete { tag, .. } => self.complete(Some(tag)),
            Event::Ready { id, status } if id != RequestId::STARTUP => {
                let sync = self.in_flight.pop_front();
                assert!(
                    matches!(sync, Some(InFlight::Sync)),
                    "only a Sync gets ready"
                );
                self.deliver(status, output);
            }
            event => return self.take_rare(event, output),
        }
        None
    }

    /// Handles rare events, outside of the hot path.
    #[cold]
    fn take_rare(&mut self, event: Event<'_>, output: &Output) -> Option<CopyIn> {
        match event {
            Event::EmptyQuery { .. } => self.complete(None),
            Event::PortalSuspended { .. } => self.suspended(),
            Event::Ready { .. } => {
                self.is_ready = true;
                // They were reported, and not changed.
                self.settings_changed = false;
            }
            Event::ParameterDescription { description, .. } => {
                self.parameters = description.types().map(|oid| PgType::of(oid.0)).collect();
            }
            Event::RowDescription { description, .. } => self.described(Some(description)),
            Event::NoData { .. } => self.described(None),
            Event::CloseComplete { .. } => {
                let Some(InFlight::Close(query)) = self.in_flight.pop_front() else {
                    panic!("only a Close closes");
                };
                self.closed(query);
            }
            Event::Failed { id, error } => self.failed(id, error.into_owned()),
            Event::Skipped { .. } => self.skipped(),
            Event::ParameterStatus(status) => self.setting(status, output),
            Event::Notice(notice) => match &self.on_notice {
                Some(hook) => hook.call(notice.into_owned()),
                None => self.notices.push(notice),
            },
            Event::Notification(notification) => {
                if let Some(hook) = &self.on_notification {
                    hook.call(Notification::of(notification));
                }
            }
            Event::Fatal { error } => {
                let error = error.into_owned();
                let error = if self.is_ready {
                    Error::session_ended(error)
                } else {
                    Error::log_in_refused(error)
                };
                self.end(error, output);
            }
            Event::Closed => self.end(Error::end_of_stream(), output),
            Event::CopyIn { .. } => return self.copy_in(),
            Event::CopyOut { .. } => {
                self.copy = self.copy_out();
                self.rows = match &self.copy {
                    Some(copy) if copy.sends() => {
                        self.copy = None;
                        Rows::Failed(Error::copy_direction("COPY … FROM STDIN"))
                    }
                    _ => Rows::Begun {
                        rows: RowSetBuilder::new([COPY_COLUMN]),
                        size: 0,
                    },
                };
            }
            Event::CopyData { data, .. } => self.copy_data(data),
            // Nothing follows from a Parse that went well.
            _ => {}
        }
        None
    }

    fn row(&mut self, row: DataRow<'_>) {
        let Some(InFlight::Query {
            query, statement, ..
        }) = self.in_flight.front()
        else {
            panic!("only queries have rows");
        };
        if matches!(self.rows, Rows::Empty) {
            let columns = self.columns.as_ref().unwrap_or(&statement.columns);
            self.rows = match self.requests.get(query.ticket) {
                None => Rows::Discarded,
                Some(request) => match request.discards() {
                    Some(error) => Rows::Failed(error.clone()),
                    None if is_raw(request) => {
                        let types = Arc::clone(&columns.types);
                        let rows = Box::new(RawRows::with_capacity(types, self.raw_size));
                        Rows::Raw { rows, size: 0 }
                    }
                    None => {
                        let rows = columns.rows();
                        Rows::Begun { rows, size: 0 }
                    }
                },
            };
        }
        let columns = self.columns.as_ref().unwrap_or(&statement.columns);
        let (taken, size) = match &mut self.rows {
            Rows::Begun { rows, size } => (columns.read(row, rows), size),
            Rows::Raw { rows, size } => (columns.copy(row, rows), size),
            _ => return,
        };
        match taken {
            Ok(row_size) => *size += row_size,
            Err(error) => {
                let statement = statement.clone();
                self.statements.cache.evict(&statement);
                self.rows = Rows::Failed(error);
                return;
            }
        }
        if *size > self.result_size_max {
            self.rows = Rows::Failed(Error::result_too_large(self.result_size_max));
        }
    }

    /// Handles the end of the requested rows.
    fn suspended(&mut self) {
        let Some(InFlight::Query {
            statement, portal, ..
        }) = self.in_flight.front()
        else {
            panic!("only queries are suspended");
        };
        // Without a name, it does not outlive its Sync.
        if let &Some(portal) = portal {
            let statement = Arc::clone(statement);
            let columns = self.columns.clone();
            self.keep_portal(portal, &statement, columns.as_ref());
        }
        self.complete(None);
    }

    fn complete(&mut self, tag: Option<CommandTag<'_>>) {
        let Some(InFlight::Query {
            query, statement, ..
        }) = self.pop()
        else {
            panic!("only queries are completed");
        };
        if statement.kind == StatementKind::Set {
            self.settings_changed = true;
        }
        let is_undone = tag.is_some_and(|tag| tag.as_bytes() == b"ROLLBACK");
        if statement.kind == StatementKind::Commit && is_undone {
            self.rows = Rows::Failed(Error::rolled_back());
        }
        self.end_copy();
        let columns = self.columns.take();
        let row_count = tag.and_then(CommandTag::row_count);
        let done = |rows: RowSetBuilder, raw: Option<Box<RawRows>>| {
            SyncedOutcome::Done(Answer {
                raw,
                row_count,
                ..Answer::of_rows(rows.build())
            })
        };
        let outcome = match std::mem::replace(&mut self.rows, Rows::Empty) {
            Rows::Empty => {
                let columns = columns.as_ref().unwrap_or(&statement.columns);
                let is_raw = self.requests.get(query.ticket).is_some_and(is_raw);
                let none = || RawRows::with_capacity(Arc::clone(&columns.types), 0);
                done(columns.rows(), is_raw.then(|| Box::new(none())))
            }
            Rows::Begun { rows, .. } => done(rows, None),
            Rows::Raw { rows, .. } => {
                self.raw_size = rows.size().min(RAW_SIZE_MAX);
                let columns = columns.as_ref().unwrap_or(&statement.columns);
                done(columns.rows(), Some(rows))
            }
            Rows::Failed(error) => SyncedOutcome::Unreadable(error),
            Rows::Unforeseen(error) => SyncedOutcome::Unforeseen(error),
            Rows::Discarded => SyncedOutcome::Discarded,
        };
        self.settled.push(Settled {
            query,
            statement,
            outcome,
        });
    }

    /// A statement is described, or a portal that is about to be executed.
    fn described(&mut self, description: Option<RowDescription<'_>>) {
        let Some(InFlight::Query { statement, .. }) = self.in_flight.front() else {
            return self.prepared(description);
        };
        let statement = Arc::clone(statement);
        let columns = statement.portal_columns(description);
        if !columns.is_like(&statement.columns) {
            self.statements.cache.evict(&statement);
        }
        if let Some(name) = columns.opaque() {
            self.rows = Rows::Unforeseen(Error::column_changed(name));
        }
        self.columns = Some(columns);
    }

    #[cold]
    fn prepared(&mut self, description: Option<RowDescription<'_>>) {
        let Some(InFlight::Prepare {
            key,
            name,
            sequence,
        }) = self.pop()
        else {
            panic!("only what is being prepared is described");
        };
        let parameters = std::mem::take(&mut self.parameters);
        let statement = Statement::new(key, name, sequence, parameters, description);
        let waiting = self.statements.cache.prepared(&Arc::new(statement));
        requeue(&mut self.backlog, waiting);
    }

    #[cold]
    fn failed(&mut self, id: RequestId, error: ErrorResponse<'static>) {
        if matches!(self.in_flight.front(), Some(InFlight::Sync)) {
            self.sync_error = Some(error);
            return;
        }
        match self.pop() {
            Some(InFlight::Prepare {
                key,
                name,
                sequence,
            }) => {
                let waiting = self.statements.cache.refused(&key);
                // Parse may have been done, and only Describe refused.
                self.statements.forget(name);
                if self.is_victim(&error, sequence) {
                    requeue(&mut self.backlog, waiting);
                    return;
                }
                let error = Error::refused(error);
                for range in waiting {
                    self.requests.refuse(range, &error);
                }
            }
            Some(InFlight::Query {
                query,
                statement,
                execute,
                sequence,
                ..
            }) => {
                self.end_copy();
                self.rows = Rows::Empty;
                self.columns = None;
                let stage = if id == execute {
                    Stage::Execute
                } else {
                    Stage::Bind
                };
                let at_risk = self.is_victim(&error, sequence);
                let outcome = SyncedOutcome::Refused {
                    error,
                    stage,
                    at_risk,
                };
                self.settled.push(Settled {
                    query,
                    statement,
                    outcome,
                });
            }
            // What could not be closed is not used any more either.
            Some(InFlight::Close(query)) => self.closed(query),
            step => panic!("{step:?} cannot fail"),
        }
    }

    /// All that shares the Sync of what failed.
    #[cold]
    fn skipped(&mut self) {
        while !matches!(self.in_flight.front(), Some(InFlight::Sync) | None) {
            match self.pop() {
                Some(InFlight::Query {
                    query, statement, ..
                }) => self.settled.push(Settled {
                    query,
                    statement,
                    outcome: SyncedOutcome::Skipped,
                }),
                // Something before it could not be closed, which is not tried again.
                Some(InFlight::Prepare { key, .. }) => {
                    let waiting = self.statements.cache.refused(&key);
                    requeue(&mut self.backlog, waiting);
                }
                Some(InFlight::Close(query)) => self.closed(query),
                _ => {}
            }
        }
    }

    /// Removes the first request in flight, which is done.
    fn pop(&mut self) -> Option<InFlight> {
        let step = self.in_flight.pop_front();
        match &step {
            Some(InFlight::Query { statement, .. }) => {
                assert!(self.in_flight_count > 0, "each query is counted");
                self.in_flight_count -= 1;
                if statement.kind == StatementKind::Begin {
                    assert!(self.begin_count > 0, "each BEGIN in flight is counted");
                    self.begin_count -= 1;
                }
            }
            Some(InFlight::Prepare { .. }) => {
                assert!(self.in_flight_count > 0, "each prepare is counted");
                self.in_flight_count -= 1;
            }
            Some(InFlight::Close(_) | InFlight::Sync | InFlight::Script { .. }) | None => {}
        }
        step
    }

    #[cold]
    fn setting(&mut self, status: ParameterStatus<'_>, output: &Output) {
        let value = status.value.to_string_lossy();
        if status.name == c"client_encoding"
            && !ENCODINGS.iter().any(|it| value.eq_ignore_ascii_case(it))
        {
            let error = Error::other_encoding("client_encoding", &value, "UTF8");
            // A query that was alone has done it.
            if let [only] = &self.settled[..] {
                let query = only.query;
                self.settled.clear();
                self.requests.answer(query, Err(error.clone()));
            }
            return self.end(error, output);
        }
        self.server_role.report(status.name, status.value);
        if NAMING_SETTINGS.contains(&status.name.to_bytes()) {
            self.settings_changed = true;
        }
        if status.name == c"server_version" {
            self.server_version = status.value.to_string_lossy().into();
        }
    }
}
