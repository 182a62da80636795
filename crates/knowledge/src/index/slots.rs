//! The value of a key in an index: no row, one row, or a list of rows, in four bytes.

use std::iter;

use super::TooLarge;

/// Row positions have 31 bits; the last one is [`Slot::NONE`].
pub(crate) const ROW_COUNT_MAX: usize = (1 << 31) - 1;

/// Words in all lists of one order: an offset must fit beside [`Slot::LIST`].
const LIST_WORD_COUNT_MAX: usize = Slot::LIST as usize;

/// Words in all lists of overlapping ranges: 64 MiB. Nested networks need a few words per row; ranges that all
/// overlap need the square of their count.
const RANKED_WORD_COUNT_MAX: usize = 16 << 20;

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

    /// The bits of a slot, which [`Self::of_bits`] reads.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    pub(super) fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The offset of the list, if there is one.
    #[inline]
    pub(super) fn list(self) -> Option<u32> {
        (self.0 & Self::LIST != 0).then_some(self.0 & !Self::LIST)
    }

    /// The row, if it is exactly one.
    #[inline]
    pub(super) fn row(self) -> Option<u32> {
        (self != Self::NONE && self.0 & Self::LIST == 0).then_some(self.0)
    }
}

/// Further rows of keys that have one already: a position of the key, and the row.
pub(super) type Repeated = Vec<(u32, u32)>;

/// How the rows of one key are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOrder {
    /// By their position in the table.
    Scan,
    /// By the lower bound of their ranges, greatest first; rows with equal lower bounds are tied.
    LowDescending,
}

/// The rows of a key, in the requested order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows<'a> {
    /// No row has the key.
    None,
    /// Exactly one row has it.
    One(u32),
    /// Several rows: their positions, in the requested order.
    Many(&'a [u32]),
}

impl Rows<'_> {
    /// The first row.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::One(row) => Some(*row),
            Self::Many(rows) => rows.first().copied(),
        }
    }

    /// The positions in a slice.
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(row) => std::slice::from_ref(row),
            Self::Many(rows) => rows,
        }
    }

    /// The positions in a list.
    pub(crate) fn to_vec(self) -> Vec<u32> {
        match self {
            Self::None => Vec::new(),
            Self::One(row) => vec![row],
            Self::Many(rows) => rows.to_vec(),
        }
    }
}

/// The lists that slots point into, each preceded by its length.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    scan: Vec<u32>,
    /// The same lists at the same offsets in the other order; empty if that order cannot be
    /// requested.
    low_descending: Vec<u32>,
    /// Whether any two rows of one list are tied in that order.
    has_ties: bool,
}

impl Lists {
    /// Stores rows that are in scan order.
    pub(super) fn push(&mut self, rows: &[u32]) -> Result<Slot, TooLarge> {
        match rows {
            [] => return Ok(Slot::NONE),
            [row] => return Ok(Slot::one(*row)),
            _ => {}
        }
        let offset = self.scan.len();
        if offset + rows.len() >= LIST_WORD_COUNT_MAX {
            return Err(TooLarge::Lists);
        }
        self.scan.push(rows.len() as u32);
        self.scan.extend_from_slice(rows);
        Ok(Slot(offset as u32 | Slot::LIST))
    }

    /// Stores the rows of each key that has further ones, after the first one, which is in its slot; returns
    /// the positions of the keys and their new slots.
    pub(super) fn push_repeated(
        &mut self,
        mut repeated: Repeated,
        first: impl Fn(u32) -> Slot,
    ) -> Result<Vec<(u32, Slot)>, TooLarge> {
        // The sort is stable: the rows of a key stay in scan order.
        repeated.sort_by_key(|(key, _)| *key);
        let mut rows = Vec::new();
        let keys = repeated.chunk_by(|one, next| one.0 == next.0);
        let slots = keys.map(|others| {
            let key = others[0].0;
            rows.clear();
            rows.extend(first(key).row());
            rows.extend(others.iter().map(|(_, row)| *row));
            Ok((key, self.push(&rows)?))
        });
        slots.collect()
    }

    /// Stores rows that are in scan order, with their lower bounds' ranks: the greatest lower bound
    /// has the least rank.
    pub(super) fn push_ranked(&mut self, rows: &mut [(u32, u32)]) -> Result<Slot, TooLarge> {
        match rows {
            [] => return Ok(Slot::NONE),
            [(_, row)] => return Ok(Slot::one(*row)),
            _ => {}
        }
        if self.scan.len() + rows.len() >= RANKED_WORD_COUNT_MAX {
            return Err(TooLarge::Overlaps);
        }
        let in_scan_order: Vec<u32> = rows.iter().map(|(_, row)| *row).collect();
        let slot = self.push(&in_scan_order)?;
        rows.sort_unstable();
        self.has_ties |= rows.windows(2).any(|pair| pair[0].0 == pair[1].0);
        self.low_descending.push(rows.len() as u32);
        self.low_descending.extend(rows.iter().map(|(_, row)| *row));
        debug_assert_eq!(self.low_descending.len(), self.scan.len());
        Ok(slot)
    }

