//! What waits, what is under way, and what the server's events do to it.

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
use super::in_flight::{InFlight, Outcome, Settled, Stage};
use super::notices::Notices;
use super::server_role::ServerRole;
use super::statement::{Columns, MESSAGE_SIZE, Statement};
use super::statement_kind::StatementKind;
use super::statements::Statements;
use super::{Key, Options, QueryRange, Route};
use crate::Error;
use crate::answers::Places;
use crate::copy::CopyEnd;
use crate::deadlines::Deadlines;
use crate::output::Output;
use crate::raw_rows::RawRows;
use crate::request::{Form, Goal, Params, Portal};
use crate::tickets::Tickets;
use crate::types::postgres::PgType;
use crate::{Answer, Reply, Request, Ticket};

use cancel::Cancel;
pub(super) use script::Script;

/// What servers call the only encoding in which texts are sent and read.
const ENCODINGS: [&str; 3] = ["UTF8", "UTF-8", "UNICODE"];

/// Settings that decide what the names in a statement mean. A server reports each change of those
/// that it knows to be of interest: `search_path` since PostgreSQL 18.
const NAMING_SETTINGS: &[&[u8]] = &[b"search_path", b"session_authorization", b"is_superuser"];

/// What is set aside at most for rows that stay as they are, by the size of those before. More comes
/// piece by piece.
const RAW_SIZE_MAX: usize = 64 * 1024;

/// The name of the only column of what a COPY brings.
const COPY_COLUMN: &str = "copy";

/// What a server gets that waits for the data of a COPY.
pub(super) enum CopyIn {
    /// All of this.
    Data(Arc<[u8]>),
    /// Nothing: nobody asks any more, or has any.
    Refused,
}

/// All of a driver but the wire.
pub(super) struct Session {
    pub(super) is_ready: bool,
    pub(super) server_role: ServerRole,
    pub(super) end: Option<Error>,
    /// Queries without an answer, sent or not.
    pub(super) query_count: usize,
    pub(super) replies: VecDeque<Reply>,
    pub(super) jobs: Tickets<Job>,
    ticket_count: u64,
    deadlines: Deadlines,
    /// Whether a pooler stands before the server, so that each transaction may run elsewhere.
    pub(super) is_pooled: bool,
    /// Queries that are not sent and wait for nothing but room.
    pub(super) backlog: VecDeque<QueryRange>,
    pub(super) statements: Statements,
    pub(super) steps: VecDeque<InFlight>,
    /// The portals that have more rows.
    pub(super) portals: HashMap<Portal, Arc<Statement>, RandomState>,
    /// How many steps prepare or run something.
    pub(super) in_flight_count: usize,
    /// How many steps open a transaction.
    pub(super) begin_count: usize,
    /// Of the statement that is being described.
    parameters: Box<[PgType]>,
    /// Of the query that is being answered, where they were described with it.
    columns: Option<Arc<Columns>>,
    /// Of the query that is being answered.
    pub(super) rows: Rows,
    /// How large the last rows were that stayed as they are.
    raw_size: usize,
    /// The pipe of the COPY that is under way, if its data comes or goes piece by piece.
    pub(super) copy: Option<Arc<CopyEnd>>,
    /// Whether the server waits for what is in it.
    pub(super) is_sending: bool,
    /// The answers to the script that is under way, if somebody waits for them.
    pub(super) script: Option<Script>,
    pub(super) result_size_max: usize,
    /// Whether the last Sync or script left a transaction open.
    pub(super) is_in_transaction: bool,
    /// The queries that share the Sync which is answered next.
    pub(super) settled: Vec<Settled>,
    /// Why that Sync failed, if it did.
    pub(super) sync_error: Option<ErrorResponse<'static>>,
    /// Counts what has to be told apart in time.
    pub(super) moment: u64,
    /// Statements that were prepared before this moment are not used any more.
    pub(super) valid_from: u64,
    /// A setting was changed since the last Sync.
    pub(super) settings_changed: bool,
    /// One was changed in a transaction, whose end may change it back.
    pub(super) settings_pending: bool,
    pub(super) cancel: Cancel,
    pub(super) notices: Notices,
    on_notice: Option<Hook<ErrorResponse<'static>>>,
    on_notification: Option<Hook<Notification>>,
    /// As the server says it.
    pub(super) server_version: Box<str>,
}

