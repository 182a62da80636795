//! Tables of our own beside the table with the rows.

use lookaside_client::params;
use lookaside_client::postgres::blocking::Connection;

use super::client::Client;
use super::unavailable;
use crate::{Error, Result};

/// Creates a table with these columns if it does not exist. `table` is its name in SQL.
///
/// # Errors
/// When it can be neither used nor created.
pub(crate) fn create_missing(
    client: &mut Client,
    name: &str,
    table: &str,
    columns: &str,
) -> Result<()> {
    let create = format!("create table {table} {columns}");
    let is_usable = |client: &mut Client| client.run(|connection| find(connection, table));
    let mut usable = is_usable(client).map_err(|failure| unavailable(name, failure))?;
    if usable.is_none() {
        let created = client.run(|connection| connection.execute(&*create, &[]));
        // Another process may have created it at the same time.
        usable = is_usable(client).map_err(|failure| unavailable(name, failure))?;
        if let (None, Err(failure)) = (usable, created) {
            let reason = failure.into_reason();
            let reason = format!("the table {table} cannot be created: {reason}");
            let hint =
                format!("create it, and grant select, insert, update on it to the user: {create}");
            return Err(Error::unavailable(name, &reason, &hint));
        }
    }
    match usable {
        Some(true) => Ok(()),
        _ => {
            let reason = format!("the user may not read and write rows of {table}");
            let hint = format!("grant select, insert, update on {table} to the user");
            Err(Error::unavailable(name, &reason, &hint))
        }
    }
}

/// Whether the user has the rights on the table; `None` if it does not exist.
fn find(connection: &mut Connection, table: &str) -> lookaside_client::Result<Option<bool>> {
    let right = |right| format!("has_table_privilege(to_regclass($1::text)::oid, '{right}')");
    let rights = ["select", "insert", "update"].map(right).join(" and ");
    let answer = connection.query(format!("select {rights}"), params![table])?;
    let found = answer.map(|row| row.get::<Option<bool>>(0))?;
    Ok(found.into_iter().next().flatten())
}
