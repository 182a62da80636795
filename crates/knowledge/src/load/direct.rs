//! Loads a table of CSV files without SQLite, on all cores.

use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::types::ValueRef;

use super::blocks::{self, Block, CutError};
use super::changes::{EarlierRows, Run};
use super::derive;
use super::plain_insert::{PlainInsert, Reason};
use super::records::{NextRecord, Records};
use super::report::{LoadProgress, RowChanges, SKIPPED_KEPT_MAX, SkippedRow, TableReport};
use super::rows::{Rows, Spot};
use crate::Result;
use crate::config::{Config, CsvConfig, OnError, TableConfig, TableFormat};
use crate::error::Error;
use crate::index::{KeyIndex, ROW_COUNT_MAX};
use crate::plan::{changed_key_index, key_index, shared_index};
use crate::table::{KeyColumns, PackedTable, Segment, SegmentBuilder, TooManyRows, UniqueIndex};

/// The CSV files of a table, with their columns.
pub(super) struct CsvFiles<'a> {
    table: &'a TableConfig,
    csv: CsvConfig,
    files: Vec<PathBuf>,
    /// The number of fields of a record, and the positions of those that are bound, which are the same in
    /// all files.
    width: usize,
    mapping: Vec<usize>,
    names: Vec<String>,
    size: u64,
    warnings: Vec<String>,
}

/// A failure of the load, or the reason why it cannot be direct.
#[derive(Debug)]
pub(super) enum Failure {
    Load(Error),
    /// The rows need too much memory.
    Memory(Error),
    NotDirect(Reason),
}

/// Why a reload loads all rows.
const MANY_CHANGED: Reason = "more than a quarter of its rows have changed since the last complete load, or \
     most rows are equal to others";
pub(super) const MEMORY: Reason = "the rows of both states together would exceed table_memory_max";

impl From<CutError> for Failure {
    fn from(error: CutError) -> Self {
        Self::NotDirect(match error {
            CutError::Unreadable => "a file cannot be read",
            CutError::Unsuitable => "a record is very long",
        })
    }
}

/// The rows of a table, and the indexes that show that its unique keys are unique.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) table: Arc<PackedTable>,
    pub(super) unique_indexes: Vec<UniqueIndex>,
}

impl Loaded {
    /// Whether the table has these keys and this number of columns. Derived SQL may have changed.
    fn is_of(&self, plain_insert: &PlainInsert) -> bool {
        let unique = self.unique_indexes.iter().map(|(columns, _)| columns);
        self.table.column_count() == plain_insert.width()
            && self.table.row_id() == plain_insert.row_id
            && unique.eq(&plain_insert.unique)
    }

    /// Whether the compiled form is written. The unique indexes of a changed table would have to be built
    /// again for it, with the memory of the table.
    pub(super) fn can_be_compiled(&self) -> bool {
        !self.table.is_changed() || self.unique_indexes.is_empty()
    }

    /// The index of columns in which a table has the same values as this one.
    fn unique_index_of(&self, table: &Arc<PackedTable>, columns: &[usize]) -> Option<KeyIndex> {
        let mut indexes = self.unique_indexes.iter();
        let (_, index) = indexes.find(|(of, _)| of == columns)?;
        shared_index(index.base(), &self.table, table, columns).map(KeyIndex::from)
    }
}

/// The limits of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) on_error: OnError,
    /// The most bytes of the rows of all tables.
    pub(super) memory_max: Option<u64>,
    /// The bytes of the tables before.
    pub(super) memory_used: u64,
}

impl Limits {
    /// About how many bytes all rows need, and a tenth more, if those of `read` of `total` bytes of the files
    /// and of the tables before need `size`.
    fn need(self, size: u64, read: u64, total: u64) -> u64 {
        let of_table =
            (size - self.memory_used) as f64 * (total.max(read) as f64 / read.max(1) as f64);
        self.memory_used + (1.1 * of_table) as u64
    }
}

