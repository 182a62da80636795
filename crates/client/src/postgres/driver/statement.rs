//! A statement that the server has prepared: how its parameters are written and its rows are read.

use std::sync::{Arc, OnceLock};

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::postgres::{
    Connection, DataRow, Execution, ExecutionOptions, Format, Formats, Oid, Parse, RowDescription,
};
use lookaside_wire::{RequestError, RequestId};

use super::statement_kind::{StatementKind, session_effect};
use crate::Answer;
use crate::driver::{self, CachedStatement, SessionEffect};
use crate::raw_rows::RawRows;
use crate::types::postgres::{self as types, EncodeError, Encoded, PgType};
use crate::{Description, Error, Result};

/// The overhead of a server message, so that empty ones count for the limit as well.
pub(super) const MESSAGE_SIZE: usize = 5;

/// The key that identifies a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) sql: Arc<str>,
    /// Never empty: there is one empty slice for all threads, and its counter too.
    pub(super) parameter_types: Option<Arc<[Oid]>>,
}

/// A statement and its description, which stays true as long as the statement: a server refuses
/// to execute one whose columns have changed.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) key: Key,
    pub(super) name: Box<str>,
    pub(super) kind: StatementKind,
    /// Its lasting effect on the session.
    pub(super) effect: SessionEffect,
    /// When it was prepared, in the driver's count of events.
    pub(super) sequence: u64,
    parameters: Box<[PgType]>,
    /// As the server described the statement.
    pub(super) columns: Arc<Columns>,
    description: Arc<Description>,
    /// As it described the first portal, and what it said.
    portal: OnceLock<(Box<[u8]>, Arc<Columns>)>,
    /// What executes it, since it was executed.
    execution: OnceLock<Execution>,
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
        !self.name.is_empty()
    }
}

/// The columns of a result.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Arc<[Text]>,
    pub(super) types: Arc<[(PgType, types::Format)]>,
    /// The formats that Bind asks for, `types` again.
    formats: Box<[Format]>,
}

impl Statement {
    pub(super) fn new(
        key: Key,
        name: Box<str>,
        sequence: u64,
        parameters: Box<[PgType]>,
        description: Option<RowDescription<'_>>,
    ) -> Self {
        let columns = description.map(Columns::of).unwrap_or_default();
        let type_name = |pg_type: &PgType| Text::from(pg_type.name());
        let column_types = columns.types.iter().map(|(pg_type, _)| type_name(pg_type));
        let description = Description {
            columns: Arc::clone(&columns.names),
            column_types: column_types.collect(),
            parameter_types: parameters.iter().map(type_name).collect(),
        };
        Self {
            kind: StatementKind::of(&key.sql),
            effect: session_effect(&key.sql),
            key,
            name,
            sequence,
            parameters,
            columns: Arc::new(columns),
            description: Arc::new(description),
            portal: OnceLock::new(),
            execution: OnceLock::new(),
        }
    }

    /// The answer to a request that describes the statement.
    pub(super) fn described(&self) -> Answer {
        Answer {
            description: Some(Arc::clone(&self.description)),
            ..Answer::of_rows(self.columns.rows().build())
        }
    }

    /// Queues Bind and Execute, and returns the id of the Execute.
    pub(super) fn execute(
        &self,
        connection: &mut Connection,
        values: &[Value],
    ) -> Result<RequestId> {
        let execution = match self.execution.get() {
            Some(execution) => execution,
            None => {
                let execution = self.execution_of(PortalName::default())?;
                self.execution.get_or_init(|| execution)
            }
        };
        self.queue(connection, execution, values)
    }

    /// The same through a portal that has a name.
    pub(super) fn open(
        &self,
        connection: &mut Connection,
        values: &[Value],
        portal: PortalName<'_>,
    ) -> Result<RequestId> {
        self.queue(connection, &self.execution_of(portal)?, values)
    }

    /// What executes it.
    ///
    /// A statement without a name is prepared anew, and its portal described: whatever has become
    /// of the schema or the session, what is executed is what the SQL says now.
    #[cold]
    fn execution_of(&self, portal: PortalName<'_>) -> Result<Execution> {
        let oids = self.parameters.iter().map(|pg_type| Oid(pg_type.oid()));
        let oids: Vec<_> = oids.collect();
        let execution = Execution::new(&ExecutionOptions {
            parse: self.name.is_empty().then_some(Parse {
                statement: "",
                sql: &self.key.sql,
                parameter_types: &oids,
            }),
            portal: portal.name,
            statement: &self.name,
            parameter_count: self.parameters.len(),
            result_formats: self.columns.formats(),
            row_count_max: portal.row_count_max,
        });
        execution.map_err(Error::request)
    }

    /// Queues an execution with these values, each as the server declared its parameter.
    fn queue(
        &self,
        connection: &mut Connection,
        execution: &Execution,
        values: &[Value],
    ) -> Result<RequestId> {
        if values.len() != self.parameters.len() {
            return Err(Error::parameter_count(values.len(), self.parameters.len()));
        }
        let queued = connection.queue_execution(execution, |index, output| {
            match self.parameters[index].encode(&values[index], output) {
                Ok(Encoded::Field(format)) => Ok(Some(wire_format(format))),
                Ok(Encoded::Null) => Ok(None),
                Err(error) => Err(Refused::misfit(index, error)),
            }
        });
        queued.map_err(|refused| refused.0)
    }

