//! The state that all threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use lookaside_pipeline::Pipeline;

use super::Strictness;
use super::block_producer::{BlockProducer, Produced, ProducerState};
use super::block_writer::{BlockWriter, Sinks, Totals};
use super::job::{RunJob, Spares};
use super::limit::Limit;
use super::split::SplitPath;
use crate::message::{MessageFraming, MetaNames};
use crate::source::{Block, Reader};
use crate::{Error, InputFormat, OutputFormat, Progress, Result, StopFlag};

pub(super) struct Shared {
    pub(super) block_producer: Mutex<BlockProducer>,
    pub(super) block_writer: Mutex<BlockWriter>,
    /// The number of blocks that passed the transform since the writing thread last checked; zero
    /// while no thread writes.
    pub(super) passed: AtomicU64,
    pub(super) pipeline: Pipeline<RunJob>,
    pub(super) spares: Spares,
    pub(super) limit: Option<Limit>,
    /// Set when the run ends before its input does; with an error if it failed.
    pub(super) over: OnceLock<Option<Error>>,
    /// Raised when that is set, for transforms.
    pub(super) over_flag: Option<StopFlag>,
    /// Whether a transform abandoned its batch.
    pub(super) is_abandoned: AtomicBool,
    /// Raised when the run ends before its input, to wake the reading thread.
    pub(super) abort: StopFlag,
    pub(super) input_format: InputFormat,
    pub(super) output_format: OutputFormat,
    pub(super) strictness: Strictness,
    pub(super) framing: MessageFraming,
    pub(super) split: Option<SplitPath>,
    pub(super) meta: MetaNames,
    pub(super) progress: Progress,
}

/// The outcome of a run.
pub(super) struct RunOutcome {
    pub(super) totals: Totals,
    pub(super) limit_reached: bool,
    /// Whether it was stopped while reading, or abandoned a batch.
    pub(super) stopped: bool,
    pub(super) read_error: Option<Error>,
    pub(super) reader: Reader,
    pub(super) sinks: Result<Sinks>,
}

impl Shared {
    /// Reads a block when it is this thread's turn; `false` if there are no more blocks, or the run
    /// is over.
    pub(super) fn read(&self, block: &mut Block) -> bool {
        match self.block_producer.lock() {
            Ok(mut block_producer) => block_producer.read(block, &self.spares) == Produced::Block,
            // The thread that panicked in the reader ends the run.
            Err(_) => false,
        }
    }

    /// The number of events within the limit, of the `count` events of block `number`; `None` if
    /// the limit is reached or the run is over.
    pub(super) fn admit(&self, number: u64, count: u64) -> Option<u64> {
        let Some(limit) = &self.limit else {
            return Some(count);
        };
        let admitted = limit.admit(number, count);
        if limit.is_reached() {
            // Further input is not needed; admitted events are still written.
            self.abort.raise();
        }
        admitted
    }

    /// Ends the run, with an error if it failed; only the first call counts.
    pub(super) fn end(&self, error: Option<Error>) {
        if self.over.set(error).is_ok() {
            // Wakes threads that wait for input, for a slot, or for previous blocks.
            self.abort.raise();
            self.over_flag.iter().for_each(StopFlag::raise);
            self.pipeline.close();
            self.limit.iter().for_each(Limit::end);
        }
    }

    /// Ends the run before an abandoned batch.
    pub(super) fn abandon(&self) {
        // Relaxed: it is read after the threads of the run have ended.
        self.is_abandoned.store(true, Ordering::Relaxed);
        self.end(None);
    }

    /// Whether the run is over, so that nothing is written any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    /// The outcome and the sinks, after all workers have ended.
    pub(super) fn into_outcome(self) -> RunOutcome {
        // A panic was already recorded as the error of the run.
        let block_producer = self.block_producer.into_inner();
        let block_producer = block_producer.unwrap_or_else(PoisonError::into_inner);
        let block_writer = self.block_writer.into_inner();
        let block_writer = block_writer.unwrap_or_else(PoisonError::into_inner);
        RunOutcome {
            totals: block_writer.totals,
            limit_reached: self.limit.is_some_and(|limit| limit.is_reached()),
            stopped: block_producer.state == ProducerState::Stopped
                || self.is_abandoned.into_inner(),
            read_error: block_producer.error,
            reader: block_producer.reader,
            sinks: match self.over.into_inner().flatten() {
                Some(error) => Err(error),
                None => Ok(block_writer.sinks),
            },
        }
    }
}
