//! Type: the name of a type that is not built in.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Type`

use std::ffi::CStr;

use super::namespace::namespace;
use crate::error::ProtocolError;
use crate::postgres::Oid;
use crate::read::Reader;

/// The name of a type; of a domain, that of its base type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType<'a> {
    /// The type's id, as in [`RelationColumn::type_oid`](super::RelationColumn::type_oid).
    pub oid: Oid,
    /// The namespace; `pg_catalog` if the message has none.
    pub namespace: &'a CStr,
    /// The name.
    pub name: &'a CStr,
}

impl<'a> DataType<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let data_type = Self {
            oid: Oid(reader.u32_be()?),
            namespace: namespace(&mut reader)?,
            name: reader.c_str()?,
        };
        reader.finish()?;
        Ok(data_type)
    }
}
