//! Determines whether SQLite visits the rows of a statement in the order in which the table stores
//! them.
//!
//! If it does, the first of several matches is known without a query. `explain query plan` shows
//! it.

use rusqlite::Connection;

use super::reason::Reason;
use super::schema::Table;

/// Whether `analyze` has stored samples of the data. SQLite may then plan again for each parameter
/// value, and it evaluates functions of parameters while planning.
pub(super) fn has_samples(connection: &Connection) -> Result<bool, Reason> {
    let sql = "select exists (select 1 from sqlite_schema where name = 'sqlite_stat4')";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Whether this plan returns the rows in the table's own order; false if it is not certain.
pub(super) fn is_scan_order(
    connection: &Connection,
    table: &Table,
    alias: Option<&str>,
    details: &[String],
) -> Result<bool, Reason> {
    let [detail] = details else {
        return Ok(false);
    };
    // Whether a partial index can be used depends on the values of the parameters.
    let has_partial_index: bool = connection.query_row(
        "select exists (select 1 from pragma_index_list(?1) where partial)",
        [&table.name],
        |row| row.get(0),
    )?;
    if has_partial_index {
        return Ok(false);
    }
    let name = alias.unwrap_or(&table.name);
    let walk = |verb: &str| detail.strip_prefix(verb)?.strip_prefix(name);
    if let Some(walk) = walk("SCAN ") {
        return Ok(walk.is_empty());
    }
    let Some(walk) = walk("SEARCH ") else {
        return Ok(false);
    };
    if walk.starts_with(" USING INTEGER PRIMARY KEY (") || walk.starts_with(" USING PRIMARY KEY (")
    {
        return Ok(true);
    }
    let index = [" USING INDEX ", " USING COVERING INDEX "]
        .iter()
        .find_map(|prefix| {
            walk.strip_prefix(prefix)?
                .strip_suffix(')')?
                .rsplit_once(" (")
        });
    let (Some((index, terms)), true) = (index, table.has_rowid) else {
        return Ok(false);
    };
    // Entries with equal keys are in the order of the row ids, if the index has no further columns.
    let column_count: i64 = connection.query_row(
        "select count(*) from pragma_index_info(?1)",
        [index],
        |row| row.get(0),
    )?;
    let mut equal_count = 0;
    for term in terms.split(" AND ") {
        if !term.ends_with("=?") || term.starts_with("ANY(") || term.contains(['<', '>']) {
            return Ok(false);
        }
        equal_count += 1;
    }
    Ok(equal_count == column_count)
}
