//! What was written and read, when: the operations of a run in one monotonic clock.
//!
//! # Registers and their versions
//!
//! Each key is a register. A write makes the next version of its key (`update … set v = v + 1
//! returning v`), so the versions of a key are totally ordered by the database itself.
//!
//! A state without a row is a version as well. A register whose row is inserted and deleted keeps its
//! counter in a second table, which the transaction of the insert or delete advances (`with n as
//! (update counters set v = v + 1 where k = $1 returning v) …`), and an inserted row has the version
//! as its value. An answer without a row does not say which version it shows: the check takes the
//! oldest version without a row that explains it.

mod contract;
mod operation;
mod packed;
mod recorder;
mod time;

pub use contract::{Contract, ContractId, Contracts, Layer};
pub use operation::{
    Key, Position, Presence, Read, SessionId, Source, State, Version, Write, WriteOutcome,
};
pub use recorder::{Recorder, RecorderLimits};
pub use time::{Clock, Time};

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::fault::{FaultPlan, PhaseId};
use packed::PackedRead;

/// What the database and the layers showed after the writers had stopped.
#[derive(Clone, Debug)]
pub struct QuietEnd {
    /// From when on each layer has to show the final states: the writers have stopped before, and a
    /// quiet period has passed that is longer than a cached answer is used without a feed.
    pub since: Time,
    /// The states that the database had then.
    pub states: BTreeMap<Key, State>,
}

/// The operations of a run, sorted for the check.
#[derive(Debug)]
pub struct History {
    contracts: Contracts,
    plan: FaultPlan,
    announced: PhaseId,
    /// Ordered by key, then by begin.
    writes: Vec<Write>,
    /// Ordered by key, then by begin.
    reads: Vec<PackedRead>,
    failed_reads: BTreeMap<(ContractId, Layer, PhaseId), u64>,
    first_failure: Option<String>,
    quiet_end: Option<QuietEnd>,
}

impl History {
    /// Merges what the threads recorded. `announced` is the last phase of the plan that began.
    ///
    /// # Errors
    ///
    /// If a read has a contract that is not in the list, or an operation a phase that is not in the
    /// plan.
    pub fn merge(
        contracts: Contracts,
        plan: FaultPlan,
        announced: PhaseId,
        recorders: Vec<Recorder>,
    ) -> Result<Self> {
        let mut history = Self {
            contracts,
            plan,
            announced,
            writes: Vec::new(),
            reads: Vec::with_capacity(recorders.iter().map(Recorder::read_count).sum()),
            failed_reads: BTreeMap::new(),
            first_failure: None,
            quiet_end: None,
        };
        for recorder in recorders {
            let recorded = recorder.into_parts();
            history.writes.extend(recorded.writes);
            for chunk in recorded.chunks {
                history.reads.extend_from_slice(&chunk);
            }
            for (cell, count) in recorded.failed_reads {
                *history.failed_reads.entry(cell).or_default() += count;
            }
            history.first_failure = history.first_failure.or(recorded.first_failure);
        }
        history.check_references()?;
        history
            .writes
            .sort_by_key(|write| (write.key, write.begin, write.end));
        history.reads.sort_unstable_by_key(PackedRead::order);
        Ok(history)
    }

    fn check_references(&self) -> Result<()> {
        let phase_count = self.plan.phases().len();
        let of_reads = self
            .reads
            .iter()
            .map(|read| (read.contract(), read.phase()));
        let of_failed = self.failed_reads.keys().map(|cell| (cell.0, cell.2));
        for (contract, phase) in of_reads.chain(of_failed) {
            if self.contracts.contract(contract).is_none() {
                return Err(Error::unknown_contract(contract.index()));
            }
            if phase.index() >= phase_count {
                return Err(Error::unknown_phase(phase.index()));
            }
        }
        let of_writes = self.writes.iter().map(|write| write.phase);
        match of_writes.chain([self.announced]).max() {
            Some(phase) if phase.index() >= phase_count => Err(Error::unknown_phase(phase.index())),
            _ => Ok(()),
        }
    }

    /// Adds what the database showed after the writers had stopped. Without it, the check of the
    /// quiet end is left out.
    pub fn set_quiet_end(&mut self, quiet_end: QuietEnd) {
        self.quiet_end = Some(quiet_end);
    }

    /// The states after the writers had stopped.
    pub fn quiet_end(&self) -> Option<&QuietEnd> {
        self.quiet_end.as_ref()
    }

    /// The contracts of the reads.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// The phases of the run.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The last phase of the plan that began.
    pub fn announced(&self) -> PhaseId {
        self.announced
    }

    /// The writes, ordered by key, then by begin.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The number of reads that got an answer.
    pub fn read_count(&self) -> usize {
        self.reads.len()
    }

    /// The reads, ordered by key, then by begin.
    pub fn reads(&self) -> impl ExactSizeIterator<Item = Read> + '_ {
        self.reads.iter().map(PackedRead::unpack)
    }

    /// How many reads got an error instead of an answer, by contract, layer and phase.
    pub fn failed_reads(&self) -> &BTreeMap<(ContractId, Layer, PhaseId), u64> {
        &self.failed_reads
    }

    /// The error of the first failed read that a thread recorded.
    pub fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// The operations by key: each key once, in ascending order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = KeyHistory<'_>> {
        let mut writes = self.writes.as_slice();
        let mut reads = self.reads.as_slice();
        std::iter::from_fn(move || {
            let first_write = writes.first().map(|write| write.key);
            let first_read = reads.first().map(PackedRead::key);
            let key = match (first_write, first_read) {
                (Some(write), Some(read)) => write.min(read),
                (Some(key), None) | (None, Some(key)) => key,
                (None, None) => return None,
            };
            let write_count = writes.partition_point(|write| write.key <= key);
            let read_count = reads.partition_point(|read| read.key() <= key);
            let history = KeyHistory {
                key,
                writes: &writes[..write_count],
                reads: &reads[..read_count],
            };
            writes = &writes[write_count..];
            reads = &reads[read_count..];
            Some(history)
        })
    }

    /// The operations of one key.
    pub(crate) fn key(&self, key: Key) -> KeyHistory<'_> {
        let writes = &self.writes[self.writes.partition_point(|write| write.key < key)..];
        let reads = &self.reads[self.reads.partition_point(|read| read.key() < key)..];
        KeyHistory {
            key,
            writes: &writes[..writes.partition_point(|write| write.key == key)],
            reads: &reads[..reads.partition_point(|read| read.key() == key)],
        }
    }
}

/// The operations of one key, ordered by their begin.
pub(crate) struct KeyHistory<'a> {
    pub(crate) key: Key,
    pub(crate) writes: &'a [Write],
    reads: &'a [PackedRead],
}

impl KeyHistory<'_> {
    pub(crate) fn read_count(&self) -> usize {
        self.reads.len()
    }

    /// The read at an index below [`read_count`](Self::read_count).
    pub(crate) fn read(&self, index: usize) -> Read {
        self.reads[index].unpack()
    }
}
