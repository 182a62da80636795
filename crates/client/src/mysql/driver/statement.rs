//! A statement that the server has prepared, and how its parameters are written.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::Equivalent;
use lookaside_value::Value;
use lookaside_wire::mysql::{
    ColumnType, Columns, Connection, Cursor, Execute, ParameterType, ParameterWriter, StatementId,
};

use super::statement_kind::StatementKind;
use crate::driver::{self, CachedStatement, SessionEffect};
use crate::types::mysql::{self as types, ParamType};
use crate::{Error, Result};

/// What statements are told apart by. MySQL fixes the types of a statement's parameters when it is
/// executed first, and makes 0 of text that comes later where a number was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) sql: Arc<str>,
    pub(super) types: Arc<[ParamType]>,
}

/// A borrowed [`Key`] for lookups.
#[derive(Clone, Copy)]
pub(super) struct KeyRef<'a> {
    pub(super) sql: &'a str,
    pub(super) types: &'a [ParamType],
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&*self.sql, &*self.types).hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.sql, self.types).hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.sql == *key.sql && *self.types == *key.types
    }
}

/// A statement of one connection.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) key: Key,
    pub(super) kind: StatementKind,
    /// Its lasting effect on the session.
    pub(super) effect: SessionEffect,
    /// When it was prepared, in the driver's count of events.
    pub(super) sequence: u64,
    /// `None` for a statement that the server cannot prepare: it is sent as text.
    pub(super) prepared: Option<Prepared>,
}

/// The server's description of it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) id: StatementId,
    /// The definitions of its parameters.
    pub(super) parameters: Option<Arc<Columns>>,
    pub(super) parameter_count: usize,
}

/// Unsent queries.
pub(super) type QueryRange = driver::QueryRange<Statement>;

impl CachedStatement for Statement {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn must_be_closed(&self) -> bool {
        self.prepared.is_some()
    }
}

/// A buffer for the parameters of one execution.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    types: Vec<ParameterType>,
    bytes: Vec<u8>,
    /// The range of each in `bytes`; `None` for NULL.
    ranges: Vec<Option<Range<usize>>>,
}

impl Statement {
    /// Whether it was prepared for values of these types.
    pub(super) fn takes(&self, values: &[Value]) -> bool {
        let types = &self.key.types;
        let mut pairs = values.iter().zip(&**types);
        values.len() == types.len() && pairs.all(|(value, &one)| ParamType::of(value) == one)
    }
}

impl Scratch {
    /// Encodes the parameters.
    pub(super) fn encode(&mut self, values: &[Value]) -> Result<()> {
        self.begin(values.iter().map(ParamType::of));
        self.append(values)
    }

    /// Begins with many sets of parameters of these types.
    pub(super) fn begin_bulk(&mut self, types: &[ParamType]) {
        self.begin(types.iter().copied());
    }

    fn begin(&mut self, types: impl Iterator<Item = ParamType>) {
        self.bytes.clear();
        self.ranges.clear();
        self.types.clear();
        let types = types.map(|one| ParameterType::new(ColumnType(one.code())));
        self.types.extend(types);
    }

    /// Appends a set of parameters completely or, on an error, not at all.
    pub(super) fn append(&mut self, values: &[Value]) -> Result<()> {
        let before = (self.bytes.len(), self.ranges.len());
        for (index, value) in values.iter().enumerate() {
            let start = self.bytes.len();
            if let Err(error) = types::encode(value, &mut self.bytes) {
                self.bytes.truncate(before.0);
                self.ranges.truncate(before.1);
                let error = error.in_parameter(format!("?{}", index + 1));
                return Err(Error::misfit(error));
            }
            let is_null = ParamType::of(value).is_null();
            self.ranges
                .push((!is_null).then_some(start..self.bytes.len()));
        }
        Ok(())
    }

    /// The size of the values in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.ranges.len()
    }

    pub(super) fn types(&self) -> &[ParameterType] {
        &self.types
    }

    /// The encoded values; `None` for NULL.
    pub(super) fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let ranges = self.ranges.iter().cloned();
        ranges.map(|range| range.map(|range| &self.bytes[range]))
    }
}

/// Queues an execution.
pub(super) fn execute(
    connection: &mut Connection,
    scratch: &Scratch,
    statement: StatementId,
    cursor: Cursor,
) -> Result<()> {
    let execute = Execute { statement, cursor };
    let queued = connection.queue_execute(&execute, &scratch.types, |writer| {
        for (one, value) in scratch.types.iter().zip(scratch.values()) {
            match value {
                Some(bytes) => write(writer, one.column_type, bytes),
                None => writer.null(),
            }
        }
    });
    queued.map(drop).map_err(Error::request)
}

fn write(writer: &mut ParameterWriter<'_>, column_type: ColumnType, bytes: &[u8]) {
    const FIXED: &str = "a number has the size of its type";
    match column_type {
        ColumnType::TINY => writer.number::<1>(bytes.try_into().expect(FIXED)),
        ColumnType::LONGLONG | ColumnType::DOUBLE => {
            writer.number::<8>(bytes.try_into().expect(FIXED));
        }
        _ => writer.bytes(bytes),
    }
}
