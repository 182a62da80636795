//! From a configuration to a sealed store: each table made, cleaned, filled and counted.
//!
//! A load fills a new store. If anything fails, the store is dropped before it was visible, so the
//! current one is not affected; transactions only serve memory usage and speed here, not
//! consistency.

mod blocks;
mod changes;
#[cfg_attr(not(feature = "parquet"), path = "columnar_absent.rs")]
mod columnar;
mod compiled;
mod create_table;
mod delimiter;
mod derive;
mod direct;
mod document;
mod duplicates;
mod errors;
mod fuzz;
mod insert;
mod json_lines;
mod kept;
mod keys;
mod mmdb;
mod plain_insert;
mod quotes;
mod records;
mod report;
mod rows;
mod source;
mod sql;
mod sqlite;
#[cfg(test)]
mod tests;
mod typed;
mod unsupported;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Instant;

use rusqlite::Connection;

use self::compiled::CompiledTable;
use self::direct::{CsvFiles, Failure, Limits, Loaded, MEMORY};
pub use self::fuzz::{csv_mapping_fuzz, json_lines_fuzz, mmdb_fuzz};
use self::insert::Insert;
pub(crate) use self::kept::KeptTables;
use self::kept::{BeforeLoad, KeptTable};
use self::keys::{DerivedTable, add_indexes};
use self::plain_insert::{PlainInsert, Reason};
pub use self::report::{
    Compiled, LoadProgress, LoadReport, NoProgress, Progress, RowChanges, SkippedRow, TableReport,
};
use self::rows::Rows;
use self::sql::SqlFiles;
pub use self::sql::{SqlText, TableSql, table_sql};
use crate::Result;
use crate::compiled::{CompiledIndexes, CompiledTables, Selection};
use crate::config::{Config, OnError, SqliteCopy, TableConfig, TableFormat};
use crate::databases::Databases;
use crate::download::Pending;
use crate::error::Error;
use crate::first_of;
use crate::plan::Tables;
use crate::store::{StoreBuilder, Undo};
use crate::table::PackedTables;

/// A statement that will be queried, for [`Builder::statements`](crate::Builder::statements).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedStatement {
    /// The statement.
    pub sql: String,
    /// Whether all rows of its answers are used. Otherwise the first one is, and keys with several
    /// rows cause a warning.
    pub takes_all_rows: bool,
}

/// The result of a load.
pub(crate) struct LoadedTables {
    pub(crate) databases: Databases,
    /// Has the indexes that the load has needed.
    pub(crate) tables: Tables,
    pub(crate) kept: KeptTables,
    pub(crate) report: LoadReport,
}

impl LoadedTables {
    /// Reports why all rows of the large tables were loaded.
    fn set_loaded_completely(&mut self, why: Reason) {
        for table in &mut self.report.tables {
            let kept = self.kept.get(&table.name);
            table.loaded_completely = kept.is_some_and(KeptTable::is_large).then_some(why);
        }
    }
}

/// What a load takes from the last one.
#[derive(Clone, Copy)]
pub(crate) struct LastLoad<'a> {
    pub(crate) kept: &'a KeptTables,
    pub(crate) tables: &'a Tables,
}

impl<'a> LastLoad<'a> {
    /// A table whose rows the next load may share. If all rows are loaded, why, unless the table is small or
    /// new.
    fn similar(
        self,
        name: &str,
        now: &BeforeLoad,
    ) -> std::result::Result<&'a KeptTable, Option<Reason>> {
        let kept = self.kept.get(name).ok_or(None)?;
        let why = if !kept.has_settings(now) {
            "its SQL or its settings have changed"
        } else if self.tables.has_scan_order_index(name) {
            // Such an index would need a copy of a table with changes.
            "a statement needs an index of ranges, networks, names, paths or patterns"
        } else {
            return Ok(kept);
        };
        Err(kept.is_large().then_some(why))
    }
}

/// The warning of [`OnChange::Warn`].
const CHANGED_WHILE_LOADED: &str = "a file of the table has changed while it was loaded, so the types of its \
     columns, which are derived, may not fit; write new versions beside it and rename them, or write create.sql \
     and insert.sql";

