//! What other threads may see of a server.

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

/// The way to the serial stage, until the server has ended.
pub(crate) type Ring = Mutex<Option<SerialQueue>>;

impl Monitor {
    pub(crate) fn new(threads: Arc<[Board]>, ring: Arc<Ring>, unsent: Arc<Unsent>) -> Self {
        Self {
            threads,
            ring,
            unsent,
        }
    }

    /// Bytes of replies that clients have not taken yet, at this moment. Files are not counted.
    pub fn unsent_size(&self) -> u64 {
        self.unsent.size()
    }

    /// What the ring of the serial stage is doing, if the server has one.
    pub fn ring(&self) -> Option<Snapshot> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.as_ref().map(|queue| queue.pipeline.snapshot())
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for board in self.threads.iter() {
            board.add_to(&mut sum);
        }
        sum
    }
}
