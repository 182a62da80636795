//! The compiled form of a table of CSV files, which takes the place of reading their records.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::derive;
use super::direct::Loaded;
use super::plain_insert::PlainInsert;
use super::report::{Compiled, SkippedRow, TableReport};
use super::rows::{Rows, files_of};
use super::sql::{Derived, SqlFiles, TableSql};
use crate::compiled::{CompiledFile, CompiledForm, CompiledTables, Key, StoredReport};
use crate::config::{Config, TableConfig, TableFormat};
use crate::file_stamp::{AskServers, FileStamps};
use crate::plan::{LookupPlan, Tables};
use crate::provider::{LocalTables, Names, RouteTarget, route};
use crate::scan::scan;

/// A table that is compiled.
pub(super) struct CompiledTable<'a> {
    table: &'a TableConfig,
    files: Vec<PathBuf>,
    /// Those of the files before they are hashed.
    stamps: FileStamps,
    /// Everything that rows depend on, apart from the files.
    settings: String,
    pub(super) file: CompiledFile,
}

/// Everything that the rows of a table depend on, apart from its files.
pub(super) fn settings(config: &Config, table: &TableConfig, sql: &SqlFiles) -> String {
    let texts = [&sql.create, &sql.clean, &sql.insert].map(|sql| sql.as_ref().map(|it| &it.text));
    format!(
        "{:?} {:?} {:?} {:?} {texts:?}",
        table.name,
        table.columns,
        config.csv_of(table),
        config.load.on_error,
    )
}

/// The compiled form of a table, and its size in bytes.
pub(super) struct Found {
    form: CompiledForm,
    size: u64,
}

impl<'a> CompiledTable<'a> {
    /// `None` if the table is not to be compiled, or its files cannot be read, which the load reports.
    pub(super) fn open(
        config: &Config,
        table: &'a TableConfig,
        sql: &SqlFiles,
        tables: &CompiledTables,
    ) -> Option<Self> {
        if table.format != TableFormat::Csv {
            return None;
        }
        let files = files_of(table).ok()?;
        let settings = settings(config, table, sql);
        let sizes = files.iter().map(|file| fs::metadata(table.readable(file)));
        let size = sizes.map(|it| it.map_or(0, |it| it.len())).sum();
        let stamps = FileStamps::of(table.watched());
        let key = || key(table, &files, &settings);
        Some(Self {
            file: tables.file(&table.name, size, key)?,
            table,
            files,
            stamps,
            settings,
        })
    }

    /// The compiled form, and what was derived from the data when it was written.
    pub(super) fn read(&self, config: &Config, sql: &SqlFiles) -> Option<(Found, Option<Derived>)> {
        let (form, size) = self.file.read()?;
        let report = &form.report;
        if !report.is_of(&self.shown_files()) || report.derived.is_some() == sql.is_complete() {
            return None;
        }
        let derived = match &report.derived {
            None => None,
            Some(columns) => {
                let rows = Rows::open(config, self.table).ok()?;
                let is_of_rows = columns.len() == rows.width()
                    && columns.iter().all(derive::is_known)
                    && derive::check_names(self.table, &rows).is_ok();
                let (columns, notes) = (columns.clone(), report.notes.clone());
                is_of_rows.then(|| Some(Derived::new(self.table, rows.names(), columns, notes)))?
            }
        };
        Some((Found { form, size }, derived))
    }

    /// Writes the compiled form of a table that was loaded, unless its files have changed meanwhile.
    pub(super) fn write(
        &self,
        plain_insert: &PlainInsert,
        loaded: &Loaded,
        sql: &TableSql,
        report: &mut TableReport,
    ) {
        // The data may be the same again, but not that which was loaded, or changed within a tick of the clock
        // of the file system.
        if self.stamps.refreshed(AskServers::No) != self.stamps
            || key(self.table, &self.files, &self.settings).ok() != Some(self.file.key())
        {
            return;
        }
        let skipped = report.skipped.iter();
        let form = CompiledForm {
            table: loaded.table.clone(),
            column_count: plain_insert.width(),
            unique_indexes: loaded.unique_indexes.clone(),
            report: StoredReport {
                files: self.shown_files(),
                derived: sql.columns.clone(),
                notes: sql.notes.clone(),
                warnings: report.warnings[sql.notes.len()..].to_vec(),
                skipped_count: report.skipped_count,
                skipped: skipped
                    .map(|row| (row.place.clone(), row.reason.clone()))
                    .collect(),
            },
        };
        report.compiled = match self.file.write(&form) {
            Ok(size) => Compiled::Written(size),
            Err(error) => Compiled::Failed(error.to_string()),
        };
    }

    /// The data files in messages.
    fn shown_files(&self) -> Vec<String> {
        let files = self.files.iter();
        files.map(|file| file.display().to_string()).collect()
    }
}

impl Found {
    /// Whether the rows are as the SQL of the table makes them. They are, unless the file was forged.
    pub(super) fn is_of(&self, plain_insert: &PlainInsert) -> bool {
        let unique = self.form.unique_indexes.iter().map(|(columns, _)| columns);
        self.form.column_count == plain_insert.width()
            && self.form.table.row_id() == plain_insert.row_id
            && unique.eq(&plain_insert.unique)
    }

    /// The rows; adds what their load has found to the report, except for notes.
    pub(super) fn into_loaded(self, report: &mut TableReport) -> Loaded {
        let stored = self.form.report;
        report.rows = self.form.table.row_count() as u64;
        report.skipped_count = stored.skipped_count;
        let skipped = stored.skipped.into_iter();
        report.skipped = skipped
            .map(|(place, reason)| SkippedRow { place, reason })
            .collect();
        report.warnings.extend(stored.warnings);
        report.compiled = Compiled::Read(self.size);
        Loaded {
            table: self.form.table,
            unique_indexes: self.form.unique_indexes,
        }
    }
}

/// Builds the indexes that a statement needs, which are then written.
pub(super) fn build_indexes(config: &Config, sql: &str, connection: &Connection, tables: &Tables) {
    let names = Names::of(Some(config));
    let local_tables = config.enabled_tables().map(|table| table.name.clone());
    let Ok(found) = route(sql, &names, &LocalTables::new(local_tables)) else {
        return;
    };
    let sql = found.sql.as_deref().unwrap_or(sql);
    if found.target == RouteTarget::Local
        && let Ok(params) = scan(sql, names.dialect(found.target))
        // Plans are made for valid statements only.
        && connection.prepare(sql).is_ok()
    {
        LookupPlan::new(sql, &params, tables);
    }
}

fn key(table: &TableConfig, files: &[PathBuf], settings: &str) -> io::Result<Key> {
    // The copy of a download has another name each time until it is complete.
    let files: Vec<(&Path, &Path)> = files.iter().map(|it| (&**it, table.readable(it))).collect();
    Key::of(&files, settings)
}
