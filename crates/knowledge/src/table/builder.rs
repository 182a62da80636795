//! Collects rows and encodes them as a segment.

use std::mem;

use hashbrown::HashTable;
use lookaside_value::Text;
use rusqlite::types::ValueRef;

use super::encoding::{ANY_SIZE, Bits, Encoding, INLINE_SIZE_MAX, class};
use super::segment::{PADDING, SEGMENT_ROW_COUNT_MAX, Segment};
use crate::index::hash_bytes;

/// The most bytes of texts and blobs of a column: starts and sizes have 32 bits.
const BYTE_COUNT_MAX: usize = u32::MAX as usize;

/// Collects the rows of a segment.
#[derive(Debug)]
pub(crate) struct SegmentBuilder {
    columns: Vec<Column>,
    row_count: usize,
}

/// The values of a column, before it is known how to encode them.
#[derive(Debug, Default)]
struct Column {
    /// By row.
    classes: Vec<u8>,
    /// By row: a number, or start and size of a text or blob in `bytes`.
    words: Vec<u64>,
    bytes: Vec<u8>,
    /// How many values of each class there are.
    counts: [usize; 5],
    min: i64,
    max: i64,
    /// The size of the longest text.
    size_max: usize,
    /// The different texts, as long as there are few: `words` are then positions in it. `None` if there
    /// are many.
    dictionary: Option<Dictionary>,
}

/// Different texts, in the order of their first rows.
#[derive(Debug, Default)]
struct Dictionary {
    /// Starts and sizes in the bytes of the column.
    texts: Vec<u64>,
    /// Positions of texts by their hashes.
    positions: HashTable<u32>,
}

/// The most texts of a dictionary. Text that is mostly different needs none, and looking for each text
/// costs time.
const WORD_COUNT_MAX: usize = 1 << 12;

/// A row has more bytes than a segment can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowTooLarge;

impl SegmentBuilder {
    /// A segment with this many columns, without rows.
    pub(crate) fn new(column_count: usize) -> Self {
        Self {
            columns: (0..column_count).map(|_| Column::new()).collect(),
            row_count: 0,
        }
    }

    /// Whether the segment has room for no other row, so that it must be built.
    pub(crate) fn is_full(&self) -> bool {
        self.row_count >= SEGMENT_ROW_COUNT_MAX
            || self
                .columns
                .iter()
                .any(|it| it.bytes.len() > BYTE_COUNT_MAX / 2)
    }

    /// Appends a row, which has a value for each column. After an error, the builder cannot be used.
    pub(crate) fn push<'v>(
        &mut self,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<(), RowTooLarge> {
        let mut count = 0;
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value)?;
            count += 1;
        }
        assert_eq!(count, self.columns.len(), "a value a column");
        self.row_count += 1;
        Ok(())
    }

    /// The rows that were appended; the builder is then empty, and can be used again.
    pub(crate) fn build(&mut self) -> Segment {
        let row_count = mem::take(&mut self.row_count);
        let mut stride = 0;
        let mut encodings: Box<[Encoding]> = (self.columns.iter_mut())
            .map(|column| column.encoding(&mut stride))
            .collect();
        let stride = stride as usize;
        let mut rows = vec![0; row_count * stride + PADDING];
        let (mut texts, mut bytes) = (String::new(), Vec::new());
        for (column, encoding) in self.columns.iter_mut().zip(&mut encodings) {
            column.write(encoding, &mut rows, stride, &mut texts, &mut bytes);
            column.clear();
        }
        Segment {
            row_count,
            stride,
            encodings,
            rows: rows.into(),
            texts: texts.into(),
            bytes: bytes.into(),
        }
    }
}

impl Column {
    fn new() -> Self {
        Self {
            min: i64::MAX,
            max: i64::MIN,
            dictionary: Some(Dictionary::default()),
            ..Self::default()
        }
    }

    /// Removes all values and keeps the memory.
    fn clear(&mut self) {
        let (mut classes, mut words) = (mem::take(&mut self.classes), mem::take(&mut self.words));
        let mut bytes = mem::take(&mut self.bytes);
        classes.clear();
        words.clear();
        bytes.clear();
        *self = Self {
            classes,
            words,
            bytes,
            ..Self::new()
        };
    }

