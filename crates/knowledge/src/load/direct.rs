//! Loads a table of CSV files without SQLite, on all cores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::types::ValueRef;

use super::blocks::{self, Block, CutError};
use super::derive;
use super::plain_insert::{PlainInsert, Reason};
use super::records::{NextRecord, Records};
use super::report::{LoadProgress, SKIPPED_KEPT_MAX, SkippedRow, TableReport};
use super::rows::{Rows, Spot};
use crate::Result;
use crate::config::{Config, CsvConfig, OnError, TableConfig, TableFormat};
use crate::error::Error;
use crate::index::ROW_COUNT_MAX;
use crate::plan::key_index;
use crate::table::{PackedTable, Segment, SegmentBuilder, TooManyRows, UniqueIndex};

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
    /// The bytes that all rows need, if those of `read` of `total` bytes of the files and of the tables
    /// before need `size`.
    fn need(self, size: u64, read: u64, total: u64) -> u64 {
        let of_table =
            (size - self.memory_used) as f64 * (total.max(read) as f64 / read.max(1) as f64);
        self.memory_used + of_table as u64
    }
}

/// Rows of a block.
struct Part {
    segments: Vec<Segment>,
    row_count: u64,
    skipped: Vec<SkippedRow>,
    skipped_count: u64,
    row_ids: RowIds,
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

    /// Loads the rows.
    pub(super) fn load(
        &self,
        plain_insert: &PlainInsert,
        limits: Limits,
        report: &mut TableReport,
        advanced: &dyn Fn(LoadProgress<'_>),
    ) -> std::result::Result<Loaded, Failure> {
        let mut segments = Vec::new();
        let (mut size_before, mut row_ids) = (0, RowIds::NONE);
        let (rows, size) = (AtomicU64::new(0), AtomicU64::new(limits.memory_used));
        let bytes_read = AtomicU64::new(0);
        for file in &self.files {
            let parse = |builder: &mut SegmentBuilder, block: Block| {
                // Relaxed: the numbers are only shown and compared with a limit.
                bytes_read.fetch_add(block.text.len() as u64, Ordering::Relaxed);
                let part = self.part(file, block, plain_insert, limits.on_error, builder)?;
                rows.fetch_add(part.row_count, Ordering::Relaxed);
                let part_size: usize = part.segments.iter().map(Segment::size).sum();
                let size = size.fetch_add(part_size as u64, Ordering::Relaxed) + part_size as u64;
                match limits.memory_max {
                    Some(max) if size > max => {
                        let read = bytes_read.load(Ordering::Relaxed);
                        let need = limits.need(size, read, self.size);
                        Err(Failure::Memory(Error::table_memory(self.table, need, max)))
                    }
                    _ => Ok(part),
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
            for part in parts {
                row_ids.append(part.row_ids);
                report.rows += part.row_count;
                report.skipped_count += part.skipped_count;
                let free = SKIPPED_KEPT_MAX - report.skipped.len();
                report.skipped.extend(part.skipped.into_iter().take(free));
                segments.extend(part.segments.into_iter().map(Arc::new));
            }
            size_before += std::fs::metadata(self.table.readable(file)).map_or(0, |it| it.len());
        }
        report.warnings.extend(self.warnings.iter().cloned());
        let table = PackedTable::new(segments, plain_insert.row_id, ROW_COUNT_MAX)
            .map_err(|TooManyRows| Failure::NotDirect("it has more than 2,147,483,647 rows"))?;
        let table = match plain_insert.row_id {
            Some(column) if !row_ids.ascend => {
                let sorted = table.sorted_by_row_id(column, blocks::thread_count());
                sorted.ok_or(Failure::NotDirect("two rows have the same primary key"))?
            }
            _ => table,
        };
        let unique_indexes = plain_insert.unique.iter().map(|columns| {
            let index = key_index(&table, columns).ok_or(TOO_MANY_KEYS)?;
            match index.has_several() {
                true => Err(Failure::NotDirect("two rows have the same unique key")),
                false => Ok((columns.clone(), Arc::new(index))),
            }
        });
        Ok(Loaded {
            unique_indexes: unique_indexes.collect::<std::result::Result<_, _>>()?,
            table: Arc::new(table),
        })
    }

    /// The rows of a block.
    fn part(
        &self,
        file: &Path,
        block: Block,
        plain_insert: &PlainInsert,
        on_error: OnError,
        builder: &mut SegmentBuilder,
    ) -> std::result::Result<Part, Failure> {
        let mut part = Part {
            segments: Vec::new(),
            row_count: 0,
            skipped: Vec::new(),
            skipped_count: 0,
            row_ids: RowIds::NONE,
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
            let mut is_known = true;
            let values = (0..plain_insert.width()).map(|column| {
                let value = plain_insert.value(column, |field| records.field(self.mapping[field]));
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
        Ok(part)
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

const TOO_MANY_KEYS: Failure = Failure::NotDirect("its unique keys need more than 4 GiB");
