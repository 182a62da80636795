//! Where records end.

use memchr::{memchr, memrchr};

use super::Framing;

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
