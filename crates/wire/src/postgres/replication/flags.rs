//! Bytes of flags, of which unknown bits are an error: their meaning could change that of the rest.

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// Reads a byte in which only bits of `known` may be set.
pub(super) fn flags(
    reader: &mut Reader<'_>,
    known: u8,
    what: &'static str,
) -> Result<u8, ProtocolError> {
    let before = *reader;
    let flags = reader.u8()?;
    if flags & !known == 0 {
        Ok(flags)
    } else {
        let value = flags.into();
        Err(before.error(Reason::UnknownValue { what, value }))
    }
}

/// Reads a byte that is 0 or 1.
pub(super) fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, ProtocolError> {
    Ok(flags(reader, 1, what)? == 1)
}
