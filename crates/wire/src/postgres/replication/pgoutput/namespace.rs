//! The namespace of a table or type, which is empty for the one that most types are in.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Relation`

use std::ffi::CStr;

use crate::error::ProtocolError;
use crate::read::Reader;

/// Reads the name of a namespace; an empty one is `pg_catalog`.
pub(super) fn namespace<'a>(reader: &mut Reader<'a>) -> Result<&'a CStr, ProtocolError> {
    let name = reader.c_str()?;
    Ok(if name.is_empty() { c"pg_catalog" } else { name })
}
