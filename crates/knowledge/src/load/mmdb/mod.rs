//! The rows of a MaxMind database: a range of addresses and the values of its record.
//!
//! The records are decoded by `maxminddb`, once for each place in the file, as many networks share
//! a record. Neighbouring networks whose values are equal become one row, unless the network itself
//! is a column.

mod tree;

use std::collections::HashMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use maxminddb::Reader;
use rusqlite::types::{Value as SqlValue, ValueRef};

use self::tree::{IpVersion, Leaf, Walk};
use super::document::Document;
use super::source::{self, FilePosition};
use crate::Result;
use crate::config::{ColumnPath, Columns, NETWORK_BOUNDS, NETWORK_PATH, TableConfig};
use crate::error::Error;

/// The size limit of a database in bytes, which is that of its pointers; it is kept in memory while
/// it is loaded.
const MMDB_SIZE_MAX: u64 = 4 << 30;

/// How many decoded records are kept; beyond that, all are decoded again. City databases have half
/// a million.
const RECORD_COUNT_MAX: usize = 1 << 20;

/// How many paths the message about missing columns has.
const PATH_HINT_COUNT_MAX: usize = 20;

/// A reader of the networks of a database.
pub(super) struct Networks<'a> {
    file: PathBuf,
    columns: &'a [ColumnPath],
    bytes: SharedBytes,
    reader: Reader<SharedBytes>,
    walk: Walk,
    records: HashMap<u32, Rc<[SqlValue]>>,
    /// For each column whether a record had a value for it.
    found: Vec<bool>,
    /// The paths of the first record, for messages.
    paths: Vec<String>,
    /// No column has the network, so neighbours may be merged.
    is_merging: bool,
    current: Option<NetworkRow>,
    next: Option<NetworkRow>,
}

/// A row, which may stand for several networks.
struct NetworkRow {
    first: [u8; 16],
    last: [u8; 16],
    network: String,
    values: Rc<[SqlValue]>,
}

