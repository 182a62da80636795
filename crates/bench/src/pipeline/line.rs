//! A line of stages that count what arrives.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use lookaside_pipeline::{LastBatch, Pipeline, Producer, StageOptions, StageSnapshot, Wait};

use crate::Result;

/// Arithmetic that takes a known time: dependent multiplications.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    step_count: u32,
}

impl Work {
    pub(super) fn of_ns(ns: f64, step_ns: f64) -> Self {
        Self {
            step_count: (ns / step_ns) as u32,
        }
    }

    /// The time of one step: nanoseconds, unlike steps, are comparable between machines.
    pub(super) fn step_ns() -> f64 {
        const STEP_COUNT: u32 = 100_000;
        let sample = |_| {
            let started = Instant::now();
            Self {
                step_count: STEP_COUNT,
            }
            .burn();
            started.elapsed().as_nanos() as f64 / f64::from(STEP_COUNT)
        };
        // The minimum of many samples: the others include disturbances.
        (0..50).map(sample).fold(f64::INFINITY, f64::min)
    }

    #[inline]
    fn burn(self) {
        let mut number = 1_u64;
        for _ in 0..self.step_count {
            number = black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) lg_size: u32,
    pub(super) stage_count: usize,
    pub(super) batch_max: u32,
    pub(super) wait: Wait,
}

/// Parameters that the producer sets for the stages.
#[derive(Default)]
struct Orders {
    /// The item after which the last stage reports what it has seen. Written before any item is
    /// pushed.
    last: AtomicU64,
    /// Steps that the first stage, which may be the last one too, does for an item.
    step_count: AtomicU32,
}

impl Orders {
    fn work(&self) -> Work {
        Work {
            step_count: self.step_count.load(Ordering::Relaxed),
        }
    }
}

/// One producer and the stages behind it. Items are numbers.
pub(super) struct Line {
    pipeline: Pipeline<u64>,
    producer: Producer<u64>,
    producer_work: Work,
    orders: Arc<Orders>,
    sums: Receiver<u64>,
}

impl Line {
    pub(super) fn start(shape: Shape) -> Result<Self> {
        let orders = Arc::new(Orders::default());
        let (sender, sums) = channel();
        let batch_max = NonZeroU32::new(shape.batch_max).ok_or("a batch has an item at least")?;
        let options = StageOptions {
            batch_max,
            wait: shape.wait,
        };
        let mut builder = Pipeline::builder(shape.lg_size)
            .sole_producer()
            .producer_wait(shape.wait);
        for stage in 1..shape.stage_count {
            builder = builder.stage(format!("stage-{stage}"), 1, options, |_| {
                let orders = Arc::clone(&orders);
                move |batch| {
                    let work = orders.work();
                    for item in batch {
                        work.burn();
                        black_box(item);
                    }
                }
            });
        }
        let is_first = shape.stage_count == 1;
        let last = |_| last_stage(Arc::clone(&orders), sender.clone(), is_first);
        let mut pipeline = builder.last("last", 1, options, last).start()?;
        Ok(Self {
            producer: pipeline.producer(),
            pipeline,
            producer_work: Work::default(),
            orders,
            sums,
        })
    }

    pub(super) fn set_work(&self, work: Work) {
        self.orders
            .step_count
            .store(work.step_count, Ordering::Relaxed);
    }

    pub(super) fn set_producer_work(&mut self, work: Work) {
        self.producer_work = work;
    }

    /// Pushes the numbers below `count`, `batch` at once, and waits until the last has arrived. Says what
    /// the sum was.
    pub(super) fn push(&mut self, count: u64, batch: usize) -> Result<u64> {
        self.orders.last.store(count - 1, Ordering::Relaxed);
        if batch == 1 {
            for item in 0..count {
                self.producer_work.burn();
                self.producer.push(item)?;
            }
        } else {
            let mut next = 0;
            while next < count {
                let end = count.min(next + batch as u64);
                let work = self.producer_work;
                let mut items = (0..(end - next) as usize).map(|index| {
                    work.burn();
                    next + index as u64
                });
                self.producer.push_from(&mut items)?;
                next = end;
            }
        }
        Ok(self.sums.recv()?)
    }

    /// What its own counters say.
    pub(super) fn notes(&self) -> Vec<(&'static str, String)> {
        let snapshot = self.pipeline.snapshot();
        let stages = || snapshot.stages.iter();
        let each = |figure: &dyn Fn(&StageSnapshot) -> String| {
            stages().map(figure).collect::<Vec<_>>().join(" ")
        };
        let batch_size = each(&|stage| {
            let batch_count: u64 = stage.batches.iter().sum();
            format!("{:.1}", stage.handled as f64 / batch_count.max(1) as f64)
        });
        vec![
            ("items a batch, by stage", batch_size),
            ("sleeps, by stage", each(&|stage| stage.sleeps.to_string())),
            ("wakes, by stage", each(&|stage| stage.wakes.to_string())),
            ("producer's sleeps", snapshot.producer_sleeps.to_string()),
        ]
    }

    pub(super) fn finish(self) -> Result<()> {
        drop(self.producer);
        Ok(self.pipeline.join()?)
    }
}

fn last_stage(
    orders: Arc<Orders>,
    sums: Sender<u64>,
    is_first: bool,
) -> impl FnMut(&mut LastBatch<'_, u64>) + Send {
    let mut sum = 0_u64;
    move |batch| {
        let last = orders.last.load(Ordering::Relaxed);
        let work = if is_first {
            orders.work()
        } else {
            Work::default()
        };
        for item in batch {
            work.burn();
            sum = sum.wrapping_add(item);
            if item == last {
                // After a push that failed, the receiver is gone.
                let _ = sums.send(std::mem::take(&mut sum));
            }
        }
    }
}
