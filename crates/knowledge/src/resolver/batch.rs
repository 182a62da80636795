//! Batch lookups of one statement: all keys in one cache before any in the next, then one request
//! for those that no cache has.

use std::ops::Range;

use hashbrown::HashMap;
use lookaside_value::{Answers, BatchQuery, Extent, ParamBatch, RowSet, Value};

use super::misses::MissBatch;
use super::{AgeLimit, Provider, Resolver, StatementContext};
use crate::Result;
use crate::cache::{CacheEntry, KeyRef, Prehashed, SlotIndex};
use crate::clock::Ticks;
use crate::error::Error;
use crate::event::{CacheOutcome, Layer};
use crate::provenance::StaleAnswers;
use crate::remote::Blocking;
use crate::wait::block_on_unless;

/// Counts the stale answers of a batch.
#[derive(Default)]
pub(crate) struct StaleCount(Option<StaleAnswers>);

impl StaleCount {
    /// The stale answers, if there were any.
    pub(crate) fn total(&self) -> Option<StaleAnswers> {
        self.0
    }

    /// Counts the answer to `set_count` parameter sets, returned at `now`.
    fn add(&mut self, entry: &CacheEntry, set_count: u64, now: Ticks) {
        if entry.is_stale() {
            let age = entry.age(now);
            self.0 = Some(StaleAnswers {
                count: self.0.map_or(0, |it| it.count) + set_count,
                age_max: self.0.map_or(age, |it| it.age_max.max(age)),
            });
        }
    }
}

impl Resolver {
    /// The rows for the parameter sets of a batch, of a statement that a provider answers.
    pub(crate) fn resolve_batch(
        &mut self,
        context: &StatementContext<'_>,
        provider: Provider<'_>,
        (params, query): (&ParamBatch, &BatchQuery),
        limit: &AgeLimit,
        answers: &mut Answers,
    ) {
        answers.fill_absent(params.len());
        self.resolve_range(
            context,
            provider,
            (params, 0..params.len(), query.extent),
            limit,
            &mut StaleCount::default(),
            |index, rows| match (rows, query.extent) {
                (Ok(rows), Extent::First) => answers.set_first(index, rows),
                (Ok(rows), Extent::All) => match query.check_row_count(rows.len()) {
                    Ok(()) => answers.set_all(index, rows.clone()),
                    Err(error) => answers.set_failed(index, error),
                },
                (Err(error), _) => answers.set_failed(index, error.into()),
            },
        );
        if let Some(cache) = &context.generation.cache {
            self.local.widen(cache.capacity());
        }
    }

    /// Passes `visit` the rows for each parameter set in a range of a batch, with its index, in any
    /// order. Keys that no cache has are queried in one request.
    ///
    /// All keys are looked up in one cache before the next: in such a short loop a processor
    /// overlaps the memory accesses of several keys.
    pub(crate) fn resolve_range(
        &mut self,
        context: &StatementContext<'_>,
        provider: Provider<'_>,
        (params, range, extent): (&ParamBatch, Range<usize>, Extent),
        limit: &AgeLimit,
        stale: &mut StaleCount,
        mut visit: impl FnMut(usize, Result<&RowSet>),
    ) {
        let now = limit.now;
        let mut missed = MissedKeys::default();
        match &context.generation.cache {
            Some(shared) => {
                let find = |index| {
                    let key = context.key(params.set(index), extent);
                    let slot = self.local.peek(&key, limit.fresh_at(&key));
                    slot.filter(|it| limit.permits(|| self.local.entry(*it)))
                };
                let slots: Vec<Option<SlotIndex>> = range.clone().map(find).collect();
                for (index, slot) in range.clone().zip(&slots) {
                    if let Some(slot) = slot {
                        self.count(context, Layer::L0, CacheOutcome::Hit);
                        let entry = self.local.entry(*slot);
                        stale.add(entry, 1, now);
                        visit(index, Ok(&entry.rows));
                    }
                }
                // Entries are inserted from here on, which invalidates the positions found before.
                for (index, slot) in range.zip(&slots) {
                    if slot.is_some() {
                        continue;
                    }
                    self.count(context, Layer::L0, CacheOutcome::Miss);
                    let key = context.key(params.set(index), extent);
                    if self.must_query(context, &key) {
                        missed.must_query = true;
                        missed.add(index, key);
                        continue;
                    }
                    let entry = shared.find(&key, limit.fresh_at(&key));
                    let Some(entry) = entry.filter(|it| limit.permits(|| it)) else {
                        missed.add(index, key);
                        continue;
                    };
                    self.count(context, Layer::L1, CacheOutcome::Hit);
                    stale.add(&entry, 1, now);
                    visit(index, Ok(&entry.rows));
                    // If there is no room, the shared cache still has the entry.
                    let _ = self.local.insert(&key, entry, now);
                }
            }
            None => {
                for index in range {
                    missed.add(index, context.key(params.set(index), extent));
                }
            }
        }
        if missed.gaps.is_empty() {
            return;
        }
        let found = self.fetch_all(context, provider, &missed, extent, limit, stale);
        for &(index, number) in &missed.gaps {
            visit(index, found[number].as_ref().map_err(Clone::clone));
        }
    }

    /// Fetches the rows of distinct keys that no cache had.
    fn fetch_all(
        &mut self,
        context: &StatementContext<'_>,
        provider: Provider<'_>,
        missed: &MissedKeys<'_>,
        extent: Extent,
        limit: &AgeLimit,
        stale: &mut StaleCount,
    ) -> Vec<Result<RowSet>> {
        let cache = context.generation.cache.as_ref();
        let transport = Blocking(self.cancel());
        let mut limit = *limit;
        limit.joins_inflight &= !missed.must_query;
        let misses = MissBatch {
            transport: &transport,
            context: *context,
            provider,
            extent,
            cache,
            limit,
        };
        let sets: Vec<&[Value]> = missed.keys.iter().map(|key| key.params).collect();
        let cancelled = || Error::query_cancelled(&context.info.sql);
        let entries = block_on_unless(self.cancel(), misses.entries(&sets))
            .unwrap_or_else(|| sets.iter().map(|_| Err(cancelled())).collect());
        let now = context.engine.clock.now();
        let keep = |((key, set_count), entry): ((&KeyRef<'_>, &u64), Result<CacheEntry>)| {
            let entry = entry?;
            stale.add(&entry, *set_count, now);
            let rows = entry.rows.clone();
            if cache.is_some() {
                self.note_arrival(context, key, &entry);
                // If there is no room, the shared cache still has the entry.
                let _ = self.local.insert(key, entry, now);
            }
            Ok(rows)
        };
        let keys = missed.keys.iter().zip(&missed.set_counts);
        keys.zip(entries).map(keep).collect()
    }
}

/// Keys that no cache has, without duplicates.
#[derive(Default)]
struct MissedKeys<'a> {
    keys: Vec<KeyRef<'a>>,
    /// The number of parameter sets for each key.
    set_counts: Vec<u64>,
    numbers: HashMap<KeyRef<'a>, usize, Prehashed>,
    /// Whether the answer of another caller does not do for one of them.
    must_query: bool,
    /// The parameter sets with a missing key, and the number of that key.
    gaps: Vec<(usize, usize)>,
}

impl<'a> MissedKeys<'a> {
    /// Adds the key of the parameter set at `index`.
    fn add(&mut self, index: usize, key: KeyRef<'a>) {
        let next = self.keys.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
            self.set_counts.push(0);
        }
        self.set_counts[number] += 1;
        self.gaps.push((index, number));
    }
}
