//! The packed tables of a generation.

use std::collections::HashMap;
use std::sync::Arc;

use super::PackedTable;

/// Rows are kept as values up to this size in bytes, and packed beyond it. An answer from values borrows
/// them; one from packed rows makes them, which takes less time than the cache misses of a large table.
const VALUES_SIZE_MAX: usize = 64 << 20;

/// The packed tables of a generation.
#[derive(Clone, Debug)]
pub(crate) struct PackedTables {
    /// By their names in lower case.
    tables: HashMap<String, Arc<PackedTable>>,
    /// Rows are kept as values up to this size in bytes.
    values_size_max: usize,
}

impl Default for PackedTables {
    fn default() -> Self {
        Self {
            tables: HashMap::new(),
            values_size_max: VALUES_SIZE_MAX,
        }
    }
}

impl PackedTables {
    #[cfg(test)]
    pub(crate) fn keep_values_up_to(&mut self, size: usize) {
        self.values_size_max = size;
    }

    /// The size in bytes up to which rows are kept as values.
    pub(crate) fn values_size_max(&self) -> usize {
        self.values_size_max
    }

    /// The names of all tables, in lower case.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Whether there are no tables.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The size of all tables in bytes.
    pub(crate) fn size(&self) -> usize {
        self.tables.values().map(|table| table.size()).sum()
    }

    /// Adds a table.
    pub(crate) fn insert(&mut self, name: &str, table: Arc<PackedTable>) {
        self.tables.insert(name.to_ascii_lowercase(), table);
    }

    /// The table with this name in any case.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<PackedTable>> {
        self.tables.get(&name.to_ascii_lowercase())
    }
}
