//! Segments as bytes; `docs/COMPILED.md` has the layout.

use lookaside_value::Text;

use super::encoding::{ANY_SIZE, Bits, Encoding, INLINE_SIZE_MAX, class};
use super::segment::{PADDING, SEGMENT_ROW_COUNT_MAX, Segment};
use crate::le_bytes::{LeReader, Malformed, put_text};

/// The first byte of an encoding.
mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const INT: u8 = 1;
    pub(super) const REAL: u8 = 2;
    pub(super) const CODE: u8 = 3;
    pub(super) const INLINE: u8 = 4;
    pub(super) const HEAP: u8 = 5;
    pub(super) const ANY: u8 = 6;
}

impl Segment {
    /// Appends the segment.
    pub(crate) fn serialize(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.row_count as u32).to_le_bytes());
        out.extend_from_slice(&(self.stride as u32).to_le_bytes());
        for encoding in &self.encodings {
            encoding.serialize(out);
        }
        for size in [self.rows.len(), self.texts.len(), self.bytes.len()] {
            out.extend_from_slice(&(size as u64).to_le_bytes());
        }
        out.extend_from_slice(&self.rows);
        out.extend_from_slice(self.texts.as_bytes());
        out.extend_from_slice(&self.bytes);
    }

    /// Reads a segment with this many columns. What it returns can be read without a panic, whatever the
    /// bytes are.
    pub(crate) fn deserialize(
        reader: &mut LeReader<'_>,
        column_count: usize,
    ) -> Result<Self, Malformed> {
        let row_count = reader.u32()? as usize;
        let stride = reader.u32()? as usize;
        if row_count > SEGMENT_ROW_COUNT_MAX {
            return Err(Malformed("a segment has too many rows"));
        }
        let encodings = (0..column_count).map(|_| Encoding::deserialize(reader));
        let encodings: Box<[Encoding]> = encodings.collect::<Result<_, _>>()?;
        let sizes = [reader.size()?, reader.size()?, reader.size()?];
        // Below 2^16 * 2^32 + 8.
        if sizes[0] != row_count * stride + PADDING {
            return Err(Malformed("the rows of a segment have another size"));
        }
        let [rows, texts, bytes] = sizes.map(|size| reader.bytes(size));
        let texts = std::str::from_utf8(texts?).map_err(|_| Malformed("texts are not UTF-8"))?;
        let segment = Self {
            row_count,
            stride,
            encodings,
            rows: rows?.into(),
            texts: texts.into(),
            bytes: bytes?.into(),
        };
        segment.check()?;
        Ok(segment)
    }

    /// Checks that fields lie within rows, and what they refer to within the texts and bytes.
    fn check(&self) -> Result<(), Malformed> {
        const OVERLAP: Malformed = Malformed("a field is not within its row");
        let mut end = self.stride;
        for encoding in self.encodings.iter().rev() {
            let Some((at, size)) = encoding.field() else {
                continue;
            };
            let size_max = end.checked_sub(at).ok_or(OVERLAP)?;
            if size > size_max {
                return Err(OVERLAP);
            }
            self.check_values(encoding, size_max)?;
            end = at;
        }
        Ok(())
    }

    /// Checks the values of a column whose field has this size.
    fn check_values(&self, encoding: &Encoding, field_size: usize) -> Result<(), Malformed> {
        let mut rows = (0..self.row_count).map(|row| self.row(row));
        let is_valid = match encoding {
            // Any number is an integer, a real number, or the code of a text or of NULL.
            Encoding::Null
            | Encoding::Int { .. }
            | Encoding::Real { .. }
            | Encoding::Code { .. } => true,
            Encoding::Inline { at } => {
                let at = *at as usize;
                field_size <= INLINE_SIZE_MAX + 1
                    && rows.all(|row| usize::from(row.bytes[at]) <= field_size)
            }
            Encoding::Heap {
                base,
                start_bits,
                bits,
            } => rows.all(|row| {
                let word = row.bits(*bits);
                let size = (word >> *start_bits) as usize;
                let start = (word & ((1 << *start_bits) - 1)) as usize;
                size == 0 || {
                    let start = base.checked_add(start);
                    let range = start.and_then(|start| Some(start..start.checked_add(size - 1)?));
                    range.is_some_and(|range| self.texts.get(range).is_some())
                }
            }),
            Encoding::Any { base, at } => rows.all(|row| {
                let at = *at as usize;
                let word = row.word(at + 1);
                match row.bytes[at] {
                    class::TEXT | class::BLOB => {
                        let (start, size) = (word as u32 as usize, (word >> 32) as usize);
                        let start = base.checked_add(start);
                        let end = start.and_then(|start| start.checked_add(size));
                        end.is_some_and(|end| end <= self.bytes.len())
                    }
                    _ => true,
                }
            }),
        };
        match is_valid {
            true => Ok(()),
            false => Err(Malformed("a value is not within its segment")),
        }
    }
}

