//! Rows of a table that are not those of an earlier table, its base.
//!
//! A table that is loaded again and has mostly the same rows keeps the segments of its base, which the
//! tables of both loads share. Rows of the base that are gone are marked as removed, and other rows are
//! added after all rows of the base. A row is known by the same number as long as its segment is kept, so
//! that indexes of the base can be shared too. The scan order is that of the data files all the same.

use std::ops::Range;

use crate::row_bits::RowBits;

/// The removed rows of a base, and the places of the added ones.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) base_segment_count: usize,
    pub(super) base_row_count: usize,
    removed: RowBits,
    /// How many rows are removed before each group of [`GROUP_SIZE`] rows, and at the end all.
    removed_before: Box<[u32]>,
    /// For each added row, the row of the base before which it comes. They ascend.
    places: Box<[u32]>,
}

/// Rows whose removed ones are counted together.
const GROUP_SIZE: usize = 1 << 12;

impl Changes {
    /// Changes that keep these rows of the base, in ascending order, and add rows at these places.
    pub(super) fn new(
        base_segment_count: usize,
        base_row_count: usize,
        kept: &[Range<u32>],
        places: Vec<u32>,
    ) -> Self {
        debug_assert!(places.is_sorted());
        let mut removed = RowBits::new(base_row_count);
        let mut next = 0;
        let end = base_row_count..base_row_count;
        let kept = kept.iter().map(|it| it.start as usize..it.end as usize);
        for range in kept.chain([end]) {
            debug_assert!(next <= range.start);
            (next..range.start).for_each(|row| removed.insert(row));
            next = range.end;
        }
        let (mut removed_before, mut count) = (Vec::new(), 0);
        for start in (0..base_row_count).step_by(GROUP_SIZE) {
            removed_before.push(count);
            count += removed.count(start..base_row_count.min(start + GROUP_SIZE)) as u32;
        }
        removed_before.push(count);
        Self {
            base_segment_count,
            base_row_count,
            removed,
            removed_before: removed_before.into(),
            places: places.into(),
        }
    }

    /// How many rows there are.
    pub(super) fn row_count(&self) -> usize {
        self.base_row_count - self.removed_count() + self.places.len()
    }

    pub(super) fn removed_count(&self) -> usize {
        self.removed_before.last().map_or(0, |it| *it as usize)
    }

    pub(super) fn added_count(&self) -> usize {
        self.places.len()
    }

    /// The rows of the base that are removed, in ascending order.
    pub(super) fn removed(&self) -> impl Iterator<Item = usize> {
        self.removed.iter()
    }

    #[inline]
    pub(super) fn is_removed(&self, row: usize) -> bool {
        self.removed.contains(row)
    }

    /// How many rows are before this one in the scan order.
    pub(super) fn rank(&self, row: usize) -> usize {
        match row.checked_sub(self.base_row_count) {
            None => self.kept_before(row) + self.places.partition_point(|it| *it as usize <= row),
            Some(added) => self.kept_before(self.places[added] as usize) + added,
        }
    }

    /// How many rows of the base before this one are kept.
    fn kept_before(&self, row: usize) -> usize {
        let group = row / GROUP_SIZE;
        let in_group = self.removed.count(group * GROUP_SIZE..row);
        row - self.removed_before[group] as usize - in_group
    }

    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + self.removed.size()
            + size_of_val(&*self.removed_before)
            + size_of_val(&*self.places)
    }
}

/// The numbers of rows in the scan order.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'t> {
    changes: Option<&'t Changes>,
    base_row_count: usize,
    /// The next row of the base and the next added row, one of which is the next row.
    base: usize,
    added: usize,
}

impl<'t> Scan<'t> {
    pub(super) fn new(row_count: usize) -> Self {
        Self {
            changes: None,
            base_row_count: row_count,
            base: 0,
            added: 0,
        }
    }

    pub(super) fn with_changes(changes: &'t Changes) -> Self {
        Self {
            changes: Some(changes),
            ..Self::new(changes.base_row_count)
        }
    }

    /// The rows after the first `rank` ones.
    pub(crate) fn skip_to(self, rank: usize) -> Self {
        let Some(changes) = self.changes else {
            return Self {
                base: rank.min(self.base_row_count),
                ..self
            };
        };
        // The last row of the base before which there are at most `rank` rows.
        let added_before = |base: usize| changes.places.partition_point(|it| (*it as usize) < base);
        let rank_of = |base: usize| changes.kept_before(base) + added_before(base);
        let (mut low, mut high) = (0, self.base_row_count);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match rank_of(middle) <= rank {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        // The next rows are those that are added at this place, and then the row of the base.
        let (first, end) = (added_before(low), added_before(low + 1));
        let added = first + (rank - rank_of(low)).min(end - first);
        Self {
            base: low,
            added,
            ..self
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let Some(changes) = self.changes else {
            let row = self.base;
            self.base += usize::from(row < self.base_row_count);
            return (row < self.base_row_count).then_some(row);
        };
        loop {
            let place = changes.places.get(self.added);
            if place.is_some_and(|place| *place as usize <= self.base) {
                self.added += 1;
                return Some(self.base_row_count + self.added - 1);
            }
            let row = self.base;
            if row == self.base_row_count {
                return None;
            }
            self.base += 1;
            if !changes.is_removed(row) {
                return Some(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_their_places() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let base_row_count = [0, 1, 5, 100, 9_000][seed as usize % 5];
            let share = random.f64();
            let is_kept: Vec<bool> = (0..base_row_count).map(|_| random.f64() < share).collect();
            let rows = (0..base_row_count as u32).filter(|row| is_kept[*row as usize]);
            let kept: Vec<_> = rows.map(|row| row..row + 1).collect();
            let added_count = random.usize(0..50);
            let places = (0..added_count).map(|_| random.u32(0..=base_row_count as u32));
            let mut places: Vec<u32> = places.collect();
            places.sort_unstable();
            let mut expected = Vec::new();
            for base in 0..=base_row_count {
                let added = (0..added_count).filter(|it| places[*it] as usize == base);
                expected.extend(added.map(|it| base_row_count + it));
                if is_kept.get(base) == Some(&true) {
                    expected.push(base);
                }
            }
            let changes = Changes::new(1, base_row_count, &kept, places);
            let scan = Scan::with_changes(&changes);
            assert_eq!(scan.clone().collect::<Vec<_>>(), expected, "seed {seed}");
            assert_eq!(changes.row_count(), expected.len(), "seed {seed}");
            for (rank, row) in expected.iter().enumerate() {
                assert_eq!(changes.rank(*row), rank, "seed {seed}, row {row}");
            }
            for rank in (0..expected.len() + 2).step_by(1 + expected.len() / 50) {
                let rest: Vec<_> = scan.clone().skip_to(rank).take(3).collect();
                let expected: Vec<_> = expected.iter().copied().skip(rank).take(3).collect();
                assert_eq!(rest, expected, "seed {seed}, rank {rank}");
            }
        }
    }
}
