//! Numbers and texts as little-endian bytes, for the compiled form of tables.
//!
//! Bytes that are read may be from anyone: each length is compared with the bytes that there are before
//! anything is allocated.

/// Reads values from the start of bytes.
#[derive(Debug)]
pub(crate) struct LeReader<'a> {
    rest: &'a [u8],
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

const CUT: Malformed = Malformed("a section ends too early");

impl<'a> LeReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Checks that all bytes were read.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Malformed("a section has bytes after its end")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a truth value is neither 0 nor 1")),
        }
    }

    /// A number of 64 bits that is a size in memory.
    pub(crate) fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u64()?).map_err(|_| CUT)
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(size).ok_or(CUT)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// `count` items of `size` bytes each.
    pub(crate) fn items(&mut self, count: usize, size: usize) -> Result<&'a [u8], Malformed> {
        self.bytes(count.checked_mul(size).ok_or(CUT)?)
    }

    /// A text after its size, as [`put_text`] writes it.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let size = self.u32()? as usize;
        let bytes = self.bytes(size)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Items after their number, as [`put_list`] writes them.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        // Not allocated ahead: the number may be wrong.
        (0..count).map(|_| item(self)).collect()
    }
}

/// Appends a text after its size in bytes.
///
/// # Panics
/// When the text has 4 GiB or more.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let size = u32::try_from(text.len()).expect("a text of less than 4 GiB");
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends items after their number.
///
/// # Panics
/// When there are 2³² items or more.
pub(crate) fn put_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    mut put_item: impl FnMut(&mut Vec<u8>, &T),
) {
    let count = u32::try_from(items.len()).expect("fewer than 2^32 items");
    out.extend_from_slice(&count.to_le_bytes());
    items.iter().for_each(|item| put_item(out, item));
}
