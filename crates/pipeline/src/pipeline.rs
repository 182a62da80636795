//! A pipeline as a whole.

use std::any::Any;
use std::io;
use std::mem;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::producer::Producer;
use crate::ring::{Culprit, Ring};
use crate::snapshot::Snapshot;
use crate::sync::Arc;
use crate::worker::{LastWorker, Worker};

/// Starts the threads of a stage and adds them to the list, also those started before a failure.
pub(crate) type Start<T> =
    Box<dyn FnOnce(&Arc<Ring<T>>, usize, &mut Vec<JoinHandle<()>>) -> io::Result<()> + Send>;

/// A ring, and the stages that its items pass.
///
/// ```
/// use lookaside_pipeline::{Pipeline, StageOptions};
///
/// struct Order { amount: u64, number: u64 }
///
/// let (done, orders) = std::sync::mpsc::channel();
/// let mut pipeline = Pipeline::<Order>::builder(10)
///     // One thread, so the next number needs no lock.
///     .stage("number", 1, StageOptions::default(), |_| {
///         let mut next = 0;
///         move |batch| batch.iter_mut().for_each(|order| { order.number = next; next += 1 })
///     })
///     .last("ship", 1, StageOptions::default(), |_| {
///         let done = done.clone();
///         move |batch| batch.for_each(|order| done.send(order).unwrap())
///     })
///     .start()?;
///
/// let mut producer = pipeline.producer();
/// for amount in [30, 40, 50] {
///     producer.push(Order { amount, number: 0 })?;
/// }
/// drop(producer);
/// pipeline.join()?;
///
/// let shipped: Vec<_> = orders.try_iter().map(|order| (order.number, order.amount)).collect();
/// assert_eq!(shipped, [(0, 30), (1, 40), (2, 50)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It ends when [`join`](Self::join) was called, so that it makes no more producers, and all
/// producers are dropped: each stage then finishes the items in the ring. Dropping a pipeline
/// closes it first and then waits likewise.
pub struct Pipeline<T> {
    ring: Arc<Ring<T>>,
    /// The threads that the pipeline started, each with the index of its stage.
    threads: Vec<(usize, JoinHandle<()>)>,
    /// Stages whose threads the caller owns and whose workers it has not taken yet.
    unclaimed: Vec<usize>,
    has_producer: bool,
    has_ended: bool,
}

impl<T: Send> Pipeline<T> {
    pub(crate) fn start(ring: Arc<Ring<T>>, starts: Vec<Option<Start<T>>>) -> Result<Self> {
        let mut pipeline = Self {
            ring,
            threads: Vec::new(),
            unclaimed: Vec::new(),
            has_producer: false,
            has_ended: false,
        };
        for (stage, start) in starts.into_iter().enumerate() {
            let Some(start) = start else {
                pipeline.unclaimed.push(stage);
                continue;
            };
            let mut threads = Vec::new();
            let started = start(&pipeline.ring, stage, &mut threads);
            pipeline
                .threads
                .extend(threads.into_iter().map(|thread| (stage, thread)));
            // When the pipeline is dropped, it ends the threads that were started.
            let name = &pipeline.ring.stages[stage].name;
            started.map_err(|error| Error::thread(name, error))?;
        }
        Ok(pipeline)
    }

    /// Makes a producer, which pushes items into the pipeline.
    ///
    /// # Panics
    ///
    /// If the pipeline was built for a sole producer, and this is the second.
    pub fn producer(&mut self) -> Producer<T> {
        assert!(
            !(self.ring.is_sole() && self.has_producer),
            "a pipeline for a sole producer was asked for a second one"
        );
        self.has_producer = true;
        self.ring.add_producer();
        Producer::new(Arc::clone(&self.ring))
    }

    /// The workers of the stage with this name that was added by
    /// [`stage_by_caller`](crate::Builder::stage_by_caller); empty if there is no such stage or
    /// they were taken already.
    pub fn workers(&mut self, stage: &str) -> Vec<Worker<T>> {
        let stages = &self.ring.stages;
        let index = stages
            .iter()
            .take(stages.len() - 1)
            .position(|known| known.name == stage);
        self.claim(index, Worker::new)
    }

    /// The workers of the last stage, if it was added by
    /// [`last_by_caller`](crate::Builder::last_by_caller); empty if it was not or they were taken
    /// already.
    pub fn last_workers(&mut self) -> Vec<LastWorker<T>> {
        let last = self.ring.stages.len() - 1;
        self.claim(Some(last), LastWorker::new)
    }

    fn claim<W>(
        &mut self,
        stage: Option<usize>,
        worker: impl Fn(Arc<Ring<T>>, usize, usize) -> W,
    ) -> Vec<W> {
        let index = self
            .unclaimed
            .iter()
            .position(|unclaimed| Some(*unclaimed) == stage);
        let Some(stage) = index.map(|index| self.unclaimed.remove(index)) else {
            return Vec::new();
        };
        let threads = 0..self.ring.stages[stage].thread_count;
        threads
            .map(|thread| worker(Arc::clone(&self.ring), stage, thread))
            .collect()
    }
}

impl<T> Pipeline<T> {
    /// The current statistics of the pipeline.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.ring)
    }

    /// Accepts no more items: producers get theirs back, also those that wait for a slot. The
    /// pipeline still ends only when all producers are dropped.
    pub fn close(&self) {
        self.ring.close();
    }

    /// Waits until all producers are dropped and the stages have finished the items in the ring. It
    /// does not wait for threads that the caller owns.
    ///
    /// Fails if a stage panicked, and names the stage, or if a producer left claimed slots empty.
    pub fn join(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.has_ended = true;
        for stage in mem::take(&mut self.unclaimed) {
            // No worker will ever empty the ring.
            self.ring.fail(stage);
        }
        self.ring.remove_producer();
        let mut payloads: Vec<(usize, Box<dyn Any + Send>)> = Vec::new();
        for (stage, thread) in mem::take(&mut self.threads) {
            if let Err(payload) = thread.join() {
                payloads.push((stage, payload));
            }
        }
        let failed = match self.ring.failed() {
            None => return Ok(()),
            Some(Culprit::Producer) => return Err(Error::producer_failed()),
            Some(Culprit::Stage(stage)) => stage,
        };
        let is_of_it = |payload: &&(usize, _)| self.ring.stages[payload.0].name == failed.name;
        let payload = payloads
            .iter()
            .find(is_of_it)
            .map(|(_, payload)| &**payload);
        Err(Error::stage_failed(&failed.name, payload))
    }
}

impl<T> Drop for Pipeline<T> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.close();
            // The result is available from `join`.
            let _ = self.end();
        }
    }
}
