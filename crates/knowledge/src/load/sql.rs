//! The SQL of a table: its files, and what takes the place of a missing one.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::derive;
use super::records::Records;
use crate::Result;
use crate::config::{Config, TableConfig};
use crate::error::Error;
use crate::sql_name::quote_name;

/// The statements that make and fill a table, `{table}` replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSql {
    /// Makes the table.
    pub create: SqlText,
    /// Empties it, in case that making it filled it.
    pub clean: SqlText,
    /// Inserts a record: `?1` is the first mapped field.
    pub insert: SqlText,
    /// What someone should know about derived column types, a line each.
    pub notes: Vec<String>,
}

/// One SQL text and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlText {
    /// The name of its file in the table's folder.
    pub name: &'static str,
    /// The text.
    pub text: String,
    /// The file, if there is one; else the text was derived from the data.
    pub file: Option<PathBuf>,
}

impl SqlText {
    /// What to call the text in a message: its file, or the one whose place it takes.
    pub(crate) fn place(&self, table: &TableConfig) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => format!("table {:?}: derived {}", table.name, self.name),
        }
    }

    fn derived(name: &'static str, text: String) -> Self {
        let file = None;
        Self { name, text, file }
    }
}

/// The SQL with which a table is made and filled.
///
/// `create.sql` and `insert.sql` may be missing: they are derived from the header of the data file
/// and from its values, all of which are read for it.
///
/// # Errors
/// When a file cannot be read, or the data that a missing one is derived from.
pub fn table_sql(config: &Config, table: &TableConfig) -> Result<TableSql> {
    let create = read(table, "create.sql")?;
    let insert = read(table, "insert.sql")?;
    let clean = read(table, "clean.sql")?.unwrap_or_else(|| {
        let text = format!(
            "delete from {};
",
            quote_name(&table.name)
        );
        SqlText::derived("clean.sql", text)
    });
    let mut notes = Vec::new();
    let (create, insert) = match (create, insert) {
        (Some(create), Some(insert)) => (create, insert),
        (create, insert) => {
            let mut records = Records::open(table, config.csv_of(table))?;
            let columns = derive::columns(table, &mut records)?;
            if create.is_none() {
                notes = derive::notes(&columns);
            }
            let derive = |name, sql: fn(&str, &[derive::Column]) -> String| {
                SqlText::derived(name, sql(&table.name, &columns))
            };
            (
                create.unwrap_or_else(|| derive("create.sql", derive::create)),
                insert.unwrap_or_else(|| derive("insert.sql", derive::insert)),
            )
        }
    };
    Ok(TableSql {
        create,
        clean,
        insert,
        notes,
    })
}

fn read(table: &TableConfig, name: &'static str) -> Result<Option<SqlText>> {
    let file = table.folder.join(name);
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(SqlText {
            name,
            text: text.replace("{table}", &table.name),
            file: Some(file),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(&file, error)),
    }
}
