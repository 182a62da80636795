//! What is in a slot of the ring, and where its memory waits to be used again.

use std::sync::{Arc, Mutex, PoisonError};

use lookaside_value::Batch;

use super::Report;
use crate::progress::Counts;
use crate::source::{Block, Mark};
use crate::{Error, Rejects};

/// Room beyond this is given back, so that one huge batch does not hold memory for good.
const KEPT_SIZE_MAX: usize = 8 << 20;

/// A block on its way through the ring.
pub(super) struct Job {
    /// Blocks are numbered from 0 without gaps.
    pub(super) number: u64,
    /// Empty behind the transform, which keeps the memory for the next block that it reads.
    pub(super) block: Block,
    pub(super) output: Output,
}

/// What is made of one block.
#[derive(Default)]
pub(super) struct Output {
    /// Whole lines, compressed as the sink wants them.
    pub(super) bytes: Vec<u8>,
    /// Rejected lines, compressed as their sink wants them.
    pub(super) reject_bytes: Vec<u8>,
    pub(super) source: Arc<str>,
    pub(super) rejects: Rejects,
    pub(super) report: Report,
    pub(super) counts: Counts,
    /// Records that could not be encoded before those of all blocks in front of them.
    pub(super) batch: Option<Batch>,
    /// Why the run ends with this block.
    pub(super) error: Option<Error>,
    /// Where the source goes on when this has been written.
    pub(super) mark: Option<Mark>,
}

/// Outputs that wait to be used again. A slot has one, so there are never more than slots and the
/// one that is on its way into a slot.
pub(super) struct Spares {
    outputs: Mutex<Vec<Output>>,
    /// Whether the bytes of rejected lines go anywhere.
    rejects_kept: bool,
}

impl Spares {
    pub(super) fn new(rejects_kept: bool) -> Self {
        Self {
            outputs: Mutex::default(),
            rejects_kept,
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

    /// Takes an output back whose rejects and failures were moved out.
    pub(super) fn give(&self, mut output: Output) {
        output.bytes.clear();
        output.bytes.shrink_to(KEPT_SIZE_MAX);
        output.reject_bytes.clear();
        output.reject_bytes.shrink_to(KEPT_SIZE_MAX);
        output.counts = Counts::default();
        output.mark = None;
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.push(output);
    }

    /// What the rejects of a block begin with.
    pub(super) fn no_rejects(&self) -> Rejects {
        match self.rejects_kept {
            true => Rejects::with_raw(),
            false => Rejects::new(),
        }
    }
}
