//! The content of a slot of the ring, and the reuse of its memory.

use std::sync::{Arc, Mutex, PoisonError};

use lookaside_value::Batch;

use super::Report;
use crate::message::{Messages, Receipt};
use crate::progress::Counts;
use crate::source::{Block, Mark};
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

/// The output of one block.
#[derive(Default)]
pub(super) struct Output {
    /// Complete lines, compressed as the sink requires.
    pub(super) bytes: Vec<u8>,
    /// Rejected lines, compressed as their sink requires.
    pub(super) reject_bytes: Vec<u8>,
    /// The results, for a sink of messages.
    pub(super) messages: Messages,
    /// The rejects, for a sink of messages.
    pub(super) dead_letters: Messages,
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
    pub(super) fn new(kept: KeptRejects) -> Self {
        Self {
            outputs: Mutex::default(),
            kept,
        }
    }

    /// An empty output.
    pub(super) fn take(&self) -> Output {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.pop().unwrap_or_else(|| Output {
            rejects: self.no_rejects(),
            ..Output::default()
        })
    }

    /// Returns an output whose rejects and failures were moved out.
    pub(super) fn give(&self, mut output: Output) {
        output.bytes.clear();
        output.bytes.shrink_to(KEPT_SIZE_MAX);
        output.reject_bytes.clear();
        output.reject_bytes.shrink_to(KEPT_SIZE_MAX);
        output.messages.clear();
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
