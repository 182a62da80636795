//! CommandComplete: the result of a complete statement.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `CommandComplete`

use std::ffi::CStr;
use std::fmt;

use crate::error::ProtocolError;
use crate::read::Reader;

/// The completed command, with its row count: `SELECT 3`, `INSERT 0 1`, `CREATE TABLE`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CommandTag<'a>(&'a CStr);

impl<'a> CommandTag<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let tag = reader.c_str()?;
        reader.finish()?;
        Ok(Self(tag))
    }

    /// The tag as the server wrote it.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0.to_bytes()
    }

    /// How many rows were selected, changed or copied; `None` for commands that do not count them.
    pub fn row_count(self) -> Option<u64> {
        // INSERT has a field for the former row id before the count: `INSERT 0 1`.
        let digits = self.as_bytes().rsplit(|&byte| byte == b' ').next()?;
        if digits.is_empty() {
            return None;
        }
        digits.iter().try_fold(0_u64, |count, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            count.checked_mul(10)?.checked_add(digit)
        })
    }
}

impl fmt::Debug for CommandTag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_last_word() {
        for (tag, expected) in [
            (c"SELECT 3", Some(3)),
            (c"INSERT 0 1", Some(1)),
            (c"COPY 18446744073709551615", Some(u64::MAX)),
            (c"COPY 18446744073709551616", None),
            (c"CREATE TABLE", None),
            (c"", None),
            (c"SELECT ", None),
            (c"SELECT 3x", None),
        ] {
            assert_eq!(CommandTag(tag).row_count(), expected, "{tag:?}");
        }
    }
}
