//! The interval index, which finds the rows whose ranges contain a key.
//!
//! The ranges are cut at all their ends into elementary segments. Within a segment the answer does
//! not change, so a probe is one search for the last boundary that is not after the key, and
//! overlapping, nested, empty and inverted ranges need no special handling at probe time.

use std::collections::BTreeMap;

use super::addresses::AddressSegments;
use super::bytes::{Boundary, ByteSegments};
use super::fixed::{FixedLayout, FixedSegments};
use super::ints::{IntSegments, ordered};
use super::slots::{ListOrder, Lists, ROW_COUNT_MAX, Rows, Slot};
use super::{BLOCK_SIZE, TooLarge};

/// An immutable interval index.
#[derive(Debug)]
pub(crate) struct IntervalIndex {
    segments: Segments,
    /// If both bounds of integer ranges are exclusive: which rows contain the numbers between an
    /// integer and the next one.
    gaps: Option<IntSegments>,
    bounds: (Bound, Bound),
    lists: Lists,
    boundary_count: usize,
}

#[derive(Debug)]
enum Segments {
    None,
    Ints(IntSegments),
    Addresses(AddressSegments),
    Fixed(FixedSegments),
    Bytes(ByteSegments),
}

impl IntervalIndex {
    /// The rows whose ranges contain an integer; none if the ranges are of bytes.
    #[inline]
    pub(crate) fn rows_of_int(&self, key: i64, order: ListOrder) -> Rows<'_> {
        match &self.segments {
            Segments::Ints(segments) => self.lists.rows(segments.slot(ordered(key)), order),
            _ => Rows::None,
        }
    }

    /// The first row of each of up to [`BLOCK_SIZE`] keys, as [`Self::rows_of_int`] finds it.
    pub(crate) fn first_of_ints(&self, keys: &[i64], order: ListOrder, rows: &mut [Option<u32>]) {
        let mut slots = [Slot::NONE; BLOCK_SIZE];
        if let Segments::Ints(segments) = &self.segments {
            segments.slots(keys, &mut slots[..keys.len()]);
        }
        for (slot, row) in slots.iter().zip(rows) {
            *row = self.lists.first(*slot, order);
        }
    }

    /// The place of a number that is not an integer.
    #[cold]
    pub(crate) fn gap_of_real(&self, key: f64) -> Gap {
        const INT_END: f64 = 9_223_372_036_854_775_808.0;
        // Beyond all bounds, as infinity is.
        if !(-INT_END..INT_END).contains(&key) {
            return Gap::OUTSIDE;
        }
        let before = ordered(key.floor() as i64);
        match (&self.gaps, &self.segments) {
            (Some(gaps), _) => Gap([gaps.slot(before); 2]),
            // A number with a fraction is less than 2^52, so there is a next integer.
            (None, Segments::Ints(segments)) => {
                Gap([segments.slot(before), segments.slot(before + 1)])
            }
            _ => Gap::OUTSIDE,
        }
    }

    /// The place of a byte string for which [`Self::rows_of_bytes`] is `None`.
    #[cold]
    pub(crate) fn gap_of_bytes(&self, key: &[u8]) -> Gap {
        match &self.segments {
            Segments::Addresses(segments) => Gap(segments.slots_around(key)),
            Segments::Fixed(segments) => Gap(segments.slots_around(key)),
            _ => Gap::OUTSIDE,
        }
    }

    /// The rows whose ranges contain what is at this place, in the requested order.
    #[cold]
    pub(crate) fn rows_of_gap(&self, Gap([before, after]): Gap, order: ListOrder) -> Vec<u32> {
        let rows = |slot| self.lists.rows(slot, order).to_vec();
        match self.bounds {
            // An exclusive bound is at the key itself, which its range does not contain.
            (Bound::Inclusive, Bound::Exclusive) => rows(before),
            (Bound::Exclusive, Bound::Inclusive) => rows(after),
            _ => {
                let after = rows(after);
                let mut rows = rows(before);
                rows.retain(|row| after.contains(row));
                rows
            }
        }
    }

    /// The rows whose ranges contain a byte string; none if the ranges are of integers. `None` if
    /// the bounds all have one size and the key has another: see [`Self::gap_of_bytes`].
    #[inline]
    pub(crate) fn rows_of_bytes(&self, key: &[u8], order: ListOrder) -> Option<Rows<'_>> {
        Some(match &self.segments {
            Segments::Bytes(segments) => self.lists.rows(segments.slot(key), order),
            Segments::Fixed(segments) => self.lists.rows(segments.slot(key)?, order),
            Segments::Addresses(_) => self.rows_of_address(key.try_into().ok()?, order),
            _ => Rows::None,
        })
    }

    /// The rows whose ranges contain the key of an address, as [`Self::rows_of_bytes`] finds them.
    #[inline]
    pub(crate) fn rows_of_address(&self, key: [u8; 16], order: ListOrder) -> Rows<'_> {
        match &self.segments {
            Segments::Addresses(segments) => {
                let slot = segments.slot(u128::from_be_bytes(key));
                self.lists.rows(slot, order)
            }
            // The bounds have other sizes as well, or there are none.
            Segments::Bytes(segments) => self.lists.rows(segments.slot(&key), order),
            _ => Rows::None,
        }
    }

    /// Whether any key has several rows.
    pub(crate) fn has_several(&self) -> bool {
        self.lists.has_several()
    }

    /// Whether [`ListOrder::LowDescending`] leaves the order of any two of them open.
    pub(crate) fn has_ties(&self) -> bool {
        self.lists.has_ties()
    }

    /// How many boundaries there are.
    pub(crate) fn len(&self) -> usize {
        self.boundary_count
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.lists.size()
            + self.gaps.as_ref().map_or(0, IntSegments::size)
            + match &self.segments {
                Segments::None => 0,
                Segments::Ints(segments) => segments.size(),
                Segments::Addresses(segments) => segments.size(),
                Segments::Fixed(segments) => segments.size(),
                Segments::Bytes(segments) => segments.size(),
            }
    }
}