/// A request and the answers that it has so far.
pub(super) struct Job {
    pub(super) key: Key,
    pub(super) params: Params,
    pub(super) goal: Goal,
    form: Form,
    copy: Option<Arc<CopyEnd>>,
    /// When it was submitted.
    pub(super) moment: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) answers: Places,
    /// Set once the caller has dropped its future: replaces every answer.
    pub(super) discards: Option<Error>,
    pub(super) open_count: usize,
}

impl Job {
    /// Whether its rows stay what they are.
    fn is_raw(&self) -> bool {
        self.form == Form::Raw && self.goal == Goal::Run
    }

    /// Keeps none of its answers.
    pub(super) fn discard(&mut self, error: Error) {
        self.answers.replace(&error);
        self.discards = Some(error);
    }
}

/// The rows of the query that is being answered.
pub(super) enum Rows {
    /// None came.
    Empty,
    Begun {
        rows: RowSetBuilder,
        size: usize,
    },
    /// The same, as they are.
    Raw {
        rows: Box<RawRows>,
        size: usize,
    },
    /// The rest is of no use.
    Failed(Error),
    /// They cannot be read, and could be if they were asked for once more.
    Unforeseen(Error),
    /// Nobody waits for them.
    Discarded,
}

impl Session {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_ready: false,
            server_role: ServerRole::default(),
            end: None,
            query_count: 0,
            replies: VecDeque::new(),
            jobs: Tickets::default(),
            ticket_count: 0,
            deadlines: Deadlines::default(),
            backlog: VecDeque::new(),
            statements: Statements::new(options.statement_count_max, options.route),
            is_pooled: options.route == Route::Pooler,
            steps: VecDeque::new(),
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
            moment: 0,
            valid_from: 0,
            settings_changed: false,
            settings_pending: false,
            cancel: Cancel::default(),
            notices: Notices::default(),
            on_notice: options.on_notice.clone(),
            on_notification: options.on_notification.clone(),
            server_version: Box::default(),
        }
    }

    pub(super) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.steps.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(deadline, _)| deadline);
        let cancel = self.cancel.again();
        match (deadline, cancel) {
            (Some(deadline), Some(cancel)) => Some(deadline.min(cancel)),
            (deadline, cancel) => deadline.or(cancel),
        }
    }

    /// A request whose deadline has passed.
    pub(super) fn overdue(&self, now: Instant) -> Option<Ticket> {
        let (deadline, ticket) = self.deadlines.first()?;
        (deadline <= now).then_some(ticket)
    }

    pub(super) fn add(&mut self, request: Request) -> Ticket {
        self.ticket_count += 1;
        let ticket = Ticket(self.ticket_count);
        let count = request.params.len();
        if count == 0 {
            let answers = Vec::new().into();
            self.replies.push_back(Reply { ticket, answers });
            return ticket;
        }
        let moment = self.next_moment();
        self.query_count += count;
        if let Some(deadline) = request.deadline {
            self.deadlines.insert(deadline, ticket);
        }
        self.backlog.push_back(QueryRange {
            ticket,
            start: 0,
            end: count,
            syncs: request.syncs.unwrap_or_default(),
            place: request.place,
            retry_count: 0,
            statement: None,
        });
        let job = Job {
            key: Key {
                sql: request.sql,
                parameter_types: request.parameter_types,
            },
            params: request.params,
            goal: request.goal,
            form: request.form,
            copy: request.copy,
            moment,
            deadline: request.deadline,
            answers: Places::new(count),
            discards: None,
            open_count: count,
        };
        self.jobs.insert(ticket, job);
        ticket
    }

    /// Takes a request out of the books.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Job> {
        let job = self.jobs.remove(ticket)?;
        self.query_count -= job.open_count;
        if let Some(deadline) = job.deadline {
            self.deadlines.remove(deadline, ticket);
        }
        Some(job)
    }

    /// The same for one whose queries are all answered, and which nobody needs any more.
    pub(super) fn forget(&mut self, ticket: Ticket, deadline: Option<Instant>) {
        self.jobs.forget(ticket);
        if let Some(deadline) = deadline {
            self.deadlines.remove(deadline, ticket);
        }
    }

    /// Whether the server may be waiting for data, or be sending some.
    pub(super) fn is_copying(&self) -> bool {
        let step = self.steps.front();
        matches!(step, Some(InFlight::Run { statement, .. }) if statement.verb == StatementKind::Copy)
    }

    /// What a server shall get that waits for the data of a COPY.
    fn copy_in(&mut self) -> Option<CopyIn> {
        let Some(InFlight::Run { run, .. }) = self.steps.front() else {
            panic!("only what runs waits for data");
        };
        let job = self.jobs.get(run.ticket);
        if let Some(copy) = job.and_then(|job| job.copy.as_ref()) {
            if !copy.sends() {
                self.rows = Rows::Failed(Error::copy_direction("COPY … TO STDOUT"));
                return Some(CopyIn::Refused);
            }
            self.copy = Some(Arc::clone(copy));
            self.is_sending = true;
            return None;
        }
        Some(
            match job.and_then(|job| job.params.set(run.index).first()) {
                Some(Value::Bytes(data)) => CopyIn::Data(Arc::clone(data)),
                _ => CopyIn::Refused,
            },
        )
    }

    /// Where the data of a COPY goes, if it does not come whole.
    fn copy_out(&self) -> Option<Arc<CopyEnd>> {
        let Some(InFlight::Run { run, .. }) = self.steps.front() else {
            panic!("only what runs sends data");
        };
        let copy = self.jobs.get(run.ticket)?.copy.as_ref()?;
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

    /// Takes an event; says what the server shall get if it waits for the data of a COPY.
    #[inline]
    pub(super) fn take(&mut self, event: Event<'_>, output: &Output) -> Option<CopyIn> {
        // Nothing but a script takes an event away, and to look for one needs no event.
        if let Some(&InFlight::Script { ticket, .. }) = self.steps.front() {
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
                let sync = self.steps.pop_front();
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

    /// What does not come with every query is out of its way.
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
                let Some(InFlight::Close(run)) = self.steps.pop_front() else {
                    panic!("only a Close closes");
                };
                self.closed(run);
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
        let Some(InFlight::Run { run, statement, .. }) = self.steps.front() else {
            panic!("only queries have rows");
        };
        if matches!(self.rows, Rows::Empty) {
            let columns = self.columns.as_ref().unwrap_or(&statement.columns);
            self.rows = match self.jobs.get(run.ticket) {
                Some(Job {
                    discards: Some(error),
                    ..
                }) => Rows::Failed(error.clone()),
                Some(job) if job.is_raw() => {
                    let types = Arc::clone(&columns.types);
                    let rows = Box::new(RawRows::with_capacity(types, self.raw_size));
                    Rows::Raw { rows, size: 0 }
                }
                Some(_) => {
                    let rows = columns.rows();
                    Rows::Begun { rows, size: 0 }
                }
                None => Rows::Discarded,
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
                self.statements.evict(&statement);
                self.rows = Rows::Failed(error);
                return;
            }
        }
        if *size > self.result_size_max {
            self.rows = Rows::Failed(Error::result_too_large(self.result_size_max));
        }
    }

    /// All rows came that were asked for.
    fn suspended(&mut self) {
        let Some(InFlight::Run {
            statement, portal, ..
        }) = self.steps.front()
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
        let Some(InFlight::Run { run, statement, .. }) = self.pop() else {
            panic!("only queries are completed");
        };
        if statement.verb == StatementKind::Set {
            self.settings_changed = true;
        }
        let is_undone = tag.is_some_and(|tag| tag.as_bytes() == b"ROLLBACK");
        if statement.verb == StatementKind::Commit && is_undone {
            self.rows = Rows::Failed(Error::rolled_back());
        }
        self.end_copy();
        let columns = self.columns.take();
        let row_count = tag.and_then(CommandTag::row_count);
        let done = |rows: RowSetBuilder, raw: Option<Box<RawRows>>| {
            Outcome::Done(Answer {
                raw,
                row_count,
                ..Answer::of_rows(rows.build())
            })
        };
        let outcome = match std::mem::replace(&mut self.rows, Rows::Empty) {
            Rows::Empty => {
                let columns = columns.as_ref().unwrap_or(&statement.columns);
                let is_raw = self.jobs.get(run.ticket).is_some_and(Job::is_raw);
                let none = || RawRows::with_capacity(Arc::clone(&columns.types), 0);
                done(columns.rows(), is_raw.then(|| Box::new(none())))
            }
            Rows::Begun { rows, .. } => done(rows, None),
            Rows::Raw { rows, .. } => {
                self.raw_size = rows.size().min(RAW_SIZE_MAX);
                let columns = columns.as_ref().unwrap_or(&statement.columns);
                done(columns.rows(), Some(rows))
            }
            Rows::Failed(error) => Outcome::Unreadable(error),
            Rows::Unforeseen(error) => Outcome::Unforeseen(error),
            Rows::Discarded => Outcome::Discarded,
        };
        self.settled.push(Settled {
            run,
            statement,
            outcome,
        });
    }

    /// A statement is described, or a portal that is about to be executed.
    fn described(&mut self, description: Option<RowDescription<'_>>) {
        let Some(InFlight::Run { statement, .. }) = self.steps.front() else {
            return self.prepared(description);
        };
        let statement = Arc::clone(statement);
        let columns = statement.portal_columns(description);
        if !columns.is_like(&statement.columns) {
            self.statements.evict(&statement);
        }
        if let Some(name) = columns.opaque() {
            self.rows = Rows::Unforeseen(Error::column_changed(name));
        }
        self.columns = Some(columns);
    }

    #[cold]
    fn prepared(&mut self, description: Option<RowDescription<'_>>) {
        let Some(InFlight::Prepare { key, name, moment }) = self.pop() else {
            panic!("only what is being prepared is described");
        };
        let parameters = std::mem::take(&mut self.parameters);
        let statement = Statement::new(key, name, moment, parameters, description);
        let statement = Arc::new(statement);
        let mut waiting = self.statements.prepared(statement.clone());
        for span in &mut waiting {
            span.statement = Some(statement.clone());
        }
        self.resume(waiting);
    }

    /// Puts spans where they are next.
    pub(super) fn resume(&mut self, spans: Vec<QueryRange>) {
        for span in spans.into_iter().rev() {
            self.backlog.push_front(span);
        }
    }

    #[cold]
    fn failed(&mut self, id: RequestId, error: ErrorResponse<'static>) {
        if matches!(self.steps.front(), Some(InFlight::Sync)) {
            self.sync_error = Some(error);
            return;
        }
        match self.pop() {
            Some(InFlight::Prepare { key, name, moment }) => {
                let waiting = self.statements.refused(&key);
                // Parse may have been done, and only Describe refused.
                self.statements.forget(name);
                if self.is_victim(&error, moment) {
                    self.resume(waiting);
                    return;
                }
                let error = Error::refused(error);
                for span in waiting {
                    self.refuse(span, &error);
                }
            }
            Some(InFlight::Run {
                run,
                statement,
                execute,
                moment,
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
                let at_risk = self.is_victim(&error, moment);
                let outcome = Outcome::Refused {
                    error,
                    stage,
                    at_risk,
                };
                self.settled.push(Settled {
                    run,
                    statement,
                    outcome,
                });
            }
            // What could not be closed is not used any more either.
            Some(InFlight::Close(run)) => self.closed(run),
            step => panic!("{step:?} cannot fail"),
        }
    }

    /// All that shares the Sync of what failed.
    #[cold]
    fn skipped(&mut self) {
        while !matches!(self.steps.front(), Some(InFlight::Sync) | None) {
            match self.pop() {
                Some(InFlight::Run { run, statement, .. }) => self.settled.push(Settled {
                    run,
                    statement,
                    outcome: Outcome::Skipped,
                }),
                // Something before it could not be closed, which is not tried again.
                Some(InFlight::Prepare { key, .. }) => {
                    let waiting = self.statements.refused(&key);
                    self.resume(waiting);
                }
                Some(InFlight::Close(run)) => self.closed(run),
                _ => {}
            }
        }
    }

    /// Takes the first step, which is done.
    fn pop(&mut self) -> Option<InFlight> {
        let step = self.steps.pop_front();
        match &step {
            Some(InFlight::Run { statement, .. }) => {
                self.in_flight_count -= 1;
                if statement.verb == StatementKind::Begin {
                    self.begin_count -= 1;
                }
            }
            Some(InFlight::Prepare { .. }) => self.in_flight_count -= 1,
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
                let run = only.run;
                self.settled.clear();
                self.answer(run, Err(error.clone()));
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
