//! A statement that the server has prepared: how its parameters are written and its rows are read.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::postgres::{
    Bind, Connection, DataRow, Format, Formats, Oid, Parse, Request, RowDescription,
};
use lookaside_wire::{RequestError, RequestId};

use super::super::raw::RawRows;
use super::session::MESSAGE_SIZE;
use super::verb::Verb;
use crate::Answer;
use crate::types::postgres::{self as types, Encoded, PgType};
use crate::{Description, Error, Result};

/// What statements are told apart by.
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
    pub(super) verb: Verb,
    /// When it was prepared, in the driver's count of events.
    pub(super) moment: u64,
    parameters: Box<[PgType]>,
    /// As the server described the statement.
    pub(super) columns: Arc<Columns>,
    description: Arc<Description>,
    /// As it described the first portal, and what it said.
    portal: OnceLock<(Box<[u8]>, Arc<Columns>)>,
}

/// The columns of a result.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Arc<[Text]>,
    pub(super) types: Arc<[(PgType, types::Format)]>,
    /// The formats that Bind asks for, `types` again.
    formats: Box<[Format]>,
}

/// Memory for the parameters of one Bind.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
    formats: Vec<Format>,
    /// Where in `bytes` each is; `None` is NULL.
    ranges: Vec<Option<Range<usize>>>,
    /// The types of a statement that is prepared anew.
    oids: Vec<Oid>,
}

impl Statement {
    pub(super) fn new(
        key: Key,
        name: Box<str>,
        moment: u64,
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
            verb: Verb::of(&key.sql),
            key,
            name,
            moment,
            parameters,
            columns: Arc::new(columns),
            description: Arc::new(description),
            portal: OnceLock::new(),
        }
    }

    /// The answer to who asks what the statement is.
    pub(super) fn described(&self) -> Answer {
        Answer {
            rows: self.columns.rows().build(),
            row_count: None,
            description: Some(Arc::clone(&self.description)),
            raw: None,
            script: None,
        }
    }

    /// Writes the parameters into `scratch`, each as the server declared it.
    pub(super) fn encode(&self, values: &[Value], scratch: &mut Scratch) -> Result<()> {
        scratch.bytes.clear();
        scratch.formats.clear();
        scratch.ranges.clear();
        if values.len() != self.parameters.len() {
            return Err(Error::parameter_count(values.len(), self.parameters.len()));
        }
        for (index, (value, pg_type)) in values.iter().zip(&self.parameters).enumerate() {
            let start = scratch.bytes.len();
            let encoded = pg_type.encode(value, &mut scratch.bytes);
            match encoded
                .map_err(|error| Error::misfit(error.in_parameter(format!("${}", index + 1))))?
            {
                Encoded::Null => {
                    scratch.formats.push(Format::Text);
                    scratch.ranges.push(None);
                }
                Encoded::Field(format) => {
                    scratch.formats.push(wire_format(format));
                    scratch.ranges.push(Some(start..scratch.bytes.len()));
                }
            }
        }
        Ok(())
    }

    /// Queues Bind and Execute, and says by which name the Execute is answered.
    ///
    /// A statement without a name is prepared anew, and its portal described: whatever has become
    /// of the schema or the session, what is executed is what the SQL says now.
    pub(super) fn execute(
        &self,
        connection: &mut Connection,
        scratch: &mut Scratch,
        portal: PortalName<'_>,
    ) -> Result<RequestId> {
        let is_unnamed = self.name.is_empty();
        if is_unnamed {
            // What comes behind a Parse that is queued must not be refused.
            if scratch.bytes.len() > PARAMETERS_SIZE_MAX {
                return Err(Error::request(RequestError::TooLong));
            }
            let oids = self.parameters.iter().map(|pg_type| Oid(pg_type.oid()));
            scratch.oids.clear();
            scratch.oids.extend(oids);
            let parse = connection.queue(Request::Parse(Parse {
                statement: "",
                sql: &self.key.sql,
                parameter_types: &scratch.oids,
            }));
            parse.map_err(Error::request)?;
        }
        let bind = Bind {
            portal: portal.name,
            statement: &self.name,
            parameter_formats: Formats::Each(&scratch.formats),
            result_formats: self.columns.formats(),
        };
        let bind = connection.queue_bind(&bind, |writer| {
            for range in &scratch.ranges {
                writer.parameter(range.clone().map(|range| &scratch.bytes[range]));
            }
        });
        bind.map_err(Error::request)?;
        if is_unnamed {
            connection
                .queue(Request::DescribePortal(portal.name))
                .expect(AFTER_BIND);
        }
        let execute = connection.queue(Request::Execute {
            portal: portal.name,
            row_count_max: portal.row_count_max,
        });
        Ok(execute.expect(AFTER_BIND))
    }

    /// The same for a portal that stays open, whose columns are these.
    pub(super) fn of_portal(&self, columns: Arc<Columns>) -> Self {
        Self {
            key: self.key.clone(),
            name: self.name.clone(),
            verb: self.verb,
            moment: self.moment,
            parameters: self.parameters.clone(),
            columns,
            description: Arc::clone(&self.description),
            portal: OnceLock::new(),
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

/// A server takes no message of a gibibyte or more (`MaxAllocSize`).
const PARAMETERS_SIZE_MAX: usize = 1 << 30;

/// The name is empty, and the driver keeps far away from the limit of the queue.
const AFTER_BIND: &str = "where a Bind can be queued, an Execute can";

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

    /// Appends a row as it is, and says how large it is.
    pub(super) fn copy(&self, row: DataRow<'_>, rows: &mut RawRows) -> Result<usize> {
        if row.len() != self.types.len() {
            return Err(Error::bad_width(row.len(), self.types.len()));
        }
        rows.push(row.as_bytes());
        Ok(MESSAGE_SIZE + size_of::<u16>() + row.as_bytes().len())
    }

    /// Appends a row, and says how large it is.
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
            // A row is pushed whole, so what comes behind an error is read as well.
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