    /// The lists in scan order, each preceded by its length.
    pub(super) fn words(&self) -> &[u32] {
        &self.scan
    }

    /// Lists in scan order, each preceded by its length; `None` if there are too many.
    pub(super) fn of_words(scan: Vec<u32>) -> Option<Self> {
        (scan.len() < LIST_WORD_COUNT_MAX).then(|| Self {
            scan,
            ..Self::default()
        })
    }

    /// All lists, which have two rows at least.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = self.scan.as_slice();
        iter::from_fn(move || {
            let (length, words) = rest.split_first()?;
            let (rows, others) = words.split_at(*length as usize);
            rest = others;
            Some(rows)
        })
    }

    /// Whether any list has several rows.
    pub(super) fn has_several(&self) -> bool {
        !self.scan.is_empty()
    }

    /// Whether [`ListOrder::LowDescending`] leaves the order of any two rows of one list open.
    pub(super) fn has_ties(&self) -> bool {
        self.has_ties
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.scan) + size_of_val(&*self.low_descending)
    }

    /// The first row in scan order of a slot that has rows.
    #[inline]
    pub(super) fn first_of_some(&self, slot: Slot) -> u32 {
        match slot.list() {
            Some(offset) => self.scan[offset as usize + 1],
            None => slot.bits(),
        }
    }

    #[inline]
    pub(super) fn rows(&self, slot: Slot, order: ListOrder) -> Rows<'_> {
        if slot == Slot::NONE {
            Rows::None
        } else if slot.0 & Slot::LIST == 0 {
            Rows::One(slot.0)
        } else {
            self.list((slot.0 & !Slot::LIST) as usize, order)
        }
    }

    /// The first of [`Self::rows`].
    #[inline]
    pub(super) fn first(&self, slot: Slot, order: ListOrder) -> Option<u32> {
        match self.rows(slot, order) {
            Rows::None => None,
            Rows::One(row) => Some(row),
            Rows::Many(rows) => rows.first().copied(),
        }
    }

    #[cold]
    fn list(&self, offset: usize, order: ListOrder) -> Rows<'_> {
        let words = match order {
            ListOrder::Scan => &self.scan,
            ListOrder::LowDescending => &self.low_descending,
        };
        Rows::Many(&words[offset + 1..][..words[offset] as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranked: &[(u32, u32)], expected: [Rows<'_>; 2], has_ties: bool) {
        let mut lists = Lists::default();
        lists.push_ranked(&mut [(2, 1), (1, 2)]).unwrap();
        let slot = lists.push_ranked(&mut ranked.to_vec()).unwrap();
        let rows = [ListOrder::Scan, ListOrder::LowDescending].map(|order| lists.rows(slot, order));
        assert_eq!(rows, expected, "{ranked:?}");
        assert_eq!(lists.has_ties(), has_ties, "{ranked:?}");
    }

    #[test]
    fn slots_lead_back_to_their_rows() {
        use Rows::Many;
        check(&[], [Rows::None; 2], false);
        check(&[(3, 7)], [Rows::One(7); 2], false);
        check(&[(2, 7), (1, 9)], [Many(&[7, 9]), Many(&[9, 7])], false);
        let tied = [(1, 7), (2, 8), (1, 9)];
        check(&tied, [Many(&[7, 8, 9]), Many(&[7, 9, 8])], true);
        let tied = [(2, 7), (2, 8), (1, 9)];
        check(&tied, [Many(&[7, 8, 9]), Many(&[9, 7, 8])], true);
    }

    #[test]
    fn several_rows_are_noticed() {
        let mut lists = Lists::default();
        lists.push(&[]).unwrap();
        lists.push(&[1]).unwrap();
        assert!(!lists.has_several());
        lists.push(&[1, 2]).unwrap();
        assert!(lists.has_several());
    }

    #[test]
    fn lists_are_bounded() {
        let mut lists = Lists::default();
        let mut rows = vec![(0, 0); RANKED_WORD_COUNT_MAX];
        assert_eq!(lists.push_ranked(&mut rows), Err(TooLarge::Overlaps));
        assert_eq!(lists.size(), 0);
        // The rows of equal keys do not overlap.
        let rows = vec![0; RANKED_WORD_COUNT_MAX];
        let slot = lists.push(&rows).unwrap();
        assert_eq!(lists.rows(slot, ListOrder::Scan), Rows::Many(&rows));
    }
}
