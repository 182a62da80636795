//! Column definitions: stored as they were sent, and decoded only if they have changed.
//!
//! ```text
//!   catalog  schema  table  table in the schema  name  name in the table  [more on the type]
//!   0c  charset (2)  length (4)  type  flags (2)  decimals  00 00
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html>

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{ProtocolError, Reason};
use crate::mysql::frame::{HEADER_SIZE, PAYLOAD_SIZE_MAX};
use crate::mysql::types::Width;
use crate::mysql::{Capabilities, ColumnFlags, ColumnType};
use crate::read::Reader;

const MESSAGE: &str = "column definition";

/// The number of the packet with the first definition, if the request was a single packet.
pub(crate) const FIRST_SEQUENCE: u8 = 2;

/// The maximal size of a definition: one packet. Names have at most 64 letters, so real ones are
/// far smaller.
const DEFINITION_SIZE_MAX: usize = PAYLOAD_SIZE_MAX - 1;

/// The columns of a result, or the parameters of a statement; iterates over them.
pub struct Columns {
    /// The consecutive packets of the definitions, as they follow the first packet of a result, so
    /// that those of the next result can be compared all at once.
    bytes: Box<[u8]>,
    /// The end of each of them.
    ends: Box<[u32]>,
    widths: Box<[Width]>,
    /// The size of the values of a binary row without NULLs, if that is constant.
    row_size: Option<usize>,
    capabilities: Capabilities,
}

/// A column of a result. Names are in the character set of the session.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column<'a> {
    /// The database of its table.
    pub schema: &'a [u8],
    /// Its table, by the alias that the statement gave it.
    pub table: &'a [u8],
    /// The original name of its table.
    pub table_original: &'a [u8],
    /// Its name or alias.
    pub name: &'a [u8],
    /// Its original name in the table.
    pub name_original: &'a [u8],
    /// MariaDB: the name of a type that `column_type` does not represent, such as `uuid` or
    /// `inet6`.
    pub type_name: Option<&'a [u8]>,
    /// MariaDB: the format of the value's text, such as `json`.
    pub type_format: Option<&'a [u8]>,
    /// The collation of texts; 63 for bytes and numbers.
    pub collation: u16,
    /// The maximal size of its text in bytes.
    pub length: u32,
    /// Its type.
    pub column_type: ColumnType,
    /// Its flags.
    pub flags: ColumnFlags,
    /// Digits after the decimal point; 31 (or 39) if their number is not fixed.
    pub decimals: u8,
}

impl<'a> Column<'a> {
    fn decode(mut reader: Reader<'a>, capabilities: Capabilities) -> Result<Self, ProtocolError> {
        reader.lenenc_bytes()?;
        let schema = reader.lenenc_bytes()?;
        let table = reader.lenenc_bytes()?;
        let table_original = reader.lenenc_bytes()?;
        let name = reader.lenenc_bytes()?;
        let name_original = reader.lenenc_bytes()?;
        let (mut type_name, mut type_format) = (None, None);
        if capabilities.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
            let mut more = Reader::new(MESSAGE, reader.lenenc_bytes()?);
            while !more.unread().is_empty() {
                let kind = more.u8()?;
                let text = more.lenenc_bytes()?;
                match kind {
                    0 => type_name = Some(text),
                    1 => type_format = Some(text),
                    _ => {}
                }
            }
        }
        // The following part was extended once, and is prefixed with its length.
        let fixed = reader.lenenc_bytes()?;
        reader.finish()?;
        let mut reader = Reader::new(MESSAGE, fixed);
        Ok(Self {
            schema,
            table,
            table_original,
            name,
            name_original,
            type_name,
            type_format,
            collation: reader.u16_le()?,
            length: reader.u32_le()?,
            column_type: ColumnType(reader.u8()?),
            flags: ColumnFlags(reader.u16_le()?),
            decimals: reader.u8()?,
        })
    }
}

impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            collation, length, ..
        } = self;
        let name = self.name.escape_ascii();
        write!(f, "\"{name}\" {:?} {:#x}", self.column_type, self.flags.0)?;
        write!(f, " {collation} {length}.{}", self.decimals)?;
        for more in [self.type_name, self.type_format].into_iter().flatten() {
            write!(f, " {}", more.escape_ascii())?;
        }
        for origin in [self.schema, self.table_original, self.name_original] {
            if !origin.is_empty() {
                write!(f, " {}", origin.escape_ascii())?;
            }
        }
        Ok(())
    }
}

