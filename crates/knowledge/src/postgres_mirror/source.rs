//! Reads the loaded tables from SQLite.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};

use super::declared;
use crate::Result;
use crate::databases::Databases;
use crate::error::Error;
use crate::sql_name::{INDEX_PREFIX, quote_name};
use crate::table::PackedTables;

/// Reads the loaded tables.
pub(super) struct Source<'a> {
    /// Has the schema of all tables, and the rows of those that are not packed.
    connection: Connection,
    packed: &'a PackedTables,
}

/// A table of SQLite, with its names folded as PostgreSQL folds unquoted names.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The name in SQLite.
    source_name: String,
    columns: Vec<Column>,
    /// Names of the columns of its indexes, and whether each is unique.
    indexes: Vec<(Vec<String>, bool)>,
}

#[derive(Debug)]
struct Column {
    name: String,
    source_name: String,
    declared: String,
    is_not_null: bool,
    /// Its position in the primary key, from 1; 0 if it is not part of it.
    key_place: i64,
}

impl<'a> Source<'a> {
    pub(super) fn open(databases: &'a Databases) -> Result<Self> {
        Ok(Self {
            connection: databases.base().store.reader()?,
            packed: databases.packed(),
        })
    }

    /// The table with this name, if there is one.
    pub(super) fn table(&self, name: &str) -> Result<Option<Table>> {
        self.read_table(name)
            .map_err(|source| Error::sqlite(format!("table {name:?}: reading its columns"), source))
    }

    fn read_table(&self, name: &str) -> rusqlite::Result<Option<Table>> {
        let found = self.connection.query_row(
            "select name from sqlite_schema where type = 'table' and name = ?1 collate nocase",
            [name],
            |row| row.get::<_, String>(0),
        );
        let Some(source_name) = found.optional()? else {
            return Ok(None);
        };
        let mut statement = self.connection.prepare(
            "select name, type, \"notnull\", pk from pragma_table_xinfo(?1) \
             where hidden <> 1 order by cid",
        )?;
        let columns = statement.query_map([&source_name], |row| {
            let name: String = row.get(0)?;
            Ok(Column {
                name: name.to_lowercase(),
                source_name: name,
                declared: row.get(1)?,
                is_not_null: row.get(2)?,
                key_place: row.get(3)?,
            })
        })?;
        let columns: Vec<Column> = columns.collect::<rusqlite::Result<_>>()?;
        Ok(Some(Table {
            name: source_name.to_lowercase(),
            indexes: self.read_indexes(&source_name)?,
            columns,
            source_name,
        }))
    }

    /// Reads the indexes other than that of the primary key, without expression indexes and partial
    /// indexes.
    fn read_indexes(&self, table: &str) -> rusqlite::Result<Vec<(Vec<String>, bool)>> {
        let mut statement = self.connection.prepare(
            "select name, \"unique\" from pragma_index_list(?1) \
             where origin <> 'pk' and partial = 0 and instr(name, ?2) <> 1 order by seq desc",
        )?;
        let names = statement.query_map([table, INDEX_PREFIX], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
        })?;
        let mut indexes = Vec::new();
        for entry in names {
            let (name, is_unique) = entry?;
            let mut statement = self
                .connection
                .prepare("select name from pragma_index_info(?1) order by seqno")?;
            let columns = statement.query_map([&name], |row| row.get::<_, Option<String>>(0))?;
            let columns: Vec<Option<String>> = columns.collect::<rusqlite::Result<_>>()?;
            // An expression has no column name, and is in SQLite's dialect.
            let columns: Option<Vec<String>> = columns.into_iter().collect();
            indexes.extend(columns.map(|columns| (columns, is_unique)));
        }
        Ok(indexes)
    }

    /// Passes all rows of a table in COPY's text format to a callback, in chunks, with the number
    /// of the first row of each, from 1.
    pub(super) fn each_chunk(
        &self,
        table: &Table,
        chunk_size: usize,
        mut take: impl FnMut(u64, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let (mut chunk, mut first_row, mut row_count) = (Vec::new(), 1, 0);
        let mut add = |values: &mut dyn Iterator<Item = ValueRef<'_>>| {
            for (index, value) in values.enumerate() {
                if index > 0 {
                    chunk.push(b'\t');
                }
                write_cell(value, &mut chunk);
            }
            chunk.push(b'\n');
            row_count += 1;
            if chunk.len() >= chunk_size {
                take(first_row, std::mem::take(&mut chunk))?;
                first_row = row_count + 1;
            }
            Ok(())
        };
        if let Some(packed) = self.packed.get(&table.source_name) {
            // Such a table has plain columns only.
            let columns: Vec<Option<usize>> = (0..table.columns.len()).map(Some).collect();
            packed.each(&columns, |values| add(&mut values.iter().copied()))?;
        } else {
            self.each_row(table, &mut add)?;
        }
        match chunk.is_empty() {
            true => Ok(()),
            false => take(first_row, chunk),
        }
    }

    /// Calls `add` with the values of each row in SQLite.
    fn each_row(
        &self,
        table: &Table,
        add: &mut dyn FnMut(&mut dyn Iterator<Item = ValueRef<'_>>) -> Result<()>,
    ) -> Result<()> {
        let failed = |source| {
            let doing = format!("table {:?}: reading its rows", table.source_name);
            Error::sqlite(doing, source)
        };
        let names = table.columns.iter().map(|it| quote_name(&it.source_name));
        let names: Vec<String> = names.collect();
        let table_name = quote_name(&table.source_name);
        let sql = format!("select {} from {table_name}", names.join(", "));
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            add(&mut (0..table.columns.len()).map(|index| row.get_ref_unwrap(index)))?;
        }
        Ok(())
    }
}

