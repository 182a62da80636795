//! Conversions between text and numbers, done by SQLite itself.
//!
//! SQLite reads at most 19 significant digits of a number and writes 17 of a real one, with rounding
//! that differs from Rust's; the details change between its versions. So the rare values for which
//! this matters go through a row of a private database, which takes a few microseconds.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use crate::bind::SqlValue;

const OPEN: &str = "
    pragma journal_mode = off;
    create table conversions(id integer primary key, number numeric, text text);
";

const NUMBER: &str = "replace into conversions(id, number) values (1, ?1) returning number";
const TEXT: &str = "replace into conversions(id, text) values (1, ?1) returning text";

thread_local! {
    static DATABASE: Result<Connection> = open();
}

fn open() -> Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(OPEN)?;
    Ok(connection)
}

/// What a text becomes in a column of numeric affinity: an integer, a real number, or the text
/// itself. `None` if SQLite refuses it, because it is longer than its limit.
pub(super) fn number_of(text: &str) -> Option<SqlValue<'_>> {
    convert(NUMBER, SqlValue::Text(text), |value| match value {
        ValueRef::Integer(int) => Some(SqlValue::Int(int)),
        ValueRef::Real(float) => Some(SqlValue::Float(float)),
        _ => Some(SqlValue::Text(text)),
    })
}

/// Appends the text that a real number becomes in a column of text affinity; `None` if SQLite
/// fails.
pub(super) fn write_real(float: f64, out: &mut String) -> Option<()> {
    convert(TEXT, SqlValue::Float(float), |value| {
        out.push_str(value.as_str().ok()?);
        Some(())
    })
}

fn convert<T>(
    sql: &str,
    value: SqlValue<'_>,
    read: impl FnOnce(ValueRef<'_>) -> Option<T>,
) -> Option<T> {
    DATABASE.with(|database| {
        let mut statement = database.as_ref().ok()?.prepare_cached(sql).ok()?;
        let converted = statement.query_row([value], |row| Ok(read(row.get_ref(0)?)));
        converted.ok().flatten()
    })
}
