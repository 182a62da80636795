//! Heap usage of the caches, measured by a counting allocator: random keys and answers of random
//! sizes, in all layers at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use lookaside_value::{Extent, Object, RowSetBuilder, StatementId, Text, Value};

use super::stale::Stale;
use crate::cache::{CacheBytes, CacheEntry, Flight, KeyRef, LocalCache, SharedCache};
use crate::clock::Clock;

/// The number of steps between two checks of the heap.
const BATCH: usize = 400;

/// The tolerance of the caches' bounds, and the heap that they need however small the bound is: the
/// shards of the shared layers and their first slots.
const SLACK_PERCENT: i64 = 20;
const SLACK_MIN: i64 = 96 << 10;

struct Model {
    random: fastrand::Rng,
    hasher: foldhash::quality::RandomState,
    clock: Clock,
    shared: SharedCache,
    stale: Option<Stale>,
    columns: [Arc<[Text]>; 3],
    locals: Vec<LocalCache>,
    /// The upper limit of the size of texts in bytes.
    text_size_max: usize,
    key_count: u64,
}

impl Model {
    fn new(seed: u64, size_max: u64, has_stale: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes = CacheBytes::of(size_max, usize::from(has_stale));
        let capacity = *random.choice(&[1024, 30_000, 3_000_000]).unwrap();
        let shared = SharedCache::new(capacity, bytes.shared);
        let session_count = random.usize(1..=20);
        Self {
            stale: has_stale.then(|| Stale::new(Duration::from_secs(3600), bytes.stale)),
            locals: (0..session_count)
                .map(|_| LocalCache::new(Some(shared.local().clone())))
                .collect(),
            hasher: foldhash::quality::RandomState::default(),
            clock: Clock::manual(),
            columns: [&["a"][..], &["a", "b"], &["a", "b", "c"]]
                .map(|names| names.iter().copied().map(Text::from).collect()),
            text_size_max: 1,
            key_count: 1,
            shared,
            random,
        }
    }

    fn step(&mut self) {
        let number = self.random.u64(..self.key_count);
        // The same number gives the same key.
        let mut own = fastrand::Rng::with_seed(number);
        let width = own.usize(1..=3);
        let params: Vec<Value> = (0..width)
            .map(|_| match own.bool() {
                true => Value::Int(number as i64),
                false => {
                    let size = own.usize(0..self.text_size_max);
                    Value::from(format!("{number:08x}{}", "k".repeat(size)))
                }
            })
            .collect();
        let statement = StatementId::from_index(number as usize % 3);
        let key = KeyRef::new(&self.hasher, statement, Extent::First, &params);
        let now = self.clock.now();
        let local = self.random.usize(..self.locals.len());
        if self.locals[local].find(&key, now).is_some() {
            return;
        }
        let entry = match self.shared.join(&key, now, |_| true) {
            Flight::Answered(entry) => entry,
            Flight::Lead(leader) => {
                let width = self.random.usize(1..=3);
                // Shared columns, as in answers of one statement.
                let columns = self.columns[width - 1].clone();
                let mut rows = RowSetBuilder::with_columns(columns);
                for _ in 0..self.random.usize(0..=3) {
                    let row: Vec<Value> = (0..width)
                        .map(|_| value(&mut self.random, self.text_size_max, number))
                        .collect();
                    rows.push(row);
                }
                let rows = rows.build();
                let lifetime = Duration::from_secs(60);
                if let Some(stale) = &self.stale {
                    stale.keep(&key, &rows, Instant::now());
                }
                let entry = CacheEntry::new(&key, rows, now.after(lifetime), lifetime);
                leader.put(&key, entry.clone(), now);
                entry
            }
            Flight::Follow => unreachable!("there is one thread"),
        };
        let _ = self.locals[local].insert(&key, entry, now);
        match self.random.u16(..) % 512 {
            0 => self.locals[local].widen(self.shared.capacity()),
            1 => self.locals[local] = LocalCache::new(Some(self.shared.local().clone())),
            _ => {}
        }
    }
}