    /// The same for a portal that stays open, whose columns are these.
    pub(super) fn of_portal(&self, columns: Arc<Columns>) -> Self {
        Self {
            key: self.key.clone(),
            name: self.name.clone(),
            kind: self.kind,
            effect: self.effect,
            sequence: self.sequence,
            parameters: self.parameters.clone(),
            columns,
            description: Arc::clone(&self.description),
            portal: OnceLock::new(),
            execution: OnceLock::new(),
        }
    }

    /// The columns of a portal, as they were just described. They may be others than those of the
    /// statement.
    pub(super) fn portal_columns(&self, description: Option<RowDescription<'_>>) -> Arc<Columns> {
        let Some(description) = description else {
            return Arc::default();
        };
        let bytes = description.as_bytes();
        let (known, columns) = self
            .portal
            .get_or_init(|| (bytes.into(), Arc::new(Columns::of_portal(description))));
        if **known == *bytes {
            Arc::clone(columns)
        } else {
            Arc::new(Columns::of_portal(description))
        }
    }
}

/// Which portal a statement is executed as, and how far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortalName<'a> {
    /// Empty for the one that lasts until the next.
    pub(super) name: &'a str,
    /// 0 is all.
    pub(super) row_count_max: u32,
}

/// The error if nothing was queued.
struct Refused(Error);

impl Refused {
    #[cold]
    fn misfit(index: usize, error: EncodeError) -> Self {
        Self(Error::misfit(error.in_parameter(format!("${}", index + 1))))
    }
}

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        Self(Error::request(error))
    }
}

impl Columns {
    /// The columns of a statement, in the formats that we want.
    fn of(description: RowDescription<'_>) -> Self {
        Self::with(description, |pg_type, _| pg_type.result_format())
    }

    /// The columns of a portal, in the formats that they will come in.
    fn of_portal(description: RowDescription<'_>) -> Self {
        Self::with(description, |_, format| match format {
            Format::Text => types::Format::Text,
            Format::Binary => types::Format::Binary,
        })
    }

    fn with(
        description: RowDescription<'_>,
        format: impl Fn(PgType, Format) -> types::Format,
    ) -> Self {
        let names = description.columns().map(|column| {
            let name = column.name.to_string_lossy();
            Text::from(&*name)
        });
        let types = description.columns().map(|column| {
            let pg_type = PgType::of(column.type_oid.0);
            (pg_type, format(pg_type, column.format))
        });
        let types: Arc<[_]> = types.collect();
        Self {
            names: names.collect(),
            formats: types
                .iter()
                .map(|(_, format)| wire_format(*format))
                .collect(),
            types,
        }
    }

    /// Whether both have the same names and types.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.names == other.names
            && self.types.len() == other.types.len()
            && self
                .types
                .iter()
                .zip(&*other.types)
                .all(|(a, b)| a.0 == b.0)
    }

    /// The first column that comes in the binary form of a type that we read as text only.
    pub(super) fn opaque(&self) -> Option<&Text> {
        let is_opaque = |(pg_type, format): &(PgType, types::Format)| {
            *format == types::Format::Binary && pg_type.result_format() == types::Format::Text
        };
        let index = self.types.iter().position(is_opaque)?;
        Some(&self.names[index])
    }

    /// An empty result.
    pub(super) fn rows(&self) -> RowSetBuilder {
        RowSetBuilder::with_columns(Arc::clone(&self.names))
    }

    /// Appends a raw row, and returns its size.
    pub(super) fn copy(&self, row: DataRow<'_>, rows: &mut RawRows) -> Result<usize> {
        if row.len() != self.types.len() {
            return Err(Error::bad_width(row.len(), self.types.len()));
        }
        rows.push(row.as_bytes());
        Ok(MESSAGE_SIZE + size_of::<u16>() + row.as_bytes().len())
    }

    /// Appends a row, and returns its size.
    pub(super) fn read(&self, row: DataRow<'_>, rows: &mut RowSetBuilder) -> Result<usize> {
        if row.len() != self.types.len() {
            return Err(Error::bad_width(row.len(), self.types.len()));
        }
        let mut size = row_size(row);
        let mut failed = None;
        let fields = row.fields().zip(&*self.types).enumerate();
        rows.push(fields.map(|(index, (field, (pg_type, format)))| {
            let Some(field) = field else {
                return Value::Null;
            };
            size += field.len();
            // A row is pushed whole, so what comes after an error is read as well.
            pg_type.decode(*format, field).unwrap_or_else(|error| {
                failed.get_or_insert((index, error));
                Value::Null
            })
        }));
        match failed {
            None => Ok(size),
            Some((index, error)) => Err(Error::bad_field(&self.names[index], error)),
        }
    }

    /// As short as it can be said.
    fn formats(&self) -> Formats<'_> {
        if self.formats.iter().all(|&format| format == Format::Binary) {
            Formats::BINARY
        } else if self.formats.iter().all(|&format| format == Format::Text) {
            Formats::TEXT
        } else {
            Formats::Each(&self.formats)
        }
    }
}

/// What the server sends for a row, but for the values themselves.
pub(super) fn row_size(row: DataRow<'_>) -> usize {
    MESSAGE_SIZE + size_of::<u16>() + row.len() * size_of::<u32>()
}

fn wire_format(format: types::Format) -> Format {
    match format {
        types::Format::Text => Format::Text,
        types::Format::Binary => Format::Binary,
    }
}
