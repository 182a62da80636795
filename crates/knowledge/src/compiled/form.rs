//! The rows of a table with what their load has found, as sections of a file.

use std::io;
use std::sync::Arc;

use super::file::{Refused, SectionReader};
use super::put_column;
use crate::index::{HashIndex, KeyIndex, ROW_COUNT_MAX};
use crate::le_bytes::{LeReader, Malformed, put_list, put_text};
use crate::table::{KeyColumns, PackedTable, Segment, UniqueIndex};
use crate::threads;

/// A table, and the report of its load.
#[derive(Clone, Debug)]
pub(crate) struct CompiledForm {
    pub(crate) table: Arc<PackedTable>,
    pub(crate) column_count: usize,
    pub(crate) unique_indexes: Vec<UniqueIndex>,
    pub(crate) report: StoredReport,
}

/// What a load has found, apart from rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredReport {
    /// The data files in messages.
    pub(crate) files: Vec<String>,
    /// The columns, if SQL was derived from them.
    pub(crate) derived: Option<Vec<DerivedColumn>>,
    /// About derived columns.
    pub(crate) notes: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) skipped_count: u64,
    /// Places and reasons.
    pub(crate) skipped: Vec<(String, String)>,
}

/// The positions of a derived column's declared type and comment in the lists of the module that derives
/// columns. No SQL is stored, so that none is executed that comes from a file in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DerivedColumn {
    pub(crate) declaration: u8,
    pub(crate) comment: u8,
}

/// The sections before those of the segments: the head.
const HEAD_COUNT: usize = 1;

/// The most columns that SQLite can be compiled for.
const COLUMN_COUNT_MAX: usize = 32_767;

/// The position of a column of the head that is none.
const NO_COLUMN: u64 = u64::MAX;

/// The first section.
struct Head {
    column_count: usize,
    row_id: Option<usize>,
    segment_count: usize,
    /// The columns of each unique index.
    unique: Vec<Vec<usize>>,
    report: StoredReport,
}

impl StoredReport {
    /// Whether the messages are also those of data files with these names.
    pub(crate) fn is_of(&self, files: &[String]) -> bool {
        let mut texts = (self.notes.iter().chain(&self.warnings))
            .chain(self.skipped.iter().flat_map(|(place, why)| [place, why]));
        let is_named = |text: &String| self.files.iter().any(|file| text.contains(file));
        self.files == files || !texts.any(is_named)
    }
}

impl CompiledForm {
    pub(super) fn section_count(&self) -> usize {
        HEAD_COUNT + self.table.scan_segment_count() + self.unique_indexes.len()
    }

    /// Appends a section: the head, a segment, or a unique index.
    ///
    /// # Errors
    /// When rows that are packed again do not fit into a segment.
    pub(super) fn serialize(&self, section: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(section) = section.checked_sub(HEAD_COUNT) else {
            self.serialize_head(out);
            return Ok(());
        };
        match section.checked_sub(self.table.scan_segment_count()) {
            None => {
                let segment = self.table.scan_segment(section);
                let segment = segment.ok_or(io::ErrorKind::FileTooLarge)?;
                segment.serialize(out);
            }
            Some(index) => self.unique_indexes[index].1.base().serialize(out),
        }
        Ok(())
    }

    fn serialize_head(&self, out: &mut Vec<u8>) {
        put_column(out, &self.column_count);
        let row_id = self.table.row_id().map_or(NO_COLUMN, |it| it as u64);
        out.extend_from_slice(&row_id.to_le_bytes());
        out.extend_from_slice(&(self.table.scan_segment_count() as u64).to_le_bytes());
        put_list(out, &self.unique_indexes, |out, (columns, _)| {
            put_list(out, columns, put_column);
        });
        let report = &self.report;
        let put = |out: &mut Vec<u8>, text: &String| put_text(out, text);
        put_list(out, &report.files, put);
        out.push(u8::from(report.derived.is_some()));
        let derived = report.derived.as_deref().unwrap_or_default();
        put_list(out, derived, |out, column| {
            out.extend_from_slice(&[column.declaration, column.comment]);
        });
        put_list(out, &report.notes, put);
        put_list(out, &report.warnings, put);
        out.extend_from_slice(&report.skipped_count.to_le_bytes());
        put_list(out, &report.skipped, |out, (place, reason)| {
            put_text(out, place);
            put_text(out, reason);
        });
    }

