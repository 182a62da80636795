//! A set of rows, as a bit for each row of a table.

use std::ops::Range;

/// A set of row numbers below a limit.
#[derive(Debug)]
pub(crate) struct RowBits {
    words: Box<[u64]>,
}

impl RowBits {
    /// An empty set for the rows below `row_count`.
    pub(crate) fn new(row_count: usize) -> Self {
        let word_count = row_count.div_ceil(u64::BITS as usize);
        Self {
            words: vec![0; word_count].into(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When the row is not below the limit.
    #[inline]
    pub(crate) fn insert(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// Whether a row is in the set; a row beyond the limit is not.
    #[inline]
    pub(crate) fn contains(&self, row: usize) -> bool {
        let word = self.words.get(row / 64);
        word.is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// How many rows of a range are in the set. The range begins at a multiple of 64.
    pub(crate) fn count(&self, range: Range<usize>) -> usize {
        debug_assert_eq!(range.start % 64, 0, "a range begins with a word");
        let whole = &self.words[range.start / 64..range.end / 64];
        let whole: u32 = whole.iter().map(|word| word.count_ones()).sum();
        let rest = match range.end % 64 {
            0 => 0,
            bits => (self.words[range.end / 64] & ((1 << bits) - 1)).count_ones(),
        };
        (whole + rest) as usize
    }

    /// The rows in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_counted_and_listed() {
        let rows = [0, 1, 63, 64, 127, 128, 130];
        let mut bits = RowBits::new(131);
        rows.iter().for_each(|row| bits.insert(*row));
        assert_eq!(bits.iter().collect::<Vec<_>>(), rows);
        for row in 0..1000 {
            assert_eq!(bits.contains(row), rows.contains(&row), "{row}");
        }
        for start in [0, 64, 128] {
            for end in start..=131 {
                let expected = rows.iter().filter(|row| (start..end).contains(*row));
                assert_eq!(bits.count(start..end), expected.count(), "{start}..{end}");
            }
        }
        assert_eq!(RowBits::new(0).iter().count(), 0);
    }
}
