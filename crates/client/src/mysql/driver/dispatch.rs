//! From the backlog to the wire.

use std::sync::Arc;
use std::time::Instant;

use lookaside_wire::mysql::{Capabilities, Cursor, Request as Wire, StatementId};

use super::MysqlDriver;
use super::in_flight::{InFlight, Work};
use super::placeholders::placeholder_count;
use super::session::{Mode, TransactionState, WHERE};
use super::statement::{self, Key, KeyRef, QueryRange, Statement};
use super::statement_kind::{StatementKind, classify, session_effect};
use crate::driver::{Found, QueryRef};
use crate::request::{Goal, RequestScope, Shape};
use crate::types::mysql::ParamType;
use crate::{Error, Result, Ticket};

impl MysqlDriver {
    /// Queues as many queries as fit into the window.
    pub(super) fn dispatch(&mut self, now: Instant) {
        let is_held = self.session.cancel.is_under_way();
        if !self.session.is_ready || self.session.end.is_some() || is_held {
            return;
        }
        self.ask_for_status();
        if self.session.status.is_awaited() {
            return;
        }
        self.close_evicted();
        self.send(now);
        self.close_evicted();
    }

    fn send(&mut self, now: Instant) {
        while self.has_room() && !self.is_resetting() && self.session.end.is_none() {
            let Some(mut range) = self.session.backlog.pop_front() else {
                return;
            };
            let Some(request) = self.session.requests.get(range.ticket) else {
                // It was abandoned, possibly after the statement of its stream was prepared.
                if let Some(statement) = range.statement {
                    self.session.statements.cache.discard_uncached(statement);
                }
                continue;
            };
            match request.goal {
                Goal::Copy => {
                    self.session.requests.refuse(range, &Error::no_copy_here());
                    continue;
                }
                // It needs no message now, and is done regardless of the transaction.
                Goal::Close(portal) => {
                    self.session.close_stream(range.first(), portal);
                    continue;
                }
                Goal::Reset => {
                    if !self.reset(range) {
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            let is_shared_run = request.goal == Goal::Run && range.scope == RequestScope::Shared;
            if is_shared_run && !self.session.status.began_with_autocommit {
                let error = Error::begins_without_autocommit();
                self.session.requests.refuse(range, &error);
                continue;
            }
            if range.scope == RequestScope::Transaction {
                // After a transaction has ended unexpectedly, its remaining statements would run
                // outside of it. So each is sent only when the outcome of the previous ones is
                // known.
                if !self.session.in_flight.is_empty()
                    || self.session.transaction == TransactionState::Uncertain
                {
                    self.session.backlog.push_front(range);
                    if self.session.in_flight.is_empty() {
                        self.session.transaction = TransactionState::Queried;
                        self.ask(WHERE);
                    }
                    return;
                }
                if self.session.transaction == TransactionState::Gone {
                    self.session
                        .requests
                        .refuse(range, &Error::transaction_gone());
                    continue;
                }
            }
            let login = self.login.as_ref();
            if range.scope != RequestScope::Shared
                && login.is_some_and(|login| login.database().is_none())
            {
                self.session.has_chosen |= StatementKind::chooses_database(&request.details.sql);
            }
            if let Some(statement) = range.statement.take() {
                self.proceed(range, &statement, now);
                continue;
            }
            match request.goal {
                Goal::Open(fetch) => {
                    self.open(range, fetch);
                    continue;
                }
                Goal::Fetch(fetch) => {
                    self.fetch(range, fetch);
                    continue;
                }
                _ => {}
            }
            let values = request.params.set(range.start);
            if request.goal == Goal::Run && values.is_empty() {
                let (kind, effect) = classify(&request.details.sql);
                if range.scope == RequestScope::Shared
                    && let Some(error) = effect.refusal()
                {
                    self.session.requests.refuse(range, &error);
                    continue;
                }
                if kind.is_bare() {
                    self.run_bare(range);
                    continue;
                }
            }
            let extent = self.extent(&range);
            let request = self.session.requests.get(range.ticket);
            let Some(request) = request else { continue };
            let values = request.params.set(range.start);
            self.types.clear();
            match &extent {
                Some(extent) => self.types.extend_from_slice(&extent.types),
                None => self.types.extend(values.iter().map(ParamType::of)),
            }
            let key = KeyRef {
                sql: &request.details.sql,
                types: &self.types,
            };
            match self
                .session
                .statements
                .cache
                .find(&key, self.session.valid_from)
            {
                Found::Ready(statement) => match statement.effect.refusal() {
                    Some(error) if is_shared_run => self.session.requests.refuse(range, &error),
                    _ => self.proceed(range, &statement, now),
                },
                found => {
                    if is_shared_run
                        && let Some(error) = session_effect(&request.details.sql).refusal()
                    {
                        self.session.requests.refuse(range, &error);
                        continue;
                    }
                    if matches!(found, Found::Absent) && self.session.mode != Mode::Full {
                        self.session.backlog.push_front(range);
                        self.change_mode(Mode::Full);
                        continue;
                    }
                    // Those that follow with the same types wait together.
                    let sets = (range.start..range.end).map(|index| request.params.set(index));
                    let is_same = |values: &&[_]| {
                        let types = values.iter().map(ParamType::of);
                        types.eq(self.types.iter().copied())
                    };
                    let count = match extent {
                        Some(extent) => extent.count,
                        None => sets.take_while(is_same).count(),
                    };
                    let first = range.split(count);
                    if matches!(found, Found::Preparing) {
                        self.session.statements.cache.wait(&key, first);
                    } else {
                        let key = Key {
                            sql: Arc::clone(&request.details.sql),
                            types: self.types.as_slice().into(),
                        };
                        self.prepare(first, key);
                    }
                    if !range.is_empty() {
                        self.session.backlog.push_front(range);
                    }
                }
            }
        }
    }

    /// Whether a reset is in flight, which would discard what is sent now.
    fn is_resetting(&self) -> bool {
        matches!(self.session.in_flight.front(), Some(InFlight::Reset { .. }))
    }

    fn has_room(&self) -> bool {
        self.session.in_flight.len() < self.window
    }

    /// Closes statements that will not be used any more. With a window of one query, nothing is
    /// sent while one is in flight.
    fn close_evicted(&mut self) {
        if self.window == 1 && !self.session.in_flight.is_empty() {
            return;
        }
        while let Some(id) = self.session.statements.pop_evicted() {
            // There is no answer, so it takes no room in the window.
            if self.connection.queue(Wire::CloseStatement(id)).is_err() {
                return;
            }
        }
    }

    fn prepare(&mut self, mut range: QueryRange, key: Key) {
        if let Err(error) = self.connection.queue(Wire::Prepare(&key.sql)) {
            return self.session.requests.refuse(range, &Error::request(error));
        }
        let sequence = self.session.next_sequence();
        let step = InFlight::Prepare {
            key: key.clone(),
            sequence,
        };
        self.session.push(step);
        if self.extent(&range).is_none() && self.executes_along(range.first(), &key) {
            self.push_run(range.first(), Work::Last, None, StatementKind::of(&key.sql));
            range.start += 1;
        }
        self.session.guard.count();
        self.put_guard();
        self.session.statements.cache.begin(key, range);
    }

    /// Queues the execution of a statement that is being prepared, if the server supports that and
    /// the number of values is known to match.
    fn executes_along(&mut self, query: QueryRef, key: &Key) -> bool {
        let Self {
            connection,
            session,
            scratch,
            ..
        } = self;
        let Some(request) = session.requests.get(query.ticket) else {
            return false;
        };
        let values = request.params.set(query.index);
        let is_sure = || placeholder_count(&key.sql) == Some(values.len());
        let can_be = connection.can_execute_last() && session.guard.is_guarded();
        if !can_be || request.goal != Goal::Run || !is_sure() {
            return false;
        }
        // An encoding error is reported when the statement is prepared.
        let is_encoded = scratch.encode(values).is_ok();
        session.note_size(scratch.size());
        is_encoded
            && statement::execute(connection, scratch, StatementId::LAST, Cursor::None).is_ok()
    }

    /// Queues a statement that is not worth preparing, or cannot be prepared.
    pub(super) fn run_bare(&mut self, mut range: QueryRange) {
        let query = range.first();
        let Some(request) = self.session.requests.get(range.ticket) else {
            return;
        };
        let kind = StatementKind::of(&request.details.sql);
        let work = match request.goal {
            Goal::Open(fetch) => Work::Open(fetch),
            _ => Work::Execute,
        };
        let queued = self.connection.queue(Wire::Query(&request.details.sql));
        match queued {
            Ok(_) => {
                let size = request.details.sql.len();
                self.session.note_size(size);
                self.push_run(range.first(), work, None, kind);
            }
            Err(error) => self
                .session
                .requests
                .answer(query, Err(Error::request(error))),
        }
        range.start += 1;
        if !range.is_empty() {
            self.session.backlog.push_front(range);
        }
    }

    /// Processes a range with its prepared statement.
    fn proceed(&mut self, range: QueryRange, statement: &Arc<Statement>, now: Instant) {
        let goal = self
            .session
            .requests
            .get(range.ticket)
            .map(|request| request.goal);
        match (goal, &statement.prepared) {
            (Some(Goal::Describe), _) => {
                let answer = self.session.describe(statement);
                self.session.requests.answer(range.first(), Ok(answer));
            }
            (Some(Goal::Script { .. }), _) => panic!("scripts are not taken"),
            (Some(Goal::Run | Goal::Open(_)), None) => self.run_bare(range),
            (Some(Goal::Run), Some(_)) => match self.extent(&range) {
                Some(_) => self.bulk(range, statement),
                None => self.run(range, statement, now),
            },
            (Some(Goal::Open(fetch)), Some(_)) => self.open_cursor(range, statement, fetch),
            (Some(Goal::Copy | Goal::Fetch(_) | Goal::Close(_) | Goal::Reset), _) => {
                panic!("what has no statement waits for none")
            }
            (None, _) => {}
        }
    }

    /// Queues the queries of a range that match this statement, as many as have room.
    fn run(&mut self, mut range: QueryRange, statement: &Arc<Statement>, now: Instant) {
        let is_alone = range.scope == RequestScope::Transaction;
        while !range.is_empty() && self.has_room() && self.session.end.is_none() {
            if is_alone && !self.session.in_flight.is_empty() {
                break;
            }
            let query = range.first();
            let mode = self.mode_of(query.ticket, statement, now);
            if mode != self.session.mode {
                self.change_mode(mode);
                continue;
            }
            match self.queue_run(query, statement, Cursor::None) {
                Some(Ok(())) => {
                    if let Some(prepared) = &statement.prepared
                        && mode == Mode::Full
                        && self.pins(query.ticket)
                    {
                        self.session.statements.check(prepared.id, now);
                    }
                    self.push_run(query, Work::Execute, Some(statement), statement.kind);
                }
                Some(Err(error)) => self.session.requests.answer(query, Err(error)),
                None => break,
            }
            range.start += 1;
        }
        if !range.is_empty() {
            self.session.backlog.push_front(range);
        }
    }

    /// Whether the caller pins the columns, and the server supports that.
    fn pins(&self, ticket: Ticket) -> bool {
        let capabilities = self.connection.capabilities();
        let request = self.session.requests.get(ticket);
        self.pinned_check_after.is_some()
            && capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA)
            && request.is_some_and(|request| request.details.shape == Shape::Pinned)
    }

    /// Whether the server has to send the column definitions of this execution.
    fn mode_of(&self, ticket: Ticket, statement: &Statement, now: Instant) -> Mode {
        let is_checked = match (&statement.prepared, self.pinned_check_after) {
            (Some(prepared), Some(check_after)) => {
                let since = now.checked_sub(check_after);
                self.session.statements.is_checked(prepared.id, since)
            }
            _ => false,
        };
        if is_checked && self.pins(ticket) {
            Mode::Pinned
        } else {
            Mode::Full
        }
    }

    /// Queues the statement that makes the server send or omit definitions.
    pub(super) fn change_mode(&mut self, mode: Mode) {
        self.session.mode = mode;
        self.ask(mode.sql());
    }

    /// Queues a query of the driver itself.
    pub(super) fn ask(&mut self, sql: &str) {
        if let Err(error) = self.connection.queue(Wire::Query(sql)) {
            return self.session.end(Error::request(error), &self.output);
        }
        let sequence = self.session.next_sequence();
        self.session.push(InFlight::Own { sequence });
    }

    /// Queues one query, unless its values are of other types.
    pub(super) fn queue_run(
        &mut self,
        query: QueryRef,
        statement: &Statement,
        cursor: Cursor,
    ) -> Option<Result<()>> {
        let Self {
            connection,
            session,
            scratch,
            ..
        } = self;
        let request = session.requests.get(query.ticket)?;
        let values = request.params.set(query.index);
        if !statement.takes(values) {
            return None;
        }
        let prepared = statement.prepared.as_ref()?;
        let count = prepared.parameter_count;
        if values.len() != count {
            return Some(Err(Error::parameter_count(values.len(), count)));
        }
        let encoded = scratch.encode(values);
        let id = prepared.id;
        session.note_size(scratch.size());
        Some(encoded.and_then(|()| statement::execute(connection, scratch, id, cursor)))
    }

    pub(super) fn push_run(
        &mut self,
        query: QueryRef,
        work: Work,
        statement: Option<&Arc<Statement>>,
        kind: StatementKind,
    ) {
        let sequence = self.session.next_sequence();
        self.session.push(InFlight::Query {
            query,
            work,
            statement: statement.cloned(),
            kind,
            sequence,
            chunk: self.output.next_chunk(),
        });
    }
}
