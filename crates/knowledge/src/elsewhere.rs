//! Asking another database, through the caches: the misses of a batch in one flight.

use std::collections::HashMap;

use lookaside_value::{Answers, ParamBatch, RowSet, Value};

use crate::Result;
use crate::ask::{Ask, Asker, Moment};
use crate::cache::{Extent, Key, KeyRef};
use crate::remote::{Misses, Remote, RemoteStatement, block_on};
use crate::telemetry::{CacheOutcome, Layer};

impl Asker {
    /// The answers of another database to the parameter sets of a batch, as far as the session's own
    /// cache does not hold them, in one flight.
    pub(crate) fn batch_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        (remote, statement): (&Remote, &RemoteStatement),
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        let moment = Moment::new(ask.engine.clock.now());
        for rows in self.sets_elsewhere(ask, (remote, statement), params, Extent::First, moment) {
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

    /// The rows for each parameter set of a batch, asked for in one flight as far as the session's
    /// own cache does not hold them.
    pub(crate) fn sets_elsewhere(
        &mut self,
        ask: &Ask<'_>,
        (remote, statement): (&Remote, &RemoteStatement),
        params: &ParamBatch,
        extent: Extent,
        moment: Moment,
    ) -> Vec<Result<RowSet>> {
        let cache = ask.generation.cache.as_ref();
        let keys: Vec<KeyRef<'_>> = params.iter().map(|set| ask.key(set, extent)).collect();
        let mut found: Vec<Option<Result<RowSet>>> = vec![None; keys.len()];
        // Equal keys are asked for once; the map holds the place among those that are asked for.
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut missed: Vec<Vec<usize>> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if cache.is_some() {
                if let Some(slot) = self.local.find(key, moment.look) {
                    self.count(ask, Layer::L0, CacheOutcome::Hit);
                    found[index] = Some(Ok(self.local.entry(slot).rows.clone()));
                    continue;
                }
                self.count(ask, Layer::L0, CacheOutcome::Miss);
            }
            let place = *places.entry(key.to_key()).or_insert(missed.len());
            match missed.get_mut(place) {
                Some(indexes) => indexes.push(index),
                None => missed.push(vec![index]),
            }
        }
        if !missed.is_empty() {
            let sets: Vec<&[Value]> = missed.iter().map(|it| keys[it[0]].params).collect();
            let misses = Misses {
                ask: *ask,
                remote,
                statement,
                extent,
                cache,
                moment,
            };
            let entries = block_on(misses.entries(&sets));
            for (indexes, entry) in missed.iter().zip(entries) {
                let rows = entry.as_ref().map(|entry| entry.rows.clone());
                for &index in indexes {
                    found[index] = Some(rows.clone().map_err(Clone::clone));
                }
                if cache.is_some()
                    && let Ok(entry) = entry
                {
                    // If there is no room, the shared cache has it.
                    let _ = self.local.insert(&keys[indexes[0]], entry, moment.now);
                }
            }
        }
        let found = found.into_iter();
        found
            .map(|rows| rows.expect("every set was found or asked for"))
            .collect()
    }
}