/// Rows of a block.
struct Part {
    segments: Vec<Segment>,
    row_count: u64,
    skipped: Vec<SkippedRow>,
    skipped_count: u64,
    row_ids: RowIds,
    /// Where its rows are in the earlier table, if there is one.
    runs: Vec<Run>,
}

/// The integers of the column that is the row id.
#[derive(Clone, Copy, Debug)]
struct RowIds {
    last: Option<i64>,
    first: Option<i64>,
    /// Whether each is greater than the one before.
    ascend: bool,
}

impl RowIds {
    const NONE: Self = Self {
        first: None,
        last: None,
        ascend: true,
    };

    /// Adds the next one; returns whether it is an integer.
    fn push(&mut self, value: ValueRef<'_>) -> bool {
        let ValueRef::Integer(next) = value else {
            return false;
        };
        self.ascend &= self.last.is_none_or(|last| last < next);
        self.first.get_or_insert(next);
        self.last = Some(next);
        true
    }

    /// Adds those of later rows.
    fn append(&mut self, later: Self) {
        let (Some(first), Some(_)) = (later.first, later.last) else {
            return;
        };
        self.ascend &= later.ascend && self.last.is_none_or(|last| last < first);
        self.first.get_or_insert(first);
        self.last = later.last;
    }
}

impl<'a> CsvFiles<'a> {
    /// Opens the files. They are read directly if there is one, or all have the same fields; `None` if
    /// not, or if the files are empty: then the rows are read as those of any other format.
    pub(super) fn open(config: &Config, table: &'a TableConfig) -> Result<Option<Self>> {
        if table.format != TableFormat::Csv {
            return Ok(None);
        }
        let rows = Rows::open(config, table)?;
        let csv = *config.csv_of(table);
        let mut found: Option<(usize, Vec<usize>, Vec<String>)> = None;
        for file in rows.files() {
            let records = Records::open(table, file, &csv)?;
            let header = records.header().unwrap_or_default().to_vec();
            let fields = (records.width(), records.mapping()?, header);
            match &found {
                None => found = Some(fields),
                Some(first) if *first == fields => {}
                Some(_) => return Ok(None),
            }
        }
        let Some((width @ 1.., mapping, _)) = found else {
            return Ok(None);
        };
        Ok(Some(Self {
            table,
            csv,
            files: rows.files().to_vec(),
            width,
            mapping,
            names: rows.names().to_vec(),
            size: rows.bytes_total(),
            warnings: rows.warnings(),
        }))
    }

    /// Derives the columns, for which all records are read.
    pub(super) fn columns(&self) -> std::result::Result<Vec<derive::Column>, Failure> {
        let new = || derive::new_columns(&self.names);
        let mut all = new();
        for (number, file) in self.files.iter().enumerate() {
            let parse = |(): &mut (), block: Block| -> std::result::Result<_, Failure> {
                let mut columns = new();
                let mut records = self.records(file, block)?;
                loop {
                    match records.next().map_err(Failure::Load)? {
                        NextRecord::Record => {}
                        // The load itself reports the record or fails at it.
                        NextRecord::Bad { .. } => continue,
                        NextRecord::End => return Ok(columns),
                    }
                    let spot = Spot::new(number, records.line());
                    for (column, field) in columns.iter_mut().zip(&self.mapping) {
                        column.see_if_undecided(records.field(*field), spot);
                    }
                }
            };
            let parts = blocks::parse(self.table, file, &self.csv, || (), parse, |_| ())?;
            for part in parts {
                for (column, part) in all.iter_mut().zip(part) {
                    column.merge(part);
                }
            }
        }
        Ok(all)
    }

