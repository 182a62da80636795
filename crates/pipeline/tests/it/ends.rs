//! How a pipeline ends, normally and by failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use lookaside_pipeline::{ErrorKind, Pipeline, Reason, Step, Wait};

use crate::options;

#[test]
fn a_panic_in_any_stage_wakes_everybody_and_is_named() {
    for culprit in 0..3 {
        for wait in [Wait::UpstreamIdle, Wait::StageEmpty] {
            let fail = move |stage| {
                if stage == culprit {
                    // Does not print the panic message.
                    std::panic::resume_unwind(Box::new("of no use"));
                }
            };
            let mut pipeline = Pipeline::<u64>::builder(3)
                .stage("zero", 1, options(4, wait), |_| move |_| fail(0))
                .stage("one", 2, options(4, wait), |_| move |_| fail(1))
                .last("two", 1, options(4, wait), |_| move |_| fail(2))
                .start()
                .unwrap();
            let mut producer = pipeline.producer();
            // It waits for a slot, unless the stage fails before.
            let reason = loop {
                if let Err(refused) = producer.push(1) {
                    break refused.reason;
                }
            };
            assert_eq!(reason, Reason::Failed);
            assert_eq!(producer.try_push_batch(&mut vec![1]), Err(Reason::Failed));
            drop(producer);
            let error = pipeline.join().unwrap_err();
            let name = ["zero", "one", "two"][culprit];
            assert_eq!(
                error.to_string(),
                format!("stage `{name}` panicked: of no use")
            );
            assert_eq!(error.kind(), ErrorKind::StageFailed);
        }
    }
}

#[test]
fn join_finishes_what_is_in_the_ring() {
    let sum = Arc::new(AtomicU64::new(0));
    let mut pipeline = Pipeline::builder(6)
        .stage("double", 2, options(3, Wait::StageEmpty), |_| {
            |batch| batch.iter_mut().for_each(|item| *item *= 2)
        })
        .last("sum", 2, options(3, Wait::StageEmpty), |_| {
            let sum = Arc::clone(&sum);
            move |batch| {
                let part: u64 = batch.sum();
                sum.fetch_add(part, Ordering::Relaxed);
            }
        })
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let mut items: Vec<u64> = (1..=64).collect();
    producer.push_batch(&mut items).unwrap();
    drop(producer);
    pipeline.join().unwrap();
    assert_eq!(sum.load(Ordering::Relaxed), 64 * 65);
}

#[test]
fn a_closed_pipeline_gives_items_back_and_finishes_the_others() {
    let (out, done) = mpsc::channel();
    let mut pipeline = Pipeline::builder(2)
        .last("last", 1, options(1, Wait::StageEmpty), |_| {
            let out = out.clone();
            move |batch| batch.for_each(|item| out.send(item).unwrap())
        })
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    producer.push(1).unwrap();
    pipeline.close();
    assert_eq!(producer.push(2).unwrap_err().reason, Reason::Closed);
    assert_eq!(producer.try_push(3).unwrap_err().item, 3);
    let mut batch = vec![4, 5];
    assert_eq!(producer.push_batch(&mut batch), Err(Reason::Closed));
    assert_eq!(batch, [4, 5]);
    let mut items = 6..8;
    assert_eq!(producer.push_from(&mut items), Err(Reason::Closed));
    assert_eq!(items, 6..8);
    drop((producer, out));
    pipeline.join().unwrap();
    assert_eq!(done.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn stages_run_on_scoped_threads_and_borrow() {
    let words = ["a", "bb", "ccc"];
    let mut lengths = Vec::new();
    let mut pipeline = Pipeline::<(usize, usize)>::builder(3)
        .stage_by_caller("look", 2, options(1, Wait::StageEmpty))
        .last_by_caller("gather", 1, options(8, Wait::StageEmpty))
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let workers = pipeline.workers("look");
    assert_eq!(workers.len(), 2);
    assert_eq!(pipeline.workers("look").len(), 0);
    assert_eq!(pipeline.workers("gather").len(), 0, "it is the last stage");
    let gather = pipeline.last_workers().remove(0);
    thread::scope(|scope| {
        for worker in workers {
            let look = |batch: &mut lookaside_pipeline::Batch<'_, (usize, usize)>| {
                batch
                    .iter_mut()
                    .for_each(|(index, length)| *length = words[*index].len());
            };
            scope.spawn(move || worker.run(look));
        }
        scope.spawn(|| gather.run(|batch| lengths.extend(batch.map(|(_, length)| length))));
        (0..3).for_each(|index| producer.push((index, 0)).unwrap());
        drop(producer);
        pipeline.join().unwrap();
    });
    assert_eq!(lengths, [1, 2, 3]);
}

#[test]
fn a_callers_stage_that_goes_away_fails_the_pipeline() {
    let mut pipeline = Pipeline::builder(1)
        .last_by_caller("mine", 1, options(8, Wait::StageEmpty))
        .start()
        .unwrap();
    let mut producer = pipeline.producer();
    let mut worker = pipeline.last_workers().remove(0);
    assert_eq!(worker.step(|_| {}), Step::Empty);
    producer.push(1).unwrap();
    assert_eq!(worker.step(|_| {}), Step::Handled(1));
    drop(worker);
    assert_eq!(producer.push(2).unwrap_err().reason, Reason::Failed);
    drop(producer);
    let error = pipeline.join().unwrap_err();
    assert_eq!(error.to_string(), "stage `mine` panicked or ended early");
}

#[test]
fn impossible_pipelines_are_refused() {
    let start = |lg_size, thread_count| {
        Pipeline::<u8>::builder(lg_size)
            .stage_by_caller("one", thread_count, options(1, Wait::StageEmpty))
            .last_by_caller("two", 1, options(1, Wait::StageEmpty))
            .start()
            .err()
            .map(|error| (error.kind(), error.to_string()))
    };
    let misuse = |text: &str| Some((ErrorKind::Misuse, text.to_owned()));
    assert_eq!(start(10, 1), None);
    assert_eq!(
        start(10, 0),
        misuse("stage `one` has no thread; it needs at least one")
    );
    assert_eq!(
        start(25, 1),
        misuse("a ring of 2^25 slots is too large; the maximum is 2^24")
    );
    assert_eq!(
        start(1, 1),
        misuse("a ring of 2 slots is too small for its stages; give it 3")
    );
}
