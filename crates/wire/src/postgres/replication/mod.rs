//! Logical replication: the commands of a session that
//! [`Startup::replication`](super::Startup::replication) began.
//!
//! The commands are texts for [`Request::Query`](super::Request::Query). START_REPLICATION is
//! answered by [`Event::CopyBoth`](super::Event::CopyBoth), and must be the last queued request: a
//! server that streams treats any message but data and its end as fatal.
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html>

mod identity;
mod lsn;
mod row;
mod slot;
mod start;

pub use identity::{IDENTIFY_SYSTEM, SystemId, SystemIdentity, Timeline};
pub use lsn::{Lsn, ParseLsnError};
pub use slot::{
    CreatedSlot, SlotInUse, SlotLifetime, SlotName, SlotNameError, SlotSnapshot,
    create_replication_slot, drop_replication_slot,
};
pub use start::{StreamOptions, start_replication};
