//! First rows of many parameter sets, whose cache misses overlap.
//!
//! A probe of a large table waits for two cache lines or more, one after the other. The processor loads
//! those of several probes at a time if it sees that they do not depend on each other, for which the steps
//! of a probe are done for all sets before the next step.

use std::hint::black_box;
use std::net::IpAddr;
use std::ops::Range;

use lookaside_value::{ParamBatch, Value};

use super::build::{Class, Interval};
use super::key::{Affinity, Converted};
use super::operand::Operand;
use super::{ChosenPlan, Compared, LookupPlan, Native, NativeProbe, Probe, StoredRows};
use crate::bind::SqlValue;
use crate::functions;
use crate::index::{BLOCK_SIZE, Key, KeyIndex};

/// The size in bytes beyond which an index is probably not in the cache of a core.
const CACHED_SIZE_MAX: usize = 1 << 20;

/// The size in bytes beyond which it pays to load values before they are read: at 2.4 MB, a lookup takes
/// 1 ns more with it, at 24 MB 20 ns less.
const CACHED_VALUES_SIZE_MAX: usize = 4 << 20;

/// An index of integers, and what is looked up in it.
enum IntIndex<'a> {
    Hash(&'a KeyIndex, &'a Compared),
    Interval(&'a Interval, &'a Compared),
    Ip4Between(&'a Interval, &'a Operand),
}

impl LookupPlan {
    /// Finds the first row of each set in a range of a batch, of which there are up to [`BLOCK_SIZE`], among
    /// the rows that are returned. `None` if [`Self::first`] has to be asked for each of them.
    pub(crate) fn first_of_each(
        &self,
        params: &ParamBatch,
        range: Range<usize>,
        rows: &mut [Option<u32>],
    ) -> Option<&StoredRows> {
        match &self.0 {
            ChosenPlan::Native(native) => native.first_of_each(params, range, rows),
            _ => None,
        }
    }
}

impl Native {
    fn first_of_each(
        &self,
        params: &ParamBatch,
        range: Range<usize>,
        rows: &mut [Option<u32>],
    ) -> Option<&StoredRows> {
        let mut others = match self.int_index() {
            Some(index) => {
                let (mut keys, len) = ([0; BLOCK_SIZE], range.len());
                let keys = &mut keys[..len];
                let others = index.read_keys(params, range.clone(), keys);
                match index {
                    IntIndex::Hash(index, _) => index.first_of_ints(keys, rows),
                    IntIndex::Interval(interval, _) | IntIndex::Ip4Between(interval, _) => {
                        interval.index.first_of_ints(keys, self.list_order, rows);
                    }
                }
                others
            }
            None => {
                self.prefetch_keys(params, range.clone());
                u64::MAX.unbounded_shr((BLOCK_SIZE - range.len()) as u32)
            }
        };
        while others != 0 {
            let at = others.trailing_zeros() as usize;
            rows[at] = match self.first(params.set(range.start + at)) {
                Probe::Row(row) => Some(row as u32),
                Probe::Absent => None,
                Probe::Refused | Probe::Fallback => return None,
            };
            others &= others - 1;
        }
        self.prefetch_values(rows);
        Some(&self.rows)
    }

    /// The index, if integers are looked up in it.
    fn int_index(&self) -> Option<IntIndex<'_>> {
        match &self.probe {
            NativeProbe::Hash { index, parts } if index.has_int_keys() => match parts.as_slice() {
                [part] => Some(IntIndex::Hash(index, part)),
                _ => None,
            },
            NativeProbe::Interval {
                interval,
                key,
                high: None,
            } if interval.class == Class::Int => Some(IntIndex::Interval(interval, key)),
            NativeProbe::Ip4Between { interval, ip } => Some(IntIndex::Ip4Between(interval, ip)),
            _ => None,
        }
    }

    /// Loads the cache lines of the keys of a large index.
    fn prefetch_keys(&self, params: &ParamBatch, range: Range<usize>) {
        if let NativeProbe::Hash { index, parts } = &self.probe
            && let [part] = parts.as_slice()
            && index.size() > CACHED_SIZE_MAX
        {
            let key = |index| match part.plain_key(params.set(index)) {
                Some(Converted::Key(key)) => Some(key),
                _ => None,
            };
            index.prefetch(range.filter_map(key));
        }
    }

    /// Loads the cache lines at which the rows of a large set of values begin.
    fn prefetch_values(&self, rows: &[Option<u32>]) {
        if let StoredRows::Set(set) = &self.rows
            && set.len() * set.columns().len() * size_of::<Value>() > CACHED_VALUES_SIZE_MAX
        {
            let prefetch = |row: &u32| set.row(*row as usize).first().is_some_and(Value::is_null);
            let loaded = rows.iter().flatten().map(prefetch);
            black_box(loaded.fold(false, |loaded, row| loaded ^ row));
        }
    }
}

impl IntIndex<'_> {
    /// Reads the integers to look up. Returns the sets with other keys, as bits; zero takes their place.
    #[inline]
    fn read_keys(&self, params: &ParamBatch, range: Range<usize>, keys: &mut [i64]) -> u64 {
        match self {
            Self::Hash(_, key) | Self::Interval(_, key) => {
                if let (Operand::Param(position), Affinity::Numeric) = (&key.operand, key.affinity)
                {
                    // By far the most common case, without a call.
                    return read(params, range, keys, |set| match set.get(*position) {
                        Some(Value::Int(int)) => Some(*int),
                        _ => key.plain_int(set),
                    });
                }
                read(params, range, keys, |set| key.plain_int(set))
            }
            Self::Ip4Between(_, ip) => read(params, range, keys, |set| match ip.param(set) {
                Some(Value::Ip(IpAddr::V4(ip))) => Some(i64::from(u32::from(*ip))),
                _ => match ip.plain_value(set) {
                    Some(SqlValue::Text(ip)) => Some(functions::ip4_between_ip_of(ip)),
                    _ => None,
                },
            }),
        }
    }
}

#[inline]
fn read(
    params: &ParamBatch,
    range: Range<usize>,
    keys: &mut [i64],
    key: impl Fn(&[Value]) -> Option<i64>,
) -> u64 {
    let mut others = 0;
    for ((set, at), place) in range.zip(0..).zip(keys) {
        match key(params.set(set)) {
            Some(int) => *place = int,
            None => others |= 1_u64 << at,
        }
    }
    others
}

impl Compared {
    /// The key to look up, if it is an integer and needs no scratch buffer.
    #[inline(never)]
    fn plain_int(&self, params: &[Value]) -> Option<i64> {
        match self.plain_key(params)? {
            Converted::Key(Key::Int(int)) => Some(int),
            _ => None,
        }
    }
}