/// A place between two adjacent keys: the slots of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap([Slot; 2]);

impl Gap {
    /// Beyond all bounds.
    const OUTSIDE: Self = Self([Slot::NONE; 2]);
}

/// Collects ranges, all of integers, all of bytes, or all of networks, and all with the same
/// [`Bound`]s.
#[derive(Debug, Default)]
pub(crate) struct IntervalIndexBuilder {
    /// Those of the ranges.
    bounds: (Bound, Bound),
    ints: Vec<IntRange>,
    /// The gaps between an integer and the next one that the ranges contain, each by its lower
    /// integer, if both bounds are exclusive.
    gaps: Vec<IntRange>,
    bytes: Vec<ByteRange>,
    networks: Vec<Cut<u128>>,
    /// The bounds of the byte ranges.
    arena: Vec<u8>,
}

/// `start..=last`, in [`ordered`] keys.
#[derive(Debug)]
struct IntRange {
    start: u64,
    last: u64,
    row: u32,
}

/// `arena[low_at..high_at]` and `arena[high_at..end]`.
#[derive(Debug)]
struct ByteRange {
    low_at: usize,
    high_at: usize,
    end: usize,
    row: u32,
    is_low_behind: bool,
    is_high_behind: bool,
}

/// Whether a bound itself belongs to its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Bound {
    /// The bound belongs to the range: `<=` or `>=`.
    #[default]
    Inclusive,
    /// The bound does not belong to the range: `<` or `>`.
    Exclusive,
}

/// A range with such bounds may contain nothing but what is between two adjacent keys, so its rows
/// cannot be found by those of the keys.
const BOTH_EXCLUSIVE: (Bound, Bound) = (Bound::Exclusive, Bound::Exclusive);

impl IntervalIndexBuilder {
    /// Adds a range from `low` to `high` for `row`.
    pub(crate) fn push_ints(&mut self, row: usize, low: (i64, Bound), high: (i64, Bound)) {
        self.bounds = (low.1, high.1);
        if self.bounds == BOTH_EXCLUSIVE && low.0 < high.0 {
            self.gaps.push(IntRange {
                start: ordered(low.0),
                last: ordered(high.0) - 1,
                row: row as u32,
            });
        }
        let start = match low {
            (low, Bound::Inclusive) => Some(ordered(low)),
            (low, Bound::Exclusive) => ordered(low).checked_add(1),
        };
        let last = match high {
            (high, Bound::Inclusive) => Some(ordered(high)),
            (high, Bound::Exclusive) => ordered(high).checked_sub(1),
        };
        if let (Some(start), Some(last)) = (start, last)
            && start <= last
        {
            let row = row as u32;
            self.ints.push(IntRange { start, last, row });
        }
    }

