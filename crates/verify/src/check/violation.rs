//! What is reported of a read that broke its contract.

use std::fmt;

use crate::fault::FaultKind;
use crate::history::{Contract, Key, Presence, Read, Source, State, Version, Write, WriteOutcome};

/// The rule that was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The version was written only by transactions that were aborted.
    Aborted,
    /// No write made the version.
    Unwritten,
    /// The write of the version began after the read had ended.
    Future,
    /// The answer is older than the moment that it claims to be fresh as of.
    Claim,
    /// The answer claims to be fresh as of a moment after the read.
    FutureClaim,
    /// The answer is older than `within(d)` allows.
    Within,
    /// The answer is older than the position that the read named.
    After,
    /// The answer is older than the database's own at the begin of the read.
    Now,
    /// The session had read a newer version before.
    Session,
    /// After the writers had stopped, the answer is not the database's state.
    Quiet,
    /// The database lost an acknowledged write.
    Lost,
}

impl Rule {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::Unwritten => "unwritten",
            Self::Future => "future",
            Self::Claim => "claim",
            Self::FutureClaim => "future-claim",
            Self::Within => "within",
            Self::After => "after",
            Self::Now => "now",
            Self::Session => "session",
            Self::Quiet => "quiet",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an answer should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This version or a newer one.
    AtLeast(Version),
    /// This state.
    Exactly(State),
    /// Any version that a write made before the end of the read.
    Written,
    /// A claim not later than the end of the read.
    EarlierClaim,
}

/// The operation that makes an answer a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A write that the answer had to show, or could not show.
    Write(Write),
    /// A read that had shown a newer version before.
    Read(Read),
    /// Nothing that was recorded.
    None,
}

/// A read with its contract and the faults around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The read.
    pub read: Read,
    /// What it was promised.
    pub contract: Contract,
    /// The fault of the phase in which it began.
    pub fault: Option<FaultKind>,
    /// The last fault before that phase.
    pub fault_before: Option<FaultKind>,
}

/// A violation of a rule. `Display` is a paragraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Of which key.
    pub key: Key,
    /// By which read; `None` for [`Rule::Lost`].
    pub witness: Option<Witness>,
    /// What was expected.
    pub expected: Expected,
    /// Why it was expected.
    pub evidence: Evidence,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule)?;
        if let Some(witness) = &self.witness {
            witness.fmt(f)?;
            f.write_str(" ")?;
        }
        self.reason(f)?;
        match self.expected {
            Expected::AtLeast(version) => write!(f, " Expected: {version} or newer."),
            Expected::Exactly(State {
                presence: Presence::Absent,
                ..
            }) => f.write_str(" Expected: no row."),
            Expected::Exactly(state) => write!(f, " Expected: {}.", state.version),
            Expected::Written | Expected::EarlierClaim => Ok(()),
        }
    }
}

impl Violation {
    fn reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule, self.evidence) {
            (Rule::Aborted, Evidence::Write(write)) => {
                write!(f, "This version was only written by {}.", Attempt(&write))
            }
            (Rule::Future, Evidence::Write(write)) => write!(
                f,
                "This version was written only after the read had ended, by {}.",
                Attempt(&write)
            ),
            (Rule::Unwritten, Evidence::Write(write)) => write!(
                f,
                "This version has no row: it was made by {}.",
                Attempt(&write)
            ),
            (Rule::Unwritten, _) => f.write_str("No recorded write explains this answer."),
            (Rule::FutureClaim, _) => {
                f.write_str("An answer cannot be fresh as of a moment after its read.")
            }
            (Rule::Lost, Evidence::Write(write)) => write!(
                f,
                "The database lost {}: a later state of {} does not include it.",
                Attempt(&write),
                self.key
            ),
            (rule, Evidence::Write(write)) => {
                write!(f, "It does not show {}", Attempt(&write))?;
                self.margin(f, rule, &write)
            }
            (_, Evidence::Read(read)) => {
                write!(
                    f,
                    "Session {} had read a newer version through {}, from {} to {}.",
                    read.session.0, read.layer, read.begin, read.end
                )
            }
            (_, Evidence::None) => f.write_str("The writers had stopped and nothing changed."),
        }
    }

    /// How far before the bound the write was acknowledged.
    fn margin(&self, f: &mut fmt::Formatter<'_>, rule: Rule, write: &Write) -> fmt::Result {
        let Some(witness) = &self.witness else {
            return f.write_str(".");
        };
        let read = &witness.read;
        match (rule, read.fresh_as_of, read.token, write.position) {
            (Rule::Claim, Some(claim), _, _) => {
                let before = claim.since(write.end);
                write!(f, ", {before:.1?} before the claimed moment.")
            }
            (Rule::After, _, Some(token), Some(position)) => write!(
                f,
                ", at position {}; the read named {}.",
                position.0, token.0
            ),
            _ => {
                let before = read.begin.since(write.end);
                write!(f, ", {before:.1?} before the read began.")
            }
        }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = &self.read;
        let source = match read.source {
            Source::Memory => "from memory",
            Source::Database => "from the database",
        };
        write!(f, "session {} read ", read.session.0)?;
        match read.version {
            Some(version) => write!(f, "{version} of {}", read.key)?,
            None => write!(f, "no row of {}", read.key)?,
        }
        write!(
            f,
            " through {} under {}, {source}, from {} to {}, ",
            read.layer, self.contract, read.begin, read.end
        )?;
        match (self.fault, self.fault_before) {
            (Some(fault), _) => write!(f, "during {fault}")?,
            (None, Some(fault)) => write!(f, "in the quiet phase after {fault}")?,
            (None, None) => f.write_str("before any fault")?,
        }
        match read.fresh_as_of {
            Some(claim) => write!(f, "; the answer claims to be fresh as of {claim}."),
            None => f.write_str("."),
        }
    }
}

/// A write in a sentence.
struct Attempt<'a>(&'a Write);

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = self.0;
        f.write_str("the write")?;
        if let Some(state) = write.outcome.state() {
            write!(f, " of {}", state.version)?;
            if state.presence == Presence::Absent {
                f.write_str(" (no row)")?;
            }
        }
        let end = match write.outcome {
            WriteOutcome::Acknowledged(_) => "acknowledged",
            WriteOutcome::Aborted(_) => "aborted",
            WriteOutcome::Unknown(_) => "left without an acknowledgement",
        };
        write!(
            f,
            " by writer {}, begun at {} and {end} at {}",
            write.writer, write.begin, write.end
        )
    }
}
