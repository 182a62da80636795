//! Where records end.

use memchr::{memchr, memchr2, memrchr};

use super::Framing;
use super::lines::BYTE_ORDER_MARK;

/// Every newline ends a record.
pub(crate) struct Newline;

impl Framing for Newline {
    fn first(&self, bytes: &[u8], eof: bool) -> Option<usize> {
        match memchr(b'\n', bytes) {
            Some(at) => Some(at + 1),
            None => (eof && !bytes.is_empty()).then_some(bytes.len()),
        }
    }

    fn whole(&self, bytes: &[u8], eof: bool) -> usize {
        if eof {
            return bytes.len();
        }
        memrchr(b'\n', bytes).map_or(0, |at| at + 1)
    }
}

/// A newline ends a record unless it is in double quotes.
///
/// A quote opens only at the beginning of a field, also after a byte order mark; anywhere else it
/// is text.
pub(crate) struct Quoted {
    pub(crate) delimiter: u8,
}

impl Quoted {
    /// The length of the first record with its newline, if it is complete.
    #[inline]
    pub(crate) fn record_size(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            at += memchr2(b'\n', b'"', &bytes[at..])?;
            if bytes[at] == b'\n' {
                return Some(at + 1);
            }
            let opens =
                at == 0 || bytes[at - 1] == self.delimiter || &bytes[..at] == BYTE_ORDER_MARK;
            at = if opens {
                quoted_end(bytes, at + 1)? + 1
            } else {
                at + 1
            };
        }
    }
}

/// The position of the quote that closes text beginning at `from`; a doubled quote is one in the
/// text.
#[inline]
pub(crate) fn quoted_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'"', bytes.get(at..)?)?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

impl Framing for Quoted {
    fn first(&self, bytes: &[u8], eof: bool) -> Option<usize> {
        match self.record_size(bytes) {
            Some(size) => Some(size),
            None => (eof && !bytes.is_empty()).then_some(bytes.len()),
        }
    }

    fn whole(&self, bytes: &[u8], eof: bool) -> usize {
        // Most tables have no quote at all.
        if eof || memchr(b'"', bytes).is_none() {
            return Newline.whole(bytes, eof);
        }
        let mut whole = 0;
        while let Some(size) = self.record_size(&bytes[whole..]) {
            whole += size;
        }
        whole
    }
}
