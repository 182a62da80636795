//! First rows of many parameter sets, whose cache misses overlap.
//!
//! A probe of a large table waits for two cache lines or more, one after the other. The processor loads
//! those of several probes at a time if it sees that they do not depend on each other, for which the steps
//! of a probe are done for all sets before the next step.

use std::hint::black_box;
use std::ops::Range;

use lookaside_value::{ParamBatch, Value};

use super::build::{Class, Interval};
use super::key::{Affinity, Converted};
use super::operand::Operand;
use super::{ChosenPlan, Compared, LookupPlan, Native, NativeProbe, Probe, StoredRows};
use crate::index::{BLOCK_SIZE, Key, KeyIndex};

/// The size in bytes beyond which an index is probably not in the cache of a core.
const CACHED_SIZE_MAX: usize = 1 << 20;

/// The size in bytes beyond which it pays to load values before they are read: at 2.4 MB, a lookup takes
/// 1 ns more with it, at 24 MB 20 ns less.
const CACHED_VALUES_SIZE_MAX: usize = 4 << 20;

/// An index of integers.
enum IntIndex<'a> {
    Hash(&'a KeyIndex),
    Interval(&'a Interval),
}

impl LookupPlan {
    /// Appends the answer of [`Self::first`] for each set in a range of a batch, of which there are up to
    /// [`BLOCK_SIZE`].
    pub(crate) fn first_of_each(
        &self,
        params: &ParamBatch,
        range: Range<usize>,
        probes: &mut Vec<Probe>,
    ) {
        match &self.0 {
            ChosenPlan::Native(native) => native.first_of_each(params, range, probes),
            _ => probes.extend(range.map(|index| self.first(params.set(index)))),
        }
    }
}

impl Native {
    fn first_of_each(&self, params: &ParamBatch, range: Range<usize>, probes: &mut Vec<Probe>) {
        let start = probes.len();
        if let Some((index, compared)) = self.int_index() {
            self.first_of_ints(&index, compared, params, range, probes);
        } else {
            if let NativeProbe::Hash { index, parts } = &self.probe
                && let [part] = parts.as_slice()
                && index.size() > CACHED_SIZE_MAX
            {
                let key = |index| match part.plain_key(params.set(index)) {
                    Some(Converted::Key(key)) => Some(key),
                    _ => None,
                };
                index.prefetch(range.clone().filter_map(key));
            }
            probes.extend(range.map(|index| self.first(params.set(index))));
        }
        self.prefetch_rows(&probes[start..]);
    }

    /// The index, if integers are looked up in it, and what they are compared with.
    fn int_index(&self) -> Option<(IntIndex<'_>, &Compared)> {
        match &self.probe {
            NativeProbe::Hash { index, parts } if index.has_int_keys() => {
                let [part] = parts.as_slice() else {
                    return None;
                };
                Some((IntIndex::Hash(index), part))
            }
            NativeProbe::Interval {
                interval,
                key,
                high: None,
            } if interval.class == Class::Int => Some((IntIndex::Interval(interval), key)),
            _ => None,
        }
    }

    fn first_of_ints(
        &self,
        index: &IntIndex<'_>,
        compared: &Compared,
        params: &ParamBatch,
        range: Range<usize>,
        probes: &mut Vec<Probe>,
    ) {
        // Any key takes the place of one that is not an integer.
        let (mut keys, mut is_int) = ([0; BLOCK_SIZE], [false; BLOCK_SIZE]);
        let (keys, is_int) = (&mut keys[..range.len()], &mut is_int[..range.len()]);
        for ((index, key), is_int) in range.clone().zip(&mut *keys).zip(&mut *is_int) {
            if let Some(int) = compared.plain_int(params.set(index)) {
                (*key, *is_int) = (int, true);
            }
        }
        let mut rows = [None; BLOCK_SIZE];
        let rows = &mut rows[..range.len()];
        match index {
            IntIndex::Hash(index) => index.first_of_ints(keys, rows),
            IntIndex::Interval(interval) => {
                interval.index.first_of_ints(keys, self.list_order, rows);
            }
        }
        let found = rows.iter().zip(is_int);
        probes.extend(range.zip(found).map(|(index, (row, is_int))| match row {
            _ if !*is_int => self.first(params.set(index)),
            Some(row) => Probe::Row(*row as usize),
            None => Probe::Absent,
        }));
    }

    /// Loads the cache lines at which the rows begin.
    fn prefetch_rows(&self, probes: &[Probe]) {
        let rows = probes.iter().filter_map(|probe| match probe {
            Probe::Row(row) => Some(*row),
            _ => None,
        });
        match &self.rows {
            StoredRows::Packed(packed) => {
                black_box(rows.fold(0, |loaded, row| loaded ^ packed.prefetch(row)));
            }
            StoredRows::Set(set)
                if set.len() * set.columns().len() * size_of::<Value>()
                    > CACHED_VALUES_SIZE_MAX =>
            {
                let prefetch = |row: usize| set.row(row).first().is_some_and(Value::is_null);
                black_box(rows.fold(false, |loaded, row| loaded ^ prefetch(row)));
            }
            StoredRows::Set(_) => {}
        }
    }
}

impl Compared {
    /// The key to look up, if it is an integer and needs no scratch buffer.
    #[inline]
    fn plain_int(&self, params: &[Value]) -> Option<i64> {
        // By far the most common case, without a call.
        if let (Operand::Param(position), Affinity::Numeric) = (&self.operand, self.affinity)
            && let Some(Value::Int(int)) = params.get(*position)
        {
            return Some(*int);
        }
        match self.plain_key(params)? {
            Converted::Key(Key::Int(int)) => Some(int),
            _ => None,
        }
    }
}
