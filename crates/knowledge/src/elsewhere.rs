//! Asking another database, through the caches: what a batch misses in one flight.

use std::ops::Range;
use std::time::Duration;

use hashbrown::HashMap;
use lookaside_value::{Answers, ParamBatch, RowSet, Value};

use crate::Result;
use crate::ask::{Ask, Asker, Moment};
use crate::cache::{Entry, Extent, KeyRef, Prehashed, SlotIndex};
use crate::clock::Ticks;
use crate::error::Error;
use crate::remote::{Misses, Remote, RemoteStatement, block_on_unless};
use crate::telemetry::{CacheOutcome, Layer};

/// Old answers of a batch in place of those that another database did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StandIns {
    /// How many parameter sets have one.
    pub count: u64,
    /// The age of the oldest.
    pub age_max: Duration,
}

/// A batch on its way through the caches.
pub(crate) struct Pass {
    moment: Moment,
    pub(crate) stand_ins: Option<StandIns>,
}

impl Pass {
    pub(crate) fn new(moment: Moment) -> Self {
        Self {
            moment,
            stand_ins: None,
        }
    }

    /// Takes note of the answer to so many parameter sets, given out now.
    fn note(&mut self, entry: &Entry, set_count: u64, now: Ticks) {
        if entry.stands_in() {
            let age = entry.age(now);
            let before = self.stand_ins;
            self.stand_ins = Some(StandIns {
                count: before.map_or(0, |it| it.count) + set_count,
                age_max: before.map_or(age, |it| it.age_max.max(age)),
            });
        }
    }
}

impl Asker {
    /// The first rows for the parameter sets of a batch.
    pub(crate) fn batch_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        elsewhere: (&Remote, &RemoteStatement),
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        let mut pass = Pass::new(Moment::new(ask.engine.clock.now()));
        answers.fill_absent(params.len());
        self.sets_elsewhere(
            ask,
            elsewhere,
            (params, 0..params.len(), Extent::First),
            &mut pass,
            |index, rows| match rows {
                Ok(rows) => answers.set_first(index, rows),
                Err(error) => answers.set_failed(index, error.into()),
            },
        );
        if let Some(cache) = &ask.generation.cache {
            self.local.widen(cache.capacity());
        }
    }

    /// Gives `visit` the rows for each parameter set in a range of a batch, by its index but in no
    /// order. What no cache holds is asked for in one flight.
    ///
    /// All are looked for in one cache before any is in the next: in such a short loop a processor
    /// waits for the memory of several at once.
    pub(crate) fn sets_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        elsewhere: (&Remote, &RemoteStatement),
        (params, range, extent): (&ParamBatch, Range<usize>, Extent),
        pass: &mut Pass,
        mut visit: impl FnMut(usize, Result<&RowSet>),
    ) {
        let mut missed = Missed::default();
        match &ask.generation.cache {
            Some(cache) => {
                let look = pass.moment.look;
                let find = |index| self.local.peek(&ask.key(params.set(index), extent), look);
                let slots: Vec<Option<SlotIndex>> = range.clone().map(find).collect();
                for (index, slot) in range.clone().zip(&slots) {
                    if let Some(slot) = slot {
                        self.count(ask, Layer::L0, CacheOutcome::Hit);
                        let entry = self.local.entry(*slot);
                        pass.note(entry, 1, pass.moment.now);
                        visit(index, Ok(&entry.rows));
                    }
                }
                // Entries are put into slots from here on, so those that were found hold no more.
                for (index, slot) in range.zip(&slots) {
                    if slot.is_some() {
                        continue;
                    }
                    self.count(ask, Layer::L0, CacheOutcome::Miss);
                    let key = ask.key(params.set(index), extent);
                    let Some(entry) = cache.find(&key, look) else {
                        missed.add(index, key);
                        continue;
                    };
                    self.count(ask, Layer::L1, CacheOutcome::Hit);
                    pass.note(&entry, 1, pass.moment.now);
                    visit(index, Ok(&entry.rows));
                    // If there is no room, the shared cache has it.
                    let _ = self.local.insert(&key, entry, pass.moment.now);
                }
            }
            None => {
                for index in range {
                    missed.add(index, ask.key(params.set(index), extent));
                }
            }
        }
        if missed.gaps.is_empty() {
            return;
        }
        let found = self.missed_elsewhere(ask, elsewhere, &missed, extent, pass);
        for &(index, number) in &missed.gaps {
            visit(index, found[number].as_ref().map_err(Clone::clone));
        }
    }

    /// The rows of different keys that no cache held a moment ago.
    fn missed_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        (remote, statement): (&Remote, &RemoteStatement),
        missed: &Missed<'_>,
        extent: Extent,
        pass: &mut Pass,
    ) -> Vec<Result<RowSet>> {
        let cache = ask.generation.cache.as_ref();
        let misses = Misses {
            ask: *ask,
            remote,
            statement,
            extent,
            cache,
            moment: pass.moment,
        };
        let sets: Vec<&[Value]> = missed.keys.iter().map(|key| key.params).collect();
        let cancelled = || Error::query_cancelled(&ask.info.sql);
        let entries = block_on_unless(self.cancel(), misses.entries(&sets))
            .unwrap_or_else(|| sets.iter().map(|_| Err(cancelled())).collect());
        let now = ask.engine.clock.now();
        let keep = |((key, set_count), entry): ((&KeyRef<'_>, &u64), Result<Entry>)| {
            let entry = entry?;
            pass.note(&entry, *set_count, now);
            let rows = entry.rows.clone();
            if cache.is_some() {
                // As above.
                let _ = self.local.insert(key, entry, now);
            }
            Ok(rows)
        };
        let keys = missed.keys.iter().zip(&missed.set_counts);
        keys.zip(entries).map(keep).collect()
    }
}

/// Keys that no cache holds, each once.
#[derive(Default)]
struct Missed<'a> {
    keys: Vec<KeyRef<'a>>,
    /// How many parameter sets have each.
    set_counts: Vec<u64>,
    numbers: HashMap<KeyRef<'a>, usize, Prehashed>,
    /// The parameter sets that have one, with the number of their key.
    gaps: Vec<(usize, usize)>,
}

impl<'a> Missed<'a> {
    /// Takes in the key of the parameter set at `index`.
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
