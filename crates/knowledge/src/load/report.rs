//! Reports and progress of loads, for users.

use std::time::Duration;

/// The number of skipped rows that are reported with their reasons; further ones are only counted.
pub(super) const SKIPPED_KEPT_MAX: usize = 10;

/// A listener for the progress of a load.
pub trait Progress {
    /// Reports how much of a table was loaded. Called once for every few thousand rows, in practice at most
    /// some ten times per second, and at the end with `bytes_read == bytes_total`.
    fn advanced(&self, progress: LoadProgress<'_>);
}

/// How much of a table was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadProgress<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// Rows that were loaded.
    pub rows: u64,
    /// Bytes that were read from its files.
    pub bytes_read: u64,
    /// The size of its files in bytes.
    pub bytes_total: u64,
}

/// A listener that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advanced(&self, _progress: LoadProgress<'_>) {}
}

/// The report of a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// The tables in the order of the configuration.
    pub tables: Vec<TableReport>,
    /// The duration of the whole load.
    pub elapsed: Duration,
}

/// The report of a load for one table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableReport {
    /// The table's name.
    pub name: String,
    /// Rows inserted.
    pub rows: u64,
    /// The number of records that were left out, which happens only with `on_error = "skip"`.
    pub skipped_count: u64,
    /// The first of them.
    pub skipped: Vec<SkippedRow>,
    /// The columns of a derived table that got an index because the project looks rows up by them.
    pub indexes: Vec<String>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
    /// Why SQLite has loaded the table; `None` if it was loaded directly, on all cores.
    pub loaded_by_sqlite: Option<&'static str>,
    /// How many rows a reload has changed; `None` if all rows were loaded.
    pub changes: Option<RowChanges>,
    /// Why a reload has loaded all rows of a large table, instead of those that have changed.
    pub loaded_completely: Option<&'static str>,
    /// What became of the compiled form.
    pub compiled: Compiled,
    /// How long it took.
    pub elapsed: Duration,
}

/// How many rows differ from those of the last load. A row with another value, or at another place among
/// the others, counts as one that was removed and one that was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowChanges {
    /// Rows that the last load did not have.
    pub added: u64,
    /// Rows that only the last load had.
    pub removed: u64,
}

/// What a load did with the compiled form of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiled {
    /// There is none, and none was written.
    #[default]
    None,
    /// The rows were read from it; its size in bytes.
    Read(u64),
    /// It was written; its size in bytes.
    Written(u64),
    /// Why it could not be written.
    Failed(String),
}

/// A record that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedRow {
    /// The data file and the line on which it begins, counted from 1.
    pub place: String,
    /// Why it was left out.
    pub reason: String,
}

impl TableReport {
    pub(super) fn skip(&mut self, place: String, reason: String) {
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_KEPT_MAX {
            self.skipped.push(SkippedRow { place, reason });
        }
    }
}