    /// Reads all sections, on all cores.
    pub(super) fn read(sections: &SectionReader) -> Result<Self, Refused> {
        const OTHER_COUNT: Malformed = Malformed("the number of sections is wrong");
        if sections.section_count() < HEAD_COUNT {
            return Err(OTHER_COUNT.into());
        }
        let mut buffer = Vec::new();
        let head = Head::read(sections.read(0, &mut buffer)?)?;
        let part_count = head.segment_count.checked_add(head.unique.len());
        if part_count != Some(sections.section_count() - HEAD_COUNT) {
            return Err(OTHER_COUNT.into());
        }
        let segments = threads::map(head.segment_count, |buffer, segment| {
            let mut reader = LeReader::new(sections.read(HEAD_COUNT + segment, buffer)?);
            let segment = Segment::deserialize(&mut reader, head.column_count)?;
            reader.end()?;
            Ok::<_, Refused>(Arc::new(segment))
        })?;
        let table = PackedTable::new(segments, head.row_id, ROW_COUNT_MAX)
            .map_err(|_| Malformed("it has too many rows"))?;
        let table = Arc::new(table);
        let indexes = threads::map(head.unique.len(), |buffer, index| {
            let columns: Vec<Option<usize>> =
                head.unique[index].iter().copied().map(Some).collect();
            let keys = Arc::new(KeyColumns::new(Arc::clone(&table), &columns));
            let index = HEAD_COUNT + head.segment_count + index;
            let mut reader = LeReader::new(sections.read(index, buffer)?);
            let index = HashIndex::deserialize(&mut reader, keys)?;
            reader.end()?;
            match index.has_several() {
                true => Err(Refused::from(Malformed("a unique key has several rows"))),
                false => Ok(KeyIndex::from(index)),
            }
        })?;
        Ok(Self {
            table,
            column_count: head.column_count,
            unique_indexes: head.unique.into_iter().zip(indexes).collect(),
            report: head.report,
        })
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = LeReader::new(bytes);
        let reader = &mut reader;
        let column_count = reader.size()?;
        if column_count > COLUMN_COUNT_MAX {
            return Err(Malformed("it has too many columns"));
        }
        let row_id = match reader.u64()? {
            NO_COLUMN => None,
            column => match usize::try_from(column) {
                Ok(column) if column < column_count => Some(column),
                _ => return Err(Malformed("the row id is not a column")),
            },
        };
        let column = |reader: &mut LeReader<'_>| match reader.size()? {
            column if column < column_count => Ok(column),
            _ => Err(Malformed("a unique key has a column that does not exist")),
        };
        Ok(Self {
            column_count,
            row_id,
            segment_count: reader.size()?,
            unique: reader.list(|reader| reader.list(column))?,
            report: StoredReport {
                files: texts(reader)?,
                derived: match reader.bool()? {
                    true => Some(derived_columns(reader)?),
                    false => derived_columns(reader).map(|_| None)?,
                },
                notes: texts(reader)?,
                warnings: texts(reader)?,
                skipped_count: reader.u64()?,
                skipped: reader.list(|reader| Ok((text(reader)?, text(reader)?)))?,
            },
        })
    }
}

fn text(reader: &mut LeReader<'_>) -> Result<String, Malformed> {
    reader.text().map(str::to_owned)
}

fn texts(reader: &mut LeReader<'_>) -> Result<Vec<String>, Malformed> {
    reader.list(text)
}

fn derived_columns(reader: &mut LeReader<'_>) -> Result<Vec<DerivedColumn>, Malformed> {
    reader.list(|reader| {
        Ok(DerivedColumn {
            declaration: reader.u8()?,
            comment: reader.u8()?,
        })
    })
}
