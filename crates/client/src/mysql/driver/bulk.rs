//! Many parameter sets in one command, for MariaDB: COM_STMT_BULK_EXECUTE.
//!
//! Each set of a bulk is executed as if it were sent alone, but they commit together, fail
//! together, and their changes are counted together. So it is used only if the caller requests it.

use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::mysql::{BulkWriter, ColumnType, ErrPacket};

use super::MysqlDriver;
use super::in_flight::InFlight;
use super::session::{CANNOT_BE_PREPARED, ServerSession};
use super::statement::{QueryRange, Scratch, Statement};
use super::statement_kind::StatementKind;
use crate::driver::QueryRef;
use crate::request::{Goal, Params};
use crate::types::mysql::ParamType;
use crate::{Answer, Error, Result};

/// The limit of value bytes in one command, unless a single set has more. Servers refuse packets
/// longer than `max_allowed_packet`, whose default is at least 1 MiB everywhere; more gains
/// nothing.
const SIZE_MAX: usize = 512 * 1024;

/// The types that parameter sets have in common; NULL matches any type.
pub(super) struct Extent {
    pub(super) types: Vec<ParamType>,
    /// The number of consecutive sets with these types.
    pub(super) count: usize,
}

impl Extent {
    fn of(params: &Params, start: usize, end: usize) -> Self {
        let mut types: Vec<_> = params.set(start).iter().map(ParamType::of).collect();
        let mut count = 1;
        for values in (start + 1..end).map(|index| params.set(index)) {
            let found = || values.iter().map(ParamType::of);
            let mut pairs = types.iter().zip(found());
            if !pairs.all(|(&one, found)| one == found || one.is_null() || found.is_null()) {
                break;
            }
            for (one, found) in types.iter_mut().zip(found()) {
                if one.is_null() {
                    *one = found;
                }
            }
            count += 1;
        }
        Self { types, count }
    }
}

impl MysqlDriver {
    /// The part of a range that fits into one command, if it may contain more than one set.
    pub(super) fn extent(&self, range: &QueryRange) -> Option<Extent> {
        let request = self.session.requests.get(range.ticket)?;
        let may_be = request.details.is_bulk
            && request.goal == Goal::Run
            && self.connection.can_execute_last();
        let is_many = range.end - range.start > 1 && !request.params.set(range.start).is_empty();
        if !may_be || !is_many || !StatementKind::takes_bulk(&request.details.sql) {
            return None;
        }
        let extent = Extent::of(&request.params, range.start, range.end);
        (extent.count > 1).then_some(extent)
    }

    /// Queues as much of a range as fits into one command.
    pub(super) fn bulk(&mut self, mut range: QueryRange, statement: &Arc<Statement>) {
        let Self {
            connection,
            session,
            scratch,
            ..
        } = self;
        let (Some(request), Some(prepared)) =
            (session.requests.get(range.ticket), &statement.prepared)
        else {
            return;
        };
        let types = &*statement.key.types;
        let wanted = prepared.parameter_count;
        if types.len() != wanted {
            let error = Error::parameter_count(types.len(), wanted);
            return session.requests.refuse(range, &error);
        }
        let mut end = range.start;
        let mut refused = None;
        scratch.begin_bulk(types);
        while end < range.end && (end == range.start || scratch.size() < SIZE_MAX) {
            let values = request.params.set(end);
            if !fits(types, values) {
                break;
            }
            if let Err(error) = scratch.append(values) {
                refused = Some(error);
                break;
            }
            end += 1;
        }
        if end == range.start {
            // A value that cannot be encoded is an error of that set only.
            let error = refused.expect("the statement is for the types of the first set");
            let query = range.first();
            range.start += 1;
            session.requests.answer(query, Err(error));
        } else {
            let queued = connection.queue_bulk(prepared.id, scratch.types(), |writer| {
                scratch.write_bulk(writer);
            });
            let sent = range.split(end - range.start);
            match queued {
                Ok(_) => {
                    let sequence = session.next_sequence();
                    session.push(InFlight::Bulk {
                        range: sent,
                        statement: Arc::clone(statement),
                        sequence,
                        chunk: self.output.next_chunk(),
                    });
                }
                Err(error) => session.requests.refuse(sent, &Error::request(error)),
            }
        }
        if !range.is_empty() {
            self.session.backlog.push_front(range);
        }
    }
}

fn fits(types: &[ParamType], values: &[Value]) -> bool {
    let mut pairs = types.iter().zip(values);
    pairs.all(|(&one, value)| {
        let found = ParamType::of(value);
        found == one || found.is_null()
    })
}

impl Scratch {
    /// Writes the values of all its sets.
    fn write_bulk(&self, writer: &mut BulkWriter<'_>) {
        const FIXED: &str = "a number has the size of its type";
        let types = self.types().iter().cycle();
        for (one, value) in types.zip(self.values()) {
            let Some(bytes) = value else {
                writer.null();
                continue;
            };
            match one.column_type {
                ColumnType::TINY => writer.number::<1>(bytes.try_into().expect(FIXED)),
                ColumnType::LONGLONG | ColumnType::DOUBLE => {
                    writer.number::<8>(bytes.try_into().expect(FIXED));
                }
                _ => writer.bytes(bytes),
            }
        }
    }
}

impl ServerSession {
    /// Handles the success of a command.
    pub(super) fn bulk_done(&mut self, range: &QueryRange, row_count: u64) {
        for index in range.start..range.end {
            // They are counted together, so that the sum is right.
            let row_count = (index + 1 == range.end).then_some(row_count);
            let answer = Answer {
                row_count,
                ..Answer::of_rows(RowSetBuilder::new(std::iter::empty::<Text>()).build())
            };
            self.answer_one(range, index, Ok(answer));
        }
    }

    /// Handles the failure of a command: no set took effect, unless a transaction is open.
    pub(super) fn bulk_failed(
        &mut self,
        mut range: QueryRange,
        statement: &Arc<Statement>,
        error: ErrPacket<'static>,
    ) {
        let is_stale = error.is_stale_statement();
        if is_stale {
            self.statements.cache.evict(statement);
        }
        if is_stale && range.retry_count == 0 && self.can_repeat() {
            range.retry_count += 1;
            return self.backlog.push_front(range);
        }
        if error.code() == CANNOT_BE_PREPARED {
            return self.without_bulk(range);
        }
        let error = Error::mysql_refused(error);
        for index in range.start..range.end {
            self.answer_one(&range, index, Err(error.clone()));
        }
    }

    /// Falls back to single executions, since the server refuses bulk for this statement.
    fn without_bulk(&mut self, range: QueryRange) {
        if let Some(request) = self.requests.get_mut(range.ticket) {
            request.details.is_bulk = false;
            self.backlog.push_front(range);
        }
    }

    fn answer_one(&mut self, range: &QueryRange, index: usize, answer: Result<Answer>) {
        let query = QueryRef {
            index,
            ..range.first()
        };
        self.requests.answer(query, answer);
    }
}
