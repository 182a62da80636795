//! The rows of Parquet and Arrow files: both are read as batches of Arrow's arrays.
//!
//! ```text
//! Input ── ParquetBatches ──┐
//!   └───── ArrowBatches ────┴─ RecordBatch ── Cell ── values of a row
//! ```
//!
//! Only the columns of the table are decoded. Memory holds a batch, and for Parquet the current pages.

mod errors;
mod input;
mod ipc;
mod parquet_file;
mod thrift;
mod value;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use rusqlite::types::{Value as SqlValue, ValueRef};

pub(super) use self::input::Input;
use self::ipc::ArrowBatches;
use self::parquet_file::ParquetBatches;
use self::value::Cell;
use super::records::NextRecord;
use crate::Result;
use crate::config::{ColumnPath, Columns, TableConfig, TableFormat};
use crate::error::Error;

/// The limit of nested structures in a schema. The library has the same for those of Arrow.
const DEPTH_MAX: usize = 64;

/// The most columns of a file whose columns are not configured: SQLite's limit.
const COLUMN_COUNT_MAX: usize = 2000;

/// A reader of the rows of a file.
pub(super) struct ColumnarRows {
    file: PathBuf,
    batches: Batches,
    columns: Vec<Column>,
    batch: Option<RecordBatch>,
    /// The position of the next row in the batch.
    next: usize,
    /// The current row of the file, counted from 1.
    row: u64,
    /// The values of the current row.
    values: Vec<SqlValue>,
    warnings: Vec<String>,
}

/// A reader of batches.
enum Batches {
    Parquet(Box<ParquetBatches>),
    Arrow(Box<ArrowBatches>),
}

/// A column of the table.
struct Column {
    name: String,
    /// The position of its top-level column in a batch.
    index: usize,
    /// The path of its values below that.
    path: Vec<String>,
    /// Whether a value was NaN.
    has_nan: bool,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(super) enum Damage {
    /// The system did not deliver its bytes, or they have ended.
    Unreadable { place: String, error: io::Error },
    /// Its content is not valid.
    Broken { place: String, reason: String },
    /// It exceeds a limit.
    Limit(String),
}

impl ColumnarRows {
    /// Opens a data file of a table.
    pub(super) fn open(table: &TableConfig, file: &Path) -> Result<Self> {
        let input = Input::open(table.readable(file));
        let input = input.map_err(|damage| Error::columnar(table, file, damage))?;
        Self::read_from(table, file, input)
    }

    /// Reads a file from its bytes.
    pub(super) fn read_from(table: &TableConfig, file: &Path, input: Input) -> Result<Self> {
        let damaged = |damage| Error::columnar(table, file, damage);
        let batches = match table.format {
            TableFormat::Parquet => {
                Batches::Parquet(ParquetBatches::open(input).map_err(damaged)?.into())
            }
            _ => Batches::Arrow(
                guarded(|| ArrowBatches::open(input))
                    .map_err(damaged)?
                    .into(),
            ),
        };
        let schema = batches.schema();
        let (mut columns, roots) = columns_of(table, file, schema)?;
        let mut used = roots.clone();
        used.sort_unstable();
        used.dedup();
        for (column, root) in columns.iter_mut().zip(roots) {
            column.index = used.partition_point(|index| *index < root);
        }
        let batches = batches.project(&used);
        Ok(Self {
            warnings: batches.warnings(&used),
            file: file.to_owned(),
            values: vec![SqlValue::Null; columns.len()],
            columns,
            batches,
            batch: None,
            next: 0,
            row: 0,
        })
    }

    /// The names of the values of a row.
    pub(super) fn names(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns.map(|column| column.name.clone()).collect()
    }

    /// Reads the next row.
    pub(super) fn next(&mut self, table: &TableConfig) -> Result<NextRecord> {
        loop {
            match &self.batch {
                Some(batch) if self.next < batch.num_rows() => break,
                _ => {}
            }
            self.next = 0;
            // The values of the last batch are not needed while the next is decoded.
            self.batch = None;
            let batch = self.batches.next();
            self.batch = batch.map_err(|damage| Error::columnar(table, &self.file, damage))?;
            if self.batch.is_none() {
                return Ok(NextRecord::End);
            }
        }
        self.row += 1;
        self.next += 1;
        Ok(match self.read() {
            Ok(()) => NextRecord::Record,
            Err(reason) => NextRecord::Bad {
                line: self.row,
                reason,
                is_fatal: false,
            },
        })
    }

    fn read(&mut self) -> std::result::Result<(), String> {
        let Some(batch) = &self.batch else {
            return Ok(());
        };
        let (schema, row) = (batch.schema_ref(), self.next - 1);
        for (column, value) in self.columns.iter_mut().zip(&mut self.values) {
            let (field, array) = (schema.field(column.index), batch.column(column.index));
            let cell = Cell::of(field, array, row).and_then(|cell| cell.at(&column.path));
            if let Ok(Cell::Real(real)) = cell {
                column.has_nan |= real.is_nan();
            }
            *value = cell
                .and_then(Cell::into_sql)
                .map_err(|reason| format!("column {:?}: {reason}", column.name))?;
        }
        Ok(())
    }

