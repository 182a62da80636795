//! A statement that the server has prepared, and how its parameters are written.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::Equivalent;
use lookaside_value::Value;
use lookaside_wire::mysql::{
    ColumnType, Columns, Connection, Cursor, Execute, ParameterType, ParameterWriter, StatementId,
};

use super::verb::Verb;
use crate::types::mysql::{self as types, ParamType};
use crate::{Error, Result};

/// What statements are told apart by. MySQL fixes the types of a statement's parameters when it is
/// executed first, and makes 0 of text that comes later where a number was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) sql: Arc<str>,
    pub(super) types: Arc<[ParamType]>,
}

/// A [`Key`] that is only looked for.
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
    pub(super) verb: Verb,
    /// When it was prepared, in the driver's count of events.
    pub(super) moment: u64,
    /// `None` for what the server cannot prepare: it goes as text.
    pub(super) prepared: Option<Prepared>,
}

/// What the server said of it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) id: StatementId,
    /// What it knows of the parameters.
    pub(super) parameters: Option<Arc<Columns>>,
    pub(super) parameter_count: usize,
}

/// Memory for the parameters of one execution.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    types: Vec<ParameterType>,
    bytes: Vec<u8>,
    /// Where in `bytes` each is.
    ranges: Vec<Range<usize>>,
}

impl Statement {
    /// Whether values of these types are what it was prepared for.
    pub(super) fn takes(&self, values: &[Value]) -> bool {
        let types = &self.key.types;
        let mut pairs = values.iter().zip(&**types);
        values.len() == types.len() && pairs.all(|(value, &one)| ParamType::of(value) == one)
    }
}

impl Scratch {
    /// Takes the parameters.
    pub(super) fn encode(&mut self, values: &[Value]) -> Result<()> {
        self.types.clear();
        self.bytes.clear();
        self.ranges.clear();
        for (index, value) in values.iter().enumerate() {
            let code = ColumnType(ParamType::of(value).code());
            self.types.push(ParameterType::new(code));
            let start = self.bytes.len();
            types::encode(value, &mut self.bytes)
                .map_err(|error| Error::misfit(error.in_parameter(format!("?{}", index + 1))))?;
            self.ranges.push(start..self.bytes.len());
        }
        Ok(())
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
        for (one, range) in scratch.types.iter().zip(&scratch.ranges) {
            write(writer, one.column_type, &scratch.bytes[range.clone()]);
        }
    });
    queued.map(drop).map_err(Error::request)
}

fn write(writer: &mut ParameterWriter<'_>, column_type: ColumnType, bytes: &[u8]) {
    const FIXED: &str = "a number has the size of its type";
    match column_type {
        ColumnType::NULL => writer.null(),
        ColumnType::TINY => writer.number::<1>(bytes.try_into().expect(FIXED)),
        ColumnType::LONGLONG | ColumnType::DOUBLE => {
            writer.number::<8>(bytes.try_into().expect(FIXED));
        }
        _ => writer.bytes(bytes),
    }
}
