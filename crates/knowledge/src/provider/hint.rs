//! Hints for statements with unknown names: the existing tables and columns.

use rusqlite::Connection;

use super::Names;
use crate::config::Config;
use crate::scan::{Dialect, Scanner, Token};

/// The most names in one message; a longer list is no help.
const NAME_COUNT_MAX: usize = 20;

/// The existing names, if a table or a column is missing. `None` if they cannot be read: a hint
/// must not hide the failure that it explains.
pub(super) fn hint(
    connection: &Connection,
    config: Option<&Config>,
    names: &Names,
    sql: &str,
    source: &rusqlite::Error,
) -> Option<String> {
    let reason = match source {
        rusqlite::Error::SqlInputError { msg, .. }
        | rusqlite::Error::SqliteFailure(_, Some(msg)) => msg,
        _ => return None,
    };
    if reason.starts_with("no such function") || reason.contains("syntax error") {
        return provider_hint(names);
    }
    let tables = tables(connection).ok()?;
    if let Some(missing) = reason.strip_prefix("no such table: ") {
        let name = missing.strip_prefix("main.").unwrap_or(missing);
        if config.is_some_and(|config| config.is_unlisted_table(name)) {
            return Some(format!(
                "a folder with its data exists; add to knowdb.toml: [[tables]], name = {name:?}"
            ));
        }
        return Some(match tables.is_empty() {
            true => "there is none".to_owned(),
            false => format!("there is {}", list(&tables)),
        });
    }
    if !reason.starts_with("no such column:") {
        return None;
    }
    let mut hints = Vec::new();
    for table in tables.iter().filter(|table| mentions(sql, table)) {
        let columns = columns(connection, table).ok()?;
        hints.push(format!("`{table}` has {}", list(&columns)));
    }
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// A hint that a statement that SQLite cannot parse may be intended for a provider.
fn provider_hint(names: &Names) -> Option<String> {
    let others = names.all();
    let others: Vec<&&str> = others.iter().filter(|_| names.has_providers()).collect();
    let first = others.first()?;
    Some(format!(
        "SQLite answers this statement, because it reads no table of another database; to send \
         it to `{first}`, write `{first}.` before a table or a function after `from`"
    ))
}

/// The names of the tables and views, sorted.
pub(super) fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached(TABLES_SQL)?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Queries the names of the tables and views.
pub(super) const TABLES_SQL: &str = "select name from sqlite_schema \
    where type in ('table', 'view') and name not like 'sqlite~_%' escape '~' order by name";

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("select name from pragma_table_info(?1) order by cid")?
        .query_map([table], |row| row.get(0))?
        .collect()
}

/// Whether the statement contains the name as a bare word.
fn mentions(sql: &str, table: &str) -> bool {
    let mut scanner = Scanner::new(sql, Dialect::Sqlite);
    std::iter::from_fn(|| scanner.next_token())
        .any(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case(table)))
}

pub(super) fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAME_COUNT_MAX);
    let mut list: Vec<String> = shown.map(|name| format!("`{name}`")).collect();
    if names.len() > NAME_COUNT_MAX {
        list.push("…".into());
    }
    list.join(", ")
}
