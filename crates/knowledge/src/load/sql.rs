//! The SQL of a table: from its files, or derived if a file is missing.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::direct::{CsvFiles, Failure};
use super::rows::Rows;
use super::{derive, typed};
use crate::Result;
use crate::compiled::DerivedColumn;
use crate::config::{Config, TableConfig, TableFormat};
use crate::error::Error;
use crate::sql_name::quote_name;

/// The statements that make and fill a table, `{table}` replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSql {
    /// Makes the table.
    pub create: SqlText,
    /// Empties the table, in case `create` inserted rows.
    pub clean: SqlText,
    /// Inserts a record: `?1` is the first mapped field.
    pub insert: SqlText,
    /// Notes for the user about derived column types, one line each.
    pub notes: Vec<String>,
    /// The columns of CSV files from which `create` or `insert` was derived.
    pub(super) columns: Option<Vec<DerivedColumn>>,
}

/// The SQL files of a table, which may be missing.
pub(super) struct SqlFiles {
    pub(super) create: Option<SqlText>,
    pub(super) clean: Option<SqlText>,
    pub(super) insert: Option<SqlText>,
}

/// One SQL text and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlText {
    /// The name of its file in the table's folder.
    pub name: &'static str,
    /// The text.
    pub text: String,
    /// The file, if there is one; otherwise the text was derived from the data.
    pub file: Option<PathBuf>,
}

impl SqlText {
    /// The name of the text in messages: its file, or the file that it replaces.
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

/// Returns the SQL with which a table is created and filled.
///
/// `create.sql` and `insert.sql` may be missing: they are derived from the header of the data file
/// and from its values, all of which are read for it.
///
/// # Errors
/// When a file cannot be read, or the data that a missing one is derived from.
pub fn table_sql(config: &Config, table: &TableConfig) -> Result<TableSql> {
    let files = SqlFiles::read(table)?;
    match files.is_complete() {
        true => Ok(files.sql(table, None)),
        false => Ok(files.sql(table, Some(derive(config, table)?))),
    }
}

impl SqlFiles {
    pub(super) fn read(table: &TableConfig) -> Result<Self> {
        Ok(Self {
            create: read(table, "create.sql")?,
            clean: read(table, "clean.sql")?,
            insert: read(table, "insert.sql")?,
        })
    }

    /// The names in all texts, in lower case, as far as they consist of letters, digits and `_`; a name in
    /// quotes counts as a whole as well.
    pub(super) fn words(&self) -> HashSet<String> {
        let texts = [&self.create, &self.clean, &self.insert]
            .into_iter()
            .flatten();
        let mut words = HashSet::new();
        for text in texts {
            let text = text.text.to_lowercase();
            let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.extend(parts.map(str::to_owned));
            let quoted = text.split(['"', '`', '[', ']', '\'']);
            words.extend(quoted.map(str::to_owned));
        }
        words
    }

    /// Whether no SQL has to be derived.
    pub(super) fn is_complete(&self) -> bool {
        self.create.is_some() && self.insert.is_some()
    }

    /// The SQL of the table, with what was derived if [`Self::is_complete`] is false.
    pub(super) fn sql(self, table: &TableConfig, derived: Option<Derived>) -> TableSql {
        let derived = derived.unwrap_or_default();
        let clean = self.clean.unwrap_or_else(|| {
            let text = format!("delete from {};\n", quote_name(&table.name));
            SqlText::derived("clean.sql", text)
        });
        TableSql {
            notes: match self.create {
                Some(_) => Vec::new(),
                None => derived.notes,
            },
            create: self
                .create
                .unwrap_or_else(|| SqlText::derived("create.sql", derived.create)),
            insert: self
                .insert
                .unwrap_or_else(|| SqlText::derived("insert.sql", derived.insert)),
            clean,
            columns: derived.columns,
        }
    }
}

/// SQL that was derived from rows.
#[derive(Default)]
pub(super) struct Derived {
    create: String,
    insert: String,
    notes: Vec<String>,
    /// Only of CSV files.
    columns: Option<Vec<DerivedColumn>>,
}

impl Derived {
    /// The SQL for columns of CSV files with these names.
    pub(super) fn new(
        table: &TableConfig,
        names: &[String],
        columns: Vec<DerivedColumn>,
        notes: Vec<String>,
    ) -> Self {
        Self {
            create: derive::create(&table.name, names, &columns),
            insert: derive::insert(&table.name, names, &columns),
            notes,
            columns: Some(columns),
        }
    }
}

/// Derives SQL from the rows of a table, all of which are read for it.
pub(super) fn derive(config: &Config, table: &TableConfig) -> Result<Derived> {
    let name = &table.name;
    let mut rows = Rows::open(config, table)?;
    Ok(match table.format {
        TableFormat::Csv => {
            derive::check_names(table, &rows)?;
            let columns = match CsvFiles::open(config, table)?.map(|files| files.columns()) {
                Some(Ok(columns)) => columns,
                Some(Err(Failure::Load(error) | Failure::Memory(error))) => return Err(error),
                Some(Err(Failure::NotDirect(_))) | None => derive::columns(&mut rows)?,
            };
            let notes = derive::notes(&columns, rows.files());
            Derived::new(table, rows.names(), derive::described(&columns), notes)
        }
        TableFormat::JsonLines
        | TableFormat::Mmdb
        | TableFormat::Parquet
        | TableFormat::Arrow
        | TableFormat::Sqlite => {
            let columns = typed::columns(table, &mut rows)?;
            Derived {
                create: typed::create(name, &columns),
                insert: typed::insert(name, &columns),
                notes: typed::notes(&columns),
                columns: None,
            }
        }
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
