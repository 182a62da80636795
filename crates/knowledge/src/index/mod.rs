//! Native indexes over the rows of one table: a hash index for equality, an interval index for "the
//! ranges that contain this key", one for "the names or paths that contain it", and one for "the
//! patterns that match it".
//!
//! An index maps a key to positions of rows in the table's scan order. It does not depend on SQL or
//! SQLite: the caller defines what a key is and which keys are equal, see `plan::key`.

mod addresses;
mod bytes;
mod fixed;
mod hash;
mod intervals;
mod ints;
mod key;
mod key_index;
mod nested;
mod open;
mod patterns;
mod radix;
mod row_keys;
mod serialize;
mod slots;

pub(crate) use hash::{HashIndex, HashIndexBuilder};
pub(crate) use intervals::{Bound, Gap, IntervalIndex, IntervalIndexBuilder};
pub(crate) use key::{Key, hash_bytes, hash_probe};
pub(crate) use key_index::{KeyChangesBuilder, KeyIndex};
pub(crate) use nested::{NestedIndex, NestedIndexBuilder};
pub(crate) use patterns::{PatternError, PatternIndex, PatternIndexBuilder};
pub(crate) use row_keys::RowKeys;
#[cfg(test)]
pub(crate) use row_keys::TestKeys;
pub(crate) use slots::{ListOrder, ROW_COUNT_MAX, Rows};

/// The most keys that are looked up together. Each step of their searches is done for all of them before
/// the next one, so that their cache misses overlap.
pub(crate) const BLOCK_SIZE: usize = 64;

/// Why an index was not built; the statement then runs in SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    /// More than [`ROW_COUNT_MAX`] rows.
    Rows,
    /// The keys need more than 4 GiB.
    Keys,
    /// The lists of rows with equal keys have more than 2^31 words.
    Lists,
    /// The ranges overlap so much that the lists of rows exceed their limit.
    Overlaps,
}
