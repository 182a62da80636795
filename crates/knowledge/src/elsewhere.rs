//! Asking another database, through the caches: what a batch misses in one flight.

use std::time::Duration;

use hashbrown::HashMap;
use lookaside_value::{Answers, ParamBatch, RowSet, Value};

use crate::Result;
use crate::ask::{Ask, Asker, Moment};
use crate::cache::{Entry, Extent, KeyRef, Prehashed};
use crate::remote::{Misses, Remote, RemoteStatement, block_on};
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

    /// Takes note of the answer to so many parameter sets.
    fn note(&mut self, entry: &Entry, set_count: u64) {
        if entry.stands_in() {
            let age = entry.age(self.moment.now);
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
        for rows in self.sets_elsewhere(ask, elsewhere, params, Extent::First, &mut pass) {
            match rows {
                Ok(rows) if rows.is_empty() => answers.push_absent(),
                Ok(rows) => {
                    let rows = answers.add_rows(rows);
                    answers.push_row(rows, 0);
                }
                Err(error) => answers.push_failed(error.into()),
            }
        }
    }

    /// The rows for each parameter set of a batch, asked for in one flight as far as no cache holds
    /// them.
    pub(crate) fn sets_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        elsewhere: (&Remote, &RemoteStatement),
        params: &ParamBatch,
        extent: Extent,
        pass: &mut Pass,
    ) -> Vec<Result<RowSet>> {
        let mut rows: Vec<Option<Result<RowSet>>> = Vec::with_capacity(params.len());
        // Where an answer is missing, the number of its key among the missed ones.
        let mut gaps = Vec::new();
        let mut missed = Missed::default();
        for (index, set) in params.iter().enumerate() {
            let key = ask.key(set, extent);
            let kept = self.kept_elsewhere(ask, &key, pass);
            if kept.is_none() {
                gaps.push((index, missed.number(key)));
            }
            rows.push(kept.map(Ok));
        }
        if !gaps.is_empty() {
            let answers = self.missed_elsewhere(ask, elsewhere, &missed, extent, pass);
            for (index, number) in gaps {
                rows[index] = Some(answers[number].clone());
            }
        }
        let rows = rows.into_iter();
        rows.map(|rows| rows.expect("a gap has its answer"))
            .collect()
    }

    /// The rows that a cache holds.
    fn kept_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        key: &KeyRef<'_>,
        pass: &mut Pass,
    ) -> Option<RowSet> {
        let cache = ask.generation.cache.as_ref()?;
        if let Some(slot) = self.local.find(key, pass.moment.look) {
            self.count(ask, Layer::L0, CacheOutcome::Hit);
            let entry = self.local.entry(slot);
            pass.note(entry, 1);
            return Some(entry.rows.clone());
        }
        self.count(ask, Layer::L0, CacheOutcome::Miss);
        let entry = cache.find(key, pass.moment.look)?;
        self.count(ask, Layer::L1, CacheOutcome::Hit);
        pass.note(&entry, 1);
        let rows = entry.rows.clone();
        // If there is no room, the shared cache has it.
        let _ = self.local.insert(key, entry, pass.moment.now);
        Some(rows)
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
        let entries = block_on(misses.entries(&sets));
        let keep = |((key, set_count), entry): ((&KeyRef<'_>, &u64), Result<Entry>)| {
            let entry = entry?;
            pass.note(&entry, *set_count);
            let rows = entry.rows.clone();
            if cache.is_some() {
                // As above.
                let _ = self.local.insert(key, entry, pass.moment.now);
            }
            Ok(rows)
        };
        let keys = missed.keys.iter().zip(&missed.set_counts);
        keys.zip(entries).map(keep).collect()
    }
}

/// Keys that are asked for, each once.
#[derive(Default)]
struct Missed<'a> {
    keys: Vec<KeyRef<'a>>,
    /// How many parameter sets have each.
    set_counts: Vec<u64>,
    numbers: HashMap<KeyRef<'a>, usize, Prehashed>,
}

impl<'a> Missed<'a> {
    fn number(&mut self, key: KeyRef<'a>) -> usize {
        let next = self.keys.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
            self.set_counts.push(0);
        }
        self.set_counts[number] += 1;
        number
    }
}