/// What the load of a table needs beside the table.
struct Loading<'a> {
    config: &'a Config,
    /// Makes the tables, and fills those that are not packed.
    connection: &'a Connection,
    progress: &'a dyn Progress,
    /// The bytes of the packed tables that are loaded already.
    memory_used: u64,
    /// Whether the SQL of another table may read or change the table, for which SQLite must have its rows.
    is_named: bool,
}

/// Loads all enabled tables. Derived tables get an index for each column by which
/// one of the project's statements looks rows up.
pub(crate) fn load(
    config: &Config,
    statements: &[UsedStatement],
    progress: &dyn Progress,
    last: Option<LastLoad<'_>>,
) -> Result<LoadedTables> {
    load_with(config, statements, Selection::Large, progress, last)
}

/// Loads all enabled tables, and compiles those that are selected.
fn load_with(
    config: &Config,
    statements: &[UsedStatement],
    selection: Selection,
    progress: &dyn Progress,
    last: Option<LastLoad<'_>>,
) -> Result<LoadedTables> {
    let (mut shared, mut on_change) = (last, OnChange::Stop);
    loop {
        let loaded = load_once(config, statements, selection, progress, shared, on_change);
        match loaded {
            Ok(mut loaded) => {
                if last.is_some() && shared.is_none() {
                    loaded.set_loaded_completely(MEMORY);
                }
                return Ok(loaded);
            }
            Err(LoadFailure::RemovedRows(_)) if shared.is_some() => shared = None,
            Err(LoadFailure::FileChanged) => on_change = OnChange::Warn,
            Err(LoadFailure::Error(error) | LoadFailure::RemovedRows(error)) => return Err(error),
        }
    }
}

/// Why a load has failed, or has to be repeated.
#[derive(Debug)]
enum LoadFailure {
    Error(Error),
    /// The tables need too much memory, perhaps because one of them shares rows with its last version, and so
    /// also keeps rows that were removed.
    RemovedRows(Error),
    /// A file has changed, see [`OnChange::Stop`].
    FileChanged,
}

impl From<Error> for LoadFailure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What happens if a file changes between the two times that it is read, for the types of the columns and
/// for the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnChange {
    /// The load stops, as the types may not be those of the rows.
    Stop,
    /// The load warns: the file is probably being written.
    Warn,
}

