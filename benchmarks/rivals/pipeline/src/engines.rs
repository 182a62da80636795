//! The same line of stages on each engine.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, bounded};
use disruptor::{
    BusySpin, BusySpinWithSpinLoopHint, Producer as _, SingleConsumerBarrier, SingleProducer,
    build_single_producer, wait_strategies::WaitStrategy,
};
use lookaside_pipeline::{Pipeline, Producer, StageOptions, Wait};

use crate::work::{Arrival, First, Last, Work};

pub struct Shape {
    pub lg_size: u32,
    /// One or two.
    pub stage_count: usize,
    pub work: Work,
    pub producer_work: Work,
}

/// Threads that wait for items.
pub trait Line {
    /// Pushes the numbers below `count`, `batch` at once.
    fn push(&mut self, count: u64, batch: usize);

    fn finish(self: Box<Self>);
}

type Make = fn(&Shape, &Arc<Arrival>) -> Box<dyn Line>;

pub const ENGINES: &[(&str, Make)] = &[
    ("lookaside-spin", |shape, arrival| {
        ours(shape, arrival, Wait::Spin, true)
    }),
    ("disruptor-spin", |shape, arrival| {
        theirs(shape, arrival, BusySpin)
    }),
    ("disruptor-hint", |shape, arrival| {
        theirs(shape, arrival, BusySpinWithSpinLoopHint)
    }),
    ("lookaside-sleep", |shape, arrival| {
        ours(shape, arrival, Wait::StageEmpty, true)
    }),
    ("lookaside-idle", |shape, arrival| {
        ours(shape, arrival, Wait::UpstreamIdle, true)
    }),
    ("lookaside-multi", |shape, arrival| {
        ours(shape, arrival, Wait::StageEmpty, false)
    }),
    ("crossbeam", channels),
];

struct Ours {
    pipeline: Pipeline<u64>,
    producer: Producer<u64>,
    work: Work,
}

fn ours(shape: &Shape, arrival: &Arc<Arrival>, wait: Wait, is_sole: bool) -> Box<dyn Line> {
    let batch_max = NonZeroU32::new(1 << shape.lg_size.min(8)).unwrap();
    let options = StageOptions { batch_max, wait };
    let mut builder = Pipeline::builder(shape.lg_size).producer_wait(wait);
    if is_sole {
        builder = builder.sole_producer();
    }
    let work = shape.work;
    if shape.stage_count == 2 {
        let arrival = Arc::clone(arrival);
        builder = builder.stage("first", 1, options, |_| {
            let arrival = Arc::clone(&arrival);
            move |batch| {
                let first = First {
                    arrival: &arrival,
                    work,
                };
                batch.iter_mut().for_each(|item| first.see(*item));
            }
        });
    }
    let is_only = shape.stage_count == 1;
    let mut pipeline = builder
        .last("last", 1, options, |_| {
            let (arrival, mut last) = (Arc::clone(arrival), Last::default());
            move |batch| {
                let first = First {
                    arrival: &arrival,
                    work,
                };
                for item in batch {
                    if is_only {
                        first.see(item);
                    }
                    last.see(item, &arrival);
                }
            }
        })
        .start()
        .unwrap();
    Box::new(Ours {
        producer: pipeline.producer(),
        pipeline,
        work: shape.producer_work,
    })
}

impl Line for Ours {
    fn push(&mut self, count: u64, batch: usize) {
        if batch == 1 {
            for item in 0..count {
                self.work.burn();
                self.producer.push(item).unwrap();
            }
            return;
        }
        let mut next = 0;
        while next < count {
            let end = count.min(next + batch as u64);
            let work = self.work;
            let mut items = (0..(end - next) as usize).map(|index| {
                work.burn();
                next + index as u64
            });
            self.producer.push_from(&mut items).unwrap();
            next = end;
        }
    }

    fn finish(self: Box<Self>) {
        let Self {
            pipeline, producer, ..
        } = *self;
        drop(producer);
        pipeline.join().unwrap();
    }
}

struct Theirs {
    producer: SingleProducer<u64, SingleConsumerBarrier>,
    work: Work,
}

fn theirs<W: WaitStrategy + 'static>(
    shape: &Shape,
    arrival: &Arc<Arrival>,
    wait: W,
) -> Box<dyn Line> {
    let work = shape.work;
    let first_arrival = Arc::clone(arrival);
    let first = move |item: &u64| {
        First {
            arrival: &first_arrival,
            work,
        }
        .see(*item)
    };
    let (arrival, mut last) = (Arc::clone(arrival), Last::default());
    let builder = build_single_producer(1 << shape.lg_size, || 0, wait);
    let producer = if shape.stage_count == 2 {
        builder
            .handle_events_with(move |item: &u64, _, _| first(item))
            .and_then()
            .handle_events_with(move |item: &u64, _, _| last.see(*item, &arrival))
            .build()
    } else {
        builder
            .handle_events_with(move |item: &u64, _, _| {
                first(item);
                last.see(*item, &arrival);
            })
            .build()
    };
    Box::new(Theirs {
        producer,
        work: shape.producer_work,
    })
}

impl Line for Theirs {
    fn push(&mut self, count: u64, batch: usize) {
        if batch == 1 {
            for item in 0..count {
                self.work.burn();
                self.producer.publish(|slot| *slot = item);
            }
            return;
        }
        let mut next = 0;
        while next < count {
            let end = count.min(next + batch as u64);
            let work = self.work;
            self.producer.batch_publish((end - next) as usize, |slots| {
                for (slot, item) in slots.zip(next..end) {
                    work.burn();
                    *slot = item;
                }
            });
            next = end;
        }
    }

    fn finish(self: Box<Self>) {}
}

struct Channels {
    sender: Sender<u64>,
    threads: Vec<JoinHandle<()>>,
    work: Work,
}

fn channels(shape: &Shape, arrival: &Arc<Arrival>) -> Box<dyn Line> {
    let (sender, mut receiver) = bounded(1 << shape.lg_size);
    let (work, is_only) = (shape.work, shape.stage_count == 1);
    let mut threads = Vec::new();
    if !is_only {
        let (next_sender, next_receiver) = bounded(1 << shape.lg_size);
        let arrival = Arc::clone(arrival);
        let first_receiver = std::mem::replace(&mut receiver, next_receiver);
        threads.push(thread::spawn(move || {
            let first = First {
                arrival: &arrival,
                work,
            };
            for item in first_receiver {
                first.see(item);
                next_sender.send(item).unwrap();
            }
        }));
    }
    let arrival = Arc::clone(arrival);
    threads.push(thread::spawn(move || {
        let mut last = Last::default();
        let first = First {
            arrival: &arrival,
            work,
        };
        for item in receiver {
            if is_only {
                first.see(item);
            }
            last.see(item, &arrival);
        }
    }));
    Box::new(Channels {
        sender,
        threads,
        work: shape.producer_work,
    })
}

impl Line for Channels {
    fn push(&mut self, count: u64, _: usize) {
        for item in 0..count {
            self.work.burn();
            self.sender.send(item).unwrap();
        }
    }

    fn finish(self: Box<Self>) {
        drop(self.sender);
        self.threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}
