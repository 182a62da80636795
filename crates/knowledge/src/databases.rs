//! The SQLite databases of one generation.
//!
//! The base has the schema of all tables, and the rows of those that SQLite has loaded. The rows of packed
//! tables are copied only when a statement needs them, into a further database, because a database that is
//! read does not change.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_value::Text;
use rusqlite::params_from_iter;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::Result;
use crate::config::SqliteCopy;
use crate::error::Error;
use crate::lock::lock;
use crate::sql_name::quote_name;
use crate::store::{Store, StoreBuilder, Undo};
use crate::table::{PackedTable, PackedTables};

/// The databases.
pub(crate) struct Databases {
    base: Arc<Database>,
    packed: PackedTables,
    mode: SqliteCopy,
    /// The one with most tables.
    newest: Mutex<Arc<Database>>,
    /// Held while a database is made.
    making: Mutex<()>,
}

/// A database with the rows of some packed tables.
pub(crate) struct Database {
    pub(crate) store: Store,
    /// In lower case.
    tables: BTreeSet<Text>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.tables).finish()
    }
}

impl Database {
    /// Whether it has the rows of these packed tables.
    pub(crate) fn has(&self, tables: &[Text]) -> bool {
        tables.iter().all(|table| self.tables.contains(table))
    }
}

impl Databases {
    pub(crate) fn new(store: Store, packed: PackedTables, mode: SqliteCopy) -> Self {
        let base = Arc::new(Database {
            store,
            tables: BTreeSet::new(),
        });
        Self {
            newest: Mutex::new(Arc::clone(&base)),
            base,
            packed,
            mode,
            making: Mutex::new(()),
        }
    }

    /// The database with the schema of all tables.
    pub(crate) fn base(&self) -> &Arc<Database> {
        &self.base
    }

    pub(crate) fn packed(&self) -> &PackedTables {
        &self.packed
    }

    /// Whether statements that need a copy of a packed table are refused.
    pub(crate) fn never_copies(&self) -> bool {
        self.mode == SqliteCopy::Never
    }

    /// The size of all databases in bytes, without those that only sessions use that did not query since.
    pub(crate) fn size(&self) -> Result<u64> {
        let newest = Arc::clone(&lock(&self.newest));
        let copied = match Arc::ptr_eq(&newest, &self.base) {
            true => 0,
            false => newest.store.size()?,
        };
        Ok(self.base.store.size()? + copied)
    }

    /// Which of the packed tables a statement reads, in lower case.
    pub(crate) fn packed_tables_of(&self, names: Vec<String>) -> Box<[Text]> {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        let packed: BTreeSet<Text> = names
            .filter(|name| self.packed.get(name).is_some())
            .map(Text::from)
            .collect();
        packed.into_iter().collect()
    }

    /// A database with the rows of these packed tables. If there is none, it is made, which takes about as
    /// long as SQLite takes to load the tables.
    ///
    /// # Errors
    /// When SQLite cannot store the rows, as for lack of memory.
    pub(crate) fn with(&self, tables: &[Text]) -> Result<Arc<Database>> {
        if let Some(found) = self.find(tables) {
            return Ok(found);
        }
        let _making = lock(&self.making);
        // Another thread may have made it meanwhile.
        if let Some(found) = self.find(tables) {
            return Ok(found);
        }
        let newest = Arc::clone(&lock(&self.newest));
        let made = Arc::new(self.copy(&newest, tables)?);
        *lock(&self.newest) = Arc::clone(&made);
        Ok(made)
    }

    /// The database with the rows of all tables, made if there is none.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub(crate) fn with_all(&self) -> Result<Arc<Database>> {
        self.with(&self.packed.names().map(Text::from).collect::<Vec<Text>>())
    }

    fn find(&self, tables: &[Text]) -> Option<Arc<Database>> {
        let newest = lock(&self.newest);
        newest.has(tables).then(|| Arc::clone(&newest))
    }

    /// Makes a database with the rows of these packed tables in the background, for later queries.
    pub(crate) fn start(self: &Arc<Self>, tables: &[Text]) {
        if self.find(tables).is_some() {
            return;
        }
        let (databases, tables) = (Arc::clone(self), tables.to_vec());
        let spawned = thread::Builder::new()
            .name("lookaside-copy".into())
            .spawn(move || {
                // The query reports the error.
                drop(databases.with(&tables));
            });
        // Without a thread, the first query makes it.
        drop(spawned);
    }

    /// A copy of a database, with the rows of more tables.
    fn copy(&self, of: &Database, tables: &[Text]) -> Result<Database> {
        let begun = Instant::now();
        let builder = StoreBuilder::new()?;
        of.store.copy_into(&builder)?;
        builder.tune_for_loading(Undo::Never)?;
        let mut names = of.tables.clone();
        for name in tables {
            if names.insert(name.clone())
                && let Some(table) = self.packed.get(name)
            {
                tracing::info!(
                    table = name.as_str(),
                    rows = table.row_count(),
                    "SQLite copies a table for statements that have no native plan"
                );
                copy_rows(&builder, name, table).map_err(|source| {
                    Error::sqlite(
                        format!("table {name:?}: copying its rows to SQLite"),
                        source,
                    )
                })?;
            }
        }
        let store = builder.seal()?;
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(seconds, "the copy for SQLite is complete");
        Ok(Database {
            store,
            tables: names,
        })
    }
}

/// The time between two entries of the log about a copy.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Rows between two readings of the clock.
const CLOCK_INTERVAL: usize = 1 << 14;

/// Inserts the rows of a table. Its indexes are made afterwards, which takes less time.
fn copy_rows(builder: &StoreBuilder, name: &str, table: &PackedTable) -> rusqlite::Result<()> {
    let connection = builder.connection();
    let indexes: Vec<(String, String)> = {
        let mut statement = connection.prepare(
            "select name, sql from sqlite_schema \
             where type = 'index' and tbl_name = ?1 collate nocase and sql is not null",
        )?;
        let indexes = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        indexes.collect::<rusqlite::Result<_>>()?
    };
    for (index, _) in &indexes {
        connection.execute_batch(&format!("drop index main.{}", quote_name(index)))?;
    }
    let quoted = quote_name(name);
    let width = {
        let statement = connection.prepare(&format!("select * from main.{quoted}"))?;
        statement.column_count()
    };
    let params = vec!["?"; width].join(", ");
    connection.execute_batch("begin")?;
    {
        let sql = format!("insert into main.{quoted} values ({params})");
        let mut insert = connection.prepare(&sql)?;
        let columns: Vec<Option<usize>> = (0..width).map(Some).collect();
        let (mut copied, row_count) = (0_usize, table.row_count());
        let mut shown_at = Instant::now();
        table.each(&columns, |values: &[ValueRef<'_>]| {
            let values = values.iter().map(|value| ToSqlOutput::Borrowed(*value));
            insert.execute(params_from_iter(values))?;
            copied += 1;
            if copied.is_multiple_of(CLOCK_INTERVAL) && shown_at.elapsed() >= PROGRESS_INTERVAL {
                shown_at = Instant::now();
                tracing::info!(table = name, copied, row_count, "SQLite copies a table");
            }
            Ok::<_, rusqlite::Error>(())
        })?;
    }
    connection.execute_batch("commit")?;
    for (_, sql) in &indexes {
        connection.execute_batch(sql)?;
    }
    Ok(())
}
