//! Results in chunks: through a server-side cursor, or split here.
//!
//! ```text
//!   first chunk   COM_STMT_PREPARE   COM_STMT_EXECUTE with a cursor   COM_STMT_FETCH
//!   each other                                                        COM_STMT_FETCH
//!   in the end    COM_STMT_CLOSE, which has no answer
//! ```
//!
//! Each waits for the answer to the previous one: an error may have ended the transaction, and
//! whether there is a cursor is only known from the answer to EXECUTE.

use std::sync::Arc;

use lookaside_value::{RowSet, RowSetBuilder, Text};
use lookaside_wire::mysql::{Cursor, ErrPacket, OkPacket, Request as Wire};

use super::MysqlDriver;
use super::in_flight::{InFlight, Work};
use super::session::{CANNOT_BE_PREPARED, Mode, ServerSession, VICTIM_RETRY_COUNT_MAX};
use super::statement::{Key, QueryRange, Statement};
use super::statement_kind::{StatementKind, session_effect};
use super::stream::Source;
use crate::driver::QueryRef;
use crate::request::{Fetch, Portal};
use crate::types::mysql::ParamType;
use crate::{Answer, Error};

impl MysqlDriver {
    /// Prepares the statement of a stream, or continues if its cursor is open.
    pub(super) fn open(&mut self, range: QueryRange, fetch: Fetch) {
        if self.session.streams.contains_key(&fetch.portal) {
            return self.fetch(range, fetch);
        }
        if self.session.mode != Mode::Full {
            self.session.backlog.push_front(range);
            return self.change_mode(Mode::Full);
        }
        let query = range.first();
        let Some(request) = self.session.requests.get(query.ticket) else {
            return;
        };
        match self.connection.queue(Wire::Prepare(&request.details.sql)) {
            // This only prepares the statement, whatever that does.
            Ok(_) => {
                self.session.guard.count();
                self.push_run(query, Work::Prepare, None, StatementKind::Read);
                self.put_guard();
            }
            Err(error) => self
                .session
                .requests
                .answer(query, Err(Error::request(error))),
        }
    }

    /// Queues the execution that opens the cursor.
    pub(super) fn open_cursor(
        &mut self,
        range: QueryRange,
        statement: &Arc<Statement>,
        fetch: Fetch,
    ) {
        let query = range.first();
        let cursor = match StatementKind::takes_cursor(&statement.key.sql) {
            true => Cursor::ReadOnly,
            false => Cursor::None,
        };
        match self.queue_run(query, statement, cursor) {
            Some(Ok(())) => {
                self.push_run(query, Work::Open(fetch), Some(statement), statement.kind);
            }
            Some(Err(error)) => {
                self.session.statements.cache.discard(Arc::clone(statement));
                self.session.requests.answer(query, Err(error));
            }
            None => self.session.statements.cache.discard(Arc::clone(statement)),
        }
    }

    /// Queues a fetch of the next rows, or takes them from buffered ones.
    pub(super) fn fetch(&mut self, range: QueryRange, fetch: Fetch) {
        let query = range.first();
        let statement = match self.session.streams.get_mut(&fetch.portal) {
            Some(Source::Cursor { statement, .. }) => Arc::clone(statement),
            Some(Source::Rows { rows, next }) => {
                let answer = answer(chunk(rows, next, fetch.row_count));
                return self.session.requests.answer(query, Ok(answer));
            }
            None => return self.session.requests.answer(query, Err(Error::no_portal())),
        };
        let prepared = statement.prepared.as_ref();
        let prepared = prepared.expect("a cursor is of a statement that the server knows");
        let queued = self.connection.queue(Wire::Fetch {
            statement: prepared.id,
            row_count_max: fetch.row_count,
        });
        match queued {
            Ok(_) => self.push_run(
                query,
                Work::Fetch(fetch),
                Some(&statement),
                StatementKind::Read,
            ),
            Err(error) => self
                .session
                .requests
                .answer(query, Err(Error::request(error))),
        }
    }
}

impl ServerSession {
    /// The key of a stream's statement.
    pub(super) fn key_of(&self, query: QueryRef) -> Key {
        match self.requests.get(query.ticket) {
            Some(request) => Key {
                sql: Arc::clone(&request.details.sql),
                types: request
                    .params
                    .set(query.index)
                    .iter()
                    .map(ParamType::of)
                    .collect(),
            },
            // Its caller is gone.
            None => Key {
                sql: Arc::from(""),
                types: Arc::default(),
            },
        }
    }

    /// Continues a stream after its statement was prepared.
    pub(super) fn resume_stream(&mut self, query: QueryRef, statement: Statement) {
        let statement = Arc::new(statement);
        if self.requests.contains(query.ticket) {
            self.backlog
                .push_front(QueryRange::one(query, Some(statement)));
        } else {
            self.statements.cache.discard(statement);
        }
    }

