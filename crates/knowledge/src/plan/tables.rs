//! The tables of one generation, with indexes and snapshots that plans share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use lookaside_value::{Text, Type};
use rusqlite::Connection;

use super::bool_words::BOOL_TEXT;
use super::build::{self, Interval, IntervalColumns, KeyPart};
use super::census::Census;
use super::reason::Reason;
use super::relations::RelationIndex;
use super::schema::Table;
use super::shape::Relation;
use super::stored::StoredRows;
use super::table_rows::{Numbering, TableRows};
use crate::compiled::CompiledIndexes;
use crate::index::{HashIndex, KeyIndex};
use crate::table::{PackedTable, PackedTables};

/// A reader of one generation's tables with everything that plans built from them.
pub(crate) struct Tables {
    /// Plans are made one at a time, so that two statements that need the same index build it once.
    inner: Mutex<TableCache>,
}

pub(super) struct TableCache {
    pub(super) connection: Connection,
    packed: PackedTables,
    compiled: CompiledIndexes,
    descriptions: HashMap<String, Result<Arc<Table>, Reason>>,
    snapshots: HashMap<SnapshotKey, Result<StoredRows, Reason>>,
    hashes: HashMap<HashKey, Result<KeyIndex, Reason>>,
    /// Indexes of the last load that are those of tables that have changed, or of their bases.
    bases: HashMap<HashKey, Arc<HashIndex>>,
    /// Changed tables, with rows that are numbered in scan order.
    in_scan_order: HashMap<String, Result<Arc<PackedTable>, Reason>>,
    intervals: HashMap<(String, IntervalColumns), Result<Interval, Reason>>,
    /// By table, column and relation.
    relations: HashMap<(String, usize, Relation), Result<RelationIndex, Reason>>,
    /// The limit of the memory of the patterns of a column, in bytes.
    pattern_memory_max: usize,
    /// By table and column.
    censuses: HashMap<(String, usize), Result<Census, Reason>>,
    /// By table and column.
    column_types: HashMap<(String, usize), Result<Option<Type>, Reason>>,
    row_counts: HashMap<String, Result<usize, Reason>>,
    /// Whether a table has a column of booleans as text.
    has_bool_texts: Option<bool>,
}

/// A table and the parts of a key.
type HashKey = (String, Vec<KeyPart>);

/// Table, columns, and the names that the statement gives them.
type SnapshotKey = (String, Vec<usize>, Vec<Text>, Numbering);

impl Tables {
    /// Reads packed tables, and others through a connection that sees one immutable state of them and
    /// has the schema of all.
    pub(crate) fn new(reader: Connection, packed: PackedTables, pattern_memory_max: usize) -> Self {
        let compiled = CompiledIndexes::default();
        Self::with_compiled(reader, packed, compiled, pattern_memory_max)
    }

    /// The same; indexes of compiled tables are read from files and written to them.
    pub(crate) fn with_compiled(
        reader: Connection,
        packed: PackedTables,
        compiled: CompiledIndexes,
        pattern_memory_max: usize,
    ) -> Self {
        Self {
            inner: Mutex::new(TableCache {
                connection: reader,
                packed,
                compiled,
                descriptions: HashMap::new(),
                snapshots: HashMap::new(),
                hashes: HashMap::new(),
                bases: HashMap::new(),
                in_scan_order: HashMap::new(),
                intervals: HashMap::new(),
                relations: HashMap::new(),
                pattern_memory_max,
                censuses: HashMap::new(),
                column_types: HashMap::new(),
                row_counts: HashMap::new(),
                has_bool_texts: None,
            }),
        }
    }

