//! The rows of a table of another SQLite database, which is read where it is.
//!
//! A thread reads them: a cursor of SQLite borrows its statement, which borrows its connection, so that
//! they cannot be stored in one value. The rows of one table are those of one transaction.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::records::NextRecord;
use crate::Result;
use crate::config::{Columns, TableConfig};
use crate::error::Error;
use crate::sql_name::quote_name;

/// How long a writer of the database is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The rows and the bytes after which values are passed on to the loading thread.
const CHUNK_ROW_COUNT: usize = 1024;
const CHUNK_SIZE: usize = 1 << 20;

/// The chunks that are read ahead.
const CHUNK_COUNT: usize = 2;

/// The tables and views of a database.
const TABLES_SQL: &str = "select name from sqlite_schema where type in ('table', 'view')
    and name not like 'sqlite\\_%' escape '\\' order by name";

/// A reader of the rows of a table.
pub(super) struct SqliteRows {
    columns: Vec<String>,
    types: Vec<&'static str>,
    chunks: Receiver<Chunk>,
    /// The values of the current chunk, row after row.
    values: Vec<SqlValue>,
    /// The position of the first value of the next row in `values`.
    next: usize,
    /// The number of the current row, counted from 1, and of all rows.
    row: u64,
    row_count: u64,
}

/// Values of whole rows.
type Chunk = Result<Vec<SqlValue>>;

impl SqliteRows {
    /// Opens the database of a table.
    pub(super) fn open(table: &TableConfig, file: &Path) -> Result<Self> {
        let failed = |error| Error::sqlite_source(file, error);
        let (path, source) = (table.readable(file), &*table.sqlite_table);
        fs::metadata(path).map_err(|source| Error::data_file(table, file, source))?;
        let connection = connect(path).map_err(failed)?;
        let all = columns_of(&connection, source).map_err(failed)?;
        if all.is_empty() {
            let tables = names(&connection, TABLES_SQL).map_err(failed)?;
            return Err(Error::no_sqlite_table(file, source, &tables));
        }
        let columns: Vec<Column> = match &table.columns {
            Columns::ByHeader(names) => {
                let named = |name: &String| {
                    let found = all.iter().find(|it| it.name.eq_ignore_ascii_case(name));
                    let missing = || Error::no_sqlite_column(file, source, name, &all_names(&all));
                    let affinity = found.ok_or_else(missing)?.affinity;
                    Ok(Column {
                        name: name.clone(),
                        affinity,
                    })
                };
                names.iter().map(named).collect::<Result<_>>()?
            }
            _ => all,
        };
        let types = columns.iter().map(|column| column.affinity).collect();
        let columns = all_names(&columns);
        let quoted: Vec<String> = columns.iter().map(|name| quote_name(name)).collect();
        let from = quote_name(source);
        let count = format!("select count(*) from {from}");
        let row_count: i64 = connection
            .query_row(&count, [], |row| row.get(0))
            .map_err(failed)?;
        let query = Query {
            file: file.to_owned(),
            connection,
            sql: format!("select {} from {from}", quoted.join(", ")),
            columns: columns.clone(),
        };
        let (sender, chunks) = sync_channel(CHUNK_COUNT);
        let read = move || {
            if let Err(error) = query.send(&sender) {
                // The loading thread may have ended.
                let _ = sender.send(Err(error));
            }
        };
        let spawned = thread::Builder::new()
            .name("lookaside-sqlite".to_owned())
            .spawn(read);
        spawned.map_err(|source| Error::unreadable_whole(file, source))?;
        Ok(Self {
            columns,
            types,
            chunks,
            values: Vec::new(),
            next: 0,
            row: 0,
            row_count: row_count.unsigned_abs(),
        })
    }

    /// The names of the values of a row.
    pub(super) fn names(&self) -> Vec<String> {
        self.columns.clone()
    }

    /// Their types, each the name of its affinity.
    pub(super) fn types(&self) -> &[&'static str] {
        &self.types
    }

    /// Reads the next row.
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        if self.next == self.values.len() {
            match self.chunks.recv() {
                Ok(chunk) => self.values = chunk?,
                // The thread has ended after the last row.
                Err(_) => return Ok(NextRecord::End),
            }
            self.next = 0;
        }
        self.next += self.columns.len();
        self.row += 1;
        Ok(NextRecord::Record)
    }

    /// A value of the current row.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        (&self.values[self.next - self.columns.len() + index]).into()
    }

    /// The number of the current row, counted from 1.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// How much of the table was read, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        self.row as f64 / self.row_count.max(1) as f64
    }
}

/// Opens a database for reading, in a transaction. The schema of the file is not trusted: its views
/// may call functions without side effects only.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch(
        "pragma trusted_schema = off; pragma cell_size_check = on; pragma query_only = on;
         begin; select count(*) from sqlite_schema;",
    )?;
    Ok(connection)
}

/// A column and the affinity of its values, by which they are stored unchanged.
struct Column {
    name: String,
    affinity: &'static str,
}

fn all_names(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

/// The columns of a table or view; empty if there is none.
fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let sql = "select name, type, (select max(strict) from pragma_table_list(?1))
        from pragma_table_xinfo(?1) where hidden != 1 order by cid";
    let mut statement = connection.prepare(sql)?;
    let columns = statement.query_map([table], |row| {
        let (declared, is_strict): (String, Option<bool>) = (row.get(1)?, row.get(2)?);
        Ok(Column {
            name: row.get(0)?,
            affinity: affinity_of(&declared, is_strict.unwrap_or_default()),
        })
    })?;
    columns.collect()
}

/// The affinity of a declared type (<https://www.sqlite.org/datatype3.html>, 3.1).
fn affinity_of(declared: &str, is_strict: bool) -> &'static str {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    match () {
        () if has(&["INT"]) => "INTEGER",
        () if has(&["CHAR", "CLOB", "TEXT"]) => "TEXT",
        () if has(&["BLOB"]) || declared.is_empty() => "BLOB",
        () if has(&["REAL", "FLOA", "DOUB"]) => "REAL",
        () if is_strict && declared == "ANY" => "BLOB",
        () => "NUMERIC",
    }
}

fn names(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

/// Where rows are read from.
struct Query {
    file: PathBuf,
    connection: Connection,
    sql: String,
    columns: Vec<String>,
}

impl Query {
    /// Sends all rows; stops when the receiver is dropped.
    fn send(&self, chunks: &SyncSender<Chunk>) -> Result<()> {
        let failed = |error| Error::sqlite_source(&self.file, error);
        let mut statement = self.connection.prepare(&self.sql).map_err(failed)?;
        let mut rows = statement.raw_query();
        let mut values = Vec::new();
        let (mut row_number, mut size) = (0, 0);
        while let Some(row) = rows.next().map_err(failed)? {
            row_number += 1;
            for (index, column) in self.columns.iter().enumerate() {
                let value = row.get_ref(index).map_err(failed)?;
                size += value_size(value);
                // SQLite does not check that its texts are UTF-8.
                let value = SqlValue::try_from(value)
                    .map_err(|_| Error::sqlite_text(&self.file, row_number, column))?;
                values.push(value);
            }
            if values.len() >= CHUNK_ROW_COUNT * self.columns.len() || size >= CHUNK_SIZE {
                if chunks.send(Ok(mem::take(&mut values))).is_err() {
                    return Ok(());
                }
                size = 0;
            }
        }
        if !values.is_empty() {
            let _ = chunks.send(Ok(values));
        }
        Ok(())
    }
}

fn value_size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
