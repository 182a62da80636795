//! Deduplication of the parameter sets of a batch.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use lookaside_value::ParamBatch;

/// Finds equal parameter sets in a batch.
///
/// Always enabled: if all sets differ, it costs 10 to 20 ns per record (measured by the `rate`
/// example), a tenth of a lookup, and every repetition saves a whole lookup.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// Positions in the batch, by the hash of the set there.
    positions: HashTable<u32>,
    hasher: RandomState,
}

impl Distinct {
    /// Removes all sets and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.positions.clear();
    }

    /// Removes the last set of the batch if an earlier one is equal; returns the position of the
    /// earlier one, or else of the last.
    pub(crate) fn deduplicate_last(&mut self, batch: &mut ParamBatch) -> u32 {
        let last = u32::try_from(batch.len() - 1).expect("batches have fewer than 2^32 records");
        let set_at = |position: u32| batch.set(position as usize);
        let hash = self.hasher.hash_one(set_at(last));
        let entry = self.positions.entry(
            hash,
            |position| set_at(*position) == set_at(last),
            |position| self.hasher.hash_one(set_at(*position)),
        );
        match entry {
            Entry::Vacant(entry) => {
                entry.insert(last);
                last
            }
            Entry::Occupied(entry) => {
                let position = *entry.get();
                batch.pop();
                position
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Value;

    use super::*;

    fn position(distinct: &mut Distinct, batch: &mut ParamBatch, set: &[Value]) -> u32 {
        batch.push(set.iter().cloned());
        distinct.deduplicate_last(batch)
    }

    #[test]
    fn equal_sets_share_a_place() {
        let mut distinct = Distinct::default();
        let mut batch = ParamBatch::new(2);
        let sets: [[Value; 2]; 5] = [
            ["a".into(), 1_i64.into()],
            ["a".into(), 1.0.into()],
            ["a".into(), 1_i64.into()],
            [Value::Null, 1_i64.into()],
            ["a".into(), 1.0.into()],
        ];
        let positions = sets.map(|set| position(&mut distinct, &mut batch, &set));
        assert_eq!(positions, [0, 1, 0, 2, 1]);
        assert_eq!(batch.len(), 3);
        batch.reset(1);
        distinct.clear();
        assert_eq!(position(&mut distinct, &mut batch, &[Value::Null]), 0);
    }
}
