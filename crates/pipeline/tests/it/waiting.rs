//! Full rings, empty rings, and the statistics of both.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use lookaside_pipeline::{Pipeline, Reason, Snapshot, Wait};

use crate::options;

#[test]
fn a_blocked_last_stage_fills_the_ring_and_no_more() {
    let gate = Arc::new(Barrier::new(2));
    let (out, items) = mpsc::channel();
    let mut pipeline = Pipeline::builder(3)
        .stage("pass", 2, options(2, Wait::StageEmpty), |_| |_| {})
        .last("blocked", 1, options(1, Wait::StageEmpty), |_| {
            let (gate, out) = (Arc::clone(&gate), out.clone());
            let mut is_first = true;
            move |batch| {
                if std::mem::take(&mut is_first) {
                    gate.wait();
                }
                batch.for_each(|item| out.send(item).unwrap());
            }
        })
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let mut taken = 0;
    while producer.try_push(taken).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 8, "as many as there are slots");
    let refused = producer.try_push(8).unwrap_err();
    assert_eq!((refused.item, refused.reason), (8, Reason::Full));
    assert_eq!(producer.try_push_batch(&mut vec![8, 9]), Ok(0));
    let snapshot = until(
        || pipeline.snapshot(),
        |snapshot| snapshot.stages[0].handled == 8,
    );
    assert_eq!((snapshot.capacity, snapshot.pushed), (8, 8));
    assert_eq!(snapshot.stages[0].backlog, 0);
    assert_eq!(snapshot.stages[1].backlog, 8);

    let thread = thread::spawn(move || {
        (8..100).for_each(|item| producer.push(item).unwrap());
    });
    until(
        || pipeline.snapshot(),
        |snapshot| snapshot.producer_sleeps == 1,
    );
    gate.wait();
    thread.join().unwrap();
    let counts = pipeline.snapshot();
    assert!(counts.producer_wakes >= 1);
    drop(out);
    pipeline.join().unwrap();
    let items: Vec<_> = items.iter().collect();
    // A stage of two threads leaves items in their slots, which keeps the order.
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}

#[test]
fn idle_stages_sleep_and_wake_once_for_a_batch() {
    for wait in [Wait::UpstreamIdle, Wait::StageEmpty] {
        let mut pipeline = Pipeline::builder(8)
            .stage("zero", 1, options(64, wait), |_| |_| {})
            .last("one", 1, options(64, wait), |_| |_| {})
            .start()
            .unwrap();
        let mut producer = pipeline.producer();
        let is_asleep = |snapshot: &Snapshot| {
            let sleeps = snapshot
                .stages
                .iter()
                .map(|stage| stage.sleeps - stage.wakes);
            sleeps.sum::<u64>() == 2
        };
        until(|| pipeline.snapshot(), is_asleep);
        producer.push_batch(&mut (0..50).collect()).unwrap();
        let snapshot = until(
            || pipeline.snapshot(),
            |snapshot| snapshot.stages[1].handled == 50 && is_asleep(snapshot),
        );
        for stage in &snapshot.stages {
            assert_eq!(stage.batches[5], 1, "one batch of 32 to 63: {stage:?}");
            assert_eq!(stage.batches.iter().sum::<u64>(), 1);
            assert_eq!(stage.wakes, 1);
        }
        drop(producer);
        pipeline.join().unwrap();
    }
}

#[test]
fn a_spinning_pipeline_never_sleeps() {
    let mut pipeline = Pipeline::builder(4)
        .sole_producer()
        .producer_wait(Wait::Spin)
        .last("last", 1, options(4, Wait::Spin), |_| |_| {})
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    (0..200).for_each(|item: u64| producer.push(item).unwrap());
    let snapshot = until(
        || pipeline.snapshot(),
        |snapshot| snapshot.stages[0].handled == 200,
    );
    assert_eq!(
        (snapshot.producer_sleeps, snapshot.stages[0].sleeps),
        (0, 0)
    );
    drop(producer);
    pipeline.join().unwrap();
}

#[test]
#[should_panic(expected = "a pipeline for a sole producer was asked for a second one")]
fn a_sole_producer_has_no_sibling() {
    let mut pipeline = Pipeline::<u8>::builder(1)
        .sole_producer()
        .last("last", 1, options(1, Wait::StageEmpty), |_| |_| {})
        .start()
        .unwrap();
    drop(pipeline.producer());
    drop(pipeline.producer());
}

/// Polls until the condition holds.
fn until<T>(look: impl Fn() -> T, is_so: impl Fn(&T) -> bool) -> T {
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        thread::yield_now();
    }
}
