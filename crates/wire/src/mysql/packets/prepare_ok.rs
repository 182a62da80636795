//! The answer to COM_STMT_PREPARE, before the definitions.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html#sect_protocol_com_stmt_prepare_response_ok>

use crate::error::{ProtocolError, Reason};
use crate::mysql::{Capabilities, StatementId};
use crate::read::Reader;

/// A statement is prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrepareOk {
    pub(crate) statement: StatementId,
    pub(crate) column_count: u16,
    pub(crate) parameter_count: u16,
    pub(crate) warning_count: u16,
    /// Whether definitions of parameters and columns follow.
    pub(crate) has_definitions: bool,
}

impl PrepareOk {
    /// Decodes a packet, including its first byte.
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        capabilities: Capabilities,
    ) -> Result<Self, ProtocolError> {
        reader.u8()?;
        let before = reader;
        let statement = StatementId(reader.u32_le()?);
        if statement == StatementId::LAST {
            return Err(before.error(Reason::UnknownValue {
                what: "number of a statement",
                value: -1,
            }));
        }
        let column_count = reader.u16_le()?;
        let parameter_count = reader.u16_le()?;
        reader.u8()?;
        let warning_count = reader.u16_le()?;
        let has_definitions =
            !capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA) || reader.u8()? != 0;
        reader.finish()?;
        Ok(Self {
            statement,
            column_count,
            parameter_count,
            warning_count,
            has_definitions,
        })
    }
}
