//! Replication slots: their names, CREATE_REPLICATION_SLOT and DROP_REPLICATION_SLOT.
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT>

use std::fmt;
use std::str::FromStr;

use super::Lsn;
use super::row::RowReader;
use crate::error::ProtocolError;
use crate::postgres::DataRow;

/// The maximal size of a name, `NAMEDATALEN` without its NUL.
const NAME_SIZE_MAX: usize = 63;

/// The name of a replication slot: 1 to 63 of `a`–`z`, `0`–`9` and `_`, as the server requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotName(String);

impl SlotName {
    /// The slot of this name.
    ///
    /// # Errors
    ///
    /// If no slot can have it.
    pub fn new(name: impl Into<String>) -> Result<Self, SlotNameError> {
        let name = name.into();
        let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        if (1..=NAME_SIZE_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
            Ok(Self(name))
        } else {
            Err(SlotNameError(()))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in the text of a command. Quotes keep the names apart that are words of the
    /// commands, such as `slot`; no character of a name needs more.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SlotName {
    type Err = SlotNameError;

    fn from_str(name: &str) -> Result<Self, SlotNameError> {
        Self::new(name)
    }
}

/// The error of a text that cannot be the name of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotNameError(());

impl fmt::Display for SlotNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not the name of a replication slot, which is 1 to {NAME_SIZE_MAX} of a-z, 0-9 and _"
        )
    }
}

impl std::error::Error for SlotNameError {}

/// Whether a slot outlives its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotLifetime {
    /// The server drops it at the end of the session, and after any error in it. A forgotten slot
    /// keeps log until the disk is full, so this is the default.
    #[default]
    Temporary,
    /// It stays until [`drop_replication_slot`].
    Persistent,
}

/// What happens to the snapshot of the data as of the slot's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotSnapshot {
    /// There is none. The default, since the others need the session to stay idle or in a
    /// transaction.
    #[default]
    Nothing,
    /// Other sessions can use it until the next command of this one; see
    /// [`CreatedSlot::snapshot`].
    Export,
    /// The current transaction of the session uses it; it must be repeatable read and new.
    Use,
}

/// The command that creates a slot for logical replication by pgoutput; its answer is a row, the
/// [`CreatedSlot`].
///
/// The server answers once all transactions that were writing have ended. The words for the
/// snapshot are those of PostgreSQL 10 to 14, which later versions accept too.
pub fn create_replication_slot(
    name: &SlotName,
    lifetime: SlotLifetime,
    snapshot: SlotSnapshot,
) -> String {
    let name = name.quoted();
    let lifetime = match lifetime {
        SlotLifetime::Temporary => " TEMPORARY",
        SlotLifetime::Persistent => "",
    };
    let snapshot = match snapshot {
        SlotSnapshot::Nothing => "NOEXPORT_SNAPSHOT",
        SlotSnapshot::Export => "EXPORT_SNAPSHOT",
        SlotSnapshot::Use => "USE_SNAPSHOT",
    };
    format!("CREATE_REPLICATION_SLOT {name}{lifetime} LOGICAL pgoutput {snapshot}")
}

/// What DROP_REPLICATION_SLOT does while another session uses the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotInUse {
    /// It fails. The default, since the other session may never end.
    #[default]
    Fail,
    /// It waits.
    Wait,
}

/// The command that drops a slot; its answer has no rows.
pub fn drop_replication_slot(name: &SlotName, in_use: SlotInUse) -> String {
    let name = name.quoted();
    let wait = match in_use {
        SlotInUse::Fail => "",
        SlotInUse::Wait => " WAIT",
    };
    format!("DROP_REPLICATION_SLOT {name}{wait}")
}

/// The answer to [`create_replication_slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedSlot<'a> {
    /// The slot's name.
    pub name: &'a str,
    /// Where the slot begins: transactions that commit later are streamed.
    pub consistent_point: Lsn,
    /// The exported snapshot, for `SET TRANSACTION SNAPSHOT`.
    pub snapshot: Option<&'a str>,
}

impl<'a> CreatedSlot<'a> {
    /// Decodes the row of the answer.
    ///
    /// # Errors
    ///
    /// If a column is missing, or is not what the documentation says.
    pub fn decode(row: DataRow<'a>) -> Result<Self, ProtocolError> {
        let mut row = RowReader::new("CREATE_REPLICATION_SLOT", row);
        Ok(Self {
            name: row.required("slot_name")?,
            consistent_point: row.value("consistent_point")?,
            snapshot: row.text("snapshot_name")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_server_accepts() {
        let longest = "x".repeat(NAME_SIZE_MAX);
        for name in ["a", "slot", "lookaside_7", "7", "_", &longest] {
            assert_eq!(SlotName::new(name).unwrap().as_str(), name);
        }
        let too_long = "x".repeat(NAME_SIZE_MAX + 1);
        for name in ["", "A", "a b", "a-b", "a\"", "a'", "é", "a\0", &too_long] {
            assert_eq!(name.parse::<SlotName>(), Err(SlotNameError(())), "{name}");
        }
    }

    #[test]
    fn commands_have_their_options() {
        let name = SlotName::new("feed").unwrap();
        assert_eq!(
            create_replication_slot(&name, SlotLifetime::Temporary, SlotSnapshot::Nothing),
            "CREATE_REPLICATION_SLOT \"feed\" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT"
        );
        assert_eq!(
            create_replication_slot(&name, SlotLifetime::Persistent, SlotSnapshot::Export),
            "CREATE_REPLICATION_SLOT \"feed\" LOGICAL pgoutput EXPORT_SNAPSHOT"
        );
        assert_eq!(
            create_replication_slot(&name, SlotLifetime::default(), SlotSnapshot::Use),
            "CREATE_REPLICATION_SLOT \"feed\" TEMPORARY LOGICAL pgoutput USE_SNAPSHOT"
        );
        assert_eq!(
            drop_replication_slot(&name, SlotInUse::Fail),
            "DROP_REPLICATION_SLOT \"feed\""
        );
        assert_eq!(
            drop_replication_slot(&name, SlotInUse::Wait),
            "DROP_REPLICATION_SLOT \"feed\" WAIT"
        );
    }
}
