//! Refuses Parquet and Arrow files in builds without them.

use std::path::Path;

use rusqlite::types::ValueRef;

use super::records::NextRecord;
use crate::Result;
use crate::config::TableConfig;
use crate::error::{Error, ErrorKind};

/// A reader that cannot be opened.
pub(super) enum ColumnarRows {}

impl ColumnarRows {
    pub(super) fn open(table: &TableConfig, file: &Path) -> Result<Self> {
        let message = format!(
            "{}: this program was built without Parquet and Arrow files; build it with the feature \
             parquet, or export the rows of table {:?} as CSV",
            file.display(),
            table.name
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    pub(super) fn names(&self) -> Vec<String> {
        match *self {}
    }

    pub(super) fn next(&mut self, _table: &TableConfig) -> Result<NextRecord> {
        match *self {}
    }

    pub(super) fn value(&self, _index: usize) -> ValueRef<'_> {
        match *self {}
    }

    pub(super) fn row(&self) -> u64 {
        match *self {}
    }

    pub(super) fn progress(&self) -> f64 {
        match *self {}
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        match *self {}
    }
}
