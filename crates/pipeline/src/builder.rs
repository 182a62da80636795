//! The builder of a pipeline.

use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};
use crate::options::{LG_SIZE_MAX, StageOptions};
use crate::pipeline::{Pipeline, Start};
use crate::ring::{Layout, Ring};
use crate::sync::Arc;
use crate::wait::{pause_count_max, spin_count_max};
use crate::worker::{LastWorker, Worker};
use crate::{Batch, LastBatch, Wait};

/// A pipeline whose last stage has not been added yet.
pub struct Builder<T> {
    lg_size: u32,
    start: u64,
    is_sole: bool,
    producer_wait: Wait,
    stages: Vec<(String, usize, StageOptions)>,
    /// `None` for a stage whose threads the caller owns.
    starts: Vec<Option<Start<T>>>,
}

/// A pipeline that is ready to start.
pub struct Ready<T>(Builder<T>);

impl<T: Send> Pipeline<T> {
    /// Begins a pipeline with a ring of 2^`lg_size` slots.
    ///
    /// If producers cannot wait, choose a size that has a slot for each item that can be in flight.
    pub fn builder(lg_size: u32) -> Builder<T> {
        Builder::new(lg_size)
    }
}

impl<T: Send> Builder<T> {
    pub(crate) fn new(lg_size: u32) -> Self {
        Self {
            lg_size,
            start: 0,
            is_sole: false,
            producer_wait: Wait::default(),
            stages: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Promises that only one thread pushes items, which then needs no locked instruction.
    pub fn sole_producer(mut self) -> Self {
        self.is_sole = true;
        self
    }

    /// Sets what [`Producer::push`](crate::Producer::push) does while the ring is full: with
    /// [`Wait::Spin`] it spins, otherwise it sleeps after a short spin, which is the default.
    pub fn producer_wait(mut self, wait: Wait) -> Self {
        self.producer_wait = wait;
        self
    }

    /// Starts the counters at `position`, for tests of counters that pass a power of two.
    #[doc(hidden)]
    pub fn start_at(mut self, position: u64) -> Self {
        self.start = position;
        self
    }

    /// Adds a stage that changes items in place, on threads that the pipeline starts. `make` makes
    /// the function of each thread, given the thread's index. Each item is handled by one of the
    /// threads: the first that takes it.
    pub fn stage<F>(
        self,
        name: impl Into<String>,
        thread_count: usize,
        options: StageOptions,
        mut make: impl FnMut(usize) -> F,
    ) -> Self
    where
        T: 'static,
        F: FnMut(&mut Batch<'_, T>) + Send + 'static,
    {
        let functions: Vec<F> = (0..thread_count).map(&mut make).collect();
        let start = starter(name, functions, |ring, stage, index, function| {
            let worker = Worker::new(ring, stage, index);
            move || worker.run(function)
        });
        self.add(start.0, thread_count, options, Some(start.1))
    }

    /// Adds a stage like [`stage`](Self::stage), on threads that the caller owns; their [`Worker`]s
    /// come from [`Pipeline::workers`]. The threads may be scoped, so that the stage can borrow.
    pub fn stage_by_caller(
        self,
        name: impl Into<String>,
        thread_count: usize,
        options: StageOptions,
    ) -> Self {
        self.add(name.into(), thread_count, options, None)
    }

    /// Adds the last stage, which moves items out, on threads that the pipeline starts.
    pub fn last<F>(
        self,
        name: impl Into<String>,
        thread_count: usize,
        options: StageOptions,
        mut make: impl FnMut(usize) -> F,
    ) -> Ready<T>
    where
        T: 'static,
        F: FnMut(&mut LastBatch<'_, T>) + Send + 'static,
    {
        let functions: Vec<F> = (0..thread_count).map(&mut make).collect();
        let start = starter(name, functions, |ring, stage, index, function| {
            let worker = LastWorker::new(ring, stage, index);
            move || worker.run(function)
        });
        Ready(self.add(start.0, thread_count, options, Some(start.1)))
    }

    /// Adds the last stage like [`last`](Self::last), on threads that the caller owns; their
    /// [`LastWorker`]s come from [`Pipeline::last_workers`].
    pub fn last_by_caller(
        self,
        name: impl Into<String>,
        thread_count: usize,
        options: StageOptions,
    ) -> Ready<T> {
        Ready(self.add(name.into(), thread_count, options, None))
    }

    fn add(
        mut self,
        name: String,
        thread_count: usize,
        options: StageOptions,
        start: Option<Start<T>>,
    ) -> Self {
        self.stages.push((name, thread_count, options));
        self.starts.push(start);
        self
    }
}

/// Returns the closure that starts a thread for each of `functions`, and the name of the stage.
fn starter<T, F, R>(
    name: impl Into<String>,
    functions: Vec<F>,
    runner: impl Fn(Arc<Ring<T>>, usize, usize, F) -> R + Send + 'static,
) -> (String, Start<T>)
where
    T: Send + 'static,
    F: Send + 'static,
    R: FnOnce() + Send + 'static,
{
    let name = name.into();
    let thread_name = name.clone();
    let start = move |ring: &Arc<Ring<T>>, stage, threads: &mut Vec<JoinHandle<()>>| {
        for (index, function) in functions.into_iter().enumerate() {
            let run = runner(Arc::clone(ring), stage, index, function);
            let builder = thread::Builder::new().name(format!("{thread_name}-{index}"));
            threads.push(builder.spawn(run)?);
        }
        Ok(())
    };
    (name, Box::new(start))
}

impl<T: Send> Ready<T> {
    /// Allocates the ring and starts the threads.
    pub fn start(self) -> Result<Pipeline<T>> {
        let Builder {
            lg_size,
            start,
            is_sole,
            producer_wait,
            stages,
            starts,
        } = self.0;
        if lg_size > LG_SIZE_MAX {
            return Err(Error::lg_size(lg_size, LG_SIZE_MAX));
        }
        if let Some((name, ..)) = stages
            .iter()
            .find(|(_, thread_count, _)| *thread_count == 0)
        {
            return Err(Error::no_threads(name));
        }
        // A stamp stores the boundary in the low bits, which otherwise number the slot, so there
        // must be fewer boundaries than slots.
        let boundary_count = stages.len() + 1;
        if 1 << lg_size < boundary_count {
            return Err(Error::too_small(1 << lg_size, boundary_count));
        }
        let thread_count = stages.iter().map(|(_, thread_count, _)| thread_count).sum();
        let ring = Arc::new(Ring::new(Layout {
            lg_size,
            start,
            is_sole,
            producer_wait,
            stages,
            spin_count_max: spin_count_max(thread_count),
            pause_count_max: pause_count_max(),
        }));
        Pipeline::start(ring, starts)
    }
}