    /// Adds a range from `low` to `high`, in the order of `memcmp`, for `row`.
    pub(crate) fn push_bytes(&mut self, row: usize, low: (&[u8], Bound), high: (&[u8], Bound)) {
        self.bounds = (low.1, high.1);
        let start = Boundary {
            bytes: low.0,
            behind: low.1 == Bound::Exclusive,
        };
        let end = Boundary {
            bytes: high.0,
            behind: high.1 == Bound::Inclusive,
        };
        if start < end {
            let low_at = self.arena.len();
            self.arena.extend_from_slice(low.0);
            let high_at = self.arena.len();
            self.arena.extend_from_slice(high.0);
            self.bytes.push(ByteRange {
                low_at,
                high_at,
                end: self.arena.len(),
                row: row as u32,
                is_low_behind: start.behind,
                is_high_behind: end.behind,
            });
        }
    }

    /// Adds a range of keys of addresses for `row`, both bounds inclusive. In
    /// [`ListOrder::LowDescending`], rows are sorted by their prefix lengths instead.
    pub(crate) fn push_network(&mut self, row: usize, first: u128, last: u128, prefix_len: u8) {
        self.networks.push(Cut {
            start: first,
            end: last.checked_add(1),
            row: row as u32,
            rank: u32::from(u8::MAX - prefix_len),
        });
    }

    /// Cuts the ranges into segments.
    pub(crate) fn build(mut self) -> Result<IntervalIndex, TooLarge> {
        let counts = [self.ints.len(), self.bytes.len(), self.networks.len()];
        if counts.iter().any(|count| *count > ROW_COUNT_MAX) {
            return Err(TooLarge::Rows);
        }
        assert!(
            counts.iter().filter(|count| **count > 0).count() <= 1,
            "one index holds keys of one kind"
        );
        let mut lists = Lists::default();
        let bounds = self.bounds;
        let gaps = std::mem::take(&mut self.gaps);
        let gaps = match gaps.is_empty() {
            true => None,
            false => Some(IntSegments::new(sweep(ranked(int_cuts(gaps)), &mut lists)?)),
        };
        let (segments, boundary_count) = if !self.ints.is_empty() {
            let boundaries = sweep(ranked(int_cuts(self.ints)), &mut lists)?;
            let count = boundaries.len();
            (Segments::Ints(IntSegments::new(boundaries)), count)
        } else if !self.networks.is_empty() {
            let boundaries = sweep(self.networks, &mut lists)?;
            let segments = AddressSegments::new(&boundaries);
            (Segments::Addresses(segments), boundaries.len())
        } else if let Some(cuts) = self.address_cuts() {
            let boundaries = sweep(ranked(cuts), &mut lists)?;
            let segments = AddressSegments::new(&boundaries);
            (Segments::Addresses(segments), boundaries.len())
        } else if let Some((layout, ranges)) = self.fixed_ranges() {
            let boundaries = sweep(ranked(int_cuts(ranges)), &mut lists)?;
            let count = boundaries.len();
            let segments = FixedSegments::new(layout, IntSegments::new(boundaries));
            (Segments::Fixed(segments), count)
        } else if !self.bytes.is_empty() {
            let ranges = self.bytes.iter().map(|range| Cut {
                start: Boundary {
                    bytes: &self.arena[range.low_at..range.high_at],
                    behind: range.is_low_behind,
                },
                end: Some(Boundary {
                    bytes: &self.arena[range.high_at..range.end],
                    behind: range.is_high_behind,
                }),
                row: range.row,
                rank: 0,
            });
            let boundaries = sweep(ranked(ranges.collect()), &mut lists)?;
            (
                Segments::Bytes(ByteSegments::new(&boundaries)?),
                boundaries.len(),
            )
        } else {
            (Segments::None, 0)
        };
        Ok(IntervalIndex {
            segments,
            gaps,
            bounds,
            lists,
            boundary_count,
        })
    }

