//! The parts of Parquet's metadata that are checked before the library decodes it.
//!
//! The library descends one call for each level of the schema, and allocates the size that a page
//! says it has. Stack overflows and failed allocations end the process, so both are limited here.
//! The metadata is written in the compact protocol of Thrift:
//!
//! ```text
//! struct   field* 0x00
//! field    delta of the identifier (4 bits), type (4 bits), value; a delta of 0: identifier as zigzag
//! list     count (4 bits), type of the items (4 bits), items; a count of 15: the count as varint
//! integer  zigzag varint
//! binary   varint size, bytes
//! ```
//!
//! See <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md> and
//! `FileMetaData`, `SchemaElement` and `PageHeader` in parquet.thrift.

use std::io::{self, Read};

/// The limit of nested structures in what is skipped.
const SKIP_DEPTH_MAX: u8 = 32;

/// The types of values.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INTEGERS: std::ops::RangeInclusive<u8> = 4..=6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// The sizes of a page, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageSizes {
    pub(super) header: u64,
    pub(super) compressed: u64,
    pub(super) uncompressed: u64,
}

/// The number of levels of the schema in `FileMetaData`, at most `limit` + 1.
pub(super) fn schema_depth(metadata: &[u8], limit: usize) -> io::Result<usize> {
    let mut reader = Compact::new(metadata);
    let mut fields = Fields::default();
    while let Some((identifier, kind)) = fields.next(&mut reader)? {
        if (identifier, kind) != (2, LIST) {
            reader.skip(kind, SKIP_DEPTH_MAX)?;
            continue;
        }
        let (count, kind) = reader.list()?;
        if kind != STRUCT {
            return Err(invalid());
        }
        // The numbers of children that are still to come, for each open group.
        let mut open: Vec<i64> = Vec::new();
        let mut depth = 0;
        for _ in 0..count {
            let child_count = reader.child_count()?;
            if child_count > 0 {
                open.push(child_count);
                depth = depth.max(open.len());
                if depth > limit {
                    return Ok(depth);
                }
                continue;
            }
            while let Some(rest) = open.last_mut() {
                *rest -= 1;
                if *rest > 0 {
                    break;
                }
                open.pop();
            }
        }
        return Ok(depth);
    }
    Ok(0)
}

/// The sizes in the `PageHeader` that a reader is at.
pub(super) fn page_sizes(reader: impl Read) -> io::Result<PageSizes> {
    let mut reader = Compact::new(reader);
    let mut fields = Fields::default();
    let (mut compressed, mut uncompressed) = (None, None);
    while let Some((identifier, kind)) = fields.next(&mut reader)? {
        match identifier {
            2 if INTEGERS.contains(&kind) => uncompressed = Some(reader.integer()?),
            3 if INTEGERS.contains(&kind) => compressed = Some(reader.integer()?),
            _ => reader.skip(kind, SKIP_DEPTH_MAX)?,
        }
    }
    let size = |size: Option<i64>| size.and_then(|size| u64::try_from(size).ok());
    Ok(PageSizes {
        header: reader.read,
        compressed: size(compressed).ok_or_else(invalid)?,
        uncompressed: size(uncompressed).ok_or_else(invalid)?,
    })
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid metadata")
}

/// The fields of a struct.
#[derive(Default)]
struct Fields {
    /// The identifier of the last field.
    last: i64,
}

impl Fields {
    /// Reads the identifier and the type of the next field.
    fn next(&mut self, reader: &mut Compact<impl Read>) -> io::Result<Option<(i64, u8)>> {
        let head = reader.byte()?;
        let (delta, kind) = (head >> 4, head & 0xf);
        if kind == STOP {
            return Ok(None);
        }
        self.last = match delta {
            0 => reader.integer()?,
            delta => self.last.wrapping_add(delta.into()),
        };
        Ok(Some((self.last, kind)))
    }
}

/// A reader of the compact protocol.
struct Compact<R> {
    bytes: R,
    /// Bytes read so far.
    read: u64,
}

