//! Logical replication: the commands of a session that
//! [`Startup::replication`](super::Startup::replication) began, and the messages of the stream.
//!
//! ```text
//!   CopyData ─► StreamMessage ─┬─ PrimaryKeepalive
//!                              └─ XLogData ─► LogicalReplicationMessage: Begin, Relation, Insert, …
//! ```
//!
//! The commands are texts for [`Request::Query`](super::Request::Query). START_REPLICATION is
//! answered by [`Event::CopyBoth`](super::Event::CopyBoth), and must be the last queued request: a
//! server that streams treats any message but data and its end as fatal. A session streams once:
//! a second stream ends at once, as if the first one's end were its own (PostgreSQL 15 and 18). An
//! error in the session drops its temporary slots.
//!
//! All decoders read in place, allocate nothing, and check a message to its last byte.
//!
//! ```
//! use lookaside_wire::postgres::replication::{
//!     LogicalReplicationMessage, Lsn, SlotLifetime, SlotName, SlotSnapshot, StandbyStatus,
//!     StreamMessage, StreamOptions, Timestamp, create_replication_slot, start_replication,
//! };
//! use lookaside_wire::postgres::{Connection, Credentials, Event, Request, Startup};
//! use lookaside_wire::Limits;
//!
//! let startup = Startup::new("amy").database("shop").replication();
//! let mut connection = Connection::new(&startup, Credentials::new([7; 18]), Limits::default())?;
//! # connection.feed(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
//! # while connection.next_event()?.is_some() {}
//! let slot = SlotName::new("feed")?;
//! let create =
//!     create_replication_slot(&slot, SlotLifetime::Temporary, SlotSnapshot::Nothing);
//! connection.queue(Request::Query(&create))?; // answered by the row of a `CreatedSlot`
//! # connection.feed(b"C\0\0\0\x1cCREATE_REPLICATION_SLOT\0Z\0\0\0\x05I");
//! # while connection.next_event()?.is_some() {}
//! let options = StreamOptions::default();
//! let start = start_replication(&slot, Lsn::INVALID, &["shop"], &options);
//! connection.queue(Request::Query(&start))?;
//! # connection.feed(b"W\0\0\0\x07\0\0\0");
//!
//! // A Commit in XLogData in CopyData.
//! connection.feed(b"d\0\0\0\x37w\0\0\0\0\0\0\0\x2a\0\0\0\0\0\0\0\x2a\0\0\0\0\0\0\0\0");
//! connection.feed(b"C\0\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0\x2a\0\0\0\0\0\0\0\0");
//! let mut received = Lsn::INVALID;
//! while let Some(event) = connection.next_event()? {
//!     let Event::CopyData { data, .. } = event else { continue };
//!     match StreamMessage::decode(data)? {
//!         StreamMessage::XLogData(piece) => match LogicalReplicationMessage::decode(piece.payload)? {
//!             LogicalReplicationMessage::Commit(commit) => received = commit.end,
//!             _ => {}
//!         },
//!         StreamMessage::PrimaryKeepalive(keepalive) => received = received.max(keepalive.end),
//!         _ => {}
//!     }
//! }
//! assert_eq!(received, Lsn(0x2a));
//! let status = StandbyStatus {
//!     written: received,
//!     flushed: received,
//!     applied: received,
//!     time: Timestamp::from_unix_micros(1_800_000_000_000_000),
//!     reply_requested: false,
//! };
//! connection.copy_data(&status.encode())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html>

mod flags;
mod fuzz;
mod identity;
mod lsn;
mod pgoutput;
mod row;
mod slot;
mod start;
mod status;
mod stream;
mod timestamp;
mod xid;

#[doc(hidden)]
pub use fuzz::fuzz_replication;
pub use identity::{IDENTIFY_SYSTEM, SystemId, SystemIdentity, Timeline};
pub use lsn::{Lsn, ParseLsnError};
pub use pgoutput::{
    Begin, Commit, DataType, Delete, Insert, LogicalDecodingMessage, LogicalReplicationMessage,
    OldTuple, Origin, Relation, RelationColumn, RelationColumns, ReplicaIdentity, Truncate, Tuple,
    TupleField, TupleFields, Update,
};
pub use slot::{
    CreatedSlot, SlotInUse, SlotLifetime, SlotName, SlotNameError, SlotSnapshot,
    create_replication_slot, drop_replication_slot,
};
pub use start::{StreamOptions, start_replication};
pub use status::StandbyStatus;
pub use stream::{PrimaryKeepalive, StreamMessage, XLogData};
pub use timestamp::Timestamp;
pub use xid::Xid;