    /// Takes over what plans have built from these tables, whose rows and schema are the same.
    pub(crate) fn adopt(&self, other: &Self, names: &[String]) {
        fn take<K: Clone + Eq + Hash, V: Clone>(
            to: &mut HashMap<K, Result<V, Reason>>,
            from: &HashMap<K, Result<V, Reason>>,
            is_taken: impl Fn(&K) -> bool,
        ) {
            let taken = from
                .iter()
                .filter(|(key, value)| value.is_ok() && is_taken(key));
            to.extend(taken.map(|(key, value)| (key.clone(), value.clone())));
        }
        let is_named = |table: &str| names.iter().any(|name| name.eq_ignore_ascii_case(table));
        self.with(|to| {
            other.with(|from| {
                take(&mut to.snapshots, &from.snapshots, |key| is_named(&key.0));
                take(&mut to.hashes, &from.hashes, |key| is_named(&key.0));
                take(&mut to.intervals, &from.intervals, |key| is_named(&key.0));
                if to.pattern_memory_max == from.pattern_memory_max {
                    take(&mut to.relations, &from.relations, |key| is_named(&key.0));
                }
                take(&mut to.censuses, &from.censuses, |key| is_named(&key.0));
                take(&mut to.column_types, &from.column_types, |key| {
                    is_named(&key.0)
                });
            });
        });
    }

    /// Whether plans have an index of a table that numbers its rows in scan order, whatever has changed.
    pub(crate) fn has_scan_order_index(&self, table: &str) -> bool {
        let is_table = |name: &String| name.eq_ignore_ascii_case(table);
        self.with(|tables| {
            tables.intervals.keys().any(|key| is_table(&key.0))
                || tables.relations.keys().any(|key| is_table(&key.0))
        })
    }

    /// Shares the indexes of a table that was loaded again with those of its rows that have not changed.
    pub(crate) fn share(&self, other: &Self, table: &str) {
        self.with(|to| {
            other.with(|from| {
                let (Some(new), Some(old)) = (to.packed.get(table), from.packed.get(table)) else {
                    return;
                };
                let bases = from.hashes.iter().filter_map(|(key, index)| {
                    let index = index.as_ref().ok()?;
                    let columns: Vec<usize> = key.1.iter().map(|part| part.column).collect();
                    if !key.0.eq_ignore_ascii_case(table) {
                        return None;
                    }
                    let base = match new.is_changed() {
                        // A changed table has the base of the old one.
                        true => Arc::clone(index.base()),
                        false => build::shared_index(index.base(), old, new, &columns)?,
                    };
                    Some((key.clone(), base))
                });
                to.bases.extend(bases);
            });
        });
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut TableCache) -> T) -> T {
        // A panic while planning leaves nothing inconsistent: maps are only changed by whole
        // entries.
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        work(&mut inner)
    }
}

impl TableCache {
    pub(super) fn table(&mut self, name: &str) -> Result<Arc<Table>, Reason> {
        let rows = self.rows();
        let connection = rows.connection;
        let key = name.to_ascii_lowercase();
        if let Some(known) = self.descriptions.get(&key) {
            return known.clone();
        }
        let describe = || {
            // Only UTF-8 text compares by its bytes.
            let letter: Vec<u8> =
                connection.query_row("select cast('a' as blob)", [], |row| row.get(0))?;
            if letter != b"a" {
                return Err(Reason::fixed("the encoding of the database is not UTF-8"));
            }
            let mut table = Table::describe(connection, name)?;
            for column in table.bool_texts() {
                let words = rows.bool_words(&table, column)?;
                table.set_words(column, words);
            }
            Ok(Arc::new(table))
        };
        let described = describe();
        self.descriptions.insert(key, described.clone());
        described
    }

