//! Parameter sets of a batch without repetitions.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use lookaside_value::{ParamBatch, Value};

/// Finds the place of a parameter set among those of a batch.
///
/// Always on: where all sets differ it costs 10 to 20 ns a record (the `rate` example with and
/// without it), a tenth of the lookup, and every repetition saves a whole one.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// Positions in the batch, by the hash of the set there.
    places: HashTable<u32>,
    hasher: RandomState,
}

impl Distinct {
    /// Forgets all sets and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }

    /// Moves `set` behind the others, unless an equal one is there; tells where it or that one is.
    pub(crate) fn place(&mut self, set: &mut Vec<Value>, batch: &mut ParamBatch) -> u32 {
        let hash = self.hasher.hash_one(&**set);
        if let Some(place) = self
            .places
            .find(hash, |place| *batch.set(*place as usize) == **set)
        {
            set.clear();
            return *place;
        }
        let place = u32::try_from(batch.len()).expect("batches have fewer than 2^32 records");
        batch.push(set.drain(..));
        let hasher = &self.hasher;
        let rehash = |place: &u32| hasher.hash_one(batch.set(*place as usize));
        self.places.insert_unique(hash, place, rehash);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let places = sets.map(|set| distinct.place(&mut set.to_vec(), &mut batch));
        assert_eq!(places, [0, 1, 0, 2, 1]);
        assert_eq!(batch.len(), 3);
        batch.reset(1);
        distinct.clear();
        assert_eq!(distinct.place(&mut vec![Value::Null], &mut batch), 0);
    }
}
