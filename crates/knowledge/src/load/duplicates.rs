//! Keys with several rows, where a lookup of the project expects one.

use std::collections::HashSet;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::UsedStatement;
use super::report::TableReport;
use crate::config::Config;
use crate::plan::{DuplicateKeys, OneRowKey, Tables, one_row_key};
use crate::provider::{LocalTables, Names, RouteTarget, route};
use crate::scan::scan;
use crate::sql_name::quote_name;

/// In larger tables, keys are counted only if an index has them in order. Sorting this many takes
/// about as long as loading them.
const SORTED_ROW_COUNT_MAX: u64 = 10_000_000;

/// The number of characters of a value that the example of a key shows.
const SHOWN_SIZE_MAX: usize = 40;

/// Adds a warning to the report of each table with keys that have several rows, for the keys of those
/// statements that take the first row only.
///
/// A statement that cannot be prepared is ignored: its error is reported when it is prepared.
pub(super) fn add_warnings(
    connection: &Connection,
    tables: &Tables,
    config: &Config,
    statements: &[UsedStatement],
    reports: &mut [TableReport],
) {
    let names = Names::of(Some(config));
    let local_tables = config.enabled_tables().map(|table| table.name.clone());
    let local_tables = LocalTables::new(local_tables);
    let mut seen: HashSet<String> = HashSet::new();
    for statement in statements.iter().filter(|it| !it.takes_all_rows) {
        let Ok(found) = route(&statement.sql, &names, &local_tables) else {
            continue;
        };
        if found.target != RouteTarget::Local {
            continue;
        }
        let Ok(params) = scan(&statement.sql, names.dialect(found.target)) else {
            continue;
        };
        let sql = found.sql.as_deref().unwrap_or(&statement.sql);
        let Some(key) = one_row_key(sql, &params) else {
            continue;
        };
        let is_named = |report: &&mut TableReport| report.name.eq_ignore_ascii_case(&key.table);
        let Some(report) = reports.iter_mut().find(is_named) else {
            continue;
        };
        if !seen.insert(format!("{key:?}").to_lowercase()) {
            continue;
        }
        if tables.is_packed(&key.table) {
            let found = tables.duplicate_keys(&key);
            report
                .warnings
                .extend(found.map(|found| warning(&key, &found)));
        } else if !is_unique(connection, &key).unwrap_or(false)
            && (report.rows <= SORTED_ROW_COUNT_MAX || has_index(connection, &key).unwrap_or(false))
            && let Ok(Some(warning)) = warning_of(connection, &key)
        {
            report.warnings.push(warning);
        }
    }
}

/// Counts the keys with several rows, as `=` compares them: NULL is not a key.
fn warning_of(connection: &Connection, key: &OneRowKey) -> rusqlite::Result<Option<String>> {
    // With the table, as SQLite reads an unknown column in quotes as text.
    let table = quote_name(&key.table);
    let qualified = |column: &String| format!("{table}.{}", quote_name(column));
    let columns: Vec<String> = key.columns.iter().map(qualified).collect();
    let conditions = columns.iter().map(|column| format!("{column} is not null"));
    let constants = key.constants.iter().map(|(column, _)| column);
    let constants = constants.map(|column| format!("{} = ?", qualified(column)));
    let conditions: Vec<String> = conditions.chain(constants).collect();
    let columns = columns.join(", ");
    let sql = format!(
        "select count(*), {columns} from {table} where {} group by {columns} having count(*) > 1",
        conditions.join(" and ")
    );
    let mut statement = connection.prepare(&sql)?;
    let values = key.constants.iter().map(|(_, value)| value);
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found: Option<DuplicateKeys> = None;
    while let Some(row) = rows.next()? {
        if let Some(found) = &mut found {
            found.count += 1;
            continue;
        }
        let values = (1..=key.columns.len()).map(|index| row.get(index));
        found = Some(DuplicateKeys {
            count: 1,
            example: values.collect::<rusqlite::Result<_>>()?,
            example_row_count: row.get::<_, i64>(0)?.unsigned_abs(),
        });
    }
    Ok(found.map(|found| warning(key, &found)))
}

fn warning(key: &OneRowKey, found: &DuplicateKeys) -> String {
    let values = found.example.iter().map(|value| shown(value.into()));
    let values = values.collect::<Vec<String>>().join(", ");
    let (key_count, row_count) = (found.count, found.example_row_count);
    let columns = key.columns.join(", ");
    let where_constant: String = key
        .constants
        .iter()
        .map(|(column, value)| format!(" where {column} is {}", shown(value.into())))
        .collect();
    let (are, keys) = match key_count {
        1 => ("has", "key"),
        _ => ("have", "keys"),
    };
    format!(
        "{key_count} {keys} ({columns}){where_constant} {are} several rows, such as {values} with \
         {row_count}, and a lookup takes the first one; remove the others, or define which by \
         order by"
    )
}

/// Whether an index ensures that each key has one row: its columns are part of the key.
fn is_unique(connection: &Connection, key: &OneRowKey) -> rusqlite::Result<bool> {
    let constants = key.constants.iter().map(|(column, _)| column);
    let columns: Vec<&String> = key.columns.iter().chain(constants).collect();
    let is_in_key = |name: &String| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
    // The primary key of a rowid table has no index if it is an integer.
    let primary = names(
        connection,
        "select name from pragma_table_info(?1) where pk > 0",
        &key.table,
    )?;
    if !primary.is_empty() && primary.iter().all(is_in_key) {
        return Ok(true);
    }
    let indexes = "select name from pragma_index_list(?1) where \"unique\" and not partial";
    for index in names(connection, indexes, &key.table)? {
        let columns = names(connection, INDEX_COLUMNS, &index)?;
        // An index of an expression has a column without a name.
        if !columns.is_empty() && columns.iter().all(is_in_key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an index begins with the columns of a key, in any order.
fn has_index(connection: &Connection, key: &OneRowKey) -> rusqlite::Result<bool> {
    let indexes = "select name from pragma_index_list(?1) where not partial";
    for index in names(connection, indexes, &key.table)? {
        let columns = names(connection, INDEX_COLUMNS, &index)?;
        let first = columns.get(..key.columns.len()).unwrap_or_default();
        let is_there =
            |column: &String| first.iter().any(|other| other.eq_ignore_ascii_case(column));
        if key.columns.iter().all(is_there) {
            return Ok(true);
        }
    }
    Ok(false)
}

const INDEX_COLUMNS: &str = "select coalesce(name, '') from pragma_index_info(?1)";

fn names(connection: &Connection, sql: &str, of: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(sql)?;
    let names = statement.query_map([of], |row| row.get(0))?;
    names.collect()
}

/// A value in a message.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(int) => int.to_string(),
        ValueRef::Real(real) => format!("{real:?}"),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let cut: String = text.chars().take(SHOWN_SIZE_MAX).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("{cut:?}{more}")
        }
        ValueRef::Blob(blob) => {
            let bytes = blob.iter().take(SHOWN_SIZE_MAX / 2);
            let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
            format!("x'{hex}'")
        }
    }
}
