//! Small pipelines under a model checker, which tries each interleaving of the threads and each
//! value that a load may see. A slot accessed by two threads at once, an item read before it is
//! visible and a lost wake-up all fail a model: after a lost wake-up a thread sleeps forever.

use std::num::NonZeroU32;

use loom::thread;

use crate::parker::Parker;
use crate::ring::{Layout, Ring};
use crate::sync::{Arc, AtomicU32, Mutex, Ordering, fence};
use crate::worker::{LastWorker, Worker};
use crate::{Producer, Reason, Snapshot, StageOptions, Step, Wait};

/// The number of preemptions that the checker tries, at any point. Two suffice for models this
/// small; more take minutes.
const PREEMPTION_COUNT_MAX: usize = 2;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTION_COUNT_MAX);
    builder.check(model);
}

#[derive(Clone, Copy)]
struct Shape<'a> {
    lg_size: u32,
    is_sole: bool,
    wait: Wait,
    batch_max: NonZeroU32,
    thread_counts: &'a [usize],
}

const TWO_PRODUCERS: Shape<'_> = Shape {
    lg_size: 1,
    is_sole: false,
    wait: Wait::StageEmpty,
    batch_max: NonZeroU32::MAX,
    thread_counts: &[1],
};

const SOLE: Shape<'_> = Shape {
    is_sole: true,
    ..TWO_PRODUCERS
};

/// A ring whose positions start near 2^32. Items are boxed, so that the checker also detects leaks.
fn ring<T>(shape: Shape<'_>) -> Arc<Ring<T>> {
    let options = StageOptions {
        wait: shape.wait,
        batch_max: shape.batch_max,
    };
    let stages = shape.thread_counts.iter();
    Arc::new(Ring::new(Layout {
        lg_size: shape.lg_size,
        start: u64::from(u32::MAX),
        is_sole: shape.is_sole,
        producer_wait: shape.wait,
        stages: stages
            .map(|count| (String::new(), *count, options))
            .collect(),
        spin_count_max: 0,
        pause_count_max: 0,
    }))
}

/// All producers; no further one can be made.
fn producers<T>(ring: &Arc<Ring<T>>, count: usize) -> Vec<Producer<T>> {
    (1..count).for_each(|_| ring.add_producer());
    (0..count)
        .map(|_| Producer::new(Arc::clone(ring)))
        .collect()
}

/// Runs the last stage on this thread and returns the items.
fn collect<T>(worker: LastWorker<T>) -> Vec<T> {
    let mut items = Vec::new();
    worker.run(|batch| items.extend(batch));
    items
}

