//! How a transaction is begun, and the names of its savepoints.

/// The isolation and access mode of a transaction. The default is that of the session.
///
/// ```
/// use lookaside_client::{Isolation, TransactionOptions};
///
/// let mut options = TransactionOptions::default();
/// options.isolation = Some(Isolation::RepeatableRead);
/// options.is_read_only = true;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// The isolation level.
    pub isolation: Option<Isolation>,
    /// Whether it is read-only.
    pub is_read_only: bool,
}

/// An isolation level: which effects of concurrent transactions are visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Sees even uncommitted changes, on servers that support that.
    ReadUncommitted,
    /// Sees all committed changes.
    ReadCommitted,
    /// Sees no changes that are committed after its first query.
    RepeatableRead,
    /// Like repeatable read, and fails if the result is not equivalent to a serial order of the
    /// transactions.
    Serializable,
}

impl Isolation {
    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

/// The statement that rolls back a transaction.
pub(crate) const ROLLBACK: &str = "rollback";

/// A transaction, or a savepoint in one. The statements are the same for both kinds of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The transaction itself.
    Transaction,
    /// A savepoint by number; the outermost is 1.
    Savepoint(usize),
}

impl Level {
    /// The next inner level.
    pub(crate) fn inner(self) -> Self {
        match self {
            Self::Transaction => Self::Savepoint(1),
            Self::Savepoint(number) => Self::Savepoint(number + 1),
        }
    }

    /// The statement that commits its work to the outer level.
    pub(crate) fn commit(self) -> String {
        match self {
            Self::Transaction => "commit".to_owned(),
            Self::Savepoint(number) => format!("release savepoint s{number}"),
        }
    }

    /// The statements that undo its work, in order. Rolling back to a savepoint does not release
    /// it, and a loop would accumulate savepoints on the server.
    pub(crate) fn rollback(self) -> Vec<String> {
        match self {
            Self::Transaction => vec![ROLLBACK.to_owned()],
            Self::Savepoint(number) => {
                vec![
                    format!("rollback to savepoint s{number}"),
                    format!("release savepoint s{number}"),
                ]
            }
        }
    }

    /// The statement that sets a savepoint.
    pub(crate) fn savepoint(number: usize) -> String {
        format!("savepoint s{number}")
    }
}
