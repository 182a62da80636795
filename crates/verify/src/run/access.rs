//! What a run needs of the database and of what is in front of it.

use std::time::Instant;

use crate::error::Cause;
use crate::history::{Contract, Key, Layer, Position, Source, State, Version, WriteOutcome};

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What became of the write. A write that failed in a way that leaves open whether it was committed is
    /// [`WriteOutcome::Unknown`].
    pub outcome: WriteOutcome,
    /// When the acknowledgement or the error had arrived, if that was before more was asked, such as the
    /// position: a bound that is too late would miss violations.
    pub ended: Option<Instant>,
    /// The position of the log, asked for after the acknowledgement.
    pub position: Option<Position>,
    /// What became of further keys of the same transaction, such as those of a `truncate`.
    pub others: Vec<(Key, WriteOutcome)>,
}

impl Written {
    /// A write of one key that has ended just now, without a position.
    pub fn new(outcome: WriteOutcome) -> Self {
        Self {
            outcome,
            ended: None,
            position: None,
            others: Vec::new(),
        }
    }
}

/// A connection that writes to the database itself, past all caches.
pub trait WriteConnection: Send {
    /// Makes the next version of a key, in a transaction. Whether that version has a row is up to the
    /// connection: it may update some keys, and insert and delete others in turn.
    fn write(&mut self, key: Key) -> Written;

    /// The committed states of keys, in the database itself: one for each key.
    ///
    /// # Errors
    ///
    /// If the database does not answer. The run then ends with this error, as it does if a key is missing
    /// or repeated.
    fn states(&mut self, keys: &[Key]) -> Result<Vec<(Key, State)>, Cause>;
}

/// What a reader is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to read.
    pub key: Key,
    /// Under which contract.
    pub contract: Contract,
    /// For [`Contract::After`]: the newest position that a writer of this key got; `None` if none
    /// has got one yet.
    pub token: Option<Position>,
    /// Through which layer.
    pub layer: Layer,
}

/// What a reader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The version of the row; `None` without a row.
    pub version: Option<Version>,
    /// The moment that the answer claims to be fresh as of, if it claims one.
    pub fresh_as_of: Option<Instant>,
    /// Whether the database was asked.
    pub source: Source,
}

/// A session that reads through the layers under test.
pub trait Reader: Send {
    /// Reads a key.
    ///
    /// # Errors
    ///
    /// If there is no answer. The run counts it and continues.
    fn read(&mut self, request: &Request) -> Result<Answer, Cause>;

    /// The number of the session that the last read belongs to, which was of this layer; below 16. Reads of
    /// one session never go back; those that do not share what they have shown differ in it.
    fn session(&self, layer: Layer) -> u16 {
        let _ = layer;
        0
    }
}
