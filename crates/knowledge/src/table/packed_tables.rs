//! The packed tables of a generation.

use std::collections::HashMap;
use std::sync::Arc;

use super::PackedTable;
use crate::index::KeyIndex;

/// Rows are kept as values up to this size in bytes, and packed beyond it. An answer from values borrows
/// them; one from packed rows makes them, which takes less time than the cache misses of a large table.
const VALUES_SIZE_MAX: usize = if cfg!(test) { 16 << 10 } else { 128 << 20 };

/// The packed tables of a generation.
#[derive(Clone, Debug)]
pub(crate) struct PackedTables {
    /// By their names in lower case.
    tables: HashMap<String, Packed>,
    /// Rows are kept as values up to this size in bytes.
    values_size_max: usize,
}

#[derive(Clone, Debug)]
struct Packed {
    table: Arc<PackedTable>,
    unique_indexes: Vec<UniqueIndex>,
}

/// The index of columns of which no two rows have the same values, by the positions of the columns.
pub(crate) type UniqueIndex = (Vec<usize>, KeyIndex);

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
        self.tables.values().map(|it| it.table.size()).sum()
    }

    /// Whether a table shares rows with an earlier one, whose removed rows it keeps.
    pub(crate) fn has_changed_table(&self) -> bool {
        self.tables.values().any(|it| it.table.is_changed())
    }

    /// Adds a table, with the indexes that loading it has needed.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        table: Arc<PackedTable>,
        unique_indexes: Vec<UniqueIndex>,
    ) {
        let packed = Packed {
            table,
            unique_indexes,
        };
        self.tables.insert(name.to_ascii_lowercase(), packed);
    }

    /// The index of these columns of a table, if there is one.
    pub(crate) fn unique_index(&self, name: &str, columns: &[usize]) -> Option<&KeyIndex> {
        let packed = self.tables.get(&name.to_ascii_lowercase())?;
        let mut indexes = packed.unique_indexes.iter();
        indexes.find(|it| it.0 == columns).map(|(_, index)| index)
    }

    /// The table with this name in any case.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<PackedTable>> {
        let packed = self.tables.get(&name.to_ascii_lowercase());
        packed.map(|packed| &packed.table)
    }
}
