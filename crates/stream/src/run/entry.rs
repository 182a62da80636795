//! The way in: blocks are read one after the other, by whichever thread has nothing else to do.

use std::mem;

use lookaside_pipeline::Producer;

use super::job::{Job, Spares};
use crate::Error;
use crate::source::{Block, BlockRead, Reader};

/// What the thread holds that reads. The lock around it is the turn to read, and is held while the
/// source is read: nobody else has anything to do with the source in the meantime, and the order of
/// the turns is the order of the input.
pub(super) struct Entry {
    pub(super) reader: Reader,
    pub(super) producer: Producer<Job>,
    /// The number of the next block.
    pub(super) number: u64,
    pub(super) state: EntryState,
    /// Why the source could not be read to its end. It is told when all before it has left.
    pub(super) error: Option<Error>,
}

/// Whether the source has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Open,
    End,
    Stopped,
}

impl Entry {
    /// Reads a block, using the memory of `block`, and puts it into the ring, where it waits for a
    /// slot if need be; `false` when there are no more, or the run is over.
    pub(super) fn read(&mut self, block: &mut Block, spares: &Spares) -> bool {
        if self.state != EntryState::Open {
            return false;
        }
        self.state = match self.reader.read(block) {
            Ok(BlockRead::Filled) => return self.push(mem::take(block), spares),
            Ok(BlockRead::End) => EntryState::End,
            Ok(BlockRead::Stopped) => EntryState::Stopped,
            Err(error) => {
                self.error = Some(error);
                EntryState::End
            }
        };
        false
    }

    fn push(&mut self, block: Block, spares: &Spares) -> bool {
        let job = Job {
            number: self.number,
            block,
            output: spares.take(),
        };
        self.number += 1;
        // It comes back from a run that is over, which has no use for it.
        self.producer.push(job).is_ok()
    }
}