/// A number, a text of random size, or a document with such members.
fn value(random: &mut fastrand::Rng, text_size_max: usize, salt: u64) -> Value {
    match random.u8(..) % 8 {
        0 | 1 => Value::Int(salt as i64),
        2 => {
            let count = random.usize(0..=14);
            let object: Object = (0..count)
                .map(|index| {
                    let size = random.usize(0..text_size_max.min(100));
                    (format!("{index:02}").into(), Value::from("x".repeat(size)))
                })
                .collect();
            Value::from(object)
        }
        3 => Value::from(vec![Value::from(vec![Value::Int(1)]); random.usize(0..5)]),
        _ => {
            let size = random.usize(0..text_size_max);
            Value::from(format!("{salt:08x}{}", "x".repeat(size)))
        }
    }
}

fn check(seed: u64, size_max: u64, has_stale: bool) {
    let mut kept = 0;
    let mut model = None;
    kept += measure(|| model = Some(Model::new(seed, size_max, has_stale))).bytes_current;
    let mut model = model.unwrap();
    let mut full = 0;
    for phase in 0..6 {
        // Alternates between small and large answers, so that the slots for small ones reduce the
        // space for large ones.
        model.text_size_max = *model.random.choice(&[1, 24, 200, 6000]).unwrap();
        model.key_count = *model.random.choice(&[100, 20_000, 1 << 40]).unwrap();
        for batch in 0..12 {
            kept += measure(|| (0..BATCH).for_each(|_| model.step())).bytes_current;
            let size_max = size_max as i64;
            let bound = size_max + (size_max * SLACK_PERCENT / 100).max(SLACK_MIN);
            assert!(
                kept <= bound,
                "seed {seed}, {size_max} bytes asked, stale {has_stale}, phase {phase}, batch \
                 {batch}: {kept} bytes kept"
            );
            full = full.max(kept * 100 / size_max);
        }
    }
    // All that was counted belongs to the caches: dropping them frees it.
    kept += measure(|| drop(model)).bytes_current;
    assert_eq!(kept, 0, "seed {seed}");
}

#[test]
fn the_heap_stays_within_the_bound() {
    let seed = match std::env::var("LOOKASIDE_TEST_SEED") {
        Ok(seed) => seed.parse().expect("a seed is a number"),
        Err(_) => fastrand::u64(..),
    };
    for (number, size_max) in (0..).zip([1, 64 << 10, 512 << 10, 2 << 20, 8 << 20]) {
        for has_stale in [false, true] {
            check(seed.wrapping_add(number), size_max, has_stale);
        }
    }
}

/// Small documents take many times the size of their text: a node of a map has space for eleven
/// members.
#[test]
fn issue_12_small_documents_stay_within_the_bound() {
    const SIZE_MAX: u64 = 8 << 20;
    let clock = Clock::manual();
    let hasher = foldhash::quality::RandomState::default();
    let columns: Arc<[Text]> = ["document"].map(Text::from).into();
    let mut cache = None;
    let kept = measure(|| {
        let filled = SharedCache::new(1_000_000, SIZE_MAX);
        for number in 0..100_000 {
            let params = [Value::Int(number)];
            let statement = StatementId::from_index(0);
            let key = KeyRef::new(&hasher, statement, Extent::First, &params);
            let now = clock.now();
            let Flight::Lead(leader) = filled.join(&key, now, |_| true) else {
                panic!("{number} is there already");
            };
            let mut rows = RowSetBuilder::with_columns(columns.clone());
            let object: Object = [("id".into(), Value::Int(number))].into_iter().collect();
            rows.push([Value::from(object)]);
            let lifetime = Duration::from_secs(60);
            let entry = CacheEntry::new(&key, rows.build(), now.after(lifetime), lifetime);
            leader.put(&key, entry, now);
        }
        cache = Some(filled);
    });
    // A quarter of the bytes is for the caches of sessions.
    let bound = SIZE_MAX as i64 * 3 / 4;
    let count = cache.as_ref().map_or(0, SharedCache::len);
    assert!(
        (bound / 2..=bound + bound * SLACK_PERCENT / 100).contains(&kept.bytes_current),
        "{} bytes kept for {count} answers",
        kept.bytes_current
    );
}