    #[inline]
    fn push(&mut self, value: ValueRef<'_>) -> Result<(), RowTooLarge> {
        let (class, word) = match value {
            ValueRef::Null => (class::NULL, 0),
            ValueRef::Integer(int) => {
                self.min = self.min.min(int);
                self.max = self.max.max(int);
                (class::INT, int as u64)
            }
            ValueRef::Real(real) => (class::REAL, real.to_bits()),
            ValueRef::Text(text) => (class::TEXT, self.push_text(text)?),
            ValueRef::Blob(blob) => (class::BLOB, self.push_bytes(blob)?),
        };
        self.classes.push(class);
        self.words.push(word);
        self.counts[usize::from(class)] += 1;
        Ok(())
    }

    #[inline]
    fn push_text(&mut self, text: &[u8]) -> Result<u64, RowTooLarge> {
        self.size_max = self.size_max.max(text.len());
        let Some(dictionary) = &mut self.dictionary else {
            return self.push_bytes(text);
        };
        let hash = hash_bytes(text);
        if let Some(position) = dictionary.find(&self.bytes, hash, text) {
            return Ok(u64::from(position));
        }
        if dictionary.texts.len() >= WORD_COUNT_MAX {
            self.give_up_dictionary();
            return self.push_bytes(text);
        }
        let word = self.push_bytes(text)?;
        let dictionary = self.dictionary.as_mut().expect("it was there");
        Ok(u64::from(dictionary.add(&self.bytes, hash, word)))
    }

