//! Indexes of derived tables: one for each column that a statement of the project looks rows up by.
//!
//! The author of a `create.sql` defines its indexes. A derived table has none, and SQLite would
//! scan it for each query that no native plan answers.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::UsedStatement;
use super::report::TableReport;
use crate::Result;
use crate::config::Config;
use crate::error::Error;
use crate::plan::equal_columns;
use crate::provider::{LocalTables, Names, RouteTarget, route};
use crate::sql_name::{INDEX_PREFIX, quote_name};

/// A table whose columns were derived.
pub(super) struct DerivedTable {
    pub(super) name: String,
    /// The position of its report.
    pub(super) report: usize,
}

/// Creates the indexes. A statement that cannot be parsed gets none; its error is reported when it
/// is prepared.
pub(super) fn add_indexes(
    connection: &Connection,
    config: &Config,
    statements: &[UsedStatement],
    tables: &[DerivedTable],
    reports: &mut [TableReport],
) -> Result<()> {
    if tables.is_empty() || statements.is_empty() {
        return Ok(());
    }
    let names = Names::of(Some(config));
    let local_tables = config.enabled_tables().map(|table| table.name.clone());
    let local_tables = LocalTables::new(local_tables);
    let mut keys = BTreeSet::new();
    for UsedStatement { sql: statement, .. } in statements {
        let Ok(found) = route(statement, &names, &local_tables) else {
            continue;
        };
        if found.target == RouteTarget::Local {
            let sql = found.sql.as_deref().unwrap_or(statement);
            keys.extend(equal_columns(sql, &|table| columns_of(connection, table)));
        }
    }
    for (number, (table, column)) in keys.into_iter().enumerate() {
        let derived = |it: &&DerivedTable| it.name.eq_ignore_ascii_case(&table);
        let Some(derived) = tables.iter().find(derived) else {
            continue;
        };
        // The number keeps names unique: `host`, `user_name` and `host_user`, `name` would be
        // joined to the same name.
        let name = format!("{INDEX_PREFIX}{number}_{}_{column}", derived.name);
        let index = quote_name(&name);
        let (quoted_table, quoted) = (quote_name(&derived.name), quote_name(&column));
        connection
            .execute_batch(&format!(
                "create index {index} on {quoted_table} ({quoted})"
            ))
            .map_err(|source| {
                let doing = format!("table {:?}: an index of {column:?}", derived.name);
                Error::sqlite(doing, source)
            })?;
        reports[derived.report].indexes.push(column);
    }
    Ok(())
}

/// The columns of a table as they are declared; empty if there is none.
fn columns_of(connection: &Connection, table: &str) -> Vec<String> {
    let names = || -> rusqlite::Result<Vec<String>> {
        let sql = "select name from pragma_table_info(?1)";
        let mut statement = connection.prepare_cached(sql)?;
        let names = statement.query_map([table], |row| row.get(0))?;
        names.collect()
    };
    names().unwrap_or_default()
}