impl Encoding {
    fn serialize(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(tag::NULL),
            Self::Int {
                base,
                has_nulls,
                bits,
            } => {
                out.push(tag::INT);
                out.extend_from_slice(&base.to_le_bytes());
                out.push(u8::from(*has_nulls));
                bits.serialize(out);
            }
            Self::Real { at } => {
                out.push(tag::REAL);
                out.extend_from_slice(&at.to_le_bytes());
            }
            Self::Code { words, bits } => {
                out.push(tag::CODE);
                bits.serialize(out);
                out.extend_from_slice(&(words.len() as u32).to_le_bytes());
                words.iter().for_each(|word| put_text(out, word.as_str()));
            }
            Self::Inline { at } => {
                out.push(tag::INLINE);
                out.extend_from_slice(&at.to_le_bytes());
            }
            Self::Heap {
                base,
                start_bits,
                bits,
            } => {
                out.push(tag::HEAP);
                out.extend_from_slice(&(*base as u64).to_le_bytes());
                out.push(*start_bits as u8);
                bits.serialize(out);
            }
            Self::Any { base, at } => {
                out.push(tag::ANY);
                out.extend_from_slice(&(*base as u64).to_le_bytes());
                out.extend_from_slice(&at.to_le_bytes());
            }
        }
    }

    fn deserialize(reader: &mut LeReader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            tag::NULL => Self::Null,
            tag::INT => Self::Int {
                base: reader.i64()?,
                has_nulls: reader.bool()?,
                bits: Bits::deserialize(reader)?,
            },
            tag::REAL => Self::Real { at: reader.u32()? },
            tag::CODE => {
                let bits = Bits::deserialize(reader)?;
                let words = reader.list(|reader| reader.text().map(Text::from))?;
                Self::Code {
                    words: words.into(),
                    bits,
                }
            }
            tag::INLINE => Self::Inline { at: reader.u32()? },
            tag::HEAP => {
                let base = reader.size()?;
                let start_bits = u32::from(reader.u8()?);
                if start_bits >= u64::BITS {
                    return Err(Malformed("starts of texts have too many bits"));
                }
                Self::Heap {
                    base,
                    start_bits,
                    bits: Bits::deserialize(reader)?,
                }
            }
            tag::ANY => Self::Any {
                base: reader.size()?,
                at: reader.u32()?,
            },
            _ => return Err(Malformed("an encoding is unknown")),
        })
    }

    /// The offset of its field in a row, and the least size of the field.
    fn field(&self) -> Option<(usize, usize)> {
        let (at, size) = match self {
            Self::Null => return None,
            Self::Int { bits, .. } | Self::Code { bits, .. } | Self::Heap { bits, .. } => {
                (bits.at, bits.size())
            }
            Self::Real { at } => (*at, size_of::<f64>() as u32),
            Self::Inline { at } => (*at, 1),
            Self::Any { at, .. } => (*at, ANY_SIZE),
        };
        Some((at as usize, size as usize))
    }
}

impl Bits {
    fn serialize(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.to_le_bytes());
        out.push(self.size() as u8);
    }

    fn deserialize(reader: &mut LeReader<'_>) -> Result<Self, Malformed> {
        let at = reader.u32()?;
        let max = match reader.u8()? {
            0 => 0,
            size @ 1..=8 => u64::MAX >> (u64::BITS - 8 * u32::from(size)),
            _ => return Err(Malformed("a field has more than eight bytes")),
        };
        Ok(Self::new(at, max))
    }
}
