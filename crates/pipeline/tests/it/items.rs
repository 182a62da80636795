//! Items are dropped exactly once, wherever they are when the pipeline ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lookaside_pipeline::{ErrorKind, Pipeline, Reason, Step, Wait};

use crate::options;

/// Counts itself when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_a_last_stage_leaves_is_dropped_with_its_batch() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut pipeline = Pipeline::builder(4)
        .last_by_caller("last", 1, options(3, Wait::StageEmpty))
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let mut worker = pipeline.last_workers().remove(0);
    for _ in 0..5 {
        producer.push(Counted(Arc::clone(&dropped))).unwrap();
    }
    let mut kept = None;
    assert_eq!(worker.step(|batch| kept = batch.next()), Step::Handled(3));
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    drop(kept);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert_eq!(worker.step(|_| {}), Step::Handled(2));
    assert_eq!(dropped.load(Ordering::Relaxed), 5);
    drop(producer);
    pipeline.join().unwrap();
    assert_eq!(worker.step(|_| unreachable!()), Step::Ended);
}

/// Leaves items in a ring of 16 slots whose counters pass 2^32, after a varying number of items
/// passed through it.
#[test]
fn what_is_left_in_the_ring_is_dropped_once() {
    for (thread_count, is_sole) in [(1, true), (1, false), (2, true), (2, false)] {
        for through_count in [0, 1, 3, 16, 40] {
            for left_count in [0, 1, 7, 16] {
                let dropped = leave(thread_count, is_sole, through_count, left_count);
                let case = (thread_count, is_sole, through_count, left_count);
                assert_eq!(
                    dropped,
                    (through_count, through_count + left_count),
                    "{case:?}"
                );
            }
        }
    }
}

/// Returns how many items were dropped before the ring was, and how many in all.
fn leave(
    thread_count: usize,
    is_sole: bool,
    through_count: usize,
    left_count: usize,
) -> (usize, usize) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut builder = Pipeline::builder(4).start_at(u64::from(u32::MAX) - 20);
    if is_sole {
        builder = builder.sole_producer();
    }
    let options = options(1, Wait::StageEmpty);
    let mut pipeline = builder
        .last_by_caller("last", thread_count, options)
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let mut workers = pipeline.last_workers();
    for count in 0..through_count {
        producer.push(Counted(Arc::clone(&dropped))).unwrap();
        let worker = &mut workers[count % thread_count];
        assert_eq!(worker.step(|_| {}), Step::Handled(1));
    }
    for _ in 0..left_count {
        producer.push(Counted(Arc::clone(&dropped))).unwrap();
    }
    let is_full = producer.try_push(Counted(Arc::default())).is_err();
    assert_eq!(is_full, left_count == 16);
    let before = dropped.load(Ordering::Relaxed);
    drop((workers, producer));
    assert!(pipeline.join().is_err(), "its stage went away");
    (before, dropped.load(Ordering::Relaxed))
}

#[test]
fn a_panic_in_a_last_batch_drops_each_item_once() {
    for thread_count in [1, 2] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut pipeline = Pipeline::builder(4)
            .last("last", thread_count, options(8, Wait::StageEmpty), |_| {
                |batch| {
                    batch.next();
                    // Does not print the panic message.
                    resume_unwind(Box::new("on purpose"));
                }
            })
            .start()
            .unwrap();
        let mut producer = pipeline.producer();
        let mut items: Vec<_> = (0..10).map(|_| Counted(Arc::clone(&dropped))).collect();
        // As many as are accepted before the stage has failed.
        let _ = producer.push_batch(&mut items);
        drop((producer, items));
        let error = pipeline.join().unwrap_err();
        assert_eq!(error.to_string(), "stage `last` panicked: on purpose");
        assert_eq!(dropped.load(Ordering::Relaxed), 10);
    }
}

#[test]
fn an_item_whose_drop_panics_fails_its_stage() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 {
                resume_unwind(Box::new("bomb"));
            }
        }
    }
    let mut pipeline = Pipeline::builder(4)
        .last("last", 1, options(8, Wait::StageEmpty), |_| |_| {})
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    producer
        .push_batch(&mut vec![Bomb(false), Bomb(true), Bomb(false)])
        .unwrap();
    drop(producer);
    let error = pipeline.join().unwrap_err();
    assert_eq!(error.to_string(), "stage `last` panicked: bomb");
}

/// An iterator whose `len` is two items too large, and that calls a function when it has no more.
struct Promise<F> {
    items: Vec<Counted>,
    then: F,
}

impl<F: FnMut()> Iterator for Promise<F> {
    type Item = Counted;

    fn next(&mut self) -> Option<Counted> {
        let item = self.items.pop();
        if item.is_none() {
            (self.then)();
        }
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.len() + 2, Some(self.items.len() + 2))
    }
}

impl<F: FnMut()> ExactSizeIterator for Promise<F> {}

#[test]
fn items_that_are_not_made_leave_no_hole_in_the_ring() {
    for (is_sole, panics) in [(true, true), (true, false), (false, true), (false, false)] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let items = || (0..3).map(|_| Counted(Arc::clone(&dropped))).collect();
        let mut builder = Pipeline::builder(4).start_at(u64::from(u32::MAX) - 5);
        if is_sole {
            builder = builder.sole_producer();
        }
        let mut pipeline = builder
            .last_by_caller("last", 1, options(8, Wait::StageEmpty))
            .start()
            .unwrap();
        let mut producer = pipeline.producer();
        producer.push_batch(&mut items()).unwrap();
        let mut promise = Promise {
            items: items(),
            then: || {
                if panics {
                    resume_unwind(Box::new("on purpose"));
                }
            },
        };
        let pushed = catch_unwind(AssertUnwindSafe(|| producer.try_push_from(&mut promise)));
        assert_eq!(pushed.ok(), (!panics).then_some(Ok(3)), "{is_sole}");
        let after = producer.push_batch(&mut items());
        let expected = is_sole.then_some(()).ok_or(Reason::Failed);
        assert_eq!(after, expected, "panics: {panics}");
        drop(producer);
        let mut worker = pipeline.last_workers().remove(0);
        let mut handled = 0;
        while let Step::Handled(count) = worker.step(|_| {}) {
            handled += count;
        }
        assert_eq!(handled, if is_sole { 9 } else { 6 });
        let ended = thread::spawn(move || worker.run(|_| {}));
        match pipeline.join() {
            Ok(()) => assert!(is_sole),
            Err(error) => assert_eq!((error.kind(), is_sole), (ErrorKind::ProducerFailed, false)),
        }
        ended.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 9);
    }
}

#[test]
fn what_follows_a_hole_is_dropped_with_the_ring() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut pipeline = Pipeline::builder(3)
        .last_by_caller("last", 1, options(8, Wait::StageEmpty))
        .start()
        .unwrap();
    let (mut first, mut second) = (pipeline.producer(), pipeline.producer());
    let mut worker = pipeline.last_workers().remove(0);
    // A full lap of items, so that an empty slot still holds the bytes of an item.
    let mut items = (0..8).map(|_| Counted(Arc::clone(&dropped))).collect();
    first.push_batch(&mut items).unwrap();
    while worker.step(|_| {}) != Step::Empty {}
    // While one producer has claimed three slots and filled one, another producer fills the next.
    let mut promise = Promise {
        items: vec![Counted(Arc::clone(&dropped))],
        then: || second.push(Counted(Arc::clone(&dropped))).unwrap(),
    };
    assert_eq!(first.try_push_from(&mut promise), Ok(1));
    drop((first, second, worker, pipeline));
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
}
