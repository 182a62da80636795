//! What one thread writes its operations down with.

use std::collections::BTreeMap;
use std::fmt;

use super::contract::{ContractId, Layer};
use super::operation::{Read, Write};
use super::packed::PackedRead;
use crate::error::{Error, Result};
use crate::fault::PhaseId;

/// Reads in one allocation of 2.5 MB: a buffer that grows by copying would stop the reader for the
/// time of the copy, and twice the memory would be needed.
const CHUNK_READ_COUNT: usize = 1 << 16;

const _: () = assert!(size_of::<Write>() == 48);

/// How many operations a recorder holds. A recorder that is full refuses more.
#[derive(Clone, Copy, Debug)]
pub struct RecorderLimits {
    /// Reads with an answer, of 40 bytes each.
    pub read_count_max: usize,
    /// Writes, of 48 bytes each.
    pub write_count_max: usize,
}

impl Default for RecorderLimits {
    /// 10 million reads (400 MB) and 1 million writes (48 MB).
    fn default() -> Self {
        Self {
            read_count_max: 10_000_000,
            write_count_max: 1_000_000,
        }
    }
}

/// The buffer of one thread: no lock, no system call but for memory.
#[derive(Debug)]
pub struct Recorder {
    limits: RecorderLimits,
    recorded: Recorded,
    read_count: usize,
}

/// What was recorded.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) writes: Vec<Write>,
    /// All full but the last.
    pub(super) chunks: Vec<Vec<PackedRead>>,
    pub(super) failed_reads: BTreeMap<(ContractId, Layer, PhaseId), u64>,
    pub(super) first_failure: Option<String>,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new(limits: RecorderLimits) -> Self {
        Self {
            limits,
            recorded: Recorded::default(),
            read_count: 0,
        }
    }

    /// Records a write.
    ///
    /// # Errors
    ///
    /// If the limit is reached. A check without this write would find violations that are none, so a
    /// writer asks [`has_room`](Self::has_room) before it writes.
    pub fn write(&mut self, write: Write) -> Result<()> {
        self.transaction([write])
    }

    /// Records a transaction over several keys. The last one may exceed the limit by its keys.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn transaction(&mut self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        let limit = self.limits.write_count_max;
        if self.recorded.writes.len() >= limit {
            return Err(Error::history_full("writes", limit));
        }
        self.recorded.writes.extend(writes);
        Ok(())
    }

    /// Records a read that got an answer.
    ///
    /// # Errors
    ///
    /// If the limit is reached.
    pub fn read(&mut self, read: &Read) -> Result<()> {
        if self.read_count >= self.limits.read_count_max {
            return Err(Error::history_full("reads", self.limits.read_count_max));
        }
        let packed = PackedRead::pack(read);
        match self.recorded.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_READ_COUNT => chunk.push(packed),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK_READ_COUNT);
                chunk.push(packed);
                self.recorded.chunks.push(chunk);
            }
        }
        self.read_count += 1;
        Ok(())
    }

    /// Counts a read that got an error instead of an answer, and keeps the first error's text.
    pub fn failed_read(
        &mut self,
        contract: ContractId,
        layer: Layer,
        phase: PhaseId,
        error: &dyn fmt::Display,
    ) {
        let cell = (contract, layer, phase);
        *self.recorded.failed_reads.entry(cell).or_default() += 1;
        if self.recorded.first_failure.is_none() {
            self.recorded.first_failure = Some(error.to_string());
        }
    }

    /// Whether another write and another read can be recorded.
    pub fn has_room(&self) -> bool {
        self.recorded.writes.len() < self.limits.write_count_max
            && self.read_count < self.limits.read_count_max
    }

    /// The number of recorded reads that got an answer.
    pub fn read_count(&self) -> usize {
        self.read_count
    }

    pub(super) fn into_parts(self) -> Recorded {
        self.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Key, Time, WriteOutcome};

    #[test]
    fn a_full_recorder_refuses_more() {
        let mut recorder = Recorder::new(RecorderLimits {
            read_count_max: 1,
            write_count_max: 1,
        });
        let write = Write {
            key: Key(1),
            begin: Time::START,
            end: Time::START,
            outcome: WriteOutcome::Unknown(None),
            position: None,
            writer: 0,
            phase: PhaseId::default(),
        };
        assert!(recorder.has_room());
        recorder.write(write).unwrap();
        assert!(!recorder.has_room());
        let error = recorder.write(write).unwrap_err();
        assert!(error.to_string().contains("1 writes"), "{error}");
    }
}