    /// The byte ranges as ranges of keys of addresses, if all bounds have their size.
    fn address_cuts(&self) -> Option<Vec<Cut<u128>>> {
        if self.bounds == BOTH_EXCLUSIVE {
            return None;
        }
        let key_of = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_be_bytes);
        let mut cuts = Vec::with_capacity(self.bytes.len());
        for range in &self.bytes {
            let low = key_of(&self.arena[range.low_at..range.high_at])?;
            let high = key_of(&self.arena[range.high_at..range.end])?;
            // Both bounds exclusive: there may be no key between them.
            let Some(start) = low.checked_add(u128::from(range.is_low_behind)) else {
                continue;
            };
            let end = match range.is_high_behind {
                true => high.checked_add(1),
                false => Some(high),
            };
            if end.is_none_or(|end| start < end) {
                let row = range.row;
                cuts.push(Cut {
                    start,
                    end,
                    row,
                    rank: 0,
                });
            }
        }
        (!cuts.is_empty()).then_some(cuts)
    }

    /// The byte ranges as ranges of integers, if all bounds have a fixed layout.
    fn fixed_ranges(&self) -> Option<(FixedLayout, Vec<IntRange>)> {
        if self.bounds == BOTH_EXCLUSIVE {
            return None;
        }
        let low_of = |range: &ByteRange| &self.arena[range.low_at..range.high_at];
        let high_of = |range: &ByteRange| &self.arena[range.high_at..range.end];
        let bounds = self.bytes.iter();
        let layout = FixedLayout::of(bounds.flat_map(|range| [low_of(range), high_of(range)]))?;
        let ranges = self.bytes.iter().filter_map(|range| {
            let (low, high) = (layout.key(low_of(range)), layout.key(high_of(range)));
            // A range may contain no string of this size, such as from `a` to `b`, both exclusive.
            let start = low.checked_add(u64::from(range.is_low_behind))?;
            let last = high.checked_sub(u64::from(!range.is_high_behind))?;
            let row = range.row;
            (start <= last).then_some(IntRange { start, last, row })
        });
        let ranges: Vec<IntRange> = ranges.collect();
        (!ranges.is_empty()).then_some((layout, ranges))
    }
}

fn int_cuts(ranges: Vec<IntRange>) -> Vec<Cut<u64>> {
    let cut = |range: IntRange| Cut {
        start: range.start,
        // No segment begins after the greatest key.
        end: range.last.checked_add(1),
        row: range.row,
        rank: 0,
    };
    ranges.into_iter().map(cut).collect()
}

/// A range `start..end` that is not empty.
#[derive(Debug)]
struct Cut<K> {
    start: K,
    end: Option<K>,
    row: u32,
    /// Its place in [`ListOrder::LowDescending`], the least first; equal ones are tied.
    rank: u32,
}

/// Walks over all starts and ends in order, and records after each which rows contain the segment
/// that begins there.
fn sweep<K: Ord + Copy>(
    mut cuts: Vec<Cut<K>>,
    lists: &mut Lists,
) -> Result<Vec<(K, Slot)>, TooLarge> {
    cuts.sort_by_key(|cut| cut.start);
    let mut ends: Vec<(K, u32)> = cuts
        .iter()
        .zip(0..)
        .filter_map(|(cut, index)| Some((cut.end?, index)))
        .collect();
    ends.sort_unstable();
    let mut boundaries: Vec<(K, Slot)> = Vec::with_capacity(cuts.len() + cuts.len() / 2);
    // Positions of rows with the ranks of their lower bounds.
    let mut holding: BTreeMap<u32, u32> = BTreeMap::new();
    let mut ranked = Vec::new();
    let (mut start_at, mut end_at) = (0, 0);
    loop {
        let boundary = match (cuts.get(start_at), ends.get(end_at)) {
            (None, None) => break,
            (Some(cut), None) => cut.start,
            (None, Some((end, _))) => *end,
            (Some(cut), Some((end, _))) => cut.start.min(*end),
        };
        while let Some((end, index)) = ends.get(end_at)
            && *end == boundary
        {
            let rank = holding.remove(&cuts[*index as usize].row);
            assert!(rank.is_some(), "a range ends after it began");
            end_at += 1;
        }
        while let Some(cut) = cuts.get(start_at)
            && cut.start == boundary
        {
            holding.insert(cut.row, cut.rank);
            start_at += 1;
        }
        ranked.clear();
        ranked.extend(holding.iter().map(|(row, rank)| (*rank, *row)));
        boundaries.push((boundary, lists.push_ranked(&mut ranked)?));
    }
    boundaries.shrink_to_fit();
    Ok(boundaries)
}

