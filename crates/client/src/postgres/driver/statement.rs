//! A statement that the server has prepared: how its parameters are written and its rows are read.

use std::ops::Range;
use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::RequestId;
use lookaside_wire::postgres::{
    Bind, Connection, DataRow, Format, Formats, Oid, Request, RowDescription,
};

use super::verb::Verb;
use crate::Answer;
use crate::types::postgres::{self as types, Encoded, PgType};
use crate::{Description, Error, Result};

/// What statements are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) sql: Arc<str>,
    pub(super) parameter_types: Arc<[Oid]>,
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
    columns: Columns,
    description: Arc<Description>,
}

/// The columns of a result.
#[derive(Debug, Default)]
struct Columns {
    names: Arc<[Text]>,
    types: Box<[(PgType, types::Format)]>,
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
            columns,
            description: Arc::new(description),
        }
    }

    /// The answer to who asks what the statement is.
    pub(super) fn described(&self) -> Answer {
        Answer {
            rows: self.rows().build(),
            row_count: None,
            description: Some(Arc::clone(&self.description)),
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

    /// Queues Bind and Execute.
    pub(super) fn execute(
        &self,
        connection: &mut Connection,
        scratch: &Scratch,
    ) -> Result<(RequestId, RequestId)> {
        let bind = Bind {
            portal: "",
            statement: &self.name,
            parameter_formats: Formats::Each(&scratch.formats),
            result_formats: self.columns.formats(),
        };
        let bind = connection.queue_bind(&bind, |writer| {
            for range in &scratch.ranges {
                writer.parameter(range.clone().map(|range| &scratch.bytes[range]));
            }
        });
        let bind = bind.map_err(Error::request)?;
        let execute = connection.queue(Request::Execute {
            portal: "",
            row_count_max: 0,
        });
        // The name is empty, and the driver keeps far away from the limit of the queue.
        let execute = execute.expect("where a Bind can be queued, an Execute can");
        Ok((bind, execute))
    }

    /// An empty result.
    pub(super) fn rows(&self) -> RowSetBuilder {
        RowSetBuilder::with_columns(Arc::clone(&self.columns.names))
    }

    /// Appends a row, and says how large it is.
    pub(super) fn read(&self, row: DataRow<'_>, rows: &mut RowSetBuilder) -> Result<usize> {
        let columns = &self.columns;
        if row.len() != columns.types.len() {
            return Err(Error::bad_width(row.len(), columns.types.len()));
        }
        let mut size = 0;
        let mut failed = None;
        let fields = row.fields().zip(&columns.types).enumerate();
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
            Some((index, error)) => Err(Error::bad_field(&columns.names[index], error)),
        }
    }
}

impl Columns {
    fn of(description: RowDescription<'_>) -> Self {
        let names = description.columns().map(|column| {
            let name = column.name.to_string_lossy();
            Text::from(&*name)
        });
        let types = description.columns().map(|column| {
            let pg_type = PgType::of(column.type_oid.0);
            (pg_type, pg_type.result_format())
        });
        let types: Box<[_]> = types.collect();
        Self {
            names: names.collect(),
            formats: types
                .iter()
                .map(|(_, format)| wire_format(*format))
                .collect(),
            types,
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

fn wire_format(format: types::Format) -> Format {
    match format {
        types::Format::Text => Format::Text,
        types::Format::Binary => Format::Binary,
    }
}
