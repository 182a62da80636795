//! The tables of one generation, with indexes and snapshots that plans share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use lookaside_value::{RowSet, RowSetBuilder, Text, Type, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::bool_words::BOOL_TEXT;
use super::build::{self, Interval, IntervalColumns, KeyPart};
use super::census::Census;
use super::reason::Reason;
use super::relations::RelationIndex;
use super::schema::Table;
use super::shape::Relation;
use crate::bind::value_of;
use crate::index::{HashIndex, ROW_COUNT_MAX};

/// The size limit of one snapshot; SQLite answers for a larger table. Generous, since the same rows
/// in SQLite take about as much.
const SNAPSHOT_SIZE_MAX: usize = 4 << 30;

/// Texts up to this size are stored in the value itself; only longer ones are worth sharing.
const INLINE_TEXT_SIZE_MAX: usize = 23;

/// A reader of one generation's tables with everything that plans built from them.
pub(crate) struct Tables {
    /// Plans are made one at a time, so that two statements that need the same index build it once.
    inner: Mutex<TableCache>,
}

pub(super) struct TableCache {
    pub(super) connection: Connection,
    descriptions: HashMap<String, Result<Arc<Table>, Reason>>,
    snapshots: HashMap<SnapshotKey, Result<RowSet, Reason>>,
    hashes: HashMap<(String, Vec<KeyPart>), Result<Arc<HashIndex>, Reason>>,
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

/// Table, columns, and the names that the statement gives them.
type SnapshotKey = (String, Vec<usize>, Vec<Text>);

impl Tables {
    /// Reads through a connection that sees one immutable state of the tables.
    pub(crate) fn new(reader: Connection, pattern_memory_max: usize) -> Self {
        Self {
            inner: Mutex::new(TableCache {
                connection: reader,
                descriptions: HashMap::new(),
                snapshots: HashMap::new(),
                hashes: HashMap::new(),
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
        let connection = &self.connection;
        shared(&mut self.descriptions, name.to_ascii_lowercase(), || {
            // Only UTF-8 text compares by its bytes.
            let letter: Vec<u8> =
                connection.query_row("select cast('a' as blob)", [], |row| row.get(0))?;
            if letter != b"a" {
                return Err(Reason::fixed("the encoding of the database is not UTF-8"));
            }
            Table::describe(connection, name).map(Arc::new)
        })
    }

    pub(super) fn snapshot(
        &mut self,
        table: &Table,
        columns: Vec<usize>,
        names: Vec<Text>,
    ) -> Result<RowSet, Reason> {
        let connection = &self.connection;
        let key = (table.name.clone(), columns.clone(), names.clone());
        shared(&mut self.snapshots, key, || {
            read_snapshot(connection, table, &columns, names)
        })
    }

    pub(super) fn hash(
        &mut self,
        table: &Table,
        parts: Vec<KeyPart>,
    ) -> Result<Arc<HashIndex>, Reason> {
        let connection = &self.connection;
        let key = (table.name.clone(), parts.clone());
        shared(&mut self.hashes, key, || {
            build::hash(connection, table, &parts).map(Arc::new)
        })
    }

    pub(super) fn interval(
        &mut self,
        table: &Table,
        columns: IntervalColumns,
    ) -> Result<Interval, Reason> {
        let connection = &self.connection;
        shared(&mut self.intervals, (table.name.clone(), columns), || {
            build::interval(connection, table, columns)
        })
    }

    pub(super) fn relation(
        &mut self,
        table: &Table,
        column: usize,
        relation: Relation,
    ) -> Result<RelationIndex, Reason> {
        let connection = &self.connection;
        let memory_max = self.pattern_memory_max;
        let key = (table.name.clone(), column, relation);
        shared(&mut self.relations, key, || {
            RelationIndex::of(connection, table, column, relation, memory_max)
        })
    }

    /// The census of the texts of a column.
    pub(super) fn census(&mut self, table: &Table, column: usize) -> Result<Census, Reason> {
        let connection = &self.connection;
        shared(&mut self.censuses, (table.name.clone(), column), || {
            Census::of(connection, table, column)
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
        let connection = &self.connection;
        shared(&mut self.row_counts, table.name.clone(), || {
            let count: i64 = connection.query_row(&table.count_sql(), [], |row| row.get(0))?;
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
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

fn read_snapshot(
    connection: &Connection,
    table: &Table,
    columns: &[usize],
    names: Vec<Text>,
) -> Result<RowSet, Reason> {
    let too_large = Reason::fixed("a copy of the table would be very large");
    let row_count: i64 = connection.query_row(&table.count_sql(), [], |row| row.get(0))?;
    let row_count = usize::try_from(row_count).unwrap_or(usize::MAX);
    let row_size = columns.len() * size_of::<Value>();
    let mut size = row_count.saturating_mul(row_size);
    if row_count > ROW_COUNT_MAX || size > SNAPSHOT_SIZE_MAX {
        return Err(too_large);
    }
    let mut rows = RowSetBuilder::new(names);
    rows.reserve(row_count);
    let mut texts: HashSet<Text, RandomState> = HashSet::default();
    let mut statement = connection.prepare(&table.scan_sql(columns))?;
    let mut scan = statement.query([])?;
    let mut row_values = Vec::with_capacity(columns.len());
    while let Some(row) = scan.next()? {
        for index in 0..columns.len() {
            let value = match row.get_ref(index)? {
                ValueRef::Text(bytes) if bytes.len() > INLINE_TEXT_SIZE_MAX => {
                    let text = String::from_utf8_lossy(bytes);
                    let text = texts.get_or_insert_with(&*text, |text| {
                        size += text.len();
                        text.into()
                    });
                    Value::Text(text.clone())
                }
                column => value_of(column),
            };
            if let Value::Bytes(bytes) = &value {
                size += bytes.len();
            }
            row_values.push(value);
        }
        rows.push(row_values.drain(..));
        if size > SNAPSHOT_SIZE_MAX {
            return Err(too_large);
        }
    }
    Ok(rows.build())
}