/// Ranks the ranges by their lower bounds: the greatest first, equal ones equal.
fn ranked<K: Ord + Copy>(mut cuts: Vec<Cut<K>>) -> Vec<Cut<K>> {
    cuts.sort_by_key(|cut| cut.start);
    for index in (0..cuts.len().saturating_sub(1)).rev() {
        let is_tied = cuts[index].start == cuts[index + 1].start;
        cuts[index].rank = cuts[index + 1].rank + u32::from(!is_tied);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [Bound; 2] = [Bound::Inclusive, Bound::Exclusive];

    /// The expected list: the rows that contain the key, in the requested order.
    fn expected<K: Ord + ?Sized>(
        ranges: &[(&K, &K)],
        bounds: (Bound, Bound),
        order: ListOrder,
        key: &K,
    ) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..ranges.len() as u32)
            .filter(|row| {
                let (low, high) = ranges[*row as usize];
                let is_above = low < key || low == key && bounds.0 == Bound::Inclusive;
                let is_below = key < high || key == high && bounds.1 == Bound::Inclusive;
                is_above && is_below
            })
            .collect();
        if order == ListOrder::LowDescending {
            rows.sort_by(|a, b| ranges[*b as usize].0.cmp(ranges[*a as usize].0));
        }
        rows
    }

    fn check_ints(ranges: &[(i64, i64)], seed: u64) {
        let keys = ranges.iter().flat_map(|(low, high)| [*low, *high]);
        let mut keys: Vec<i64> = keys
            .flat_map(|key| [key.saturating_sub(1), key, key.saturating_add(1)])
            .collect();
        keys.extend([i64::MIN, -1, 0, i64::MAX]);
        // Half a step before an integer, if a real number can express it.
        let mut halves: Vec<f64> = keys.iter().map(|key| *key as f64 - 0.5).collect();
        halves.retain(|half| half.fract() != 0.0);
        halves.extend([f64::NEG_INFINITY, -1e300, 1e300, f64::INFINITY]);
        // The halves are integers between those of the doubled bounds.
        let doubled: Vec<(i128, i128)> = ranges
            .iter()
            .map(|(low, high)| (i128::from(*low) * 2, i128::from(*high) * 2))
            .collect();
        let doubled: Vec<_> = doubled.iter().map(|(low, high)| (low, high)).collect();
        let borrowed: Vec<(&i64, &i64)> = ranges.iter().map(|(low, high)| (low, high)).collect();
        for order in [ListOrder::Scan, ListOrder::LowDescending] {
            for bounds in BOUNDS.map(|low| BOUNDS.map(|high| (low, high))).concat() {
                let mut builder = IntervalIndexBuilder::default();
                for (row, (low, high)) in ranges.iter().enumerate() {
                    builder.push_ints(row, (*low, bounds.0), (*high, bounds.1));
                }
                let index = builder.build().unwrap();
                for key in &keys {
                    assert_eq!(
                        index.rows_of_int(*key, order).to_vec(),
                        expected(&borrowed, bounds, order, key),
                        "seed {seed}, key {key}, {bounds:?}, {order:?}, {ranges:?}"
                    );
                }
                for block in keys.chunks(BLOCK_SIZE) {
                    let mut rows = vec![None; block.len()];
                    index.first_of_ints(block, order, &mut rows);
                    let first =
                        |key: &i64| index.rows_of_int(*key, order).to_vec().first().copied();
                    let expected: Vec<Option<u32>> = block.iter().map(first).collect();
                    assert_eq!(
                        rows, expected,
                        "seed {seed}, {bounds:?}, {order:?}, {ranges:?}"
                    );
                }
                for half in &halves {
                    assert_eq!(
                        index.rows_of_gap(index.gap_of_real(*half), order),
                        expected(&doubled, bounds, order, &((half * 2.0) as i128)),
                        "seed {seed}, key {half}, {bounds:?}, {order:?}, {ranges:?}"
                    );
                }
                assert_eq!(index.rows_of_bytes(b"1", order), Some(Rows::None));
            }
        }
    }

    #[test]
    fn integer_ranges() {
        check_ints(&[], 0);
        check_ints(&[(i64::MIN, i64::MAX)], 0);
        check_ints(&[(i64::MAX, i64::MAX), (i64::MIN, i64::MIN)], 0);
        check_ints(&[(5, 1), (3, 3), (3, 4), (4, 5)], 0);
        check_ints(&[(0, 100), (10, 20), (15, 15), (10, 12), (21, 30)], 0);
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let spread = [8, 100, 1 << 33, i64::MAX][random.usize(0..4)];
            let mut any = || random.i64(-spread..=spread - 1);
            let ranges: Vec<(i64, i64)> = (0..(seed % 40))
                .map(|_| {
                    let low = any();
                    (
                        low,
                        if any() % 2 == 0 {
                            any()
                        } else {
                            low.saturating_add(any() % 8)
                        },
                    )
                })
                .collect();
            check_ints(&ranges, seed);
        }
    }

    fn check_bytes(ranges: &[(Vec<u8>, Vec<u8>)], keys: &[Vec<u8>], seed: u64) {
        let borrowed: Vec<(&[u8], &[u8])> = ranges
            .iter()
            .map(|(low, high)| (low.as_slice(), high.as_slice()))
            .collect();
        for order in [ListOrder::Scan, ListOrder::LowDescending] {
            for bounds in BOUNDS.map(|low| BOUNDS.map(|high| (low, high))).concat() {
                let mut builder = IntervalIndexBuilder::default();
                for (row, (low, high)) in borrowed.iter().enumerate() {
                    builder.push_bytes(row, (low, bounds.0), (high, bounds.1));
                }
                let index = builder.build().unwrap();
                for key in keys {
                    let rows = match index.rows_of_bytes(key, order) {
                        Some(rows) => rows.to_vec(),
                        None => index.rows_of_gap(index.gap_of_bytes(key), order),
                    };
                    assert_eq!(
                        rows,
                        expected(&borrowed, bounds, order, key.as_slice()),
                        "seed {seed}, key {key:?}, {bounds:?}, {order:?}, {ranges:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn byte_ranges() {
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            // Few letters and a long common prefix produce ties, and keys that are prefixes of each
            // other.
            let common = vec![b'a'; random.usize(0..20)];
            let rest_size = [None, Some(3), Some(8)][seed as usize % 3];
            let mut any = |common: &[u8]| {
                let mut bytes = common.to_vec();
                bytes.extend(
                    (0..rest_size.unwrap_or_else(|| random.usize(0..12)))
                        .map(|_| *random.choice(b"\0\x01a\xff").unwrap()),
                );
                bytes
            };
            let ranges: Vec<_> = (0..seed % 30)
                .map(|_| (any(&common), any(&common)))
                .collect();
            let mut keys: Vec<_> = (0..20).map(|_| any(&common)).collect();
            keys.extend([
                vec![],
                vec![b'a'; 3],
                vec![b'a'; 20],
                vec![b'b'],
                vec![0xff; 30],
            ]);
            for (low, high) in &ranges {
                keys.extend([low.clone(), [low, &b"\0"[..]].concat(), high.clone()]);
                keys.push(high[..high.len().saturating_sub(1)].to_vec());
            }
            check_bytes(&ranges, &keys, seed);
        }
    }

    /// Keys at the edges of the IPv4 addresses, and among them.
    fn address(random: &mut fastrand::Rng) -> u128 {
        let base = [
            0,
            0xffff << 32,
            0x1_0000 << 32,
            1 << 64,
            0x2001 << 112,
            u128::MAX - 8,
        ];
        random
            .choice(base)
            .unwrap()
            .saturating_add_signed(random.i128(-9..9))
    }

    #[test]
    fn ranges_of_addresses() {
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut any = || address(&mut random).to_be_bytes().to_vec();
            let ranges: Vec<_> = (0..seed % 30).map(|_| (any(), any())).collect();
            let mut keys: Vec<_> = (0..40).map(|_| any()).collect();
            for key in [
                0,
                0xffff << 32,
                (0x1_0000 << 32) - 1,
                0x1_0000 << 32,
                u128::MAX,
            ] {
                keys.push(key.to_be_bytes().to_vec());
            }
            // Keys of other sizes, which are between two addresses.
            for bound in ranges.iter().flat_map(|(low, high)| [low, high]) {
                keys.extend([bound[..15].to_vec(), bound[..3].to_vec()]);
                keys.extend([[bound, &b"\0"[..]].concat(), [bound, &b"\xff"[..]].concat()]);
            }
            keys.extend([vec![], vec![0; 15], vec![0xff; 17]]);
            check_bytes(&ranges, &keys, seed);
        }
    }

    #[test]
    fn networks_are_sorted_by_their_prefixes() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let networks: Vec<(u128, u128, u8)> = (0..seed % 30)
                .map(|_| {
                    let prefix_len = random.u8(0..=128);
                    let mask = u128::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
                    let key = address(&mut random);
                    (key & !mask, key | mask, prefix_len)
                })
                .collect();
            let mut builder = IntervalIndexBuilder::default();
            for (row, (first, last, prefix_len)) in networks.iter().enumerate() {
                builder.push_network(row, *first, *last, *prefix_len);
            }
            let index = builder.build().unwrap();
            for _ in 0..200 {
                let key = address(&mut random);
                let mut rows: Vec<u32> = (0..networks.len() as u32).collect();
                rows.retain(|row| {
                    let (first, last, _) = networks[*row as usize];
                    first <= key && key <= last
                });
                let found = index.rows_of_address(key.to_be_bytes(), ListOrder::Scan);
                assert_eq!(found.to_vec(), rows, "seed {seed}, {key:x}");
                rows.sort_by_key(|row| std::cmp::Reverse(networks[*row as usize].2));
                let found = index.rows_of_address(key.to_be_bytes(), ListOrder::LowDescending);
                assert_eq!(found.to_vec(), rows, "seed {seed}, {key:x}");
            }
        }
    }

    #[test]
    fn several_rows_and_ties_are_noticed() {
        let check = |bounds: (Bound, Bound), ranges: &[(i64, i64)], expected| {
            let mut builder = IntervalIndexBuilder::default();
            for (row, (low, high)) in ranges.iter().enumerate() {
                builder.push_ints(row, (*low, bounds.0), (*high, bounds.1));
            }
            let index = builder.build().unwrap();
            let found = (index.has_several(), index.has_ties());
            assert_eq!(found, expected, "{bounds:?} {ranges:?}");
        };
        let inclusive = (Bound::Inclusive, Bound::Inclusive);
        check(inclusive, &[(0, 4), (5, 9)], (false, false));
        check(inclusive, &[(0, 5), (5, 9)], (true, false));
        check(inclusive, &[(5, 8), (0, 4), (5, 9)], (true, true));
        check(BOTH_EXCLUSIVE, &[(0, 5), (5, 9)], (false, false));
        // No integer is in both, but 4.5 is.
        check(BOTH_EXCLUSIVE, &[(0, 5), (4, 9)], (true, false));
        check(BOTH_EXCLUSIVE, &[(4, 5), (4, 9)], (true, true));
    }

    #[test]
    fn overlaps_are_bounded() {
        let mut builder = IntervalIndexBuilder::default();
        for row in 0..6000 {
            let range = (row, 1 << 20);
            builder.push_ints(
                row as usize,
                (range.0, Bound::Inclusive),
                (range.1, Bound::Inclusive),
            );
        }
        assert_eq!(builder.build().unwrap_err(), TooLarge::Overlaps);
    }
}
