//! The batches of a Parquet file, a row group after the other.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ConvertedType, Type as PhysicalType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::input::Input;
use super::{DEPTH_MAX, Damage, guarded, thrift};

/// The last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// The last bytes of a file whose metadata is encrypted.
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// The rows that are decoded at once.
const BATCH_ROW_COUNT: usize = 1024;

/// The size limit of the metadata in bytes. It has some 100 bytes for each column of a row group.
const METADATA_SIZE_MAX: u64 = 256 << 20;

/// The size limit of a page in bytes, decompressed; writers begin a new one after 1 MiB or 20,000
/// rows. A page of each column is kept in memory.
const PAGE_SIZE_MAX: u64 = 512 << 20;

/// A reader of batches.
pub(super) struct ParquetBatches {
    input: Input,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    row_group: Option<RowGroup>,
    /// The position of the next row group.
    next: usize,
    rows_read: u64,
    rows_total: u64,
    /// The top-level columns with timestamps of 96 bits.
    int96: Vec<String>,
}

/// The row group that is read.
struct RowGroup {
    index: usize,
    reader: ParquetRecordBatchReader,
    /// The rows that are still to come.
    rest: u64,
}

impl ParquetBatches {
    /// Reads the metadata of a file.
    pub(super) fn open(input: Input) -> Result<Self, Damage> {
        check_footer(&input)?;
        let load = |options: &ArrowReaderOptions| {
            guarded(|| ArrowReaderMetadata::load(&input, options.clone()).map_err(Damage::broken))
        };
        let options = ArrowReaderOptions::new();
        let mut metadata = load(&options)?;
        let (schema, int96) = corrected_schema(&metadata)?;
        if schema != *metadata.schema() {
            metadata = load(&options.with_schema(schema))?;
        }
        let mut rows_total = 0_u64;
        for (index, group) in metadata.metadata().row_groups().iter().enumerate() {
            let count = u64::try_from(group.num_rows());
            let count = count
                .map_err(|_| Damage::broken("a negative number of rows").at(&place_of(index)))?;
            rows_total = rows_total.saturating_add(count);
        }
        Ok(Self {
            input,
            columns: ProjectionMask::all(),
            metadata,
            row_group: None,
            next: 0,
            rows_read: 0,
            rows_total,
            int96,
        })
    }

    /// All columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The columns whose timestamps are read to the microsecond only.
    pub(super) fn int96(&self) -> &[String] {
        &self.int96
    }

    /// Decodes only these columns from now on.
    pub(super) fn project(mut self, columns: &[usize]) -> Self {
        let schema = self.metadata.parquet_schema();
        let roots = schema.root_schema().get_fields();
        let fields = self.metadata.schema().fields();
        // A group without members is a field of Parquet's schema only.
        let position = |&index: &usize| {
            let name = fields[index].name();
            roots.iter().position(|root| root.name() == name)
        };
        let roots = columns.iter().filter_map(position);
        self.columns = ProjectionMask::roots(schema, roots);
        self
    }

    /// Reads the next batch.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Damage> {
        loop {
            let Some(group) = &mut self.row_group else {
                if self.next == self.metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                let index = self.next;
                self.next += 1;
                // Some writers give its columns the offset of a page that is not there.
                if self.metadata.metadata().row_group(index).num_rows() == 0 {
                    continue;
                }
                let row_group = self.open_row_group(index);
                self.row_group = Some(row_group.map_err(|it| it.at(&place_of(index)))?);
                continue;
            };
            let index = group.index;
            let batch = guarded(|| group.reader.next().transpose().map_err(Damage::broken));
            let damage = match batch {
                Ok(Some(batch)) if batch.num_rows() as u64 <= group.rest => {
                    let count = batch.num_rows() as u64;
                    group.rest -= count;
                    self.rows_read += count;
                    return Ok(Some(batch));
                }
                Ok(None) if group.rest == 0 => {
                    self.row_group = None;
                    continue;
                }
                Ok(_) => Damage::broken("its columns have another number of rows"),
                Err(damage) => damage,
            };
            let place = match self.damaged_column(index) {
                Some(column) => format!("{}, column {column:?}", place_of(index)),
                None => place_of(index),
            };
            return Err(damage.at(&place));
        }
    }

    fn open_row_group(&self, index: usize) -> Result<RowGroup, Damage> {
        self.check_pages(index)?;
        let group = self.metadata.metadata().row_group(index);
        Ok(RowGroup {
            index,
            rest: group.num_rows() as u64,
            reader: self.reader(index, self.columns.clone())?,
        })
    }

    fn reader(
        &self,
        row_group: usize,
        columns: ProjectionMask,
    ) -> Result<ParquetRecordBatchReader, Damage> {
        let (input, metadata) = (self.input.clone(), self.metadata.clone());
        guarded(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata)
                .with_batch_size(BATCH_ROW_COUNT)
                .with_row_groups(vec![row_group])
                .with_projection(columns)
                .build()
                .map_err(Damage::broken)
        })
    }

    /// Checks the compression and the sizes of the pages of a row group.
    fn check_pages(&self, row_group: usize) -> Result<(), Damage> {
        let columns = self.metadata.metadata().row_group(row_group).columns();
        for (index, column) in columns.iter().enumerate() {
            if self.columns.leaf_included(index) {
                let place = format!("column {:?}", column.column_path().string());
                self.check_column(column).map_err(|it| it.at(&place))?;
            }
        }
        Ok(())
    }

    fn check_column(&self, column: &ColumnChunkMetaData) -> Result<(), Damage> {
        let unsupported = match column.compression() {
            Compression::BROTLI(_) => Some("Brotli"),
            Compression::LZO => Some("LZO"),
            _ => None,
        };
        if let Some(name) = unsupported {
            return Err(Damage::broken(format_args!(
                "its compression is {name}, which is not supported, but Snappy, gzip, zstd and LZ4 are"
            )));
        }
        let mut first = column.data_page_offset();
        // A dictionary that is not there has the offset 0 in files of some writers.
        if let Some(offset) = column.dictionary_page_offset().filter(|it| *it != 0) {
            first = first.min(offset);
        }
        let offset = u64::try_from(first).ok();
        let size = u64::try_from(column.compressed_size()).ok();
        let end = offset
            .zip(size)
            .and_then(|(offset, size)| offset.checked_add(size));
        let (Some(mut offset), Some(end)) = (offset, end) else {
            return Err(Damage::broken("invalid offsets"));
        };
        if end > self.input.size() {
            return Err(Damage::broken("its pages are beyond the end of the file"));
        }
        while offset < end {
            let sizes = thrift::page_sizes(self.input.reader_at(offset))
                .map_err(|error| Damage::broken(format_args!("a page: {error}")))?;
            if sizes.uncompressed > PAGE_SIZE_MAX {
                return Err(Damage::Limit(format!(
                    "a page has {} bytes, and the limit is {PAGE_SIZE_MAX}",
                    sizes.uncompressed
                )));
            }
            offset = offset.saturating_add(sizes.header.saturating_add(sizes.compressed));
        }
        Ok(())
    }

    /// The first column of a row group that cannot be decoded.
    fn damaged_column(&self, row_group: usize) -> Option<String> {
        let schema = self.metadata.parquet_schema();
        let is_damaged = |index: &usize| {
            let mask = ProjectionMask::leaves(schema, [*index]);
            match self.reader(row_group, mask) {
                Ok(mut reader) => guarded(|| {
                    let batches = reader.by_ref();
                    let found = batches.find_map(Result::err);
                    found.map_or(Ok(()), |error| Err(Damage::broken(error)))
                })
                .is_err(),
                Err(_) => true,
            }
        };
        let leaves = 0..schema.num_columns();
        let mut leaves = leaves.filter(|index| self.columns.leaf_included(*index));
        let column = schema.column(leaves.find(is_damaged)?);
        Some(column.path().string())
    }

    /// How much was read, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        self.rows_read as f64 / self.rows_total.max(1) as f64
    }
}