/// As [`load_with`], once.
fn load_once(
    config: &Config,
    statements: &[UsedStatement],
    selection: Selection,
    progress: &dyn Progress,
    last: Option<LastLoad<'_>>,
    on_change: OnChange,
) -> std::result::Result<LoadedTables, LoadFailure> {
    let begun = Instant::now();
    let builder = StoreBuilder::new()?;
    let mut report = LoadReport::default();
    builder.tune_for_loading(match config.load.on_error {
        OnError::Fail => Undo::Never,
        OnError::Skip => Undo::Statement,
    })?;
    let compiled = CompiledTables::new(config.compiled.as_deref(), selection);
    let mut indexes = CompiledIndexes::default();
    let mut packed = PackedTables::default();
    let (mut kept, mut unchanged) = (KeptTables::default(), Vec::new());
    let mut similar_names = Vec::new();
    let mut derived = Vec::new();
    let mut downloads = Vec::new();
    let sqls = config.enabled_tables().map(SqlFiles::read);
    let sqls: Vec<SqlFiles> = sqls.collect::<Result<_>>()?;
    let named = named_by_others(config, &sqls);
    for (table, sql) in config.enabled_tables().zip(sqls) {
        let (table, warning) = fetched(table, report.tables.len(), &mut downloads)?;
        let loading = Loading {
            config,
            connection: builder.connection(),
            progress,
            memory_used: packed.size() as u64,
            is_named: named.contains(&table.name),
        };
        let before = BeforeLoad::of(config, &table, &sql);
        let last = last.filter(|_| !loading.is_named);
        let same = last.and_then(|last| last.kept.unchanged(&table.name, &before));
        let similar = match last {
            Some(last) => last.similar(&table.name, &before),
            None => Err(None),
        };
        let (loaded, sql) = match same {
            Some(same) => {
                run_scripts(&loading, &table, &same.sql)?;
                let Loaded {
                    table,
                    unique_indexes,
                } = same.loaded.clone();
                packed.insert(&same.report.name, table, unique_indexes);
                unchanged.push(same.report.name.clone());
                kept.keep_again(same);
                let report = TableReport {
                    changes: Some(RowChanges::default()),
                    loaded_completely: None,
                    ..same.report.clone()
                };
                (report, same.sql.clone())
            }
            None => {
                let compiled = match loading.is_named {
                    true => None,
                    false => CompiledTable::open(config, &table, &sql, &compiled),
                };
                // A database describes its columns itself, and changes at any time.
                let is_derived = !sql.is_complete() && table.format != TableFormat::Sqlite;
                let loaded = load_table(&loading, &table, sql, compiled.as_ref(), similar.ok());
                let (mut loaded, sql, rows) = loaded.map_err(|error| match error {
                    LoadFailure::RemovedRows(error) if !packed.has_changed_table() => error.into(),
                    error => error,
                })?;
                if is_derived && before.has_changed() {
                    if on_change == OnChange::Stop {
                        return Err(LoadFailure::FileChanged);
                    }
                    loaded.warnings.push(CHANGED_WHILE_LOADED.to_owned());
                }
                if let Err(why) = similar {
                    loaded.loaded_completely = why;
                }
                loaded.warnings.extend(warning);
                if let Some(rows) = rows {
                    kept.keep(before, sql.clone(), loaded.clone(), rows.clone());
                    if let (Some(compiled), true) = (compiled, rows.can_be_compiled()) {
                        indexes.insert(compiled.file);
                    }
                    packed.insert(&table.name, rows.table, rows.unique_indexes);
                    similar_names.extend(similar.ok().map(|_| table.name.clone()));
                }
                (loaded, sql)
            }
        };
        if let Some(max) = config.local.table_memory_max
            && packed.size() as u64 > max
        {
            let error = Error::table_memory(&table, packed.size() as u64, max);
            return Err(match packed.has_changed_table() {
                true => LoadFailure::RemovedRows(error),
                false => error.into(),
            });
        }
        if sql.create.file.is_none() {
            derived.push(DerivedTable {
                name: table.name.clone(),
                report: report.tables.len(),
            });
        }
        report.tables.push(loaded);
    }
    let statements = &expanded(config, statements);
    let reports = &mut report.tables;
    add_indexes(builder.connection(), config, statements, &derived, reports)?;
    let store = builder.seal()?;
    let connection = store.reader()?;
    let pattern_memory_max = config.local.pattern_memory_max;
    let tables =
        Tables::with_compiled(store.reader()?, packed.clone(), indexes, pattern_memory_max);
    if let Some(last) = last {
        tables.adopt(last.tables, &unchanged);
        similar_names
            .iter()
            .for_each(|name| tables.share(last.tables, name));
    }
    duplicates::add_warnings(&connection, &tables, config, statements, reports);
    drop(connection);
    for (index, download) in downloads {
        if let Err(error) = download.commit() {
            let warning = format!("the copy of the download was not written: {error}");
            report.tables[index].warnings.push(warning);
        }
    }
    report.elapsed = begun.elapsed();
    let databases = Databases::new(store, packed, config.local.sqlite_copy);
    if config.local.sqlite_copy == SqliteCopy::Start {
        databases.with_all()?;
    }
    Ok(LoadedTables {
        databases,
        tables,
        kept,
        report,
    })
}

/// The tables whose names occur in the SQL of other tables.
fn named_by_others(config: &Config, sqls: &[SqlFiles]) -> HashSet<String> {
    let names = || config.enabled_tables().map(|table| &table.name);
    let words: Vec<_> = names().zip(sqls.iter().map(SqlFiles::words)).collect();
    let is_named = |name: &&String| {
        let word = name.to_lowercase();
        let mut others = words.iter().filter(|(other, _)| other != name);
        others.any(|(_, words)| words.contains(&word))
    };
    names().filter(is_named).cloned().collect()
}

