//! Finds the rows of data files in the table that was loaded from earlier ones.
//!
//! The rows of a file are compared in order with those of the table. A row that is not at the place after
//! the last one is searched in a window of the next rows, and if several successive rows are not found, in
//! a sample of all. A row that is not found is one that was added, and a row of the table that was passed is
//! one that was removed; a row that has moved is both. What is found need not be the least difference.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use rusqlite::types::ValueRef;

use crate::index::ROW_COUNT_MAX;
use crate::table::{PackedTable, PackedTables, Scan, Segment, SegmentBuilder};
use lookaside_value::Value;

/// The sample has at least one of this many rows.
const SAMPLE_INTERVAL_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// The least number of rows of a sample: all rows of a smaller table.
const SAMPLE_COUNT: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// The rows of the window after a row that was found, and the most of them; it grows with each row that is
/// not found.
const WINDOW_SIZE_MIN: usize = if cfg!(test) { 4 } else { 16 };
const WINDOW_SIZE_MAX: usize = 4 * WINDOW_SIZE_MIN;

/// After so many rows that were not found, the sample is searched.
const MISSED_COUNT_MAX: usize = WINDOW_SIZE_MIN / 2;

/// A table is loaded as a whole if more than this part of its rows is added to its base or removed from it.
const CHANGED_PART_MAX: usize = 4;

/// The table of the last load.
pub(super) struct EarlierRows<'t> {
    table: &'t PackedTable,
    /// How many rows are before a row, by the hash of the row. `None` if several have the same hash.
    sample: HashMap<u64, Option<u32>>,
    hasher: RandomState,
}

/// Rows of a block: rows of the earlier table with consecutive numbers, or new ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The number of the first one, or [`Self::NEW`].
    first: u32,
    count: u32,
}

/// Rows of a block, and whether they are in its segments, as all new ones are.
type PackedRun = (Run, bool);

impl Run {
    /// The number of new rows; a table has fewer rows.
    const NEW: u32 = u32::MAX;

    fn is_new(self) -> bool {
        self.first == Self::NEW
    }
}

/// Finds the rows of one block.
pub(super) struct RowFinder<'t> {
    earlier: &'t EarlierRows<'t>,
    /// The rows after the window.
    scan: Scan<'t>,
    window: VecDeque<usize>,
    missed_count: usize,
    runs: Vec<Run>,
}

/// Whether the rows of a table may be shared. Those of a smaller one are made of values for each statement.
pub(super) fn is_large(table: &PackedTable) -> bool {
    let values_size = table.row_count() * table.column_count() * size_of::<Value>();
    cfg!(test) || values_size > PackedTables::default().values_size_max()
}

impl<'t> EarlierRows<'t> {
    /// `None` if the table is so small that it is loaded as a whole.
    pub(super) fn of(table: &'t PackedTable) -> Option<Self> {
        if !is_large(table) {
            return None;
        }
        let mut earlier = Self {
            table,
            sample: HashMap::new(),
            hasher: RandomState::default(),
        };
        let interval = (table.row_count() / SAMPLE_COUNT).clamp(1, SAMPLE_INTERVAL_MAX);
        // One row of each interval, at another place in each: every 64th row may have changed.
        let place = |number: usize| {
            let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            number * interval + (hash >> 32) as usize % interval
        };
        let mut numbers = 0..;
        let mut next = numbers.next().map(place);
        for (rank, row) in table.scan().enumerate() {
            if next != Some(rank) {
                continue;
            }
            next = numbers.next().map(place);
            let values = (0..table.column_count()).map(|column| table.value_ref(row, column));
            let hash = earlier.hash(values);
            let known = earlier.sample.entry(hash);
            known
                .and_modify(|known| *known = None)
                .or_insert(Some(rank as u32));
        }
        Some(earlier)
    }