    fn give_up_dictionary(&mut self) {
        let Some(dictionary) = self.dictionary.take() else {
            return;
        };
        for (word, class) in self.words.iter_mut().zip(&self.classes) {
            if *class == class::TEXT {
                *word = dictionary.texts[*word as usize];
            }
        }
    }

    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) -> Result<u64, RowTooLarge> {
        let start = self.bytes.len();
        if start + bytes.len() > BYTE_COUNT_MAX {
            return Err(RowTooLarge);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(start as u64 | (bytes.len() as u64) << 32)
    }

    /// The encoding with the fewest bytes; `stride` is the size of a row, to which the field is added.
    fn encoding(&mut self, stride: &mut u32) -> Encoding {
        let at = *stride;
        let count = |class: u8| self.counts[usize::from(class)];
        let has_nulls = count(class::NULL) > 0;
        let value_count = self.words.len() - count(class::NULL);
        if value_count == 0 {
            return Encoding::Null;
        }
        if count(class::REAL) == value_count {
            *stride += size_of::<f64>() as u32;
            return Encoding::Real { at };
        }
        if count(class::INT) == value_count {
            let span = (self.max as u64).wrapping_sub(self.min as u64);
            if let Some(max) = span.checked_add(u64::from(has_nulls)) {
                let bits = Bits::new(at, max);
                *stride += bits.size();
                return Encoding::Int {
                    base: self.min.wrapping_sub(i64::from(has_nulls)),
                    has_nulls,
                    bits,
                };
            }
        }
        if count(class::TEXT) == value_count && self.is_utf8() {
            return self.text_encoding(stride);
        }
        self.give_up_dictionary();
        *stride += ANY_SIZE;
        Encoding::Any { base: 0, at }
    }

    /// Whether all texts are UTF-8, if there are only texts.
    fn is_utf8(&self) -> bool {
        let Ok(all) = std::str::from_utf8(&self.bytes) else {
            return false;
        };
        // Two halves of a character in adjacent texts are only valid when joined.
        let is_start = |word: &u64| all.is_char_boundary(*word as u32 as usize);
        match &self.dictionary {
            Some(dictionary) => dictionary.texts.iter().all(is_start),
            None => {
                let mut words = self.words.iter().zip(&self.classes);
                words.all(|(word, class)| *class != class::TEXT || is_start(word))
            }
        }
    }

    fn text_encoding(&mut self, stride: &mut u32) -> Encoding {
        let (at, row_count) = (*stride, self.words.len());
        let start_bits = u64::BITS - (self.bytes.len() as u64).leading_zeros();
        let max = (self.size_max as u64 + 1) << start_bits | self.bytes.len() as u64;
        let heap = Bits::new(at, max);
        let size_of_heap = row_count * heap.size() as usize + self.bytes.len();
        let size_of_inline = match self.size_max {
            ..=INLINE_SIZE_MAX => row_count * (self.size_max + 1),
            _ => usize::MAX,
        };
        if let Some(dictionary) = &self.dictionary {
            let word_count = dictionary.texts.len();
            let bits = Bits::new(at, word_count as u64);
            let size = row_count * bits.size() as usize + word_count * size_of::<Text>();
            if size + self.bytes.len() <= size_of_heap.min(size_of_inline) {
                *stride += bits.size();
                let words = dictionary.texts.iter().map(|word| {
                    let text = std::str::from_utf8(slice(&self.bytes, *word));
                    Text::from(text.expect("all texts are UTF-8"))
                });
                return Encoding::Code {
                    words: words.collect(),
                    bits,
                };
            }
        }
        self.give_up_dictionary();
        // Text within the row needs no second cache line.
        if size_of_inline <= size_of_heap + size_of_heap / 4 {
            *stride += self.size_max as u32 + 1;
            return Encoding::Inline { at };
        }
        *stride += heap.size();
        Encoding::Heap {
            base: 0,
            start_bits,
            bits: heap,
        }
    }

    /// Writes the fields of all rows, and the texts and bytes that they refer to.
    fn write(
        &self,
        encoding: &mut Encoding,
        rows: &mut [u8],
        stride: usize,
        texts: &mut String,
        bytes: &mut Vec<u8>,
    ) {
        let mut put = |row: usize, at: u32, field: &[u8]| {
            rows[row * stride + at as usize..][..field.len()].copy_from_slice(field);
        };
        let values = self.classes.iter().copied().zip(self.words.iter().copied());
        let values = values.enumerate();
        match encoding {
            Encoding::Null => {}
            Encoding::Int { base, bits, .. } => {
                for (row, (class, word)) in values {
                    let difference = match class {
                        class::NULL => 0,
                        _ => word.wrapping_sub(*base as u64),
                    };
                    put(row, bits.at, bits.field(&difference.to_le_bytes()));
                }
            }
            Encoding::Real { at } => {
                for (row, (class, word)) in values {
                    let word = match class {
                        class::NULL => f64::NAN.to_bits(),
                        _ => word,
                    };
                    put(row, *at, &word.to_le_bytes());
                }
            }
            Encoding::Code { words, bits } => {
                let null = words.len() as u64;
                for (row, (class, word)) in values {
                    let code = if class == class::NULL { null } else { word };
                    put(row, bits.at, bits.field(&code.to_le_bytes()));
                }
            }
            Encoding::Inline { at } => {
                for (row, (class, word)) in values {
                    if class != class::NULL {
                        let text = slice(&self.bytes, word);
                        put(row, *at, &[text.len() as u8 + 1]);
                        put(row, *at + 1, text);
                    }
                }
            }
            Encoding::Heap {
                base,
                start_bits,
                bits,
            } => {
                *base = texts.len();
                texts.push_str(std::str::from_utf8(&self.bytes).expect("all texts are UTF-8"));
                for (row, (class, word)) in values {
                    let field = match class {
                        class::NULL => 0,
                        _ => u64::from(word as u32) | ((word >> 32) + 1) << *start_bits,
                    };
                    put(row, bits.at, bits.field(&field.to_le_bytes()));
                }
            }
            Encoding::Any { base, at } => {
                *base = bytes.len();
                bytes.extend_from_slice(&self.bytes);
                for (row, (class, word)) in values {
                    put(row, *at, &[class]);
                    put(row, *at + 1, &word.to_le_bytes());
                }
            }
        }
    }
}

impl Dictionary {
    #[inline]
    fn find(&self, bytes: &[u8], hash: u64, text: &[u8]) -> Option<u32> {
        let is_text = |position: &u32| slice(bytes, self.texts[*position as usize]) == text;
        self.positions.find(hash, is_text).copied()
    }

    fn add(&mut self, bytes: &[u8], hash: u64, word: u64) -> u32 {
        let position = self.texts.len() as u32;
        self.texts.push(word);
        let texts = &self.texts;
        self.positions.insert_unique(hash, position, |position| {
            hash_bytes(slice(bytes, texts[*position as usize]))
        });
        position
    }
}

/// The bytes of a start in the lower half and a size in the upper half.
#[inline]
fn slice(bytes: &[u8], word: u64) -> &[u8] {
    &bytes[word as u32 as usize..][..(word >> 32) as usize]
}
