//! ParameterStatus: a setting of the session that a client may have to know, and each change of it.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-ASYNC>

use std::ffi::CStr;

use crate::error::ProtocolError;
use crate::read::Reader;

/// A setting and its value; it comes at log-in and then at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// The setting's name, `server_version` say.
    pub name: &'a CStr,
    /// The value that it has now.
    pub value: &'a CStr,
}

impl<'a> ParameterStatus<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let name = reader.c_str()?;
        let value = reader.c_str()?;
        reader.finish()?;
        Ok(Self { name, value })
    }
}
