//! How the rows of a result are read.

use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::mysql::{Columns, Row, RowFormat};

use crate::types::mysql::{Format, MyType};
use crate::{Error, Result};

/// The overhead of a row beside its values, each of which takes another byte, so that rows of only
/// NULLs count for the limit as well.
const PACKET_SIZE: usize = 4;

/// The columns of a result, made once as long as the server's definitions stay the same.
#[derive(Debug)]
pub(super) struct RowLayout {
    /// The definitions it was made of. The wire shares one value as long as they are the same.
    columns: Arc<Columns>,
    pub(super) names: Arc<[Text]>,
    types: Box<[MyType]>,
}

impl RowLayout {
    pub(super) fn of(columns: &Arc<Columns>) -> Self {
        let names = columns
            .iter()
            .map(|column| Text::from(&*String::from_utf8_lossy(column.name)));
        let types = columns.iter().map(|column| {
            let my_type = MyType::of(
                column.column_type.0,
                column.flags.0,
                column.collation,
                column.decimals,
            );
            let (name, format) = (column.type_name, column.type_format);
            my_type.extended(name.unwrap_or_default(), format.unwrap_or_default())
        });
        Self {
            names: names.collect(),
            types: types.collect(),
            columns: Arc::clone(columns),
        }
    }

    /// Whether it was made of these definitions.
    pub(super) fn is_of(&self, columns: &Arc<Columns>) -> bool {
        Arc::ptr_eq(&self.columns, columns)
    }

    pub(super) fn type_names(&self) -> impl Iterator<Item = Text> {
        self.types.iter().map(|my_type| Text::from(my_type.name()))
    }

    /// Appends a row, and returns its size.
    pub(super) fn read(&self, row: Row<'_>, rows: &mut RowSetBuilder) -> Result<usize> {
        let format = match row.format() {
            RowFormat::Text => Format::Text,
            RowFormat::Binary => Format::Binary,
        };
        let mut size = PACKET_SIZE + self.types.len();
        let mut failed = None;
        let cells = row.cells().zip(&self.types).enumerate();
        rows.push(cells.map(|(index, (cell, my_type))| {
            let Some(cell) = cell else {
                return Value::Null;
            };
            size += cell.len();
            if let Some(int) = my_type.decode_int(format, cell) {
                return Value::Int(int);
            }
            // A row is pushed whole, so what comes after an error is read as well.
            my_type.decode(format, cell).unwrap_or_else(|error| {
                failed.get_or_insert((index, error));
                Value::Null
            })
        }));
        match failed {
            None => Ok(size),
            Some((index, error)) => Err(Error::bad_field(&self.names[index], error)),
        }
    }
}
