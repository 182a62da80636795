//! ParameterStatus: a setting of the session that is relevant for clients, and each change of it.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-ASYNC>

use std::ffi::CStr;

use crate::error::ProtocolError;
use crate::read::Reader;

/// A setting and its value; sent at log-in and then at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// The setting's name, such as `server_version`.
    pub name: &'a CStr,
    /// The current value.
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
