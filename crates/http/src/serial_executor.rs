//! Executes the serial stage, at the end of a ring that receives jobs from all I/O threads.
//!
//! It has its own thread, or none. In the latter case, an I/O thread that has put jobs into the
//! ring and finds no other thread running the stage executes all jobs in the ring. The state still
//! has one owner at a time and one order of requests, and no thread has to wake another, which
//! would cost more than a request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use lookaside_pipeline::{LastBatch, LastWorker, Pipeline, Producer, StageOptions, Step};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::mailbox::Mailbox;
use crate::serial::{SerialJob, SerialStage};
use crate::{Error, Result, SerialPlace};

/// The number of slots of the ring, as a power of two, which limits the jobs in flight. Further
/// jobs wait on their I/O threads.
const LG_SIZE: u32 = 12;

const NAME: &str = "serial";

/// The ring, and what executes the jobs at its end.
pub(crate) struct SerialQueue {
    pub(crate) pipeline: Pipeline<SerialJob>,
    /// `None` if the stage has its own thread.
    shared: Option<Arc<Shared>>,
}

/// An I/O thread's handle for putting jobs into the ring.
pub(crate) struct Submitter {
    producer: Producer<SerialJob>,
    thread: usize,
    shared: Option<Arc<Shared>>,
}

/// The stage, for the thread that acquires the lock.
struct Shared {
    executor: Mutex<SharedExecutor>,
    /// Jobs in the ring.
    waiting: AtomicUsize,
}

struct SharedExecutor {
    worker: Option<LastWorker<SerialJob>>,
    executor: Executor,
}

/// Runs jobs and sends them back.
struct Executor {
    stage: Box<dyn SerialStage>,
    clock: Clock,
    mailboxes: Arc<[Arc<Mailbox>]>,
    /// Executed jobs, for each I/O thread.
    done: Vec<Vec<SerialJob>>,
}

impl Executor {
    fn run(&mut self, batch: &mut LastBatch<'_, SerialJob>) {
        self.clock.update();
        for mut job in batch {
            job.run(&mut *self.stage, self.clock.stamp());
            self.done[job.thread].push(job);
        }
        if catch_unwind(AssertUnwindSafe(|| self.stage.batch_end())).is_err() {
            // The batch was not completed, so the replies would be wrong: their connections close
            // instead.
            for job in self.done.iter_mut().flatten() {
                job.output.clear();
                job.close = true;
                job.counters = Counters::default();
                job.counters.panics = 1;
            }
        }
    }

    /// Returns jobs to their threads, those of one thread together.
    fn send_back(&mut self) {
        for (mailbox, jobs) in self.mailboxes.iter().zip(&mut self.done) {
            if !jobs.is_empty() {
                mailbox.send_jobs(jobs);
            }
        }
    }
}

impl Submitter {
    /// Puts jobs into the ring; those for which it has no room stay in the list. Jobs of this
    /// thread may be returned at once, in `returned`. This thread executes about `budget` jobs,
    /// possibly those of other threads; `true` means that it has to continue soon. An error means
    /// that the stage has ended.
    pub(crate) fn enter(
        &mut self,
        jobs: &mut Vec<SerialJob>,
        returned: &mut Vec<SerialJob>,
        budget: &mut usize,
    ) -> Result<bool, lookaside_pipeline::Reason> {
        let count = self.producer.try_push_batch(jobs)?;
        let Some(shared) = &self.shared else {
            return Ok(false);
        };
        shared.waiting.fetch_add(count, Ordering::Relaxed);
        while *budget > 0 {
            // Partner: the fence below. Either the thread that runs the stage sees our jobs after
            // it has released the lock, or we find the lock free.
            fence(Ordering::SeqCst);
            let mut locked = match shared.executor.try_lock() {
                Ok(locked) => locked,
                Err(TryLockError::Poisoned(locked)) => locked.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(false),
            };
            let SharedExecutor { worker, executor } = &mut *locked;
            let Some(worker) = worker else {
                return Ok(false);
            };
            while *budget > 0
                && let Step::Handled(count) = worker.step(|batch| executor.run(batch))
            {
                *budget = budget.saturating_sub(count);
                // Relaxed: the fences order it relative to the lock.
                shared.waiting.fetch_sub(count, Ordering::Relaxed);
                returned.append(&mut executor.done[self.thread]);
                executor.send_back();
            }
            drop(locked);
            fence(Ordering::SeqCst);
            if shared.waiting.load(Ordering::Relaxed) == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl SerialQueue {
    /// Creates the ring, and a submitter for each I/O thread.
    pub(crate) fn start(
        stage: Box<dyn SerialStage>,
        place: SerialPlace,
        mailboxes: &Arc<[Arc<Mailbox>]>,
        server_name: Option<&str>,
    ) -> Result<(Self, Vec<Submitter>)> {
        let mut executor = Some(Executor {
            stage,
            clock: Clock::new(server_name),
            mailboxes: Arc::clone(mailboxes),
            done: mailboxes.iter().map(|_| Vec::new()).collect(),
        });
        let builder = Pipeline::builder(LG_SIZE);
        let options = StageOptions::default();
        let ready = match place {
            SerialPlace::Thread => builder.last(NAME, 1, options, |_| {
                let mut executor = executor.take().expect("the stage has one thread");
                move |batch: &mut LastBatch<'_, SerialJob>| {
                    executor.run(batch);
                    executor.send_back();
                }
            }),
            SerialPlace::IoThreads => builder.last_by_caller(NAME, 1, options),
        };
        let mut pipeline = ready
            .start()
            .map_err(|error| Error::pipeline("start the serial stage", error))?;
        let shared = executor.map(|executor| {
            let shared = SharedExecutor {
                worker: pipeline.last_workers().pop(),
                executor,
            };
            Arc::new(Shared {
                executor: Mutex::new(shared),
                waiting: AtomicUsize::new(0),
            })
        });
        let submitters = (0..mailboxes.len()).map(|thread| Submitter {
            producer: pipeline.producer(),
            thread,
            shared: shared.clone(),
        });
        let submitters = submitters.collect();
        Ok((Self { pipeline, shared }, submitters))
    }

    /// Ends it, once the I/O threads have ended.
    pub(crate) fn join(self) -> Result<()> {
        let joined = self.pipeline.join();
        if let Some(shared) = &self.shared {
            let executor = shared.executor.lock();
            let mut locked = executor.unwrap_or_else(PoisonError::into_inner);
            let SharedExecutor { worker, executor } = &mut *locked;
            while let Some(hand) = worker {
                // The remaining jobs belong to connections that are closed.
                if hand.step(|batch| executor.run(batch)) == Step::Ended {
                    *worker = None;
                }
            }
        }
        joined.map_err(|error| Error::pipeline("end the serial stage", error))
    }
}