/// The statements, with those that read a name of `[[first_of]]` replaced by one for each table.
fn expanded(config: &Config, statements: &[UsedStatement]) -> Vec<UsedStatement> {
    let expanded = statements.iter().flat_map(|statement| {
        let members = first_of::members(&config.first_of, &statement.sql);
        let sqls = members.unwrap_or_else(|| vec![statement.sql.clone()]);
        sqls.into_iter().map(|sql| UsedStatement {
            sql,
            takes_all_rows: statement.takes_all_rows,
        })
    });
    expanded.collect()
}

/// Downloads the file of a table if it is one at an address. The table that is returned reads the
/// download, which becomes the copy when all tables are loaded.
fn fetched<'a>(
    table: &'a TableConfig,
    index: usize,
    downloads: &mut Vec<(usize, Pending)>,
) -> Result<(Cow<'a, TableConfig>, Option<String>)> {
    let Some(url) = &table.url else {
        return Ok((Cow::Borrowed(table), None));
    };
    let found = url.fetch()?;
    downloads.extend(found.pending.map(|pending| (index, pending)));
    let mut table = table.clone();
    table.url = Some(url.at(found.path));
    Ok((Cow::Owned(table), found.warning))
}

/// Loads all enabled tables and drops them, to check that they load; returns the report.
///
/// # Errors
/// The errors of a load.
pub fn try_load(config: &Config, progress: &dyn Progress) -> Result<LoadReport> {
    load(config, &[], progress, None).map(|loaded| loaded.report)
}

/// Writes the compiled form of all tables that are loaded without SQLite, whatever their size, unless it
/// is that of their data already, and the indexes that these statements need; returns the report of the
/// load.
///
/// # Errors
/// The errors of a load. A file that cannot be written is not an error here: see
/// [`TableReport::compiled`]. A statement that cannot be prepared is ignored.
pub fn compile(
    config: &Config,
    statements: &[UsedStatement],
    progress: &dyn Progress,
) -> Result<LoadReport> {
    let loaded = load_with(config, statements, Selection::All, progress, None)?;
    let connection = loaded.databases.base().store.reader()?;
    for statement in expanded(config, statements) {
        compiled::build_indexes(config, &statement.sql, &connection, &loaded.tables);
    }
    Ok(loaded.report)
}

/// Makes a table without rows.
fn run_scripts(loading: &Loading<'_>, table: &TableConfig, sql: &TableSql) -> Result<()> {
    for script in [&sql.create, &sql.clean] {
        let executed = loading.connection.execute_batch(&script.text);
        executed.map_err(|source| Error::script(table, script, source))?;
    }
    Ok(())
}

