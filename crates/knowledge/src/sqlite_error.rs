//! SQLite's message as the last cause of an error.

use std::error::Error;
use std::ffi::c_int;
use std::fmt;

/// Displays SQLite's message only. rusqlite's own error repeats the whole statement, and appends a
/// code ("Error code 1: SQL logic error") that tells less than the message.
#[derive(Debug)]
pub(crate) struct SqliteError(pub(crate) rusqlite::Error);

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            rusqlite::Error::SqlInputError {
                msg, sql, offset, ..
            } => match location(sql, *offset) {
                Some(location) => write!(f, "{msg} ({location})"),
                None => f.write_str(msg),
            },
            other => other.fmt(f),
        }
    }
}

impl Error for SqliteError {}

/// The line and column, counted from 1, of an offset that SQLite reported.
pub(crate) fn location(sql: &str, offset: c_int) -> Option<String> {
    // SQLite reports -1 for no position.
    let before = sql.get(..usize::try_from(offset).ok()?)?;
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].chars().count() + 1;
    Some(format!("line {line}, column {column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_said_once_and_end_the_chain() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let error = connection.prepare("select 1,\n  nope").unwrap_err();
        let sqlite_error = SqliteError(error);
        assert_eq!(
            sqlite_error.to_string(),
            "no such column: nope (line 2, column 3)"
        );
        assert!(sqlite_error.source().is_none());
        let error =
            connection.execute_batch("create table t (a not null); insert into t values (null)");
        let sqlite_error = SqliteError(error.unwrap_err());
        assert_eq!(sqlite_error.to_string(), "NOT NULL constraint failed: t.a");
    }
}