    pub(super) fn table(&self) -> &'t PackedTable {
        self.table
    }

    /// How many new rows the blocks may have, beyond which [`Self::changed`] would fail.
    pub(super) fn new_row_count_max(&self) -> u64 {
        (self.table.base_row_count() / CHANGED_PART_MAX) as u64
    }

    /// The hash of a row.
    pub(super) fn hash<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for value in values {
            let (class, word, bytes): (u8, u64, &[u8]) = match value {
                ValueRef::Null => (0, 0, &[]),
                ValueRef::Integer(int) => (1, int as u64, &[]),
                ValueRef::Real(real) => (2, real.to_bits(), &[]),
                ValueRef::Text(text) => (3, text.len() as u64, text),
                ValueRef::Blob(blob) => (4, blob.len() as u64, blob),
            };
            hasher.write_u8(class);
            hasher.write_u64(word);
            hasher.write(bytes);
        }
        hasher.finish()
    }

    /// About how many rows of the table are before the first row of a block, by the hashes of the rows of the
    /// block; `None` if none of the hashes is in the sample.
    pub(super) fn start(&self, hashes: impl Iterator<Item = u64>) -> Option<usize> {
        let mut found = hashes.enumerate().filter_map(|(at, hash)| {
            // If rows were removed in between, the first one is further before.
            Some(self.rank(hash)?.saturating_sub(at + WINDOW_SIZE_MIN / 2))
        });
        found.next()
    }

    fn rank(&self, hash: u64) -> Option<usize> {
        self.sample.get(&hash)?.map(|rank| rank as usize)
    }

    /// Finds rows that come after this many rows of the table.
    pub(super) fn finder(&'t self, start: usize) -> RowFinder<'t> {
        RowFinder {
            earlier: self,
            scan: self.table.scan().skip_to(start),
            window: VecDeque::new(),
            missed_count: 0,
            runs: Vec::new(),
        }
    }

    /// Finds rows that are packed as new ones: those at the start of a block, whose place was perhaps not
    /// known without the blocks before, and those before a row that was found in the sample.
    fn found_again(
        &'t self,
        runs: &[Run],
        new: &[(&Segment, usize)],
        start: usize,
    ) -> Vec<PackedRun> {
        let packed = |first: u32, count: usize| {
            let count = count as u32;
            (Run { first, count }, true)
        };
        let (mut found, mut new_count) = (Vec::with_capacity(runs.len()), 0);
        for (index, run) in runs.iter().enumerate() {
            if !run.is_new() {
                found.push((*run, false));
                continue;
            }
            let rows = &new[new_count..][..run.count as usize];
            new_count += rows.len();
            let next = runs.get(index + 1).map_or(0, |next| next.first as usize);
            let before = rows.iter().rev().zip((0..next).rev());
            let count = before
                .take_while(|(new, row)| self.table.has_row(*row) && self.is_row(**new, *row))
                .count();
            let (rows, last_rows) = rows.split_at(rows.len() - count);
            match index {
                0 => found.extend(self.find(start, rows)),
                _ => found.push(packed(Run::NEW, rows.len())),
            }
            if count > 0 {
                found.push(packed((next - count) as u32, last_rows.len()));
            }
        }
        found
    }

    /// Finds rows that were packed as new ones.
    fn find(&'t self, start: usize, rows: &[(&Segment, usize)]) -> Vec<PackedRun> {
        let mut finder = self.finder(start);
        for new in rows {
            let (segment, at) = *new;
            let columns = 0..self.table.column_count();
            let hash = || self.hash(columns.map(|column| segment.value_ref(at, column)));
            finder.find(|row| self.is_row(*new, row), hash);
        }
        let runs = finder.runs.into_iter();
        runs.map(|run| (run, true)).collect()
    }

    fn is_row(&self, (segment, at): (&Segment, usize), row: usize) -> bool {
        let mut columns = 0..self.table.column_count();
        let value = |column| segment.value_ref(at, column);
        columns.all(|column| self.table.has_value(row, column, value(column)))
    }

    /// The table with the rows of these blocks, in their order, and how many of them the earlier table has;
    /// `None` if it has too few of them.
    pub(super) fn changed(
        &'t self,
        blocks: impl Iterator<Item = (Vec<Run>, Vec<Segment>)>,
    ) -> Option<(PackedTable, u64)> {
        let table = self.table;
        let base_row_count = table.base_row_count();
        let change_count_max = self.new_row_count_max() as usize;
        let mut last = None;
        let blocks: Vec<(Vec<PackedRun>, Vec<Segment>)> = blocks
            .map(|(runs, segments)| {
                let start = last.map_or(0, |last: u32| table.rank(last as usize) + 1);
                let runs = self.found_again(&runs, &rows_of(&segments), start);
                let found = runs.iter().rev().find(|(run, _)| !run.is_new());
                last = found.map(|(run, _)| run.first + run.count - 1).or(last);
                (runs, segments)
            })
            .collect();
        let runs = || blocks.iter().flat_map(|(runs, _)| runs);
        let of_base = runs().filter(|(run, _)| !run.is_new());
        let of_base = of_base.map(|(run, _)| run.first..run.first + run.count);
        let mut in_order = longest_ascending(of_base, base_row_count).into_iter();
        let mut added = AddedRows::new(table.column_count());
        let (mut kept, mut kept_count, mut same_count) = (Vec::<Range<u32>>::new(), 0, 0);
        // The next row of the base, and the next added row that comes in order.
        let (mut next, mut next_added) = (0, base_row_count as u32);
        for (runs, segments) in &blocks {
            let mut new = rows_of(segments).into_iter();
            for &(run, is_packed) in runs {
                let packed_count = if is_packed { run.count } else { 0 };
                let rows = new.by_ref().take(packed_count as usize);
                let Run { first, count } = run;
                if run.is_new() {
                    for (segment, row) in rows {
                        added.push(next, |column| segment.value_ref(row, column))?;
                    }
                    continue;
                }
                rows.for_each(drop);
                if in_order.next() == Some(true) {
                    kept.push(first..first + count);
                    kept_count += count as usize;
                    next = first + count;
                    continue;
                }
                for row in first..first + count {
                    // Each added row is the same as one other row.
                    if row >= next_added {
                        same_count += 1;
                        next_added = row + 1;
                    }
                    added.push(next, |column| table.value_ref(row as usize, column))?;
                }
            }
            if added.places.len() > change_count_max {
                return None;
            }
        }
        same_count += kept_count as u64;
        if base_row_count - kept_count > change_count_max {
            return None;
        }
        if kept_count == base_row_count && added.places.is_empty() {
            return Some((table.base(), same_count));
        }
        added.segments.push(added.builder.build());
        let changed = table.changed(&kept, added.segments, added.places, ROW_COUNT_MAX);
        Some((changed.ok()?, same_count))
    }
}

