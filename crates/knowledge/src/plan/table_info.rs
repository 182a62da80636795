//! Descriptions of the tables, for users.

use super::reason::Reason;
use super::tables::{TableCache, Tables};

/// A table or view of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Whether it is a view, which stores no rows.
    pub is_view: bool,
    /// The number of rows; `None` for a view, whose rows would have to be computed to be counted.
    pub row_count: Option<u64>,
    /// Its columns, in their order.
    pub columns: Vec<ColumnInfo>,
}

/// A column of a [`TableInfo`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// The declared type; empty if it has none, as for a computed column of a view.
    pub declared: String,
}

impl Tables {
    /// The tables and views, sorted by name; empty if the store cannot be read because there is not
    /// enough memory.
    pub(crate) fn infos(&self) -> Vec<TableInfo> {
        self.with(TableCache::infos).unwrap_or_default()
    }
}

impl TableCache {
    fn infos(&mut self) -> Result<Vec<TableInfo>, Reason> {
        let listed: Vec<(String, bool)> = {
            let mut statement = self.connection.prepare(
                "select name, type = 'view' from pragma_table_list where schema = 'main' \
                 and type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\' order by name",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()?
        };
        let mut infos = Vec::with_capacity(listed.len());
        for (name, is_view) in listed {
            let columns = {
                let sql = "select name, type from pragma_table_info(?1) order by cid";
                let mut statement = self.connection.prepare(sql)?;
                let columns = statement.query_map([&name], |row| {
                    let declared: String = row.get(1)?;
                    // SQLite's declared type of a computed column of a view.
                    let is_computed = is_view && declared == "BLOB";
                    Ok(ColumnInfo {
                        name: row.get(0)?,
                        declared: if is_computed { String::new() } else { declared },
                    })
                })?;
                columns.collect::<rusqlite::Result<_>>()?
            };
            let row_count = match is_view {
                true => None,
                false => {
                    let table = self.table(&name)?;
                    Some(self.row_count(&table)? as u64)
                }
            };
            infos.push(TableInfo {
                name,
                is_view,
                row_count,
                columns,
            });
        }
        Ok(infos)
    }
}
