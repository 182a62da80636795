//! How the values of one column are stored in the rows of one segment.

use lookaside_value::Text;

/// The encoding of a column.
///
/// A field of up to eight bytes is read with one load and a mask, whatever its width. No encoding needs
/// a separate bitmap of NULLs: one code is left for it.
#[derive(Debug)]
pub(super) enum Encoding {
    /// All values are NULL; no bytes.
    Null,
    /// An integer as its difference from `base`, or zero for NULL.
    Int {
        /// The least integer; less one if there are NULLs.
        base: i64,
        /// Whether the difference zero is NULL.
        has_nulls: bool,
        bits: Bits,
    },
    /// The bits of a real number; those of a NaN for NULL, as SQLite stores none.
    Real { at: u32 },
    /// The code of a text in `words`; the last code is NULL.
    Code { words: Box<[Text]>, bits: Bits },
    /// The size of a text plus one, or zero for NULL, in one byte, and the text.
    Inline { at: u32 },
    /// The start of a text after `base` in the segment's texts, and above its bits the size plus one, or
    /// zero for NULL.
    Heap {
        base: usize,
        start_bits: u32,
        bits: Bits,
    },
    /// A byte for the storage class and eight bytes: the number, or start after `base` and size in the
    /// segment's bytes.
    Any { base: usize, at: u32 },
}

/// Where a field of up to eight bytes is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    /// Its offset in the row, in bytes.
    pub(super) at: u32,
    pub(super) mask: u64,
}

/// The storage classes of [`Encoding::Any`].
pub(super) mod class {
    pub(in crate::table) const NULL: u8 = 0;
    pub(in crate::table) const INT: u8 = 1;
    pub(in crate::table) const REAL: u8 = 2;
    pub(in crate::table) const TEXT: u8 = 3;
    pub(in crate::table) const BLOB: u8 = 4;
}

/// The size of a field of [`Encoding::Any`] in bytes.
pub(super) const ANY_SIZE: u32 = 9;

/// The longest text within a row, in bytes.
pub(super) const INLINE_SIZE_MAX: usize = 23;

impl Bits {
    /// A field at this offset for numbers up to `max`.
    pub(super) fn new(at: u32, max: u64) -> Self {
        let bit_count = u64::BITS - max.leading_zeros();
        let byte_count = bit_count.div_ceil(8);
        let mask = match byte_count {
            8 => u64::MAX,
            count => (1 << (8 * count)) - 1,
        };
        Self { at, mask }
    }

    /// The bytes of a number that are stored.
    #[inline]
    pub(super) fn field(self, bytes: &[u8; 8]) -> &[u8] {
        &bytes[..self.size() as usize]
    }

    /// Its size in bytes.
    #[inline]
    pub(super) fn size(self) -> u32 {
        (u64::BITS - self.mask.leading_zeros()) / 8
    }
}
