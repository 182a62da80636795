//! First rows of many parameter sets, whose cache misses overlap.
//!
//! A probe of a large table waits for two cache lines or more, one after the other. The processor loads
//! those of several probes at a time if it sees that they do not depend on each other, for which the steps
//! of a probe are done for all sets before the next step.

use std::hint::black_box;

use lookaside_value::Value;

use super::key::Converted;
use super::{ChosenPlan, LookupPlan, Native, NativeProbe, Probe, StoredRows};

/// The size in bytes beyond which an index or rows are probably not in the cache of a core.
const CACHED_SIZE_MAX: usize = 1 << 20;

impl LookupPlan {
    /// Appends the answer of [`Self::first`] for each of these sets.
    pub(crate) fn first_of_each<'p>(
        &self,
        sets: impl Iterator<Item = &'p [Value]> + Clone,
        probes: &mut Vec<Probe>,
    ) {
        match &self.0 {
            ChosenPlan::Native(native) => native.first_of_each(sets, probes),
            _ => probes.extend(sets.map(|set| self.first(set))),
        }
    }
}

impl Native {
    fn first_of_each<'p>(
        &self,
        sets: impl Iterator<Item = &'p [Value]> + Clone,
        probes: &mut Vec<Probe>,
    ) {
        let start = probes.len();
        if let NativeProbe::Hash { index, parts } = &self.probe
            && let [part] = parts.as_slice()
            && index.size() > CACHED_SIZE_MAX
        {
            let mut loaded = 0;
            for set in sets.clone() {
                if let Some(Converted::Key(key)) = part.plain_key(set) {
                    loaded ^= index.prefetch(key);
                }
            }
            black_box(loaded);
        }
        probes.extend(sets.map(|set| self.first(set)));
        let rows = probes[start..].iter().filter_map(|probe| match probe {
            Probe::Row(row) => Some(*row),
            _ => None,
        });
        match &self.rows {
            StoredRows::Packed(packed) => {
                black_box(rows.fold(0, |loaded, row| loaded ^ packed.prefetch(row)));
            }
            StoredRows::Set(set) if set.len() * size_of::<Value>() > CACHED_SIZE_MAX => {
                let prefetch = |row: usize| set.row(row).first().is_some_and(Value::is_null);
                black_box(rows.fold(false, |loaded, row| loaded ^ prefetch(row)));
            }
            StoredRows::Set(_) => {}
        }
    }
}
