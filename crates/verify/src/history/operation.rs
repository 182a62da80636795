//! A write and a read, as they are given to a recorder and returned by a history.

use std::fmt;
use std::num::NonZeroU64;

use super::contract::{ContractId, Layer};
use super::time::Time;
use crate::fault::PhaseId;

/// The number of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// The version of a register: each committed write of a key makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// A position in the database's log, in the order of its commits: an LSN of PostgreSQL, or the number
/// of a transaction. Having read up to a position means having all commits before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub NonZeroU64);

/// The number of a session. Its reads are sequential, and what they show never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u16);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.0)
    }
}

/// Whether a version has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The row is there.
    Present,
    /// The row was deleted, moved to another key, or never inserted.
    Absent,
}

/// A version and whether it has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The version, which counts on over states without a row.
    pub version: Version,
    /// Whether a read finds a row.
    pub presence: Presence,
}

impl State {
    /// A version with a row.
    pub const fn present(version: u32) -> Self {
        Self {
            version: Version(version),
            presence: Presence::Present,
        }
    }

    /// A version without a row.
    pub const fn absent(version: u32) -> Self {
        Self {
            version: Version(version),
            presence: Presence::Absent,
        }
    }
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// The commit was acknowledged.
    Acknowledged(State),
    /// It was aborted for certain. The state is what it would have made, if that is known.
    Aborted(Option<State>),
    /// The connection was lost before the acknowledgement: it may or may not have happened. The state
    /// is known if the statement had returned.
    Unknown(Option<State>),
}

impl WriteOutcome {
    /// The state that the write made or would have made.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Acknowledged(state) => Some(*state),
            Self::Aborted(state) | Self::Unknown(state) => *state,
        }
    }
}

/// A write of one key. A transaction over several keys is several writes with equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// What was written.
    pub key: Key,
    /// Before the first statement was sent.
    pub begin: Time,
    /// After the acknowledgement, or the error, had arrived.
    pub end: Time,
    /// What became of it.
    pub outcome: WriteOutcome,
    /// The position of the log that was asked for after the acknowledgement.
    pub position: Option<Position>,
    /// The number of the writer, whose writes are sequential.
    pub writer: u16,
    /// The phase of the fault plan when it began.
    pub phase: PhaseId,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From memory, without asking the database.
    Memory,
    /// From the database, for this read or for another that it joined.
    Database,
}

/// A read that got an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// What was read.
    pub key: Key,
    /// The version of the row that was found; `None` if there was none.
    pub version: Option<Version>,
    /// Before the request was made.
    pub begin: Time,
    /// After the answer had arrived. A history keeps the length of a read to the nanosecond up to
    /// 2.1 s and to the microsecond above, rounded up, at most 35 minutes.
    pub end: Time,
    /// What was promised.
    pub contract: ContractId,
    /// The position that the request named, for [`Contract::After`](super::Contract::After).
    pub token: Option<Position>,
    /// The layer that was asked.
    pub layer: Layer,
    /// The session that asked.
    pub session: SessionId,
    /// The moment that the answer claims to be fresh as of. A history keeps it to the microsecond,
    /// rounded to the past, and leaves it out if it is more than 71 minutes before the end. A claim
    /// later than the end of the read is kept as 1 ns after the end.
    pub fresh_as_of: Option<Time>,
    /// The phase of the fault plan when it began.
    pub phase: PhaseId,
    /// Whether the database was asked.
    pub source: Source,
}