impl Columns {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none, as for a statement without a result.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The column with this index.
    pub fn get(&self, index: usize) -> Option<Column<'_>> {
        let bytes = &self.bytes[self.range(index)?];
        let column = Column::decode(Reader::new(MESSAGE, bytes), self.capabilities);
        Some(column.expect("the columns were read when they came"))
    }

    /// The columns from first to last.
    pub fn iter(&self) -> ColumnsIter<'_> {
        ColumnsIter {
            columns: self,
            indices: 0..self.len(),
        }
    }

    pub(crate) fn widths(&self) -> &[Width] {
        &self.widths
    }

    /// See the field `row_size`.
    pub(crate) fn row_size(&self) -> Option<usize> {
        self.row_size
    }

    fn range(&self, index: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(index)? as usize;
        Some(self.packet_start(index) + HEADER_SIZE..end)
    }

    fn packet_start(&self, index: usize) -> usize {
        match index {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        }
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.ends == other.ends
    }
}

impl Eq for Columns {}

impl<'a> IntoIterator for &'a Columns {
    type Item = Column<'a>;
    type IntoIter = ColumnsIter<'a>;

    fn into_iter(self) -> ColumnsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// The columns of a result, or the parameters of a statement.
#[derive(Clone)]
pub struct ColumnsIter<'a> {
    columns: &'a Columns,
    indices: Range<usize>,
}

impl<'a> Iterator for ColumnsIter<'a> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        self.columns.get(self.indices.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

impl ExactSizeIterator for ColumnsIter<'_> {}
impl FusedIterator for ColumnsIter<'_> {}

/// Reads definitions as they are received, and compares them with the known ones.
#[derive(Default)]
pub(crate) struct ColumnsReader {
    /// The known definitions, as long as all received ones are equal.
    known: Option<Arc<Columns>>,
    /// The number of received definitions.
    count: usize,
    /// The received definitions, if they differ from the known ones; cleared for each list.
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// A complete list of definitions.
pub(crate) struct Definitions {
    pub(crate) columns: Arc<Columns>,
    /// Whether they differ from the known ones.
    pub(crate) is_changed: bool,
}

impl ColumnsReader {
    /// Begins a list of `count`.
    pub(crate) fn begin(&mut self, known: Option<Arc<Columns>>, count: usize) {
        self.known = known.filter(|known| known.len() == count);
        self.count = 0;
        self.bytes.clear();
        self.ends.clear();
    }

    /// The packets of all definitions, if they are known and none was received yet; they directly
    /// follow the first packet of a result, if that has the number 1.
    pub(crate) fn known_packets(&self) -> Option<&[u8]> {
        let known = self.known.as_ref().filter(|_| self.count == 0)?;
        Some(&known.bytes)
    }

    /// Adds a received definition.
    pub(crate) fn push(&mut self, bytes: &[u8], size_max: usize) -> Result<(), ProtocolError> {
        let index = self.count;
        self.count += 1;
        if let Some(known) = &self.known {
            let range = known.range(index);
            if range.is_some_and(|range| known.bytes[range] == *bytes) {
                return Ok(());
            }
            let start = known.packet_start(index);
            self.bytes.extend_from_slice(&known.bytes[..start]);
            self.ends.extend_from_slice(&known.ends[..index]);
            self.known = None;
        }
        let size = self.bytes.len() - index * HEADER_SIZE + bytes.len();
        let too_long = |size, size_max| {
            let reason = Reason::TooLong { size, size_max };
            Err(ProtocolError::new(MESSAGE, 0, reason))
        };
        if bytes.len() > DEFINITION_SIZE_MAX {
            return too_long(bytes.len(), DEFINITION_SIZE_MAX);
        }
        let size_max = size_max.min(u32::MAX as usize / 2);
        if size > size_max {
            return too_long(size, size_max);
        }
        let [low, middle, high, _] = (bytes.len() as u32).to_le_bytes();
        let sequence = FIRST_SEQUENCE.wrapping_add(index as u8);
        self.bytes.extend_from_slice(&[low, middle, high, sequence]);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
        Ok(())
    }

    /// Ends a list.
    pub(crate) fn finish(
        &mut self,
        capabilities: Capabilities,
    ) -> Result<Definitions, ProtocolError> {
        if let Some(columns) = self.known.take() {
            return Ok(Definitions {
                columns,
                is_changed: false,
            });
        }
        let mut start = 0;
        let mut widths = Vec::with_capacity(self.ends.len());
        let mut row_size = Some(0);
        for &end in &self.ends {
            let bytes = &self.bytes[start + HEADER_SIZE..end as usize];
            let column = Column::decode(Reader::new(MESSAGE, bytes), capabilities)?;
            let width = column.column_type.width();
            row_size = match (row_size, width) {
                (Some(row_size), Width::Fixed(size)) => Some(row_size + usize::from(size)),
                _ => None,
            };
            widths.push(width);
            start = end as usize;
        }
        let columns = Columns {
            bytes: std::mem::take(&mut self.bytes).into(),
            ends: std::mem::take(&mut self.ends).into(),
            widths: widths.into(),
            row_size,
            capabilities,
        };
        Ok(Definitions {
            columns: Arc::new(columns),
            is_changed: true,
        })
    }
}
