//! A view of a server for other threads.

use std::sync::{Arc, Mutex, PoisonError};

use lookaside_pipeline::Snapshot;

use crate::Counters;
use crate::counters::{Board, Unsent};
use crate::serial_executor::SerialQueue;

/// A view of the counters of a server, for any thread.
#[derive(Clone)]
pub struct Monitor {
    threads: Arc<[Board]>,
    ring: Arc<Ring>,
    unsent: Arc<Unsent>,
}

/// The queue of the serial stage, until the server has ended.
pub(crate) type Ring = Mutex<Option<SerialQueue>>;

impl Monitor {
    pub(crate) fn new(threads: Arc<[Board]>, ring: Arc<Ring>, unsent: Arc<Unsent>) -> Self {
        Self {
            threads,
            ring,
            unsent,
        }
    }

    /// The current number of bytes of replies that have not been sent yet. Files are not counted.
    pub fn unsent_size(&self) -> u64 {
        self.unsent.size()
    }

    /// The state of the serial stage's ring, if the server has one.
    pub fn ring(&self) -> Option<Snapshot> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.as_ref().map(|queue| queue.pipeline.snapshot())
    }

    /// The current counters.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for board in self.threads.iter() {
            board.add_to(&mut sum);
        }
        sum
    }
}