impl<R: Read> Compact<R> {
    fn new(bytes: R) -> Self {
        Self { bytes, read: 0 }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte)?;
        self.read += 1;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid())
    }

    fn integer(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads the number of items of a list and their type.
    fn list(&mut self) -> io::Result<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Ok((count, head & 0xf))
    }

    /// Reads the `num_children` of a `SchemaElement`.
    fn child_count(&mut self) -> io::Result<i64> {
        let mut fields = Fields::default();
        let mut count = 0;
        while let Some((identifier, kind)) = fields.next(self)? {
            match identifier {
                5 if INTEGERS.contains(&kind) => count = self.integer()?,
                _ => self.skip(kind, SKIP_DEPTH_MAX)?,
            }
        }
        Ok(count)
    }

    fn skip_bytes(&mut self, size: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.bytes.by_ref().take(size), &mut io::sink())?;
        self.read += skipped;
        match skipped == size {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Skips a value of a field.
    fn skip(&mut self, kind: u8, depth: u8) -> io::Result<()> {
        match kind {
            // The value of a field is its type.
            TRUE | FALSE => Ok(()),
            _ => self.skip_item(kind, depth),
        }
    }

    /// Skips an item of a list or a map, or a value of a field that is not a boolean.
    fn skip_item(&mut self, kind: u8, depth: u8) -> io::Result<()> {
        let below = depth.checked_sub(1).ok_or_else(invalid)?;
        match kind {
            TRUE | FALSE | BYTE => self.skip_bytes(1),
            kind if INTEGERS.contains(&kind) => self.varint().map(|_| ()),
            DOUBLE => self.skip_bytes(8),
            UUID => self.skip_bytes(16),
            BINARY => {
                let size = self.varint()?;
                self.skip_bytes(size)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, below))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_item(kinds >> 4, below)?;
                    self.skip_item(kinds & 0xf, below)
                })
            }
            STRUCT => {
                let mut fields = Fields::default();
                while let Some((_, kind)) = fields.next(self)? {
                    self.skip(kind, below)?;
                }
                Ok(())
            }
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `SchemaElement` with a name and a number of children.
    fn element(child_count: u8) -> Vec<u8> {
        match child_count {
            // Physical type, repetition, name.
            0 => vec![0x15, 2, 0x25, 2, 0x18, 1, b'a', 0],
            // Name, number of children.
            count => vec![0x48, 1, b'g', 0x15, count << 1, 0],
        }
    }

    /// `FileMetaData` with a version and a schema.
    fn metadata(child_counts: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, child_counts.len() as u8];
        bytes.extend(child_counts.iter().flat_map(|&count| element(count)));
        bytes.push(0);
        bytes
    }

    #[test]
    fn levels_of_a_schema_are_counted() {
        for (child_counts, expected) in [
            (&[2, 0, 0][..], 1),
            (&[2, 1, 0, 0], 2),
            (&[2, 1, 0, 2, 1, 0, 0], 3),
            (&[1, 1, 1, 1, 1, 1, 1], 5),
            (&[], 0),
        ] {
            let depth = schema_depth(&metadata(child_counts), 4).unwrap();
            assert_eq!(depth, expected, "{child_counts:?}");
        }
    }

    #[test]
    fn sizes_of_a_page_are_read() {
        // Type, sizes, a struct with a binary value and booleans.
        let header = [
            0x15, 0, 0x15, 0x90, 3, 0x15, 20, 0x2c, 0x18, 2, 7, 7, 0x11, 0x12, 0, 0,
        ];
        let expected = PageSizes {
            header: header.len() as u64,
            compressed: 10,
            uncompressed: 200,
        };
        assert_eq!(page_sizes(&header[..]).unwrap(), expected);
        for size in 0..header.len() {
            assert!(page_sizes(&header[..size]).is_err(), "{size}");
        }
        // A negative size, and structs within structs.
        assert!(page_sizes(&[0x15, 0, 0x15, 1, 0x15, 20, 0][..]).is_err());
        assert!(page_sizes(&[0x1c; 100][..]).is_err());
    }
}
