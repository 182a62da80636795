//! A part of the rows of a table.

use lookaside_value::{Text, Value};
use rusqlite::types::ValueRef;

use super::encoding::{Bits, Encoding, class};
use crate::bind::value_of;

/// The most rows of a segment: more need wider fields, fewer repeat more dictionaries.
pub(crate) const SEGMENT_ROW_COUNT_MAX: usize = 1 << 16;

/// The bytes after the last row, so that eight bytes can be read at each field.
pub(super) const PADDING: usize = 8;

/// Rows of fixed size, with the texts and bytes that they refer to.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(super) row_count: usize,
    /// The size of a row in bytes.
    pub(super) stride: usize,
    /// By column.
    pub(super) encodings: Box<[Encoding]>,
    /// Row after row, and [`PADDING`].
    pub(super) rows: Box<[u8]>,
    pub(super) texts: Box<str>,
    pub(super) bytes: Box<[u8]>,
}

/// A row of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    segment: &'a Segment,
    /// The row, and those after it.
    pub(super) bytes: &'a [u8],
}

/// A value within a segment.
enum Field<'a> {
    Null,
    Int(i64),
    Real(f64),
    Word(&'a Text),
    Text(&'a str),
    /// Text within the row, which is almost always UTF-8.
    Inline(&'a [u8]),
    /// Text that may not be UTF-8, or a blob.
    Other(ValueRef<'a>),
}

impl Segment {
    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    pub(super) fn column_count(&self) -> usize {
        self.encodings.len()
    }

    /// The size in bytes, without the texts of dictionaries that are longer than a value.
    pub(crate) fn size(&self) -> usize {
        let words = self.encodings.iter().map(|encoding| match encoding {
            Encoding::Code { words, .. } => {
                size_of_val(&**words) + words.iter().map(Text::heap_size).sum::<usize>()
            }
            _ => 0,
        });
        size_of::<Self>()
            + size_of_val(&*self.encodings)
            + self.rows.len()
            + self.texts.len()
            + self.bytes.len()
            + words.sum::<usize>()
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        debug_assert!(row < self.row_count);
        Row {
            segment: self,
            bytes: &self.rows[row * self.stride..],
        }
    }

    /// A value as SQLite stores it.
    #[inline]
    pub(crate) fn value_ref(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.row(row).value_ref(column)
    }

    /// Whether a column is stored as integers and NULLs.
    pub(super) fn is_integer(&self, column: usize) -> bool {
        matches!(
            self.encodings[column],
            Encoding::Int { .. } | Encoding::Null
        )
    }
}

impl<'a> Row<'a> {
    pub(super) fn column_count(self) -> usize {
        self.segment.column_count()
    }

    /// Reads the first byte of the row and the last one that a value is decoded from, to load their cache lines.
    #[inline]
    pub(super) fn touch(self) -> u8 {
        self.bytes[0] ^ self.bytes[self.segment.stride + PADDING - 2]
    }

    /// A value as an answer.
    #[inline]
    pub(super) fn value(self, column: usize) -> Value {
        self.read(column, |field| match field {
            Field::Null => Value::Null,
            Field::Int(int) => Value::Int(int),
            Field::Real(real) => Value::Float(real),
            Field::Word(word) => Value::Text(word.clone()),
            Field::Text(text) => Value::Text(text.into()),
            Field::Inline(text) => match str::from_utf8(text) {
                Ok(text) => Value::Text(text.into()),
                Err(_) => value_of(ValueRef::Text(text)),
            },
            Field::Other(value) => value_of(value),
        })
    }

    /// A value as SQLite stores it.
    #[inline]
    pub(super) fn value_ref(self, column: usize) -> ValueRef<'a> {
        self.read(column, |field| match field {
            Field::Null => ValueRef::Null,
            Field::Int(int) => ValueRef::Integer(int),
            Field::Real(real) => ValueRef::Real(real),
            Field::Word(word) => ValueRef::Text(word.as_bytes()),
            Field::Text(text) => ValueRef::Text(text.as_bytes()),
            Field::Inline(text) => ValueRef::Text(text),
            Field::Other(value) => value,
        })
    }

    /// Calls `make` where the kind of the field is known, so that it need not be tested again.
    #[inline]
    fn read<T>(self, column: usize, make: impl FnOnce(Field<'a>) -> T) -> T {
        let Self { segment, bytes } = self;
        match &segment.encodings[column] {
            Encoding::Null => make(Field::Null),
            Encoding::Int {
                base,
                has_nulls,
                bits,
            } => match self.bits(*bits) {
                0 if *has_nulls => make(Field::Null),
                difference => make(Field::Int(base.wrapping_add(difference as i64))),
            },
            Encoding::Real { at } => match f64::from_bits(self.word(*at as usize)) {
                null if null.is_nan() => make(Field::Null),
                real => make(Field::Real(real)),
            },
            Encoding::Code { words, bits } => match words.get(self.bits(*bits) as usize) {
                Some(word) => make(Field::Word(word)),
                None => make(Field::Null),
            },
            Encoding::Inline { at } => {
                let bytes = &bytes[*at as usize..];
                match bytes[0] {
                    0 => make(Field::Null),
                    size => make(Field::Inline(&bytes[1..usize::from(size)])),
                }
            }
            Encoding::Heap {
                base,
                start_bits,
                bits,
            } => {
                let word = self.bits(*bits);
                match (word >> *start_bits) as usize {
                    0 => make(Field::Null),
                    size => {
                        let start = (word & ((1 << *start_bits) - 1)) as usize;
                        make(Field::Text(&segment.texts[base + start..][..size - 1]))
                    }
                }
            }
            Encoding::Any { base, at } => make(self.any(*base, *at as usize)),
        }
    }

    #[cold]
    fn any(self, base: usize, at: usize) -> Field<'a> {
        let word = self.word(at + 1);
        let bytes = || {
            let (start, size) = (word as u32 as usize, (word >> 32) as usize);
            &self.segment.bytes[base + start..][..size]
        };
        match self.bytes[at] {
            class::INT => Field::Int(word as i64),
            class::REAL => Field::Real(f64::from_bits(word)),
            class::TEXT => Field::Other(ValueRef::Text(bytes())),
            class::BLOB => Field::Other(ValueRef::Blob(bytes())),
            _ => Field::Null,
        }
    }

    #[inline]
    pub(super) fn bits(self, bits: Bits) -> u64 {
        self.word(bits.at as usize) & bits.mask
    }

    #[inline]
    pub(super) fn word(self, at: usize) -> u64 {
        let bytes = self.bytes[at..at + size_of::<u64>()].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    }
}