fn rows_of(segments: &[Segment]) -> Vec<(&Segment, usize)> {
    let rows = |segment| (0..Segment::row_count(segment)).map(move |row| (segment, row));
    segments.iter().flat_map(rows).collect()
}

/// For each of these ranges whether it is among those that ascend and have the most rows together. Ranges
/// beyond `end` are not.
fn longest_ascending(ranges: impl Iterator<Item = Range<u32>>, end: usize) -> Vec<bool> {
    let ranges: Vec<Range<u32>> = ranges.collect();
    let is_within = |range: &Range<u32>| range.end as usize <= end;
    let within: Vec<usize> = (0..ranges.len())
        .filter(|it| is_within(&ranges[*it]))
        .collect();
    let mut is_among = vec![false; ranges.len()];
    if within.is_sorted_by(|one, next| ranges[*one].end <= ranges[*next].start) {
        within.iter().for_each(|it| is_among[*it] = true);
        return is_among;
    }
    // By the position of the end of a range among all ends, the most rows of ranges that ascend up to it, and
    // the last of them: a tree of the greatest ones of all positions before (Fenwick).
    let mut ends: Vec<u32> = within.iter().map(|it| ranges[*it].end).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); ends.len() + 1];
    let mut before: Vec<Option<usize>> = vec![None; ranges.len()];
    for &it in &within {
        let Range { start, end } = ranges[it];
        let (mut most, mut at) = ((0, None), ends.partition_point(|end| *end <= start));
        while at > 0 {
            most = most.max(best[at]);
            at &= at - 1;
        }
        before[it] = most.1;
        let found = (most.0 + u64::from(end - start), Some(it));
        at = ends.partition_point(|other| *other < end) + 1;
        while at < best.len() {
            best[at] = best[at].max(found);
            at += at & at.wrapping_neg();
        }
    }
    let mut at = best.iter().max().and_then(|it| it.1);
    while let Some(it) = at {
        is_among[it] = true;
        at = before[it];
    }
    is_among
}

