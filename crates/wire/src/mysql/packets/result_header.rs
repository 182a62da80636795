//! The first packet of a result with rows: how many columns, and whether they are described.
//!
//! The vendor's documentation has the two fields in reverse order; servers send them in this order.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html>

use crate::error::{ProtocolError, Reason};
use crate::mysql::Capabilities;
use crate::read::Reader;

/// The most columns that a result may have; servers allow 4,096.
const COLUMN_COUNT_MAX: u64 = 65_535;

/// The header of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultHeader {
    pub(crate) column_count: u16,
    pub(crate) has_definitions: bool,
}

impl ResultHeader {
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        capabilities: Capabilities,
    ) -> Result<Self, ProtocolError> {
        let before = reader;
        let count = reader.lenenc()?;
        if count == 0 || count > COLUMN_COUNT_MAX {
            return Err(before.error(Reason::ColumnCount(count)));
        }
        let is_announced = capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA)
            || capabilities.contains(Capabilities::MARIADB_CACHE_METADATA);
        let has_definitions = !is_announced || reader.u8()? != 0;
        reader.finish()?;
        Ok(Self {
            column_count: count as u16,
            has_definitions,
        })
    }
}