fn place_of(row_group: usize) -> String {
    format!("row group {}", row_group + 1)
}

/// Checks what the library does not: the size of the metadata and the depth of the schema.
fn check_footer(input: &Input) -> Result<(), Damage> {
    let tail_size = 4 + MAGIC.len() as u64;
    let tail_offset = input.size().checked_sub(tail_size);
    let tail_offset = tail_offset.ok_or_else(|| Damage::broken("it is not a Parquet file"))?;
    let tail = input.bytes_at(tail_offset, tail_size)?;
    let (size, magic) = tail.split_at(4);
    if magic == ENCRYPTED_MAGIC {
        return Err(Damage::broken(
            "it is encrypted; write it without encryption",
        ));
    }
    if magic != MAGIC {
        return Err(Damage::broken("it does not end as a Parquet file does"));
    }
    let size = u32::from_le_bytes(size.try_into().expect("4 bytes")).into();
    if size > METADATA_SIZE_MAX {
        return Err(Damage::Limit(format!(
            "the metadata has {size} bytes, and the limit is {METADATA_SIZE_MAX}; write larger row \
             groups"
        )));
    }
    let offset = tail_offset.checked_sub(size);
    let offset = offset.ok_or_else(|| Damage::broken("the metadata is larger than the file"))?;
    let metadata = input.bytes_at(offset, size)?;
    let depth = thrift::schema_depth(&metadata, DEPTH_MAX)
        .map_err(|error| Damage::broken(format!("the metadata: {error}")))?;
    match depth > DEPTH_MAX {
        true => Err(Damage::Limit(format!(
            "the schema has more than {DEPTH_MAX} levels"
        ))),
        false => Ok(()),
    }
}

/// The schema with other types of two kinds of columns, and the names of those of the first kind.
///
/// Timestamps of 96 bits are in microseconds: the library reads them in nanoseconds otherwise, of which
/// 64 bits hold only the years 1677 to 2262, and others wrap around. Enumerations are text, as the
/// format defines them, and not bytes.
fn corrected_schema(metadata: &ArrowReaderMetadata) -> Result<(SchemaRef, Vec<String>), Damage> {
    let (mut int96, mut enums) = (Vec::new(), Vec::new());
    for column in metadata.parquet_schema().columns() {
        let is_int96 = column.physical_type() == PhysicalType::INT96;
        match column.path().parts() {
            [name] if is_int96 => int96.push(name.clone()),
            [name] if column.converted_type() == ConvertedType::ENUM => enums.push(name.clone()),
            _ if is_int96 => {
                let place = format!("column {:?}", column.path().string());
                let reason = "a nested timestamp of 96 bits; write one of 64 bits";
                return Err(Damage::broken(reason).at(&place));
            }
            _ => {}
        }
    }
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let fields = metadata.schema().fields().iter().map(|field| {
        let corrected = match field.data_type() {
            DataType::Timestamp(..) if int96.contains(field.name()) => &micros,
            DataType::Binary if enums.contains(field.name()) => &DataType::Utf8,
            _ => return Arc::clone(field),
        };
        Field::clone(field).with_data_type(corrected.clone()).into()
    });
    let schema = Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        metadata.schema().metadata().clone(),
    );
    Ok((Arc::new(schema), int96))
}