    /// A value of the current row.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        (&self.values[index]).into()
    }

    /// The current row, counted from 1.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// How much of the file was read, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        match &self.batches {
            Batches::Parquet(batches) => batches.progress(),
            Batches::Arrow(batches) => batches.progress(),
        }
    }

    /// Warnings about values that are not in the table as they are in the file.
    pub(super) fn warnings(&self) -> Vec<String> {
        let columns = self.columns.iter().filter(|column| column.has_nan);
        let nan = columns.map(|column| {
            let (name, file) = (&column.name, self.file.display());
            format!("column {name:?} of {file} has NaN, which is NULL in the table")
        });
        self.warnings.iter().cloned().chain(nan).collect()
    }
}

impl Batches {
    fn schema(&self) -> &Schema {
        match self {
            Self::Parquet(batches) => batches.schema(),
            Self::Arrow(batches) => batches.schema(),
        }
    }

    /// Decodes only these columns from now on.
    fn project(self, columns: &[usize]) -> Self {
        match self {
            Self::Parquet(batches) => Self::Parquet(batches.project(columns).into()),
            Self::Arrow(batches) => Self::Arrow(batches.project(columns).into()),
        }
    }

    fn next(&mut self) -> std::result::Result<Option<RecordBatch>, Damage> {
        match self {
            Self::Parquet(batches) => batches.next(),
            Self::Arrow(batches) => guarded(|| batches.next()),
        }
    }

    /// Warnings about these of all columns.
    fn warnings(&self, columns: &[usize]) -> Vec<String> {
        let Self::Parquet(batches) = self else {
            return Vec::new();
        };
        let names = columns
            .iter()
            .map(|index| batches.schema().field(*index).name());
        let int96 = names.filter(|name| batches.int96().contains(name));
        int96
            .map(|name| {
                format!(
                    "column {name:?} has timestamps of 96 bits, which are read to the microsecond"
                )
            })
            .collect()
    }
}

/// The columns of a table, and the positions of their top-level columns in the file.
fn columns_of(
    table: &TableConfig,
    file: &Path,
    schema: &Schema,
) -> Result<(Vec<Column>, Vec<usize>)> {
    let fields = schema.fields();
    let paths = match &table.columns {
        Columns::All => {
            if fields.len() > COLUMN_COUNT_MAX {
                return Err(Error::column_limit(file, COLUMN_COUNT_MAX));
            }
            let names = fields.iter().map(|field| field.name());
            names
                .map(|name| ColumnPath {
                    name: name.clone(),
                    path: vec![name.clone()],
                })
                .collect()
        }
        Columns::ByHeader(names) => names.iter().map(|name| ColumnPath::dotted(name)).collect(),
        Columns::ByPath(columns) => columns.clone(),
        Columns::ByIndex(_) => {
            unreachable!("the configuration refuses positions for formats with names")
        }
    };
    let mut columns = Vec::with_capacity(paths.len());
    let mut roots = Vec::with_capacity(paths.len());
    for ColumnPath { name, path } in paths {
        let (first, below) = path.split_first().expect("a path is not empty");
        let mut found = fields
            .iter()
            .enumerate()
            .filter(|(_, it)| it.name() == first);
        let (root, field) = match (found.next(), found.next()) {
            (Some(found), None) => found,
            (Some(_), Some(_)) => return Err(Error::repeated_column(file, first)),
            (None, _) => {
                let names = fields.iter().map(|field| field.name().clone()).collect();
                return Err(Error::unknown_column(table, file, (&path, first), names));
            }
        };
        value::check_path(field, below)
            .map_err(|(part, names)| Error::unknown_column(table, file, (&path, part), names))?;
        roots.push(root);
        columns.push(Column {
            name,
            index: 0,
            path: below.to_vec(),
            has_nan: false,
        });
    }
    Ok((columns, roots))
}

impl Damage {
    /// Invalid content.
    fn broken(reason: impl fmt::Display) -> Self {
        Self::Broken {
            place: String::new(),
            reason: reason.to_string(),
        }
    }

    /// The same in a part of the file.
    fn at(self, part: &str) -> Self {
        let within = |place: String| match &*place {
            "" => part.to_owned(),
            place => format!("{part}, {place}"),
        };
        match self {
            Self::Unreadable { place, error } => Self::Unreadable {
                place: within(place),
                error,
            },
            Self::Broken { place, reason } => Self::Broken {
                place: within(place),
                reason,
            },
            Self::Limit(reason) => Self::Limit(format!("{part}: {reason}")),
        }
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self::Unreadable {
            place: String::new(),
            error,
        }
    }
}

/// Runs a call of the libraries. They mean to return an error for any file, but panic on some damaged
/// ones: in version 60.1, mutated files reach eight places in parquet, arrow-buffer and arrow-data, such
/// as a page whose dictionary is missing or a buffer that is not a multiple of its values.
fn guarded<T>(
    call: impl FnOnce() -> std::result::Result<T, Damage>,
) -> std::result::Result<T, Damage> {
    // What the call has changed is not used after a failure.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let panic: &dyn Any = &*panic;
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Damage::broken(text.unwrap_or("it cannot be decoded")))
    })
}
