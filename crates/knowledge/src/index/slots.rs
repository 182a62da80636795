//! What a key leads to: no row, one row, or a list of rows, in four bytes.

use super::TooLarge;

/// Row positions take 31 bits, the last one is [`Slot::NONE`].
pub(crate) const ROW_COUNT_MAX: usize = (1 << 31) - 1;

/// Words in all lists of one index: 64 MiB, and an offset must fit beside [`Slot::LIST`].
/// Nested networks need a few words a row; ranges that all overlap need the square of their count.
const LIST_WORD_COUNT_MAX: usize = 16 << 20;
const _: () = assert!(LIST_WORD_COUNT_MAX < Slot::LIST as usize);

/// No row, a row position, or with the top bit set the offset of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) const NONE: Self = Self(Self::LIST - 1);
    const LIST: u32 = 1 << 31;

    pub(super) fn one(row: u32) -> Self {
        debug_assert!((row as usize) < ROW_COUNT_MAX);
        Self(row)
    }
}

/// The rows that a key has, first row first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows<'a> {
    /// No row has the key.
    None,
    /// Exactly one row has it.
    One(u32),
    /// Two rows or more.
    Many {
        /// Their positions, in the order that the index was built for.
        rows: &'a [u32],
        /// Whether that order leaves open which row comes first.
        tied_first: bool,
        /// Whether that order leaves open how any two rows follow each other.
        tied: bool,
    },
}

/// The lists that slots point into, each preceded by its length and its two tie flags.
#[derive(Debug, Default)]
pub(super) struct Lists {
    words: Vec<u32>,
}

const TIED_FIRST: u32 = 1 << 31;
const TIED: u32 = 1 << 30;
const LENGTH: u32 = TIED - 1;

impl Lists {
    /// Stores rows with their ranks: rows of equal rank are tied, unless ranks are all zero, which
    /// says that the order of the rows themselves is the order wanted.
    pub(super) fn push<R>(&mut self, rows: R) -> Result<Slot, TooLarge>
    where
        R: ExactSizeIterator<Item = (u32, u32)> + Clone,
    {
        match rows.len() {
            0 => return Ok(Slot::NONE),
            1 => {
                let row = rows.map(|(_, row)| row).next();
                return Ok(Slot::one(row.expect("the length is one")));
            }
            _ => {}
        }
        let offset = self.words.len();
        if offset + rows.len() >= LIST_WORD_COUNT_MAX {
            return Err(TooLarge::Overlaps);
        }
        let tie_at = rows
            .clone()
            .zip(rows.clone().skip(1))
            .position(|((rank, _), (next, _))| rank == next && rank != 0);
        let flags = match tie_at {
            None => 0,
            Some(0) => TIED_FIRST | TIED,
            Some(_) => TIED,
        };
        self.words.push(rows.len() as u32 | flags);
        self.words.extend(rows.map(|(_, row)| row));
        Ok(Slot(offset as u32 | Slot::LIST))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn size(&self) -> usize {
        self.words.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(super) fn rows(&self, slot: Slot) -> Rows<'_> {
        if slot == Slot::NONE {
            Rows::None
        } else if slot.0 & Slot::LIST == 0 {
            Rows::One(slot.0)
        } else {
            let offset = (slot.0 & !Slot::LIST) as usize;
            let head = self.words[offset];
            let end = offset + 1 + (head & LENGTH) as usize;
            Rows::Many {
                rows: &self.words[offset + 1..end],
                tied_first: head & TIED_FIRST != 0,
                tied: head & TIED != 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[(u32, u32)], expected: Rows<'_>) {
        let mut lists = Lists::default();
        lists.push([(0, 1), (0, 2)].into_iter()).unwrap();
        let slot = lists.push(rows.iter().copied()).unwrap();
        assert_eq!(lists.rows(slot), expected, "{rows:?}");
    }

    #[test]
    fn slots_lead_back_to_their_rows() {
        check(&[], Rows::None);
        check(&[(3, 7)], Rows::One(7));
        let many = |rows, tied_first, tied| Rows::Many {
            rows,
            tied_first,
            tied,
        };
        check(&[(0, 7), (0, 9)], many(&[7, 9], false, false));
        check(&[(1, 9), (2, 7)], many(&[9, 7], false, false));
        check(&[(1, 9), (1, 7), (2, 8)], many(&[9, 7, 8], true, true));
        check(&[(1, 9), (2, 7), (2, 8)], many(&[9, 7, 8], false, true));
    }

    #[test]
    fn lists_are_bounded() {
        let mut lists = Lists::default();
        let rows = (0..LIST_WORD_COUNT_MAX as u32).map(|row| (0, row));
        assert_eq!(lists.push(ExactRange(rows)), Err(TooLarge::Overlaps));
        assert!(lists.is_empty());
    }

    #[derive(Clone)]
    struct ExactRange<I>(I);

    impl<I: Iterator<Item = (u32, u32)>> Iterator for ExactRange<I> {
        type Item = (u32, u32);
        fn next(&mut self) -> Option<(u32, u32)> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (LIST_WORD_COUNT_MAX, Some(LIST_WORD_COUNT_MAX))
        }
    }

    impl<I: Iterator<Item = (u32, u32)>> ExactSizeIterator for ExactRange<I> {}
}