/// Rows that are added to the base.
struct AddedRows {
    builder: SegmentBuilder,
    segments: Vec<Segment>,
    /// The row of the base before which each comes.
    places: Vec<u32>,
    column_count: usize,
}

impl AddedRows {
    fn new(column_count: usize) -> Self {
        Self {
            builder: SegmentBuilder::new(column_count),
            segments: Vec::new(),
            places: Vec::new(),
            column_count,
        }
    }

    fn push<'v>(&mut self, place: u32, value: impl Fn(usize) -> ValueRef<'v>) -> Option<()> {
        self.builder.push((0..self.column_count).map(value)).ok()?;
        self.places.push(place);
        if self.builder.is_full() {
            self.segments.push(self.builder.build());
        }
        Some(())
    }
}

impl RowFinder<'_> {
    /// Whether the earlier table has the next row of the block; otherwise it is a new one. `is_row` compares it
    /// with a row of the table.
    pub(super) fn find(
        &mut self,
        is_row: impl Fn(usize) -> bool,
        hash: impl FnOnce() -> u64,
    ) -> bool {
        let found = self.next_row(is_row, hash);
        let row = found.map_or(Run::NEW, |row| row as u32);
        match self.runs.last_mut() {
            Some(last) if last.is_new() && found.is_none() => last.count += 1,
            Some(last)
                if !last.is_new()
                    && last.first + last.count == row
                    // No run has rows of the base and added ones.
                    && row as usize != self.earlier.table.base_row_count() =>
            {
                last.count += 1;
            }
            _ => self.runs.push(Run {
                first: row,
                count: 1,
            }),
        }
        found.is_some()
    }

    #[inline]
    fn next_row(
        &mut self,
        is_row: impl Fn(usize) -> bool,
        hash: impl FnOnce() -> u64,
    ) -> Option<usize> {
        // If many successive rows were not found, the next ones are probably new, or at another place.
        if self.missed_count < WINDOW_SIZE_MAX {
            let size = (WINDOW_SIZE_MIN + 2 * self.missed_count).min(WINDOW_SIZE_MAX);
            let missing = size.saturating_sub(self.window.len());
            self.window.extend(self.scan.by_ref().take(missing));
            if let Some(at) = self.window.iter().position(|row| is_row(*row)) {
                let row = self.window[at];
                self.window.drain(..=at);
                self.missed_count = 0;
                return Some(row);
            }
        }
        self.missed_count += 1;
        if self.missed_count > MISSED_COUNT_MAX
            && let Some(rank) = self.earlier.rank(hash())
        {
            let mut scan = self.earlier.table.scan().skip_to(rank);
            let row = scan.next().filter(|row| is_row(*row))?;
            (self.scan, self.missed_count) = (scan, 0);
            self.window.clear();
            return Some(row);
        }
        None
    }

    /// The rows of the block.
    pub(super) fn runs(self) -> Vec<Run> {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_rows_that_ascend_are_kept() {
        for seed in 0..2000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let ranges: Vec<Range<u32>> = (0..random.usize(..9))
                .map(|_| {
                    let start = random.u32(..30);
                    start..start + random.u32(..8)
                })
                .collect();
            let rows = |chosen: &[bool]| -> Option<u32> {
                let chosen = ranges
                    .iter()
                    .zip(chosen)
                    .filter(|(_, is_chosen)| **is_chosen);
                let chosen: Vec<&Range<u32>> = chosen.map(|(range, _)| range).collect();
                let ascends = chosen.is_sorted_by(|one, next| one.end <= next.start);
                let is_within = chosen.iter().all(|range| range.end <= 32);
                (ascends && is_within).then(|| chosen.iter().map(|it| it.end - it.start).sum())
            };
            let all = (0..1_u32 << ranges.len()).map(|bits| {
                let chosen: Vec<bool> = (0..ranges.len()).map(|it| bits >> it & 1 == 1).collect();
                rows(&chosen)
            });
            let found = longest_ascending(ranges.iter().cloned(), 32);
            assert_eq!(rows(&found), all.max().flatten(), "seed {seed}, {ranges:?}");
        }
    }
}
