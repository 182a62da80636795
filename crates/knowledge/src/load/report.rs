//! What a load did, for people.

use std::time::Duration;

/// Skipped rows that are kept with their reasons; the rest is counted.
pub(super) const SKIPPED_KEPT_MAX: usize = 10;

/// Hears how far a load is.
pub trait Progress {
    /// So much of a table's data file was read; called a few times a second at most in practice,
    /// once for every few thousand rows, and at the end with `bytes_read == bytes_total`.
    fn advanced(&self, table: &str, bytes_read: u64, bytes_total: u64);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advanced(&self, _table: &str, _bytes_read: u64, _bytes_total: u64) {}
}

/// What a load did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// The tables in the order of the configuration.
    pub tables: Vec<TableReport>,
    /// How long all of it took.
    pub elapsed: Duration,
}

/// What a load did for one table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableReport {
    /// The table's name.
    pub name: String,
    /// Rows inserted.
    pub rows: u64,
    /// Records left out, which happens with `on_error = "skip"` only.
    pub skipped_count: u64,
    /// The first of them.
    pub skipped: Vec<SkippedRow>,
    /// The columns that got an index because the project looks rows up by them; of derived tables.
    pub indexes: Vec<String>,
    /// What someone should look at, a line each.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A record that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedRow {
    /// The line of the data file on which it begins, counted from 1.
    pub line: u64,
    /// Why it was left out.
    pub reason: String,
}

impl TableReport {
    pub(super) fn skip(&mut self, line: u64, reason: String) {
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_KEPT_MAX {
            self.skipped.push(SkippedRow { line, reason });
        }
    }
}
