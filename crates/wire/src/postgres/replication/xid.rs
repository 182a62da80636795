//! Xid: the id of a transaction.

/// The id of a transaction, 32 bits that wrap around (`TransactionId`).
///
/// It has no order of its own: of two ids, the one is older that is less than 2³¹ behind.
///
/// <https://www.postgresql.org/docs/current/transaction-id.html>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);