    /// The reader of the rows of all tables.
    pub(super) fn rows(&self) -> TableRows<'_> {
        TableRows {
            connection: &self.connection,
            packed: &self.packed,
        }
    }

    /// The rows of a table in these columns.
    pub(super) fn snapshot(
        &mut self,
        table: &Table,
        columns: Vec<usize>,
        names: Vec<Text>,
        numbering: Numbering,
    ) -> Result<StoredRows, Reason> {
        let packed = self.packed.get(&table.name);
        // Other tables have their rows in scan order.
        let numbering = match packed.is_some_and(|packed| packed.is_changed()) {
            true => numbering,
            false => Numbering::Scan,
        };
        let key = (table.name.clone(), columns, names, numbering);
        if let Some(known) = self.snapshots.get(&key) {
            return known.clone();
        }
        let (_, columns, names, _) = &key;
        let rows = match self.rows().values(table, columns, names, numbering) {
            Ok(Some(rows)) => Ok(rows),
            Ok(None) => {
                let packed = match numbering {
                    Numbering::Scan => self.in_scan_order(table),
                    Numbering::Packed => self.packed(table),
                };
                packed.map(|packed| StoredRows::packed(&packed, table, columns, names.clone()))
            }
            Err(reason) => Err(reason),
        };
        self.snapshots.insert(key, rows.clone());
        rows
    }

    /// The packed form of a table, with rows that are numbered in scan order.
    fn in_scan_order(&mut self, table: &Table) -> Result<Arc<PackedTable>, Reason> {
        let packed = self.packed(table)?;
        if !packed.is_changed() {
            return Ok(packed);
        }
        shared(&mut self.in_scan_order, table.name.clone(), || {
            let packed = packed.in_scan_order().map(Arc::new);
            packed.ok_or(Reason::fixed("a copy of the table would be very large"))
        })
    }

    pub(super) fn is_packed(&self, table: &str) -> bool {
        self.packed.get(table).is_some()
    }

    /// The packed form of a table, made now if SQLite has loaded it.
    pub(super) fn packed(&mut self, table: &Table) -> Result<Arc<PackedTable>, Reason> {
        if let Some(packed) = self.packed.get(&table.name) {
            return Ok(Arc::clone(packed));
        }
        let packed = Arc::new(self.rows().pack(table)?);
        self.packed
            .insert(&table.name, Arc::clone(&packed), Vec::new());
        Ok(packed)
    }

    /// The index of the rows by a key. Its numbers of rows are those of the packed table, if it is packed.
    pub(super) fn hash(&mut self, table: &Table, parts: Vec<KeyPart>) -> Result<KeyIndex, Reason> {
        let key = (table.name.clone(), parts);
        if let Some(known) = self.hashes.get(&key) {
            return known.clone();
        }
        let index = self.make_hash(table, &key);
        self.hashes.insert(key, index.clone());
        index
    }

    fn make_hash(&mut self, table: &Table, key: &HashKey) -> Result<KeyIndex, Reason> {
        let parts = &key.1;
        let columns: Vec<usize> = parts.iter().map(|part| part.column).collect();
        let is_plain = parts.iter().all(|part| part.function.is_none());
        if is_plain && let Some(index) = self.packed.unique_index(&table.name, &columns) {
            return Ok(index.clone());
        }
        let base = self.bases.remove(key);
        let packed = self.packed.get(&table.name);
        if let Some(packed) = packed
            && packed.is_changed()
        {
            // The row ids of all rows have changed, unless they are stored.
            if columns.iter().any(|column| table.is_rowid(*column)) {
                return build::hash(self.rows(), table, parts).map(KeyIndex::from);
            }
            let packed = Arc::clone(packed);
            let base = match base {
                Some(base) => base,
                None => Arc::new(self.hash_of_base(table, &packed, parts)?),
            };
            return build::changed_hash(&packed, base, parts);
        }
        let keys = match is_plain {
            true => self.rows().keys(table, &columns),
            false => None,
        };
        if let Some(keys) = &keys
            && let Some(index) = self.compiled.read(&table.name, &columns, keys.clone())
        {
            return Ok(index.into());
        }
        let (index, is_packed) = match (base, keys) {
            (Some(index), keys) => (index, keys.is_some()),
            (None, Some(keys)) => (Arc::new(build::key_index(keys)?), true),
            (None, None) => (Arc::new(build::hash(self.rows(), table, parts)?), false),
        };
        if is_packed {
            self.compiled.write(&table.name, columns, &index);
        }
        Ok(index.into())
    }

    /// The index of all rows of the base of a changed table.
    fn hash_of_base(
        &self,
        table: &Table,
        changed: &PackedTable,
        parts: &[KeyPart],
    ) -> Result<HashIndex, Reason> {
        let mut base = PackedTables::default();
        base.insert(&table.name, Arc::new(changed.base()), Vec::new());
        let rows = TableRows {
            connection: &self.connection,
            packed: &base,
        };
        let columns: Vec<usize> = parts.iter().map(|part| part.column).collect();
        match rows.keys(table, &columns) {
            Some(keys) if parts.iter().all(|part| part.function.is_none()) => {
                Ok(build::key_index(keys)?)
            }
            _ => build::hash(rows, table, parts),
        }
    }

    pub(super) fn interval(
        &mut self,
        table: &Table,
        columns: IntervalColumns,
    ) -> Result<Interval, Reason> {
        let rows = TableRows {
            connection: &self.connection,
            packed: &self.packed,
        };
        shared(&mut self.intervals, (table.name.clone(), columns), || {
            build::interval(rows, table, columns)
        })
    }

    pub(super) fn relation(
        &mut self,
        table: &Table,
        column: usize,
        relation: Relation,
    ) -> Result<RelationIndex, Reason> {
        let rows = TableRows {
            connection: &self.connection,
            packed: &self.packed,
        };
        let memory_max = self.pattern_memory_max;
        let key = (table.name.clone(), column, relation);
        shared(&mut self.relations, key, || {
            RelationIndex::of(rows, table, column, relation, memory_max)
        })
    }

    /// The census of the texts of a column.
    pub(super) fn census(&mut self, table: &Table, column: usize) -> Result<Census, Reason> {
        let rows = TableRows {
            connection: &self.connection,
            packed: &self.packed,
        };
        shared(&mut self.censuses, (table.name.clone(), column), || {
            Census::of(rows, table, column)
        })
    }

    /// The type of all values of a column, if they have one.
    pub(super) fn column_type(
        &mut self,
        table: &Table,
        column: usize,
    ) -> Result<Option<Type>, Reason> {
        let key = (table.name.clone(), column);
        if let Some(known) = self.column_types.get(&key) {
            return known.clone();
        }
        let found = self.read_column_type(table, column);
        self.column_types.insert(key, found.clone());
        found
    }

    /// Whether a table may have a column of booleans as text. A name that merely contains the type
    /// also counts; statements are then parsed needlessly.
    pub(super) fn has_bool_texts(&mut self) -> bool {
        let connection = &self.connection;
        *self.has_bool_texts.get_or_insert_with(|| {
            let sql = "select exists (select 1 from sqlite_schema \
                       where type = 'table' and instr(upper(sql), ?1))";
            let found = connection.query_row(sql, [BOOL_TEXT], |row| row.get(0));
            found.unwrap_or(false)
        })
    }

    /// How many rows a table has.
    pub(super) fn row_count(&mut self, table: &Table) -> Result<usize, Reason> {
        let rows = TableRows {
            connection: &self.connection,
            packed: &self.packed,
        };
        shared(&mut self.row_counts, table.name.clone(), || {
            rows.count(table)
        })
    }

    /// The names of all tables.
    pub(super) fn table_names(&self) -> Result<Vec<String>, Reason> {
        let sql = "select name from sqlite_schema where type = 'table'";
        let mut statement = self.connection.prepare(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }
}

fn shared<K: Eq + Hash, V: Clone>(
    known: &mut HashMap<K, Result<V, Reason>>,
    key: K,
    make: impl FnOnce() -> Result<V, Reason>,
) -> Result<V, Reason> {
    match known.entry(key) {
        Entry::Occupied(entry) => entry.get().clone(),
        Entry::Vacant(entry) => entry.insert(make()).clone(),
    }
}