/// Loads a table; also returns its SQL, and its rows if they are not in SQLite. `last` is the table of the
/// last load, with the same settings.
fn load_table(
    loading: &Loading<'_>,
    table: &TableConfig,
    sql: SqlFiles,
    compiled: Option<&CompiledTable<'_>>,
    last: Option<&KeptTable>,
) -> std::result::Result<(TableReport, TableSql, Option<Loaded>), LoadFailure> {
    let Loading {
        config,
        connection,
        progress,
        ..
    } = *loading;
    let begun = Instant::now();
    let mut report = TableReport {
        name: table.name.clone(),
        ..TableReport::default()
    };
    let (found, derived) = match compiled.and_then(|it| it.read(config, &sql)) {
        Some((found, derived)) => (Some(found), derived),
        None if sql.is_complete() => (None, None),
        None => (None, Some(sql::derive(config, table)?)),
    };
    let sql = sql.sql(table, derived);
    report.warnings.extend(sql.notes.iter().cloned());
    run_scripts(loading, table, &sql)?;
    let mut rows = Rows::open(config, table)?;
    let bytes_total = rows.bytes_total();
    let mut insert = Insert::prepare(connection, table, &sql.insert, rows.width())?;
    let plain_insert = match loading.is_named {
        true => Err("the SQL of another table names it"),
        false => PlainInsert::of(connection, &table.name, &sql.insert.text),
    };
    let found = found.filter(|found| {
        plain_insert
            .as_ref()
            .is_ok_and(|plain_insert| found.is_of(plain_insert))
    });
    let loaded = match (found, &plain_insert) {
        (Some(found), _) => Ok(found.into_loaded(&mut report)),
        (None, plain_insert) => {
            let last = last.map(|last| &last.loaded);
            let loaded = load_directly(loading, table, plain_insert.as_ref(), last, &mut report)?;
            if let (Some(compiled), Ok(plain_insert), Ok(loaded)) =
                (compiled, plain_insert, &loaded)
                && loaded.can_be_compiled()
            {
                compiled.write(plain_insert, loaded, &sql, &mut report);
            }
            loaded
        }
    };
    let packed = match loaded {
        Ok(packed) => Some(packed),
        Err(why) => {
            report.loaded_by_sqlite = Some(why);
            insert.run(config.load, &mut rows, &mut report, &|rows, row_count| {
                let bytes_read = rows.bytes_read();
                progress.advanced(LoadProgress {
                    table: &table.name,
                    rows: row_count,
                    bytes_read,
                    bytes_total: bytes_total.max(bytes_read),
                });
            })?;
            report.warnings.append(&mut rows.warnings());
            None
        }
    };
    let bytes_read = bytes_total.max(rows.bytes_read());
    progress.advanced(LoadProgress {
        table: &table.name,
        rows: report.rows,
        bytes_read,
        bytes_total: bytes_read,
    });
    judge_row_count(table, &mut report)?;
    report.elapsed = begun.elapsed();
    drop(insert);
    Ok((report, sql, packed))
}

/// Loads a table without SQLite, or returns why SQLite must load it.
fn load_directly(
    loading: &Loading<'_>,
    table: &TableConfig,
    plain_insert: std::result::Result<&PlainInsert, &Reason>,
    last: Option<&Loaded>,
    report: &mut TableReport,
) -> std::result::Result<std::result::Result<Loaded, Reason>, LoadFailure> {
    let config = loading.config;
    let Some(files) = CsvFiles::open(config, table)? else {
        return Ok(Err(match table.format {
            TableFormat::Csv => "the files have no records, or different fields",
            _ => "it is not a table of CSV files",
        }));
    };
    let plain_insert = match plain_insert {
        Ok(plain_insert) => plain_insert,
        Err(why) => return Ok(Err(why)),
    };
    let mut loaded = TableReport::default();
    let limits = Limits {
        on_error: config.load.on_error,
        memory_max: config.local.table_memory_max,
        memory_used: loading.memory_used,
    };
    let advanced = |progressed: LoadProgress<'_>| loading.progress.advanced(progressed);
    let packed = files.load(plain_insert, limits, last, &mut loaded, &advanced);
    match packed {
        Ok(packed) => {
            report.rows = loaded.rows;
            report.changes = loaded.changes;
            report.loaded_completely = loaded.loaded_completely;
            report.skipped = loaded.skipped;
            report.skipped_count = loaded.skipped_count;
            report.warnings.append(&mut loaded.warnings);
            Ok(Ok(packed))
        }
        Err(Failure::NotDirect(why)) => Ok(Err(why)),
        // A row before the invalid record may violate a key; the first error of the file is reported.
        Err(Failure::Load(_)) if plain_insert.has_keys() => Ok(Err("a record is invalid")),
        Err(Failure::Load(error)) => Err(error.into()),
        Err(Failure::Memory(error)) => Err(LoadFailure::RemovedRows(error)),
    }
}

fn judge_row_count(table: &TableConfig, report: &mut TableReport) -> Result<()> {
    let rows = report.rows;
    if let Some(min) = table.expected_rows.min
        && rows < min
    {
        return Err(Error::too_few_rows(table, rows, min));
    }
    if let Some(max) = table.expected_rows.max
        && rows > max
    {
        let warning = format!("{rows} rows, and expected_rows.max is {max}");
        report.warnings.push(warning);
    }
    if report.skipped_count > 0 {
        let warning = format!("{} records skipped", report.skipped_count);
        report.warnings.push(warning);
    }
    Ok(())
}