/// A cell in COPY's text format, as the input function of any type reads it.
fn write_cell(cell: ValueRef<'_>, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match cell {
        ValueRef::Null => out.extend(b"\\N"),
        ValueRef::Integer(int) => out.extend(int.to_string().as_bytes()),
        ValueRef::Real(real) if real.is_infinite() => {
            out.extend(if real < 0.0 {
                &b"-Infinity"[..]
            } else {
                b"Infinity"
            });
        }
        // The shortest text that parses to the same number.
        ValueRef::Real(real) => out.extend(format!("{real:?}").as_bytes()),
        ValueRef::Text(text) => {
            for byte in String::from_utf8_lossy(text).bytes() {
                match byte {
                    b'\\' => out.extend(b"\\\\"),
                    b'\n' => out.extend(b"\\n"),
                    b'\r' => out.extend(b"\\r"),
                    b'\t' => out.extend(b"\\t"),
                    byte => out.push(byte),
                }
            }
        }
        ValueRef::Blob(bytes) => {
            // The backslash is doubled, because COPY reads it first.
            out.extend(b"\\\\x");
            for byte in bytes {
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
}

impl Table {
    /// The SQL that creates the table, with the declared types of its columns.
    pub(super) fn create_sql(&self) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let name = quote_name(&column.name);
                let not_null = if column.is_not_null { " not null" } else { "" };
                format!(
                    "{name} {}{not_null}",
                    declared::postgres_type(&column.declared)
                )
            })
            .collect();
        let mut key: Vec<&Column> = self.columns.iter().filter(|it| it.key_place > 0).collect();
        key.sort_by_key(|column| column.key_place);
        if !key.is_empty() {
            let names: Vec<String> = key.iter().map(|it| quote_name(&it.name)).collect();
            parts.push(format!("primary key ({})", names.join(", ")));
        }
        format!(
            "create table {} ({})",
            quote_name(&self.name),
            parts.join(", ")
        )
    }

    /// The SQL that creates the indexes that the table has in SQLite.
    pub(super) fn index_sqls(&self) -> Vec<String> {
        let table = quote_name(&self.name);
        let indexes = self.indexes.iter();
        indexes
            .map(|(columns, is_unique)| {
                let unique = if *is_unique { "unique " } else { "" };
                let names = columns.iter().map(|name| quote_name(&name.to_lowercase()));
                let names: Vec<String> = names.collect();
                format!("create {unique}index on {table} ({})", names.join(", "))
            })
            .collect()
    }

    /// The COPY statement for rows in text format, into the columns `known` of the PostgreSQL
    /// table.
    pub(super) fn copy_sql(&self, known: &[String]) -> Result<String> {
        let names = self.columns.iter().map(|column| &column.name);
        if let Some(name) = names.clone().find(|name| !known.contains(name)) {
            return Err(Error::no_such_column(&self.name, name, known));
        }
        let names: Vec<String> = names.map(|name| quote_name(name)).collect();
        let table = quote_name(&self.name);
        Ok(format!("copy {table} ({}) from stdin", names.join(", ")))
    }
}

/// A file's text, if there is one.
pub(super) fn read_file(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(file, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_for_copy() {
        for (cell, expected) in [
            (ValueRef::Null, "\\N"),
            (ValueRef::Integer(-7), "-7"),
            (ValueRef::Real(0.1), "0.1"),
            (ValueRef::Real(1e300), "1e300"),
            (ValueRef::Real(f64::NEG_INFINITY), "-Infinity"),
            (ValueRef::Text(b"a\tb\nc\rd\\N"), "a\\tb\\nc\\rd\\\\N"),
            (ValueRef::Text(b""), ""),
            (ValueRef::Text("é".as_bytes()), "é"),
            (ValueRef::Blob(&[0, 255]), "\\\\x00ff"),
        ] {
            let mut out = Vec::new();
            write_cell(cell, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{cell:?}");
        }
    }
}
