//! The messages of pgoutput, protocol version 1: one file per message, each decoded in place and
//! checked to its last byte, so that iterating over a decoded message cannot fail.
//!
//! ```text
//!   Begin  [Origin]  { Relation, Type, Insert, Update, Delete, Truncate, Message }  Commit
//! ```
//!
//! Transactions come whole, in the order of their commits. A Relation comes before the first change
//! of its table, and again after the table changed. Messages that are not transactional come
//! anywhere.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>

mod begin;
mod commit;
mod data_type;
mod delete;
mod insert;
mod logical_decoding_message;
mod namespace;
mod origin;
mod relation;
mod truncate;
mod tuple;
mod update;

pub use begin::Begin;
pub use commit::Commit;
pub use data_type::DataType;
pub use delete::Delete;
pub use insert::Insert;
pub use logical_decoding_message::LogicalDecodingMessage;
pub use origin::Origin;
pub use relation::{Relation, RelationColumn, RelationColumns, ReplicaIdentity};
pub use truncate::Truncate;
pub use tuple::{OldTuple, Tuple, TupleField, TupleFields};
pub use update::Update;

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// A message of pgoutput: the payload of an [`XLogData`](super::XLogData).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogicalReplicationMessage<'a> {
    /// A transaction begins.
    Begin(Begin),
    /// The transaction is complete.
    Commit(Commit),
    /// The transaction was replicated to this server from another one.
    Origin(Origin<'a>),
    /// The columns of a table, for the changes that follow.
    Relation(Relation<'a>),
    /// The name of a type that is not built in, for the Relation that follows.
    Type(DataType<'a>),
    /// A new row.
    Insert(Insert<'a>),
    /// A changed row.
    Update(Update<'a>),
    /// A deleted row.
    Delete(Delete<'a>),
    /// All rows of some tables were deleted.
    Truncate(Truncate<'a>),
    /// A message of `pg_logical_emit_message`.
    Message(LogicalDecodingMessage<'a>),
}

impl<'a> LogicalReplicationMessage<'a> {
    /// Decodes the payload of an [`XLogData`](super::XLogData).
    ///
    /// # Errors
    ///
    /// If it is not exactly one message of protocol version 1; offsets count from its type byte.
    pub fn decode(payload: &'a [u8]) -> Result<Self, ProtocolError> {
        let body = |name| Reader::behind(name, payload, 1);
        match payload.first() {
            Some(b'B') => Begin::decode(body("Begin")).map(Self::Begin),
            Some(b'C') => Commit::decode(body("Commit")).map(Self::Commit),
            Some(b'O') => Origin::decode(body("Origin")).map(Self::Origin),
            Some(b'R') => Relation::decode(body("Relation")).map(Self::Relation),
            Some(b'Y') => DataType::decode(body("Type")).map(Self::Type),
            Some(b'I') => Insert::decode(body("Insert")).map(Self::Insert),
            Some(b'U') => Update::decode(body("Update")).map(Self::Update),
            Some(b'D') => Delete::decode(body("Delete")).map(Self::Delete),
            Some(b'T') => Truncate::decode(body("Truncate")).map(Self::Truncate),
            Some(b'M') => LogicalDecodingMessage::decode(body("Message")).map(Self::Message),
            tag => {
                let reason = tag.map_or(Reason::Truncated, |&tag| Reason::UnknownMessage(tag));
                Err(ProtocolError::new("message of pgoutput", 0, reason))
            }
        }
    }
}
