//! Tables of the last load: the next load takes those whose files have not changed as they are, and shares
//! rows with the others.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::changes::is_large;
use super::compiled::settings;
use super::direct::Loaded;
use super::report::TableReport;
use super::sql::{SqlFiles, TableSql};
use crate::config::{Config, TableConfig};
use crate::file_stamp::{AskServers, FileStamps};

/// How long before a load a file must have been changed, so that its stamp shows each later change.
const STAMP_AGE_MIN: Duration = Duration::from_secs(2);

/// The tables of a load, by their names.
#[derive(Default)]
pub(crate) struct KeptTables(HashMap<String, KeptTable>);

/// A table that was loaded without SQLite.
#[derive(Clone)]
pub(super) struct KeptTable {
    /// `None` if the files may have changed without another stamp.
    stamps: Option<FileStamps>,
    /// What its rows depend on, apart from its files.
    settings: String,
    pub(super) sql: TableSql,
    pub(super) report: TableReport,
    pub(super) loaded: Loaded,
}

/// The state of the files of a table before they are read.
pub(super) struct BeforeLoad {
    stamps: FileStamps,
    settings: String,
    time: SystemTime,
}

impl BeforeLoad {
    pub(super) fn of(config: &Config, table: &TableConfig, sql: &SqlFiles) -> Self {
        Self {
            stamps: FileStamps::of(table.watched()),
            settings: format!("{} {:?}", settings(config, table, sql), table.expected_rows),
            time: SystemTime::now(),
        }
    }
}

impl BeforeLoad {
    /// Whether the files have changed since.
    pub(super) fn has_changed(&self) -> bool {
        self.stamps.refreshed(AskServers::No) != self.stamps
    }
}

impl KeptTable {
    /// Whether its SQL and settings are the same.
    pub(super) fn has_settings(&self, now: &BeforeLoad) -> bool {
        self.settings == now.settings
    }

    /// As [`is_large`].
    pub(super) fn is_large(&self) -> bool {
        is_large(&self.loaded.table)
    }
}

impl KeptTables {
    /// The table, if nothing that its rows depend on has changed since it was loaded.
    pub(super) fn unchanged(&self, name: &str, now: &BeforeLoad) -> Option<&KeptTable> {
        let kept = self.0.get(name)?;
        let is_same = kept.stamps.as_ref() == Some(&now.stamps) && kept.settings == now.settings;
        is_same.then_some(kept)
    }

    /// The table, whatever has changed since it was loaded.
    pub(super) fn get(&self, name: &str) -> Option<&KeptTable> {
        self.0.get(name)
    }

    /// Keeps a table for the next load.
    pub(super) fn keep(
        &mut self,
        before: BeforeLoad,
        sql: TableSql,
        report: TableReport,
        loaded: Loaded,
    ) {
        let time = before.time.checked_sub(STAMP_AGE_MIN);
        let is_certain = time.is_some_and(|time| before.stamps.are_older_than(time));
        let kept = KeptTable {
            stamps: is_certain.then_some(before.stamps),
            settings: before.settings,
            sql,
            report,
            loaded,
        };
        self.0.insert(kept.report.name.clone(), kept);
    }

    /// Keeps a table that is unchanged for one more load.
    pub(super) fn keep_again(&mut self, kept: &KeptTable) {
        self.0.insert(kept.report.name.clone(), kept.clone());
    }
}
