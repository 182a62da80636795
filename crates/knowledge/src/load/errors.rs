//! Errors of loads: each names the table's file and line.

use std::io;
use std::path::Path;

use maxminddb::MaxMindDbError;
use rusqlite::ErrorCode;

use super::sql::SqlText;
use crate::config::{TableConfig, TableFormat};
use crate::error::{Error, ErrorKind};
use crate::sqlite_error::SqliteError;

impl Error {
    /// A record of a data file is wrong.
    pub(super) fn row(place: &str, reason: &str) -> Self {
        Self::new(ErrorKind::Data, format!("{place}: {reason}"))
    }

    /// A record exceeds the size limit.
    pub(super) fn record_limit(file: &Path, line: u64, limit: usize, unit: &'static str) -> Self {
        let message = format!(
            "{}:{line}: a record has more than {limit} {unit}; is a quote unclosed, or is the \
             delimiter different?",
            file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// A data file cannot be read further.
    pub(super) fn unreadable(file: &Path, line: u64, source: io::Error) -> Self {
        let message = format!("{}:{line}: cannot be read beyond this line", file.display());
        Self::with_source(ErrorKind::of_read(&source), message, source)
    }

    /// A record was refused by the table's insert.
    pub(super) fn row_insert(
        table: &TableConfig,
        sql: &SqlText,
        place: &str,
        source: rusqlite::Error,
    ) -> Self {
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
    pub(super) fn data_file(table: &TableConfig, file: &Path, source: io::Error) -> Self {
        if source.kind() != io::ErrorKind::NotFound {
            return Self::file(file, source);
        }
        let message = format!(
            "{}: the data file of table {:?} does not exist; set the table's dir or data_file, or \
             enabled = false",
            file.display(),
            table.name
        );
        Self::new(ErrorKind::Environment, message)
    }

    /// No file matches the pattern of a table.
    pub(super) fn no_files(table: &TableConfig) -> Self {
        let message = format!(
            "{}: no file matches this pattern; set the data_file of table {:?}, or enabled = false",
            table.data_file.display(),
            table.name
        );
        Self::new(ErrorKind::Environment, message)
    }

    /// Too many files match the pattern of a table.
    pub(super) fn too_many_files(table: &TableConfig, limit: usize) -> Self {
        let message = format!(
            "{}: more than {limit} files match this pattern; join them, or write a narrower one",
            table.data_file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// One of the files of a table is empty.
    pub(super) fn no_header(table: &TableConfig, file: &Path) -> Self {
        let message = format!(
            "{}: the file is empty, but each file of table {:?} must have a header",
            file.display(),
            table.name
        );
        Self::new(ErrorKind::Data, message)
    }

    /// The files of a table have different columns.
    pub(super) fn other_columns(
        table: &TableConfig,
        (file, names): (&Path, &[String]),
        (first_file, first_names): (&Path, &[String]),
    ) -> Self {
        let message = format!(
            "{}: the columns are: {}; those of {} are: {}; all files of table {:?} must have the \
             same ones",
            file.display(),
            names.join(", "),
            first_file.display(),
            first_names.join(", "),
            table.name
        );
        Self::new(ErrorKind::Data, message)
    }

    /// One of the files of a table has another format than the pattern.
    pub(super) fn other_format(table: &TableConfig, file: &Path) -> Self {
        let message = format!(
            "{}: the name is that of {}, but the rows of table {:?} are {}; end its data_file with \
             the suffix of the files",
            file.display(),
            TableFormat::of(file).name(),
            table.name,
            table.format.name()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A table's rows should come from a file of another format.
    pub(super) fn not_readable(
        table: &TableConfig,
        file: &Path,
        what: &str,
        instead: &str,
    ) -> Self {
        // An address may have a password or a token.
        let file = file.to_string_lossy();
        let file = match file.split_once("://") {
            Some((before, _)) => format!("{before}://…"),
            None => file.into_owned(),
        };
        let name = &table.name;
        let message = format!(
            "{file}: this is {what}, but table {name:?} must be CSV or JSON lines; {instead}"
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A line of JSON exceeds the size limit.
    pub(super) fn line_limit(file: &Path, line: u64, limit: usize) -> Self {
        let message = format!(
            "{}:{line}: a line has more than {limit} bytes; write one object a line, as `jq -c \
             '.[]'` does",
            file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// The objects of a file have too many different keys.
    pub(super) fn key_limit(file: &Path, line: u64, limit: usize) -> Self {
        let message = format!(
            "{}:{line}: the lines up to here have more than {limit} different keys; name those \
             of the columns in columns.by_header",
            file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// Two derived columns have the same name in SQL.
    pub(super) fn duplicate_column(table: &TableConfig, name: &str) -> Self {
        let message = format!(
            "{}: two columns have the name {name:?}, regardless of letter case; give each a name \
             in columns.by_path",
            table.data_file.display()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A header does not name a column.
    pub(super) fn unknown_header(
        table: &TableConfig,
        file: &Path,
        name: &str,
        header: &[String],
    ) -> Self {
        let file = file.display();
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
    pub(super) fn ambiguous_header(file: &Path, name: &str) -> Self {
        let message = format!(
            "{}:1: column {name:?} is named more than once; use columns.by_index",
            file.display()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A mapping names a position that records do not have.
    pub(super) fn beyond_record(
        table: &TableConfig,
        file: &Path,
        index: usize,
        width: usize,
    ) -> Self {
        let message = format!(
            "{}: table {:?} requires field {index}, counted from 0, but records have {width} \
             fields",
            file.display(),
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

    /// A load has panicked.
    pub(crate) fn load_panicked() -> Self {
        let message = "the load has panicked, which is a defect of Lookaside: please report it with the \
             message of the panic";
        Self::new(ErrorKind::Data, message)
    }

    /// The rows of all tables would need more memory than allowed.
    pub(super) fn table_memory(table: &TableConfig, need: u64, max: u64) -> Self {
        let message = format!(
            "{}: with table {:?}, the rows of all tables need about {need} bytes, and table_memory_max of \
             [local] is {max}; set a greater limit, or load fewer rows or columns",
            table.data_file.display(),
            table.name
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// A file that is read as a whole is truncated or damaged.
    pub(super) fn unreadable_whole(file: &Path, source: io::Error) -> Self {
        let message = format!("{}: cannot be read to its end", file.display());
        Self::with_source(ErrorKind::of_read(&source), message, source)
    }

    /// A MaxMind database is too large.
    pub(super) fn mmdb_size(file: &Path, limit: u64) -> Self {
        let message = format!(
            "{}: is larger than {limit} bytes, the limit for a MaxMind database",
            file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// A MaxMind database is damaged, or another file.
    pub(super) fn mmdb(file: &Path, source: MaxMindDbError) -> Self {
        let message = format!(
            "{}: is not a complete MaxMind database; download it again",
            file.display()
        );
        Self::with_source(ErrorKind::Data, message, source)
    }

    /// The search tree of a MaxMind database is damaged.
    pub(super) fn mmdb_tree(file: &Path, problem: &str) -> Self {
        let file = file.display();
        let message = format!("{file}: the database is damaged: {problem}; download it again");
        Self::new(ErrorKind::Data, message)
    }

    /// A record of a MaxMind database is damaged.
    pub(super) fn mmdb_record(file: &Path, network: &str, source: MaxMindDbError) -> Self {
        let message = format!(
            "{}: the record of {network} is damaged; download the database again",
            file.display()
        );
        Self::with_source(ErrorKind::Data, message, source)
    }

    /// A SQLite database cannot be read.
    pub(super) fn sqlite_source(file: &Path, source: rusqlite::Error) -> Self {
        let (kind, hint) = match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
                ErrorKind::Unavailable,
                ", which another process has locked for longer than 5 s",
            ),
            Some(ErrorCode::ReadOnly) => (
                ErrorKind::Environment,
                ": its journal or log can only be recovered by a process that may write the file and its \
                 folder; open it with one",
            ),
            _ => (Self::sqlite_kind(&source), ""),
        };
        let message = format!("{}: reading the SQLite database{hint}", file.display());
        Self::with_source(kind, message, SqliteError(source))
    }

    /// A SQLite database does not have a table.
    pub(super) fn no_sqlite_table(file: &Path, table: &str, tables: &[String]) -> Self {
        let file = file.display();
        let message = match tables {
            [] => {
                format!("{file}: the database has no table {table:?}, nor any other table or view")
            }
            tables => format!(
                "{file}: the database has no table {table:?}; set sqlite_table to one of its tables and \
                 views: {}",
                tables.join(", ")
            ),
        };
        Self::new(ErrorKind::Data, message)
    }

    /// A table of a SQLite database does not have a column.
    pub(super) fn no_sqlite_column(
        file: &Path,
        table: &str,
        column: &str,
        columns: &[String],
    ) -> Self {
        let message = format!(
            "{}: table {table:?} has no column {column:?}; its columns are: {}",
            file.display(),
            columns.join(", ")
        );
        Self::new(ErrorKind::Data, message)
    }

    /// A text of a SQLite database is not text.
    pub(super) fn sqlite_text(file: &Path, row: u64, column: &str) -> Self {
        let message = format!(
            "{}: row {row}: column {column:?} has a text that is not UTF-8; correct it, or store it \
             as a blob",
            file.display()
        );
        Self::new(ErrorKind::Data, message)
    }

    /// The columns of a MaxMind database are missing.
    pub(super) fn no_paths(table: &TableConfig, file: &Path, paths: &[String]) -> Self {
        let message = format!(
            "{}: table {:?} has no columns; write for example columns.by_path = {{ country = \
             \"country.iso_code\" }}; the first record has the paths: {}",
            file.display(),
            table.name,
            paths.join(", ")
        );
        Self::new(ErrorKind::Config, message)
    }
}