/// The bytes of a database, for `maxminddb` and for the walk over its tree.
#[derive(Clone)]
struct SharedBytes(Rc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> Networks<'a> {
    /// Reads a database.
    pub(super) fn open(table: &'a TableConfig, file: &Path) -> Result<Self> {
        let mut bytes = Vec::new();
        source::open(table.readable(file), &Arc::<FilePosition>::default())
            .map_err(|source| Error::data_file(table, file, source))?
            .take(MMDB_SIZE_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| Error::unreadable_whole(file, source))?;
        if bytes.len() as u64 > MMDB_SIZE_MAX {
            return Err(Error::mmdb_size(file, MMDB_SIZE_MAX));
        }
        Self::read(table, file, bytes)
    }

    /// Reads a database from its bytes.
    pub(super) fn read(table: &'a TableConfig, file: &Path, bytes: Vec<u8>) -> Result<Self> {
        let bytes = SharedBytes(Rc::new(bytes));
        let reader = Reader::from_source(bytes.clone()).map_err(|it| Error::mmdb(file, it))?;
        let metadata = reader.metadata();
        let version = match metadata.ip_version {
            4 => IpVersion::V4,
            _ => IpVersion::V6,
        };
        // The reader has checked that the nodes are in the file.
        let walk = Walk::new(
            bytes.as_ref(),
            metadata.node_count,
            metadata.record_size,
            version,
        )
        .map_err(|damage| Error::mmdb_tree(file, damage.message()))?;
        let columns = match &table.columns {
            Columns::ByPath(columns) => &**columns,
            _ => &[],
        };
        let mut networks = Self {
            file: file.to_owned(),
            columns,
            bytes,
            reader,
            walk,
            records: HashMap::new(),
            found: columns.iter().map(is_network).collect(),
            paths: Vec::new(),
            is_merging: !columns.iter().any(is_network),
            current: None,
            next: None,
        };
        networks.next = networks.read_network()?;
        if !matches!(table.columns, Columns::ByPath(_)) {
            return Err(Error::no_paths(table, file, &networks.paths));
        }
        Ok(networks)
    }

    /// The names of the values of a row.
    pub(super) fn names(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| column.name.clone());
        let bounds = NETWORK_BOUNDS.map(str::to_owned);
        bounds.into_iter().chain(columns).collect()
    }

    /// Reads the next row; returns whether there is one.
    pub(super) fn next(&mut self) -> Result<bool> {
        self.current = self.next.take();
        let Some(mut current) = self.current.take() else {
            return Ok(false);
        };
        loop {
            let next = self.read_network()?;
            match next {
                Some(next) if self.is_merging && current.is_continued_by(&next) => {
                    current.last = next.last;
                }
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        self.current = Some(current);
        Ok(true)
    }

    fn read_network(&mut self) -> Result<Option<NetworkRow>> {
        let leaf = self.walk.next(self.bytes.as_ref());
        let Some(leaf) = leaf.map_err(|it| Error::mmdb_tree(&self.file, it.message()))? else {
            return Ok(None);
        };
        let values = self.values_of(&leaf)?;
        let network = match self.is_merging {
            true => String::new(),
            false => leaf.network(),
        };
        Ok(Some(NetworkRow {
            first: leaf.keys.start().to_be_bytes(),
            last: leaf.keys.end().to_be_bytes(),
            network,
            values,
        }))
    }

    /// The values of the record of a network, without those that are the network itself.
    fn values_of(&mut self, leaf: &Leaf) -> Result<Rc<[SqlValue]>> {
        if let Some(known) = self.records.get(&leaf.pointer) {
            return Ok(Rc::clone(known));
        }
        let damaged = |source| Error::mmdb_record(&self.file, &leaf.network(), source);
        let record = self.reader.lookup(leaf.ip()).map_err(damaged)?;
        let record = record.decode::<Document<'_>>().map_err(damaged)?;
        let mut values = Vec::with_capacity(self.columns.len());
        for (column, found) in self.columns.iter().zip(&mut self.found) {
            let value = record.as_ref().and_then(|record| record.at(&column.path));
            *found |= value.is_some();
            values.push(value.map_or(SqlValue::Null, Document::to_sql));
        }
        if self.records.is_empty()
            && let Some(record) = &record
        {
            self.paths = record.paths(PATH_HINT_COUNT_MAX);
        }
        if self.records.len() >= RECORD_COUNT_MAX {
            self.records.clear();
        }
        let values: Rc<[SqlValue]> = values.into();
        self.records.insert(leaf.pointer, Rc::clone(&values));
        Ok(values)
    }

    /// A value of the current row.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        let Some(row) = &self.current else {
            return ValueRef::Null;
        };
        match index {
            0 => ValueRef::Blob(&row.first),
            1 => ValueRef::Blob(&row.last),
            _ if is_network(&self.columns[index - 2]) => ValueRef::Text(row.network.as_bytes()),
            _ => (&row.values[index - 2]).into(),
        }
    }

    /// The current row in messages.
    pub(super) fn place(&self) -> String {
        let file = self.file.display();
        match &self.current {
            Some(row) => format!("{file}: {} to {}", shown(row.first), shown(row.last)),
            None => file.to_string(),
        }
    }

    /// How much of the database was read, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        self.walk.progress()
    }

    /// Warnings about the rows that were read.
    pub(super) fn warnings(&self) -> Vec<String> {
        let columns = self.columns.iter().zip(&self.found);
        let missing = columns.filter(|(_, found)| !**found && !self.records.is_empty());
        missing
            .map(|(column, _)| {
                format!(
                    "column {:?} is NULL in each row: no record has a value at the path {}; the \
                     first record has: {}",
                    column.name,
                    column.path.join("."),
                    self.paths.join(", ")
                )
            })
            .collect()
    }
}

impl NetworkRow {
    fn is_continued_by(&self, next: &Self) -> bool {
        let last = u128::from_be_bytes(self.last);
        last.checked_add(1) == Some(u128::from_be_bytes(next.first)) && self.values == next.values
    }
}

/// Whether a column has the network itself.
fn is_network(column: &ColumnPath) -> bool {
    column.path == [NETWORK_PATH]
}

/// A key as an address.
fn shown(key: [u8; 16]) -> IpAddr {
    IpAddr::V6(key.into()).to_canonical()
}
