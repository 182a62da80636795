//! Indexes that plans have built, written while the tables are in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::CompiledFile;
use crate::index::{HashIndex, RowKeys};

/// The compiled indexes of the tables of one generation.
#[derive(Debug, Default)]
pub(crate) struct CompiledIndexes {
    /// By the names of the tables in lower case.
    files: HashMap<String, CompiledFile>,
    /// They write indexes.
    threads: Vec<JoinHandle<()>>,
}

impl CompiledIndexes {
    /// Adds a table.
    pub(crate) fn insert(&mut self, file: CompiledFile) {
        self.files.insert(file.table.to_ascii_lowercase(), file);
    }

    /// The index of these columns of a table, if there is one.
    pub(crate) fn read(
        &self,
        table: &str,
        columns: &[usize],
        keys: Arc<dyn RowKeys>,
    ) -> Option<HashIndex> {
        let file = self.files.get(&table.to_ascii_lowercase())?;
        file.read_index(columns, keys)
    }

    /// Writes an index on another thread, if the table is compiled.
    pub(crate) fn write(&mut self, table: &str, columns: Vec<usize>, index: &Arc<HashIndex>) {
        let Some(file) = self.files.get(&table.to_ascii_lowercase()).cloned() else {
            return;
        };
        let index = Arc::clone(index);
        let named = thread::Builder::new().name("lookaside-compile".into());
        // The next start builds the index again if no thread can be started.
        let spawned = named.spawn(move || file.write_index(&columns, &index));
        self.threads.extend(spawned);
    }
}

impl Drop for CompiledIndexes {
    /// Waits for the indexes that are being written, so that none is left unfinished.
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic only means that the index is not written.
            drop(thread.join());
        }
    }
}