    /// Loads the rows; those that the table of the last load has too are shared with it.
    pub(super) fn load(
        &self,
        plain_insert: &PlainInsert,
        limits: Limits,
        last: Option<&Loaded>,
        report: &mut TableReport,
        advanced: &dyn Fn(LoadProgress<'_>),
    ) -> std::result::Result<Loaded, Failure> {
        if let Some(last) = last
            && let Some(earlier) = EarlierRows::of(&last.table)
        {
            match self.load_changes(plain_insert, limits, &earlier, last, advanced)? {
                Ok((loaded, of_changes)) => {
                    *report = of_changes;
                    return Ok(loaded);
                }
                Err(why) => report.loaded_completely = Some(why),
            }
        }
        let parts = self.parts(plain_insert, limits, None, advanced)?;
        let parts = parts.expect("rows only differ from those of another table");
        let row_ids = add_to_report(&parts, report);
        report.warnings.extend(self.warnings.iter().cloned());
        let segments = parts.into_iter().flat_map(|part| part.segments);
        let segments = segments.map(Arc::new);
        let table = PackedTable::new(segments, plain_insert.row_id, ROW_COUNT_MAX)
            .map_err(|TooManyRows| Failure::NotDirect("it has more than 2,147,483,647 rows"))?;
        let table = match plain_insert.row_id {
            Some(column) if !row_ids.ascend => {
                let sorted = table.sorted_by_row_id(column, blocks::thread_count());
                sorted.ok_or(Failure::NotDirect("two rows have the same primary key"))?
            }
            _ => table,
        };
        let table = Arc::new(table);
        let unique_indexes = plain_insert.unique.iter().map(|columns| {
            let shared = last.and_then(|last| last.unique_index_of(&table, columns));
            let index = match shared {
                Some(index) => index,
                None => {
                    let positions: Vec<Option<usize>> = columns.iter().copied().map(Some).collect();
                    let keys = KeyColumns::new(Arc::clone(&table), &positions);
                    key_index(Arc::new(keys)).map_err(|_| TOO_LARGE)?.into()
                }
            };
            unique(columns, index)
        });
        Ok(Loaded {
            unique_indexes: unique_indexes.collect::<std::result::Result<_, _>>()?,
            table,
        })
    }

    /// Loads the rows that the table of the last load does not have, or returns why all rows must be loaded.
    fn load_changes<'e>(
        &self,
        plain_insert: &PlainInsert,
        limits: Limits,
        earlier: &'e EarlierRows<'e>,
        last: &Loaded,
        advanced: &dyn Fn(LoadProgress<'_>),
    ) -> std::result::Result<std::result::Result<(Loaded, TableReport), Reason>, Failure> {
        if !last.is_of(plain_insert) {
            return Ok(Err(
                "the types of its columns, which are derived, have changed",
            ));
        }
        let with_earlier = Limits {
            memory_used: limits.memory_used + earlier.table().size() as u64,
            ..limits
        };
        let parts = match self.parts(plain_insert, with_earlier, Some(earlier), advanced) {
            Ok(Some(parts)) => parts,
            Ok(None) => return Ok(Err(MANY_CHANGED)),
            // The table may fit without the earlier one.
            Err(Failure::Memory(_)) => return Ok(Err(MEMORY)),
            Err(failure) => return Err(failure),
        };
        let mut report = TableReport::default();
        let row_ids = add_to_report(&parts, &mut report);
        report.warnings.extend(self.warnings.iter().cloned());
        if plain_insert.row_id.is_some() && !row_ids.ascend {
            return Ok(Err("its integer primary key does not ascend in the files"));
        }
        let blocks = parts.into_iter().map(|part| (part.runs, part.segments));
        let Some((table, same_count)) = earlier.changed(blocks) else {
            return Ok(Err(MANY_CHANGED));
        };
        // Without the removed rows, it may need less memory.
        let size = limits.memory_used + table.size() as u64;
        if limits.memory_max.is_some_and(|max| size > max) {
            return Ok(Err(MEMORY));
        }
        report.changes = Some(RowChanges {
            added: report.rows - same_count,
            removed: earlier.table().row_count() as u64 - same_count,
        });
        let unique_indexes = last.unique_indexes.iter().map(|(columns, index)| {
            let index = match table.is_changed() {
                true => changed_key_index(&table, index.base(), columns).ok_or(TOO_LARGE)?,
                false => Arc::clone(index.base()).into(),
            };
            unique(columns, index)
        });
        let loaded = Loaded {
            unique_indexes: unique_indexes.collect::<std::result::Result<_, _>>()?,
            table: Arc::new(table),
        };
        Ok(Ok((loaded, report)))
    }

    /// The rows of all files, or those that an earlier table does not have; `None` if these are many.
    fn parts(
        &self,
        plain_insert: &PlainInsert,
        limits: Limits,
        earlier: Option<&EarlierRows<'_>>,
        advanced: &dyn Fn(LoadProgress<'_>),
    ) -> std::result::Result<Option<Vec<Part>>, Failure> {
        let (mut all, mut size_before) = (Vec::new(), 0);
        let (rows, size) = (AtomicU64::new(0), AtomicU64::new(limits.memory_used));
        let (bytes_read, new_rows) = (AtomicU64::new(0), AtomicU64::new(0));
        for file in &self.files {
            let parse = |builder: &mut SegmentBuilder, block: Block| {
                // Relaxed: the numbers are only shown and compared with limits.
                let is_different = || {
                    let count_max = earlier.map(EarlierRows::new_row_count_max);
                    count_max.is_some_and(|max| new_rows.load(Ordering::Relaxed) > max)
                };
                if is_different() {
                    return Ok(None);
                }
                let block_size = block.text.len() as u64;
                let on_error = limits.on_error;
                let part = self.part(file, block, plain_insert, on_error, earlier, builder)?;
                rows.fetch_add(part.row_count, Ordering::Relaxed);
                let part_rows: usize = part.segments.iter().map(Segment::row_count).sum();
                new_rows.fetch_add(part_rows as u64, Ordering::Relaxed);
                let part_size: usize = part.segments.iter().map(Segment::size).sum();
                let size = size.fetch_add(part_size as u64, Ordering::Relaxed) + part_size as u64;
                let read = bytes_read.fetch_add(block_size, Ordering::Relaxed) + block_size;
                match limits.memory_max {
                    Some(max) if size > max => {
                        let need = limits.need(size, read, self.size);
                        Err(Failure::Memory(Error::table_memory(self.table, need, max)))
                    }
                    _ => Ok(Some(part)),
                }
            };
            let builder = || SegmentBuilder::new(plain_insert.width());
            let parts = blocks::parse(self.table, file, &self.csv, builder, parse, |bytes| {
                let bytes_read = size_before + bytes;
                advanced(LoadProgress {
                    table: &self.table.name,
                    rows: rows.load(Ordering::Relaxed),
                    bytes_read,
                    bytes_total: self.size.max(bytes_read),
                });
            })?;
            all.extend(parts);
            size_before += std::fs::metadata(self.table.readable(file)).map_or(0, |it| it.len());
        }
        Ok(all.into_iter().collect())
    }

    /// The rows of a block, or those that an earlier table does not have.
    fn part(
        &self,
        file: &Path,
        block: Block,
        plain_insert: &PlainInsert,
        on_error: OnError,
        earlier: Option<&EarlierRows<'_>>,
        builder: &mut SegmentBuilder,
    ) -> std::result::Result<Part, Failure> {
        let mut part = Part {
            segments: Vec::new(),
            row_count: 0,
            skipped: Vec::new(),
            skipped_count: 0,
            row_ids: RowIds::NONE,
            runs: Vec::new(),
        };
        let width = plain_insert.width();
        let mut finder = match earlier {
            Some(earlier) => Some((
                earlier,
                earlier.finder(self.start(file, &block, plain_insert, earlier)?),
            )),
            None => None,
        };
        let mut records = self.records(file, block)?;
        loop {
            match records.next().map_err(Failure::Load)? {
                NextRecord::Record => {}
                NextRecord::End => break,
                NextRecord::Bad {
                    line,
                    reason,
                    is_fatal: false,
                } if on_error == OnError::Skip => {
                    part.skipped_count += 1;
                    if part.skipped.len() < SKIPPED_KEPT_MAX {
                        let place = records.place(line);
                        part.skipped.push(SkippedRow { place, reason });
                    }
                    continue;
                }
                NextRecord::Bad { line, reason, .. } => {
                    return Err(Failure::Load(Error::row(&records.place(line), &reason)));
                }
            }
            let value =
                |column| plain_insert.value(column, |field| records.field(self.mapping[field]));
            if let Some((earlier, finder)) = &mut finder {
                let has_value = |row: usize, column: usize, value: Option<ValueRef<'_>>| {
                    value.is_some_and(|value| earlier.table().has_value(row, column, value))
                };
                // Most rows that are not the same differ in the first column.
                let first = value(0);
                let is_row = |row: usize| {
                    let mut others = 1..width;
                    has_value(row, 0, first) && others.all(|it| has_value(row, it, value(it)))
                };
                if finder.find(is_row, || earlier.hash((0..width).map_while(value))) {
                    let row_id = plain_insert.row_id.and_then(value);
                    row_id.map(|value| part.row_ids.push(value));
                    part.row_count += 1;
                    continue;
                }
            }
            let mut is_known = true;
            let values = (0..width).map(|column| {
                let value = value(column);
                is_known &= value.is_some();
                if Some(column) == plain_insert.row_id
                    && let Some(value) = value
                {
                    is_known &= part.row_ids.push(value);
                }
                value.unwrap_or(ValueRef::Null)
            });
            let pushed = builder.push(values);
            if !is_known || pushed.is_err() {
                return Err(Failure::NotDirect("a row has a value that is not allowed"));
            }
            part.row_count += 1;
            if builder.is_full() {
                part.segments.push(builder.build());
            }
        }
        part.segments.push(builder.build());
        part.runs = finder.map_or(Vec::new(), |(_, finder)| finder.runs());
        Ok(part)
    }

    /// How many rows of an earlier table are about before the first one of a block.
    fn start(
        &self,
        file: &Path,
        block: &Block,
        plain_insert: &PlainInsert,
        earlier: &EarlierRows<'_>,
    ) -> std::result::Result<usize, Failure> {
        let mut records = self.records(file, block.clone())?;
        let hashes = iter::from_fn(|| {
            loop {
                match records.next() {
                    Ok(NextRecord::Record) => break,
                    // They are reported when they are loaded.
                    Ok(NextRecord::Bad {
                        is_fatal: false, ..
                    }) => {}
                    _ => return None,
                }
            }
            let field = |field: usize| records.field(self.mapping[field]);
            let values =
                (0..plain_insert.width()).map_while(|column| plain_insert.value(column, field));
            Some(earlier.hash(values))
        });
        Ok(earlier.start(hashes).unwrap_or(0))
    }

    fn records(&self, file: &Path, block: Block) -> std::result::Result<Records<'a>, Failure> {
        if !block.is_first() {
            let text = (block.text, block.line);
            let width = Some(self.width);
            return Ok(Records::of_block(self.table, file, &self.csv, text, width));
        }
        let text = Box::new(std::io::Cursor::new(block.text));
        Records::read(self.table, file, &self.csv, text, Arc::default()).map_err(Failure::Load)
    }
}

/// Adds the rows of all blocks to the report; returns their row ids.
fn add_to_report(parts: &[Part], report: &mut TableReport) -> RowIds {
    let mut row_ids = RowIds::NONE;
    for part in parts {
        row_ids.append(part.row_ids);
        report.rows += part.row_count;
        report.skipped_count += part.skipped_count;
        let free = SKIPPED_KEPT_MAX - report.skipped.len();
        report
            .skipped
            .extend(part.skipped.iter().take(free).cloned());
    }
    row_ids
}

fn unique(columns: &[usize], index: KeyIndex) -> std::result::Result<UniqueIndex, Failure> {
    match index.has_several() {
        true => Err(Failure::NotDirect("two rows have the same unique key")),
        false => Ok((columns.to_vec(), index)),
    }
}

const TOO_LARGE: Failure = Failure::NotDirect("the index of its unique keys would be too large");
