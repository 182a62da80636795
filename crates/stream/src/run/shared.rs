//! What all threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use lookaside_pipeline::Pipeline;

use super::Strictness;
use super::entry::{Entry, EntryState};
use super::exit::{Exit, Sinks, Totals};
use super::job::{Job, Spares};
use super::limit::Limit;
use crate::source::Block;
use crate::{Error, InputFormat, OutputFormat, Progress, Result, StopFlag};

pub(super) struct Shared {
    pub(super) entry: Mutex<Entry>,
    pub(super) exit: Mutex<Exit>,
    /// Blocks that passed the transform since whoever writes last looked; zero while nobody does.
    pub(super) passed: AtomicU64,
    pub(super) pipeline: Pipeline<Job>,
    pub(super) spares: Spares,
    pub(super) limit: Option<Limit>,
    /// Filled when the run ends before its input does; with an error if it failed.
    pub(super) over: OnceLock<Option<Error>>,
    /// A transform gave its batch up.
    pub(super) is_abandoned: AtomicBool,
    /// Raised when the run is over before its input is, to wake whoever reads.
    pub(super) abort: StopFlag,
    pub(super) input_format: InputFormat,
    pub(super) output_format: OutputFormat,
    pub(super) strictness: Strictness,
    pub(super) progress: Progress,
}

/// How a run went, seen from its end.
pub(super) struct Outcome {
    pub(super) totals: Totals,
    pub(super) limit_reached: bool,
    /// It was asked to end while it read, or gave a batch up.
    pub(super) stopped: bool,
    pub(super) read_error: Option<Error>,
    pub(super) sinks: Result<Sinks>,
}

impl Shared {
    /// Takes a turn to read; `false` when there are no more blocks, or the run is over.
    pub(super) fn read(&self, block: &mut Block) -> bool {
        match self.entry.lock() {
            Ok(mut entry) => entry.read(block, &self.spares),
            // Whoever panicked in the reader ends the run.
            Err(_) => false,
        }
    }

    /// How many of the `count` events of block `number` are within the limit; `None` when nothing of
    /// it counts any more.
    pub(super) fn admit(&self, number: u64, count: u64) -> Option<u64> {
        let Some(limit) = &self.limit else {
            return Some(count);
        };
        let admitted = limit.admit(number, count);
        if limit.is_reached() {
            // Whoever waits for input waits in vain; what was admitted still leaves.
            self.abort.raise();
        }
        admitted
    }

    /// Ends the run, with an error if it failed; the first end counts.
    pub(super) fn end(&self, error: Option<Error>) {
        if self.over.set(error).is_ok() {
            // Whoever waits for input, for a slot, or for blocks before its own.
            self.abort.raise();
            self.pipeline.close();
            self.limit.iter().for_each(Limit::end);
        }
    }

    /// Ends the run before a batch that was given up.
    pub(super) fn abandon(&self) {
        // Relaxed: it is read when the threads of the run have ended.
        self.is_abandoned.store(true, Ordering::Relaxed);
        self.end(None);
    }

    /// Whether nothing leaves any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    /// What left, and where it went, once all workers are gone.
    pub(super) fn into_outcome(self) -> Outcome {
        // A panic is the error that the run is over with.
        let entry = self.entry.into_inner();
        let entry = entry.unwrap_or_else(PoisonError::into_inner);
        let exit = self.exit.into_inner();
        let exit = exit.unwrap_or_else(PoisonError::into_inner);
        Outcome {
            totals: exit.totals,
            limit_reached: self.limit.is_some_and(|limit| limit.is_reached()),
            stopped: entry.state == EntryState::Stopped || self.is_abandoned.into_inner(),
            read_error: entry.error,
            sinks: match self.over.into_inner().flatten() {
                Some(error) => Err(error),
                None => Ok(exit.sinks),
            },
        }
    }
}
