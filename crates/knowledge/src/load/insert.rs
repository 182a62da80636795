//! Inserts the rows of a table into SQLite.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, Statement};

use super::records::NextRecord;
use super::report::TableReport;
use super::rows::Rows;
use super::sql::SqlText;
use crate::Result;
use crate::config::{LoadConfig, OnError, TableConfig};
use crate::error::Error;

/// The number of records between two calls of the function that is told of the progress.
const PROGRESS_RECORD_COUNT: u64 = 8192;

/// The prepared insert of a table and the fields that it binds.
pub(super) struct Insert<'a> {
    table: &'a TableConfig,
    sql: &'a SqlText,
    connection: &'a Connection,
    statement: Statement<'a>,
    /// The number of values of a row.
    width: usize,
}

impl<'a> Insert<'a> {
    pub(super) fn prepare(
        connection: &'a Connection,
        table: &'a TableConfig,
        sql: &'a SqlText,
        width: usize,
    ) -> Result<Self> {
        let statement = connection
            .prepare(&sql.text)
            .map_err(|source| Error::script(table, sql, source))?;
        // Without records, the number of fields is unknown and nothing is bound.
        if width > 0 && statement.parameter_count() != width {
            let count = statement.parameter_count();
            return Err(Error::parameter_count(table, sql, count, width));
        }
        Ok(Self {
            table,
            sql,
            connection,
            statement,
            width,
        })
    }

    pub(super) fn run(
        &mut self,
        load: LoadConfig,
        rows: &mut Rows<'_>,
        report: &mut TableReport,
        advanced: &dyn Fn(&Rows<'_>, u64),
    ) -> Result<()> {
        let mut batch = Batch::begin(self.connection, load, self.table)?;
        for record_index in 1_u64.. {
            match rows.next()? {
                NextRecord::End => break,
                NextRecord::Record => match self.insert(rows) {
                    Ok(row_count) => {
                        report.rows += row_count;
                        batch.count_row()?;
                    }
                    Err(error) if load.on_error == OnError::Skip && self.may_skip(&error, load) => {
                        report.skip(rows.place(), error.to_string());
                    }
                    Err(error) => {
                        let place = rows.place();
                        return Err(Error::row_insert(self.table, self.sql, &place, error));
                    }
                },
                NextRecord::Bad {
                    line,
                    reason,
                    is_fatal: false,
                } if load.on_error == OnError::Skip => {
                    report.skip(rows.place_of_line(line), reason);
                }
                NextRecord::Bad { line, reason, .. } => {
                    return Err(Error::row(&rows.place_of_line(line), &reason));
                }
            }
            if record_index % PROGRESS_RECORD_COUNT == 0 {
                advanced(rows, report.rows);
            }
        }
        batch.commit()
    }

    /// Binds the values and inserts. Fields of CSV are text, and an empty field is an empty string.
    fn insert(&mut self, rows: &Rows<'_>) -> rusqlite::Result<u64> {
        for index in 0..self.width {
            let value = ToSqlOutput::Borrowed(rows.value(index));
            self.statement.raw_bind_parameter(index + 1, value)?;
        }
        self.statement.raw_execute().map(|count| count as u64)
    }

    /// Whether the failure concerns this row only: the statement was rolled back, but not the
    /// batch.
    fn may_skip(&self, error: &rusqlite::Error, load: LoadConfig) -> bool {
        let of_row = matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
                    | ErrorCode::TooBig
                    | ErrorCode::Unknown
            )
        );
        // `insert or rollback` and `raise(rollback)` also roll back the previous rows.
        of_row && (!load.transaction || !self.connection.is_autocommit())
    }
}

/// Groups inserts into transactions.
struct Batch<'a> {
    connection: &'a Connection,
    table: &'a TableConfig,
    /// The rows per transaction; `None` if each insert is its own transaction.
    size: Option<u64>,
    row_count: u64,
}

impl<'a> Batch<'a> {
    fn begin(connection: &'a Connection, load: LoadConfig, table: &'a TableConfig) -> Result<Self> {
        let batch = Self {
            connection,
            table,
            size: load.transaction.then_some(load.batch_size),
            row_count: 0,
        };
        batch.execute("begin")?;
        Ok(batch)
    }

    fn count_row(&mut self) -> Result<()> {
        self.row_count += 1;
        if Some(self.row_count) == self.size {
            self.row_count = 0;
            self.execute("commit; begin")?;
        }
        Ok(())
    }

    fn commit(self) -> Result<()> {
        self.execute("commit")
    }

    fn execute(&self, sql: &str) -> Result<()> {
        if self.size.is_none() {
            return Ok(());
        }
        self.connection
            .execute_batch(sql)
            .map_err(|source| Error::transaction(self.table, source))
    }
}
