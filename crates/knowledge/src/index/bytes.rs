//! Segments between boundaries that are byte strings, in the order of `memcmp`.

use std::cmp::Ordering;

use super::TooLarge;
use super::radix::{BUCKET_SIZE_BITS, Directory};
use super::slots::Slot;

/// A boundary just before or just after a byte string.
///
/// The direct successor of a string is the string with a zero byte appended, so "after" orders
/// between the string and every greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Boundary<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) behind: bool,
}

/// A map from byte strings to slots: each boundary begins a segment that extends to the next one.
#[derive(Debug)]
pub(super) struct ByteSegments {
    /// The common prefix of all boundaries.
    common: Box<[u8]>,
    /// For each boundary, the eight bytes after `common` as a number, zero-padded and relative to
    /// `base`, with its slot.
    prefixes: Box<[(u64, Slot)]>,
    base: u64,
    directory: Directory,
    /// Boundary `i` without `common` is `keys[ends[i - 1]..ends[i]]`.
    keys: Box<[u8]>,
    ends: Box<[u32]>,
}

impl ByteSegments {
    /// Builds the segments from boundaries in ascending order, at least one.
    pub(super) fn new(boundaries: &[(Boundary<'_>, Slot)]) -> Result<Self, TooLarge> {
        let first = boundaries[0].0.bytes;
        let last = boundaries[boundaries.len() - 1].0.bytes;
        let common_size = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let (common, _) = first.split_at(common_size);
        let base = prefix(&first[common_size..]);
        let mut keys = Vec::new();
        let mut ends = Vec::with_capacity(boundaries.len());
        let mut prefixes = Vec::with_capacity(boundaries.len());
        for (boundary, slot) in boundaries {
            let rest = &boundary.bytes[common_size..];
            keys.extend_from_slice(rest);
            if boundary.behind {
                keys.push(0);
            }
            ends.push(u32::try_from(keys.len()).map_err(|_| TooLarge::Keys)?);
            prefixes.push((prefix(rest) - base, *slot));
        }
        Ok(Self {
            common: common.into(),
            directory: Directory::new(prefixes.iter().map(|(prefix, _)| *prefix), BUCKET_SIZE_BITS),
            prefixes: prefixes.into_boxed_slice(),
            base,
            keys: keys.into_boxed_slice(),
            ends: ends.into_boxed_slice(),
        })
    }

    #[inline]
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        let count = self.count_not_after(key);
        match count {
            0 => Slot::NONE,
            count => self.prefixes[count - 1].1,
        }
    }

    /// How many boundaries are not after `key`.
    #[inline]
    fn count_not_after(&self, key: &[u8]) -> usize {
        let common_size = self.common.len().min(key.len());
        match key[..common_size].cmp(&self.common) {
            // A key that is shorter than the common prefix correctly compares as less.
            Ordering::Less => return 0,
            Ordering::Greater => return self.prefixes.len(),
            Ordering::Equal => {}
        }
        let rest = &key[common_size..];
        let Some(offset) = prefix(rest).checked_sub(self.base) else {
            return 0;
        };
        self.directory
            .count_before(offset, self.prefixes.len(), |index| {
                // If the prefixes are equal, the strings themselves decide.
                match self.prefixes[index].0.cmp(&offset) {
                    Ordering::Less => true,
                    Ordering::Equal => self.key(index) <= rest,
                    Ordering::Greater => false,
                }
            })
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            index => self.ends[index - 1] as usize,
        };
        &self.keys[start..self.ends[index] as usize]
    }

    pub(super) fn size(&self) -> usize {
        self.directory.size()
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.ends)
            + self.keys.len()
    }
}

/// The first eight bytes as a number that preserves their order.
#[inline]
fn prefix(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}
