//! The types of the result columns of a statement.
//!
//! A column of SQLite can store values of any type, whatever its declared type. So the type is only
//! known for a table column with a declared type of which every value is of that type or NULL.

use lookaside_value::Type;
use rusqlite::types::Type as SqliteType;

use super::reason::Reason;
use super::schema::Table;
use super::tables::TableCache;

/// The type of each column, if it is known; all of them may be NULL.
pub(super) fn of(sql: &str, tables: &mut TableCache) -> Result<Vec<Option<Type>>, Reason> {
    // Computed columns have no origin.
    let origins: Vec<Option<(String, String)>> = {
        let statement = tables.connection.prepare(sql)?;
        let columns = statement.columns_with_metadata();
        columns
            .map(|column| match column.database_name() {
                Some("main") => Some((
                    column.table_name()?.to_owned(),
                    column.origin_name()?.to_owned(),
                )),
                _ => None,
            })
            .collect()
    };
    let types = origins.into_iter().map(|origin| {
        let (table, column) = origin?;
        let table = tables.table(&table).ok()?;
        let position = table.position(&column)?;
        tables.column_type(&table, position).ok().flatten()
    });
    Ok(types.collect())
}

/// The type of a declaration, with the storage classes that belong to it.
fn declared_type(declared: &str) -> Option<(Type, &'static [SqliteType])> {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT"]) {
        Some((Type::Int, &[SqliteType::Integer]))
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Some((Type::Text, &[SqliteType::Text]))
    } else if has(&["REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"]) {
        Some((Type::Float, &[SqliteType::Real, SqliteType::Integer]))
    } else {
        None
    }
}

impl TableCache {
    /// Determines the type of a column by checking all its values.
    pub(super) fn read_column_type(
        &self,
        table: &Table,
        position: usize,
    ) -> Result<Option<Type>, Reason> {
        if table.is_rowid(position) {
            return Ok(Some(Type::Int));
        }
        let column = table.column(position);
        let Some((declared, classes)) = declared_type(&column.declared) else {
            return Ok(None);
        };
        let mut is_kept = true;
        let read = self.rows().each(table, &[position], |values| {
            let found = values[0].data_type();
            is_kept = found == SqliteType::Null || classes.contains(&found);
            match is_kept {
                true => Ok(()),
                false => Err(Reason::fixed("a value has another type")),
            }
        });
        match (is_kept, read) {
            (false, _) => Ok(None),
            (true, read) => read.map(|()| Some(declared)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_ask_for_types() {
        for (declared, expected) in [
            ("INTEGER", Some(Type::Int)),
            ("bigint", Some(Type::Int)),
            ("varchar(20)", Some(Type::Text)),
            ("TEXT BOOLEAN", Some(Type::Text)),
            ("double precision", Some(Type::Float)),
            ("numeric(10, 2)", Some(Type::Float)),
            ("date", None),
            ("blob", None),
            ("", None),
        ] {
            let found = declared_type(declared).map(|(found, _)| found);
            assert_eq!(found, expected, "{declared}");
        }
    }
}
