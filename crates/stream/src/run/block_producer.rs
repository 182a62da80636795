//! The producer of the ring: blocks are read one at a time, by any thread that has nothing else to
//! do.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use lookaside_pipeline::Producer;

use super::job::{RunJob, Spares};
use crate::message::{Partition, Receipt};
use crate::source::{Block, BlockRead, Reader};
use crate::{Error, Progress};

/// The state of the reading thread. The lock around it is held while the source is read: no other
/// thread needs the source meanwhile, and the lock order is the order of the input.
pub(super) struct BlockProducer {
    pub(super) reader: Reader,
    pub(super) producer: Producer<RunJob>,
    /// The number of the next block.
    pub(super) number: u64,
    pub(super) state: ProducerState,
    /// For bytes that are written to sinks of messages: the blocks of the run, whose positions are
    /// their numbers.
    pub(super) blocks: Option<Arc<Partition>>,
    pub(super) progress: Progress,
    /// Why the source could not be read to its end. It is reported after everything before it was
    /// written.
    pub(super) error: Option<Error>,
}

/// The result of an attempt to read a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Produced {
    /// A block is in the ring.
    Block,
    /// There are no more blocks, or the run is over.
    End,
}

/// Whether the source has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProducerState {
    Open,
    End,
    Stopped,
}

impl BlockProducer {
    /// Reads a block, using the memory of `block`, and pushes it into the ring, waiting for a slot
    /// if needed.
    pub(super) fn read(&mut self, block: &mut Block, spares: &Spares) -> Produced {
        if self.state != ProducerState::Open {
            return Produced::End;
        }
        assert!(
            self.error.is_none(),
            "a source that failed is not read again"
        );
        self.state = loop {
            match self.reader.read(block) {
                Ok(BlockRead::Filled) => return self.push(mem::take(block), spares),
                Ok(BlockRead::Idle) => {}
                Ok(BlockRead::End) => break ProducerState::End,
                Ok(BlockRead::Stopped) => break ProducerState::Stopped,
                Err(error) => {
                    self.error = Some(error);
                    break ProducerState::End;
                }
            }
        };
        Produced::End
    }

    fn push(&mut self, mut block: Block, spares: &Spares) -> Produced {
        block.receipt = match (&self.blocks, block.messages.is_empty()) {
            (_, false) => Some(Receipt::timed(&block.messages, &self.progress)),
            (Some(blocks), true) => {
                Some(Receipt::of_range(blocks, self.number + 1, &self.progress))
            }
            (None, true) => None,
        };
        let mut output = spares.take();
        output.begun = Some(Instant::now());
        let job = RunJob {
            number: self.number,
            block,
            output,
        };
        self.number += 1;
        // A job that is returned is dropped, because the run is over.
        match self.producer.push(job) {
            Ok(()) => Produced::Block,
            Err(_) => Produced::End,
        }
    }
}
