//! Errors of loads: each names the table's file and line.

use std::io;

use super::sql::SqlText;
use crate::config::TableConfig;
use crate::error::{Error, ErrorKind};
use crate::sqlite_error::SqliteError;

impl Error {
    /// A record of a data file is wrong.
    pub(super) fn row(table: &TableConfig, line: u64, reason: &str) -> Self {
        let message = format!("{}:{line}: {reason}", table.data_file.display());
        Self::new(ErrorKind::Data, message)
    }

    /// A record exceeds the size limit.
    pub(super) fn record_limit(
        table: &TableConfig,
        line: u64,
        limit: usize,
        unit: &'static str,
    ) -> Self {
        let message = format!(
            "{}:{line}: a record has more than {limit} {unit}; is a quote unclosed, or is the \
             delimiter different?",
            table.data_file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// A data file cannot be read further.
    pub(super) fn unreadable(table: &TableConfig, line: u64, source: io::Error) -> Self {
        let message = format!(
            "{}:{line}: cannot be read beyond this line",
            table.data_file.display()
        );
        let kind = match source.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof => ErrorKind::Data,
            _ => ErrorKind::Environment,
        };
        Self::with_source(kind, message, source)
    }

    /// A record was refused by the table's insert.
    pub(super) fn row_insert(
        table: &TableConfig,
        sql: &SqlText,
        line: u64,
        source: rusqlite::Error,
    ) -> Self {
        let place = format!("{}:{line}", table.data_file.display());
        match Self::memory_limit(&source) {
            Some(limit) => Self::with_source(
                ErrorKind::LimitReached,
                format!("{place}: table {:?} does not fit: {limit}", table.name),
                SqliteError(source),
            ),
            None => Self::with_source(
                ErrorKind::Data,
                format!("{place}: refused by {}", sql.place(table)),
                SqliteError(source),
            ),
        }
    }

    /// A table's SQL is wrong.
    pub(super) fn script(table: &TableConfig, sql: &SqlText, source: rusqlite::Error) -> Self {
        let place = sql.place(table);
        Self::with_source(
            ErrorKind::Config,
            format!("{place}: refused by SQLite"),
            SqliteError(source),
        )
    }

    /// A table's insert has another number of parameters than fields are mapped.
    pub(super) fn parameter_count(
        table: &TableConfig,
        sql: &SqlText,
        parameter_count: usize,
        column_count: usize,
    ) -> Self {
        let place = sql.place(table);
        let message = format!(
            "{place}: {parameter_count} parameters for {column_count} columns of table {:?}; \
             write ?1 to ?{column_count}, or change its columns",
            table.name
        );
        Self::new(ErrorKind::Config, message)
    }

    /// A transaction of a load failed.
    pub(super) fn transaction(table: &TableConfig, source: rusqlite::Error) -> Self {
        let doing = format!("table {:?}: ending a batch of inserts", table.name);
        match Self::memory_limit(&source) {
            Some(limit) => Self::with_source(
                ErrorKind::LimitReached,
                format!("table {:?} does not fit: {limit}", table.name),
                SqliteError(source),
            ),
            None => Self::sqlite(doing, source),
        }
    }

    /// The file that a table's rows should come from cannot be opened.
    pub(super) fn data_file(table: &TableConfig, source: io::Error) -> Self {
        if source.kind() != io::ErrorKind::NotFound {
            return Self::file(&table.data_file, source);
        }
        let message = format!(
            "{}: the data file of table {:?} does not exist; set the table's dir or data_file, or \
             enabled = false",
            table.data_file.display(),
            table.name
        );
        Self::new(ErrorKind::Environment, message)
    }

    /// A table's rows should come from a file that is not CSV.
    pub(super) fn not_csv(table: &TableConfig, what: &str, instead: &str) -> Self {
        let (file, name) = (table.data_file.display(), &table.name);
        let message = format!("{file}: this is {what}, but table {name:?} must be CSV; {instead}");
        Self::new(ErrorKind::Data, message)
    }

    /// A header does not name a column.
    pub(super) fn unknown_header(table: &TableConfig, name: &str, header: &[String]) -> Self {
        let file = table.data_file.display();
        let message = match header {
            [] => format!(
                "{file}: there is no header, but table {:?} requires column {name:?}",
                table.name
            ),
            header => format!(
                "{file}:1: there is no column {name:?}, which table {:?} requires; the columns \
                 are: {}",
                table.name,
                header.join(", ")
            ),
        };
        Self::new(ErrorKind::Data, message)
    }

    /// A header names a column more than once.
    pub(super) fn ambiguous_header(table: &TableConfig, name: &str) -> Self {
        let message = format!(
            "{}:1: column {name:?} is named more than once; use columns.by_index",
            table.data_file.display()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A mapping names a position that records do not have.
    pub(super) fn beyond_record(table: &TableConfig, index: usize, width: usize) -> Self {
        let message = format!(
            "{}: table {:?} requires field {index}, counted from 0, but records have {width} \
             fields",
            table.data_file.display(),
            table.name
        );
        Self::new(ErrorKind::Data, message)
    }

    /// There is neither SQL nor a header.
    pub(super) fn nothing_to_derive(table: &TableConfig) -> Self {
        let message = format!(
            "{}: the file is empty, so no columns can be derived; write {} and insert.sql",
            table.data_file.display(),
            table.folder.join("create.sql").display()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A table has fewer rows than it should.
    pub(super) fn too_few_rows(table: &TableConfig, rows: u64, min: u64) -> Self {
        let message = format!(
            "{}: {rows} rows, but table {:?} expects at least {min}",
            table.data_file.display(),
            table.name
        );
        Self::new(ErrorKind::Data, message)
    }
}