#[test]
fn two_producers_claim_different_slots() {
    for wait in [Wait::Spin, Wait::StageEmpty] {
        check(move || {
            let ring = ring(Shape {
                wait,
                ..TWO_PRODUCERS
            });
            let mut threads = Vec::new();
            for (index, mut producer) in producers(&ring, 2).into_iter().enumerate() {
                threads.push(thread::spawn(move || {
                    producer.push(Box::new(index)).unwrap()
                }));
            }
            let mut items = collect(LastWorker::new(ring, 0, 0));
            items.sort_unstable();
            assert_eq!(items, [Box::new(0), Box::new(1)]);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn a_full_ring_makes_its_producer_wait_and_nobody_sleeps_for_ever() {
    for wait in [Wait::Spin, Wait::UpstreamIdle, Wait::StageEmpty] {
        check(move || {
            let ring = ring(Shape { wait, ..SOLE });
            let mut producer = producers(&ring, 1).remove(0);
            let thread = thread::spawn(move || {
                for item in 0..3 {
                    producer.push(Box::new(item)).unwrap();
                }
            });
            let items = collect(LastWorker::new(ring, 0, 0));
            assert_eq!(items, [0, 1, 2].map(Box::new));
            thread.join().unwrap();
        });
    }
}

#[test]
fn two_producers_wait_for_the_same_slot() {
    check(|| {
        let ring = ring(TWO_PRODUCERS);
        let [mut first, mut second] = <[_; 2]>::try_from(producers(&ring, 2)).ok().unwrap();
        // One slot is left for two items.
        first.push(0).unwrap();
        let first = thread::spawn(move || first.push(1).unwrap());
        let second = thread::spawn(move || second.push(2).unwrap());
        let mut items = collect(LastWorker::new(ring, 0, 0));
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2]);
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn items_are_made_in_claimed_slots() {
    for is_sole in [true, false] {
        check(move || {
            let ring = ring(Shape { is_sole, ..SOLE });
            let mut producers = producers(&ring, if is_sole { 1 } else { 2 });
            let mut threads = Vec::new();
            for (index, mut producer) in producers.drain(..).enumerate() {
                let mut items = (2 * index..2 * index + 2).map(Box::new);
                threads.push(thread::spawn(move || {
                    producer.push_from(&mut items).unwrap()
                }));
            }
            let count = 2 * threads.len();
            let mut items = collect(LastWorker::new(ring, 0, 0));
            items.sort_unstable();
            assert_eq!(items, (0..count).map(Box::new).collect::<Vec<_>>());
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }
}

/// One producer claims two slots and fills only the first, while another producer fills the
/// remaining ones.
#[test]
fn a_claimed_slot_that_stays_empty_ends_the_pipeline() {
    struct TwoOfThree(usize);
    impl Iterator for TwoOfThree {
        type Item = Box<usize>;
        fn next(&mut self) -> Option<Box<usize>> {
            self.0 = self.0.checked_sub(1)?;
            Some(Box::new(self.0))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.0 + 1, Some(self.0 + 1))
        }
    }
    impl ExactSizeIterator for TwoOfThree {}
    check(|| {
        let ring = ring(Shape {
            lg_size: 2,
            ..TWO_PRODUCERS
        });
        let [mut first, mut second] = <[_; 2]>::try_from(producers(&ring, 2)).ok().unwrap();
        let first = thread::spawn(move || first.try_push_from(&mut TwoOfThree(2)));
        let second = thread::spawn(move || second.push(Box::new(9)).is_ok());
        let items = collect(LastWorker::new(Arc::clone(&ring), 0, 0));
        assert!(items.len() <= 3, "{items:?}");
        first.join().unwrap().unwrap();
        second.join().unwrap();
        assert!(ring.has_failed());
    });
}

/// A thread that parks for another reason must not consume the wake of a thread that is about to
/// leave.
#[test]
fn a_parker_wakes_the_threads_that_slept_when_it_was_unparked() {
    check(|| {
        let parker = Arc::new(Parker::new());
        let news = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let sleepers = [0, 1].map(|index| {
            let (parker, news) = (Arc::clone(&parker), Arc::clone(&news));
            let has_news = move || news[index].load(Ordering::Relaxed) == 1;
            thread::spawn(move || {
                while !has_news() {
                    parker.park(&has_news);
                }
            })
        });
        for (news, sleeper) in news.iter().zip(sleepers) {
            news.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if parker.has_sleepers() {
                parker.unpark_all();
            }
            sleeper.join().unwrap();
        }
    });
}

#[test]
fn two_threads_of_a_stage_share_its_items() {
    check(|| {
        let ring = ring(Shape {
            lg_size: 1,
            thread_counts: &[2],
            ..SOLE
        });
        let mut producer = producers(&ring, 1).remove(0);
        let other = LastWorker::new(Arc::clone(&ring), 0, 1);
        let other = thread::spawn(move || collect(other));
        for item in 0..3 {
            producer.push(Box::new(item)).unwrap();
        }
        drop(producer);
        let mut items = collect(LastWorker::new(ring, 0, 0));
        items.extend(other.join().unwrap());
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2].map(Box::new));
    });
}

/// Threads that take turns to push an item, and take one each time: as the item is pushed before
/// they look, each of them finds one. In a run of a stream, no other thread would take what is
/// left.
#[test]
fn a_thread_that_pushes_an_item_finds_one() {
    check(|| {
        let ring = ring(Shape {
            batch_max: NonZeroU32::MIN,
            thread_counts: &[2],
            ..SOLE
        });
        let producer = Arc::new(Mutex::new(producers(&ring, 1).remove(0)));
        let threads = [0, 1].map(|index| {
            let producer = Arc::clone(&producer);
            let mut last = LastWorker::new(Arc::clone(&ring), 0, index);
            thread::spawn(move || {
                producer.lock().unwrap().push(Box::new(index)).unwrap();
                assert_eq!(last.step(|batch| batch.for_each(drop)), Step::Handled(1));
                // A worker that is dropped before the end would fail the other one.
                last
            })
        });
        let lasts = threads.map(|thread| thread.join().unwrap());
        drop(lasts);
    });
}

/// One thread takes the last item after the producer is dropped; the other one must then stop
/// waiting.
#[test]
fn both_threads_of_a_later_stage_end() {
    check(|| {
        let ring = ring(Shape {
            thread_counts: &[1, 2],
            lg_size: 2,
            ..SOLE
        });
        let mut producer = producers(&ring, 1).remove(0);
        producer.push(1).unwrap();
        drop(producer);
        let threads = [0, 1].map(|index| {
            let last = LastWorker::new(Arc::clone(&ring), 1, index);
            thread::spawn(move || collect(last))
        });
        Worker::new(ring, 0, 0).run(|_| {});
        let items: Vec<i32> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(items, [1]);
    });
}

#[test]
fn a_stage_sees_what_the_stage_before_wrote() {
    for wait in [Wait::UpstreamIdle, Wait::StageEmpty] {
        check(move || {
            let ring = ring(Shape {
                lg_size: 2,
                wait,
                thread_counts: &[1, 1],
                ..SOLE
            });
            let mut producer = producers(&ring, 1).remove(0);
            let first = Worker::new(Arc::clone(&ring), 0, 0);
            let first = thread::spawn(move || {
                first.run(|batch| batch.iter_mut().for_each(|item| *item += 10));
            });
            let last = LastWorker::new(ring, 1, 0);
            let last = thread::spawn(move || collect(last));
            producer.push(1).unwrap();
            producer.push(2).unwrap();
            drop(producer);
            assert_eq!(last.join().unwrap(), [11, 12]);
            first.join().unwrap();
        });
    }
}

#[test]
fn the_slots_of_a_shared_stage_go_on_in_order() {
    check(|| {
        let ring = ring(Shape {
            lg_size: 2,
            thread_counts: &[2, 1],
            ..SOLE
        });
        let mut producer = producers(&ring, 1).remove(0);
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        drop(producer);
        let threads = [0, 1].map(|index| {
            let mut worker = Worker::new(Arc::clone(&ring), 0, index);
            thread::spawn(move || {
                let handle = |batch: &mut crate::Batch<'_, i32>| {
                    batch.iter_mut().for_each(|item| *item += 10);
                };
                while worker.step(handle) != Step::Ended {
                    thread::yield_now();
                }
            })
        });
        let snapshot = Snapshot::of(&ring);
        assert!(snapshot.stages[0].handled <= 2);
        assert_eq!(collect(LastWorker::new(ring, 1, 0)), [11, 12]);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_stage_that_goes_away_wakes_its_producer() {
    check(|| {
        let ring = ring(SOLE);
        let mut producer = producers(&ring, 1).remove(0);
        let worker = LastWorker::new(ring, 0, 0);
        let thread = thread::spawn(move || drop(worker));
        let refused = loop {
            if let Err(refused) = producer.push(Box::new(())) {
                break refused;
            }
        };
        assert_eq!(refused.reason, Reason::Failed);
        thread.join().unwrap();
    });
}

#[test]
fn closing_wakes_a_producer_and_ends_nothing_else() {
    check(|| {
        let ring = ring(SOLE);
        let mut producer = producers(&ring, 1).remove(0);
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        let closer = Arc::clone(&ring);
        let thread = thread::spawn(move || closer.close());
        let refused = producer.push(3).unwrap_err();
        assert_eq!((refused.item, refused.reason), (3, Reason::Closed));
        drop(producer);
        thread.join().unwrap();
        assert_eq!(collect(LastWorker::new(ring, 0, 0)), [1, 2]);
    });
}
