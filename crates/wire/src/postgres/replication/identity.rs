//! IDENTIFY_SYSTEM: which cluster the server is, and where its log ends.
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-IDENTIFY-SYSTEM>

use super::Lsn;
use super::row::RowReader;
use crate::error::ProtocolError;
use crate::postgres::DataRow;

/// The command that asks for the [`SystemIdentity`]; its answer is one row.
pub const IDENTIFY_SYSTEM: &str = "IDENTIFY_SYSTEM";

/// The id of a cluster, which all its standbys share, `pg_control_system().system_identifier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SystemId(pub u64);

/// The number of a cluster's history; each promotion of a standby begins a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline(pub u32);

/// The answer to [`IDENTIFY_SYSTEM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemIdentity<'a> {
    /// The cluster. With another one, no position in the log means the same.
    pub system_id: SystemId,
    /// The current history of the cluster.
    pub timeline: Timeline,
    /// The end of the flushed log.
    pub flushed: Lsn,
    /// The database of the session; none if it logged in for physical replication.
    pub database: Option<&'a str>,
}

impl<'a> SystemIdentity<'a> {
    /// Decodes the row of the answer.
    ///
    /// # Errors
    ///
    /// If a column is missing, or is not what the documentation says.
    pub fn decode(row: DataRow<'a>) -> Result<Self, ProtocolError> {
        let mut row = RowReader::new(IDENTIFY_SYSTEM, row);
        Ok(Self {
            system_id: SystemId(row.value("systemid")?),
            timeline: Timeline(row.value("timeline")?),
            flushed: row.value("xlogpos")?,
            database: row.text("dbname")?,
        })
    }
}