    /// Handles the failure to prepare the statement of a stream.
    pub(super) fn stream_refused(
        &mut self,
        query: QueryRef,
        sequence: u64,
        error: ErrPacket<'static>,
    ) {
        let key = self.key_of(query);
        let is_full = error.is_statement_limit();
        if error.code() == CANNOT_BE_PREPARED && key.types.is_empty() {
            return self.resume_stream(
                query,
                Statement {
                    kind: StatementKind::of(&key.sql),
                    effect: session_effect(&key.sql),
                    key,
                    sequence,
                    prepared: None,
                },
            );
        }
        let is_victim = self.is_victim(&error, sequence);
        if is_victim && query.retry_count < VICTIM_RETRY_COUNT_MAX {
            self.backlog.push_front(QueryRange::retry(query));
        } else if is_full && self.statements.evict_all() {
            // After the queries that still use statements to be closed. There are fewer each time,
            // so this terminates.
            self.backlog.push_back(QueryRange::one(query, None));
        } else if is_full {
            self.requests
                .answer(query, Err(Error::statement_limit(error)));
        } else {
            self.requests
                .answer(query, Err(Error::mysql_refused(error)));
        }
    }

    /// Handles the execution of a stream: its rows are in a cursor, or were all received.
    pub(super) fn opened(
        &mut self,
        query: QueryRef,
        fetch: Fetch,
        statement: Option<Arc<Statement>>,
        ok: &OkPacket<'_>,
    ) {
        let layout = statement.as_ref().and_then(|statement| {
            let id = statement.prepared.as_ref()?.id;
            self.statements.last_layout(id).cloned()
        });
        if ok.status.is_cursor_open()
            && let (Some(statement), Some(layout)) = (&statement, layout)
        {
            self.incoming.reset();
            let statement = Arc::clone(statement);
            let source = Source::Cursor { statement, layout };
            self.streams.insert(fetch.portal, source);
            // The first rows are still to be fetched, if the caller still wants them.
            self.backlog.push_front(QueryRange::one(query, None));
            return;
        }
        if let Some(statement) = statement {
            self.statements.cache.discard(statement);
        }
        let Some(result) = self.incoming.finish() else {
            return;
        };
        let result = result.map(|whole| {
            let (rows, mut next) = (whole.rows, 0);
            let first = chunk(&rows, &mut next, fetch.row_count);
            self.streams
                .insert(fetch.portal, Source::Rows { rows, next });
            answer(first)
        });
        self.requests.answer(query, result);
    }

    /// Fetched rows have no column definitions.
    pub(super) fn begin_chunk(&mut self) {
        let Some(InFlight::Query {
            query,
            work: Work::Fetch(fetch),
            ..
        }) = self.in_flight.front()
        else {
            return;
        };
        if !self.incoming.wants_rows() {
            return;
        }
        match self.streams.get(&fetch.portal) {
            Some(Source::Cursor { layout, .. }) => {
                let (query, layout) = (*query, Arc::clone(layout));
                self.begin_rows(query, layout);
            }
            _ => self.incoming.discard(),
        }
    }

    /// An error ends a stream.
    pub(super) fn give_up_stream(&mut self, work: Work, statement: Option<&Arc<Statement>>) {
        match work {
            Work::Open(_) => {
                if let Some(statement) = statement {
                    self.statements.cache.discard(Arc::clone(statement));
                }
            }
            Work::Fetch(fetch) => self.release(fetch.portal),
            Work::Execute | Work::Last | Work::Prepare => {}
        }
    }

    /// Closes a stream.
    pub(super) fn close_stream(&mut self, query: QueryRef, portal: Portal) {
        self.release(portal);
        let none = RowSetBuilder::new(std::iter::empty::<Text>());
        self.requests.answer(query, Ok(answer(none.build())));
    }

    fn release(&mut self, portal: Portal) {
        if let Some(Source::Cursor { statement, .. }) = self.streams.remove(&portal) {
            self.statements.cache.discard(statement);
        }
    }
}

/// The next rows: possibly fewer than `row_count`, or none.
fn chunk(rows: &RowSet, next: &mut usize, row_count: u32) -> RowSet {
    let end = rows.len().min(next.saturating_add(row_count as usize));
    let mut chunk = RowSetBuilder::with_columns(Arc::clone(rows.shared_columns()));
    for index in *next..end {
        chunk.push(rows.row(index).iter().cloned());
    }
    *next = end;
    chunk.build()
}

fn answer(rows: RowSet) -> Answer {
    Answer {
        row_count: Some(rows.len() as u64),
        ..Answer::of_rows(rows)
    }
}
