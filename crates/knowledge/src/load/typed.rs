//! The columns of a table whose values have types: each column gets a type that keeps its values.

use std::collections::HashSet;

use rusqlite::types::{Type, ValueRef};

use super::create_table::create_table;
use super::records::NextRecord;
use super::rows::Rows;
use crate::Result;
use crate::config::{NETWORK_BOUNDS, TableConfig, TableFormat};
use crate::error::Error;
use crate::sql_name::quote_name;

/// A column of a derived table.
pub(super) struct Column {
    name: String,
    comment: &'static str,
    /// The type, if the file declares it.
    declared: Option<&'static str>,
    has_integers: bool,
    /// An integer that REAL cannot represent exactly.
    has_wide_integers: bool,
    has_reals: bool,
    has_blobs: bool,
    /// Where the first text and the first number are.
    text_at: Option<String>,
    number_at: Option<String>,
}

/// Derives the columns of rows, which are read to the end if their file does not declare types.
pub(super) fn columns(table: &TableConfig, rows: &mut Rows<'_>) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::with_capacity(rows.width());
    let mut known = HashSet::new();
    let declared = rows.declared_types();
    for (index, name) in rows.names().iter().enumerate() {
        if !known.insert(name.to_ascii_lowercase()) {
            return Err(Error::duplicate_column(table, name));
        }
        let mut column = Column::new(name.clone());
        column.declared = declared.map(|types| types[index]);
        columns.push(column);
    }
    if columns.is_empty() {
        return Err(Error::nothing_to_derive(table));
    }
    if table.format == TableFormat::Mmdb {
        for column in &mut columns[..NETWORK_BOUNDS.len()] {
            column.comment = " -- a key: ip_key(:ip) between first and last";
        }
    }
    // The values already have the types of their columns.
    if declared.is_some() {
        return Ok(columns);
    }
    loop {
        match rows.next()? {
            NextRecord::Record => {}
            // The load itself reports the record or fails at it.
            NextRecord::Bad { .. } => continue,
            NextRecord::End => return Ok(columns),
        }
        for (index, column) in columns.iter_mut().enumerate() {
            column.see(rows.value(index), || rows.place());
        }
    }
}

impl Column {
    fn new(name: String) -> Self {
        Self {
            name,
            comment: "",
            declared: None,
            has_integers: false,
            has_wide_integers: false,
            has_reals: false,
            has_blobs: false,
            text_at: None,
            number_at: None,
        }
    }

    fn see(&mut self, value: ValueRef<'_>, place: impl Fn() -> String) {
        if let ValueRef::Integer(int) = value {
            self.has_wide_integers |= int.unsigned_abs() > 1 << f64::MANTISSA_DIGITS;
        }
        match value.data_type() {
            Type::Null => {}
            Type::Blob => self.has_blobs = true,
            Type::Integer => {
                self.has_integers = true;
                self.number_at.get_or_insert_with(place);
            }
            Type::Real => {
                self.has_reals = true;
                self.number_at.get_or_insert_with(place);
            }
            Type::Text => {
                self.text_at.get_or_insert_with(place);
            }
        }
    }

    fn declaration(&self) -> &'static str {
        if let Some(declared) = self.declared {
            return declared;
        }
        let has_text = self.text_at.is_some();
        match (has_text, self.has_blobs, self.has_integers, self.has_reals) {
            (true, ..) => "TEXT",
            (false, true, false, false) => "BLOB",
            (false, true, ..) => "NUMERIC",
            (false, false, true, false) => "INTEGER",
            // An integer of 16 digits keeps all of them, and a decimal stays a REAL.
            (false, false, true, true) if self.has_wide_integers => "NUMERIC",
            (false, false, _, true) => "REAL",
            (false, false, false, false) => "TEXT",
        }
    }

    fn note(&self) -> Option<String> {
        let (text_at, number_at) = (self.text_at.as_ref()?, self.number_at.as_ref()?);
        let name = &self.name;
        Some(format!(
            "column {name:?} is text, as its values have several types: {text_at} has text, \
             {number_at} has a number; its numbers become text"
        ))
    }
}

/// Notes for the user about the derived types.
pub(super) fn notes(columns: &[Column]) -> Vec<String> {
    columns.iter().filter_map(Column::note).collect()
}

/// `create table` for derived columns.
pub(super) fn create(table: &str, columns: &[Column]) -> String {
    let columns = columns.iter();
    let columns: Vec<(&str, &str, &str)> = columns
        .map(|column| (&*column.name, column.declaration(), column.comment))
        .collect();
    create_table(table, &columns)
}

/// `insert` for derived columns.
pub(super) fn insert(table: &str, columns: &[Column]) -> String {
    let columns = columns.iter().enumerate();
    let (names, values): (Vec<String>, Vec<String>) = columns
        .map(|(index, column)| (quote_name(&column.name), format!("?{}", index + 1)))
        .unzip();
    let (table, names, values) = (quote_name(table), names.join(", "), values.join(", "));
    format!("insert into {table} ({names})\nvalues ({values});\n")
}
