//! The content of a slot of the ring, and the reuse of its memory.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lookaside_value::Batch;

use super::Report;
use crate::mark::Mark;
use crate::message::{Messages, Receipt};
use crate::progress::Counts;
use crate::source::Block;
use crate::{Error, Rejects};

/// Larger buffers are freed, so that one huge batch does not keep memory permanently.
const KEPT_SIZE_MAX: usize = 8 << 20;

/// A block in the ring.
pub(super) struct RunJob {
    /// Blocks are numbered from 0 without gaps.
    pub(super) number: u64,
    /// Empty after the transform, which keeps the memory for the next block that it reads.
    pub(super) block: Block,
    pub(super) output: Output,
}

/// The results of one block for one sink.
#[derive(Default)]
pub(super) struct Encoded {
    /// Complete lines, compressed as the sink requires.
    pub(super) bytes: Vec<u8>,
    /// Messages, for a sink of messages.
    pub(super) messages: Messages,
    /// How many records these are.
    pub(super) count: u64,
}

/// The output of one block.
#[derive(Default)]
pub(super) struct Output {
    /// The results for each of the outputs of the run, in their order.
    pub(super) encoded: Box<[Encoded]>,
    /// Rejected lines, compressed as their sink requires.
    pub(super) reject_bytes: Vec<u8>,
    /// The rejects, for a sink of messages.
    pub(super) dead_letters: Messages,
    /// When the block was read.
    pub(super) begun: Option<Instant>,
    /// The receipt of the block.
    pub(super) receipt: Option<Arc<Receipt>>,
    pub(super) source: Arc<str>,
    pub(super) rejects: Rejects,
    pub(super) report: Report,
    pub(super) counts: Counts,
    /// Records that can only be encoded after those of all previous blocks.
    pub(super) batch: Option<Batch>,
    /// Why the run ends with this block.
    pub(super) error: Option<Error>,
    /// The position at which the source continues after this output.
    pub(super) mark: Option<Mark>,
}

/// Outputs for reuse. Each slot has one, so there are at most as many as slots plus the one that is
/// being pushed.
pub(super) struct Spares {
    outputs: Mutex<Vec<Output>>,
    kept: KeptRejects,
    sink_count: usize,
}

/// What is kept of rejected lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptRejects {
    /// Only the first ones, to be shown.
    First,
    /// The bytes of all lines.
    Bytes,
    /// The bytes and the reasons of all lines.
    Each,
}

impl Spares {
    pub(super) fn new(kept: KeptRejects, sink_count: usize) -> Self {
        Self {
            outputs: Mutex::default(),
            kept,
            sink_count,
        }
    }

    /// An empty output.
    pub(super) fn take(&self) -> Output {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.pop().unwrap_or_else(|| Output {
            encoded: (0..self.sink_count).map(|_| Encoded::default()).collect(),
            rejects: self.no_rejects(),
            ..Output::default()
        })
    }

    /// Returns an output whose rejects and failures were moved out.
    pub(super) fn give(&self, mut output: Output) {
        for encoded in &mut output.encoded {
            encoded.bytes.clear();
            encoded.bytes.shrink_to(KEPT_SIZE_MAX);
            encoded.messages.clear();
            encoded.count = 0;
        }
        output.reject_bytes.clear();
        output.reject_bytes.shrink_to(KEPT_SIZE_MAX);
        output.dead_letters.clear();
        output.receipt = None;
        output.counts = Counts::default();
        output.mark = None;
        assert!(output.batch.is_none(), "written bytes are encoded");
        assert!(output.error.is_none(), "the error was reported");
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.push(output);
    }

    /// Empty rejects for a block.
    pub(super) fn no_rejects(&self) -> Rejects {
        match self.kept {
            KeptRejects::First => Rejects::new(),
            KeptRejects::Bytes => Rejects::with_raw(),
            KeptRejects::Each => Rejects::with_each(),
        }
    }
}
