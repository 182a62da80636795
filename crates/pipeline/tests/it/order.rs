//! Every item passes every stage once, and the items of one producer stay in order, whatever the
//! shape.

use std::ops::Range;
use std::sync::mpsc;
use std::thread;

use lookaside_pipeline::{Pipeline, Wait};

use crate::options;

/// How many shapes are tried, each with another seed.
const SHAPE_COUNT: u64 = 60;

const ITEM_COUNT: u64 = 3_000;

#[derive(Clone, Copy, Debug)]
struct Item {
    producer: usize,
    number: u64,
    /// One digit for each stage that the item passed.
    trace: u64,
}

#[test]
fn every_item_passes_every_stage_once_and_in_order() {
    let base = seed("every_item_passes_every_stage_once_and_in_order");
    for seed in (0..SHAPE_COUNT).map(|offset| base.wrapping_add(offset)) {
        let mut random = fastrand::Rng::with_seed(seed);
        // Near 2^31, 2^32 and 2^64, which each run passes.
        let starts = [0, u64::from(u32::MAX) - 50, u64::MAX - 50, (1 << 31) - 50];
        let start = starts[random.usize(..starts.len())];
        run(&mut random, start);
    }
}

fn run(random: &mut fastrand::Rng, start: u64) {
    let producer_count = random.usize(1..4);
    let waits = [Wait::UpstreamIdle, Wait::StageEmpty, Wait::StageEmpty];
    let mut builder = Pipeline::builder(random.u32(2..8)).start_at(start);
    if producer_count == 1 && random.bool() {
        builder = builder.sole_producer();
    }
    let stage_count = random.u64(0..3);
    for stage in 1..=stage_count {
        let options = options(random.u32(1..20), waits[random.usize(..3)]);
        builder = builder.stage(
            format!("stage-{stage}"),
            random.usize(1..4),
            options,
            |_| {
                move |batch| {
                    for item in batch {
                        let item: &mut Item = item;
                        item.trace = item.trace * 10 + stage;
                    }
                }
            },
        );
    }
    let last_count = random.usize(1..3);
    let (out, items) = mpsc::channel();
    let options = options(random.u32(1..20), waits[random.usize(..3)]);
    let mut pipeline = builder
        .last("last", last_count, options, |thread| {
            let out = out.clone();
            move |batch| batch.for_each(|item| out.send((thread, item)).unwrap())
        })
        .start()
        .unwrap();
    drop(out);

    let batch_size = 1..random.usize(2..100);
    for producer in 0..producer_count {
        let mut entrance = pipeline.producer();
        let seed = random.u64(..);
        let batch_size = batch_size.clone();
        thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut item = |number| Item {
                producer,
                number,
                trace: 0,
            };
            for numbers in batches(&mut random, batch_size) {
                let mut items: Vec<_> = numbers.map(&mut item).collect();
                match items.as_slice() {
                    [item] => entrance.push(*item).unwrap(),
                    _ if random.bool() => entrance.push_batch(&mut items).unwrap(),
                    _ => entrance.push_from(&mut items.into_iter()).unwrap(),
                }
            }
        });
    }
    pipeline.join().unwrap();

    let trace = (1..=stage_count).fold(0, |trace, stage| trace * 10 + stage);
    let mut counts = vec![vec![0; last_count]; producer_count];
    let mut seen = vec![vec![false; ITEM_COUNT as usize]; producer_count];
    let mut nexts = vec![vec![0; last_count]; producer_count];
    for (thread, item) in items {
        assert_eq!(item.trace, trace, "{item:?}");
        let seen = &mut seen[item.producer][item.number as usize];
        assert!(!*seen, "{item:?} came twice");
        *seen = true;
        let next = &mut nexts[item.producer][thread];
        assert!(item.number >= *next, "{item:?} came after {next}");
        *next = item.number + 1;
        counts[item.producer][thread] += 1;
    }
    assert!(
        counts
            .iter()
            .all(|counts| counts.iter().sum::<u64>() == ITEM_COUNT),
        "{counts:?}"
    );
}

fn batches(random: &mut fastrand::Rng, size: Range<usize>) -> Vec<Range<u64>> {
    let mut batches = Vec::new();
    let mut from = 0;
    while from < ITEM_COUNT {
        let to = (from + random.usize(size.clone()) as u64).min(ITEM_COUNT);
        batches.push(from..to);
        from = to;
    }
    batches
}

/// The seed of a random test: printed, and set by `LOOKASIDE_TEST_SEED` to replay it.
#[expect(clippy::print_stderr, reason = "a failure is repeated with it")]
fn seed(test: &str) -> u64 {
    let seed = std::env::var("LOOKASIDE_TEST_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_TEST_SEED is a number"),
    );
    eprintln!("{test}: LOOKASIDE_TEST_SEED={seed}");
    seed
}
