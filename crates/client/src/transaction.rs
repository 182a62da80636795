//! How a transaction is begun, and the names of its savepoints.

/// What a transaction sees, and what it may do. The default is what the session says.
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
    /// How much it sees of what others do meanwhile.
    pub isolation: Option<Isolation>,
    /// Whether it is refused to change anything.
    pub is_read_only: bool,
}

/// How much a transaction sees of what others do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Even what they have not committed, on servers that know such a thing.
    ReadUncommitted,
    /// All that they have committed.
    ReadCommitted,
    /// Nothing that they commit after its first query.
    RepeatableRead,
    /// Nothing either, and it fails where no order of the transactions explains what they saw.
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

/// What undoes a transaction.
pub(crate) const ROLLBACK: &str = "rollback";

/// What opens and ends a transaction, or a savepoint in one. Both kinds of server say it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The transaction itself.
    Transaction,
    /// The savepoint of that number, the outermost of which is 1.
    Savepoint(usize),
}

impl Level {
    /// The next one inside.
    pub(crate) fn inner(self) -> Self {
        match self {
            Self::Transaction => Self::Savepoint(1),
            Self::Savepoint(number) => Self::Savepoint(number + 1),
        }
    }

    /// What makes its work part of what is around it.
    pub(crate) fn commit(self) -> String {
        match self {
            Self::Transaction => "commit".to_owned(),
            Self::Savepoint(number) => format!("release savepoint s{number}"),
        }
    }

    /// What undoes its work, one statement after the other. Going back to a savepoint does not
    /// take it away, and a loop would leave one after the other on the server.
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

    /// What sets a savepoint.
    pub(crate) fn savepoint(number: usize) -> String {
        format!("savepoint s{number}")
    }
}
