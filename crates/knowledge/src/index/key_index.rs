//! The hash index of a table, which shares that of the table's base if rows have changed.

use std::sync::Arc;

use super::TooLarge;
use super::hash::{HashIndex, HashIndexBuilder};
use super::key::Key;
use super::slots::Rows;
use crate::row_bits::RowBits;

/// A hash index of a base, and one of the keys whose rows have changed since.
#[derive(Clone, Debug)]
pub(crate) struct KeyIndex {
    base: Arc<HashIndex>,
    changes: Option<Arc<KeyChanges>>,
}

/// All rows of those keys that a removed or an added row has.
#[derive(Debug)]
struct KeyChanges {
    /// The rows of the base that have such a key.
    changed: RowBits,
    /// How many keys they have.
    changed_key_count: usize,
    index: HashIndex,
}

impl From<HashIndex> for KeyIndex {
    fn from(index: HashIndex) -> Self {
        Self::from(Arc::new(index))
    }
}

impl From<Arc<HashIndex>> for KeyIndex {
    fn from(base: Arc<HashIndex>) -> Self {
        Self {
            base,
            changes: None,
        }
    }
}

impl KeyIndex {
    /// The index of the base.
    pub(crate) fn base(&self) -> &Arc<HashIndex> {
        &self.base
    }

    /// The rows whose key has these parts; there must be as many parts as when the index was built.
    // A call would copy the key and the rows through memory, which takes as long as the search.
    #[inline(always)]
    pub(crate) fn rows(&self, parts: &[Key<'_>]) -> Rows<'_> {
        match &self.changes {
            None => self.base.rows(parts),
            Some(changes) => changes.rows(&self.base, parts),
        }
    }

    /// Loads the cache lines that the probes of these keys read first.
    #[inline]
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>>) {
        self.base.prefetch(keys);
    }

    /// Whether all keys of the base are single integers.
    pub(crate) fn has_int_keys(&self) -> bool {
        self.base.has_int_keys()
    }

    /// The first row of each of these keys, as [`Self::rows`] finds it, if [`Self::has_int_keys`].
    pub(crate) fn first_of_ints(&self, keys: &[i64], rows: &mut [Option<u32>]) {
        self.base.first_of_ints(keys, rows);
        let Some(changes) = &self.changes else {
            return;
        };
        for (key, row) in keys.iter().zip(rows) {
            if row.is_none_or(|row| changes.changed.contains(row as usize)) {
                *row = changes.index.rows(&[Key::Int(*key)]).first();
            }
        }
    }

    /// The rows of each key that has several.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &[u32]> {
        let changes = self.changes.as_deref();
        let is_current = move |rows: &&[u32]| {
            changes.is_none_or(|changes| !changes.changed.contains(rows[0] as usize))
        };
        let base = self.base.lists().filter(is_current);
        base.chain(
            changes
                .into_iter()
                .flat_map(|changes| changes.index.lists()),
        )
    }

    /// Whether any key has several rows.
    pub(crate) fn has_several(&self) -> bool {
        match self.base.has_several() || self.changes.is_some() {
            true => self.lists().next().is_some(),
            false => false,
        }
    }

    /// How many different keys there are.
    pub(crate) fn len(&self) -> usize {
        let changes = self.changes.as_deref();
        self.base.len() - changes.map_or(0, |it| it.changed_key_count)
            + changes.map_or(0, |it| it.index.len())
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        let changes = self.changes.as_deref();
        self.base.size() + changes.map_or(0, |it| it.changed.size() + it.index.size())
    }
}

impl KeyChanges {
    // Not inlined, so that the search of an index without changes is.
    #[inline(never)]
    fn rows<'a>(&'a self, base: &'a HashIndex, parts: &[Key<'_>]) -> Rows<'a> {
        let rows = base.rows(parts);
        match rows.first() {
            Some(row) if !self.changed.contains(row as usize) => rows,
            _ => self.index.rows(parts),
        }
    }
}

/// Collects the changes of the keys of a base.
pub(crate) struct KeyChangesBuilder {
    base: Arc<HashIndex>,
    changed: RowBits,
    changed_key_count: usize,
    builder: HashIndexBuilder,
}

impl KeyChangesBuilder {
    /// Changes of an index of keys of `part_count` parts, over a base of `row_count` rows.
    pub(crate) fn new(base: Arc<HashIndex>, part_count: usize, row_count: usize) -> Self {
        Self {
            base,
            changed: RowBits::new(row_count),
            changed_key_count: 0,
            builder: HashIndexBuilder::new(part_count, 0),
        }
    }

    /// Adds the key of a row that was removed or added.
    pub(crate) fn add_key(&mut self, parts: &[Key<'_>]) {
        let rows = self.base.rows(parts);
        if rows
            .first()
            .is_none_or(|row| self.changed.contains(row as usize))
        {
            return;
        }
        self.changed_key_count += 1;
        rows.as_slice()
            .iter()
            .for_each(|row| self.changed.insert(*row as usize));
    }

    /// Whether a row of the base has a key that was added, so that [`Self::push`] needs it unless it is
    /// removed.
    pub(crate) fn is_changed(&self, row: usize) -> bool {
        self.changed.contains(row)
    }

    /// Adds a row that has one of the keys. All of them are added, in scan order, after all keys.
    pub(crate) fn push(&mut self, row: usize, parts: &[Key<'_>]) -> Result<(), TooLarge> {
        self.builder.push(row, parts)
    }

    /// The index with its changes.
    pub(crate) fn build(self) -> Result<KeyIndex, TooLarge> {
        let changes = KeyChanges {
            changed: self.changed,
            changed_key_count: self.changed_key_count,
            index: self.builder.build()?,
        };
        Ok(KeyIndex {
            base: self.base,
            changes: Some(Arc::new(changes)),
        })
    }
}
