//! Segments between integer boundaries.

use std::hint::black_box;

use super::BLOCK_SIZE;
use super::radix::Directory;
use super::slots::Slot;

/// Maps a signed key to an unsigned one of the same order.
#[inline]
pub(super) fn ordered(key: i64) -> u64 {
    (key as u64) ^ (1 << 63)
}

/// A map from integers to slots: each boundary begins a segment that extends to the next one.
#[derive(Debug)]
pub(super) struct IntSegments {
    /// The first boundary; the boundaries are stored relative to it.
    base: u64,
    boundaries: Boundaries,
}

#[derive(Debug)]
enum Boundaries {
    /// Offsets that fit 32 bits, as IPv4 addresses do: half the memory, half the cache misses.
    Narrow(Leaves<u32>),
    Wide(Leaves<u64>),
}

/// Ascending keys with their slots, in leaves of one or two cache lines, as those of a B-tree.
///
/// Ranges are dense in a few regions, where a bucket of the directory has tens of boundaries: to search all of
/// them would load a cache line at each step. So the first keys of the leaves are searched, most of which are
/// in the cache of the core, and then one leaf.
#[derive(Debug)]
struct Leaves<K> {
    /// Finds the leaf of a key among `firsts`.
    directory: Directory,
    /// The first key of each leaf.
    firsts: Box<[K]>,
    leaves: Box<[Leaf<K>]>,
}

/// Keys and slots are adjacent, so a probe loads one cache line for both.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Leaf<K>([(K, Slot); KEYS_PER_LEAF]);

const KEYS_PER_LEAF: usize = 8;

/// The average number of leaves in a bucket of the directory, as a power of two: one, as many keys as in a
/// directory of other boundaries.
const LEAVES_PER_BUCKET_BITS: u32 = 0;

impl<K: Copy + Into<u64>> Leaves<K> {
    /// Builds the leaves of ascending keys, at least one, the first of which is zero.
    fn new(boundaries: impl ExactSizeIterator<Item = (K, Slot)>) -> Self {
        let mut leaves = Vec::with_capacity(boundaries.len().div_ceil(KEYS_PER_LEAF));
        for (at, boundary) in boundaries.enumerate() {
            match at % KEYS_PER_LEAF {
                // The last leaf ends with copies of its last boundary, which are as good as this one.
                0 => leaves.push(Leaf([boundary; KEYS_PER_LEAF])),
                at => leaves.last_mut().expect("it was begun").0[at..].fill(boundary),
            }
        }
        let firsts: Box<[K]> = leaves.iter().map(|leaf| leaf.0[0].0).collect();
        Self {
            directory: Directory::new(
                firsts.iter().map(|key| (*key).into()),
                LEAVES_PER_BUCKET_BITS,
            ),
            firsts,
            leaves: leaves.into(),
        }
    }

    /// The slot of the last boundary that is not after the key.
    #[inline]
    fn slot(&self, key: u64) -> Slot {
        let is_before = |at: usize| self.firsts[at].into() <= key;
        let count = (self.directory).count_before(key, self.firsts.len(), is_before);
        self.leaf(count).slot(key)
    }

    /// The slots of up to [`BLOCK_SIZE`] keys.
    fn slots(&self, keys: &[u64], slots: &mut [Slot]) {
        let mut counts = [0; BLOCK_SIZE];
        let counts = &mut counts[..keys.len()];
        let is_before = |key, at: usize| self.firsts[at].into() <= key;
        (self.directory).counts_before(keys, self.firsts.len(), counts, is_before);
        // Loads the leaves, without other work in between, so that as many loads as possible overlap.
        let leaves = counts.iter().map(|count| self.leaf(*count).0[0].1.bits());
        black_box(leaves.fold(0, |loaded, bits| loaded ^ bits));
        for ((key, count), slot) in keys.iter().zip(counts).zip(slots) {
            *slot = self.leaf(*count).slot(*key);
        }
    }

    /// The last leaf whose first key is not after a key, by the number of such leaves. The first key of all is
    /// zero, so there is one.
    #[inline]
    fn leaf(&self, count: usize) -> &Leaf<K> {
        &self.leaves[count - 1]
    }

    fn size(&self) -> usize {
        self.directory.size() + size_of_val(&*self.firsts) + size_of_val(&*self.leaves)
    }
}

impl<K: Copy + Into<u64>> Leaf<K> {
    #[inline]
    fn slot(&self, key: u64) -> Slot {
        let mut at = 0;
        let mut step = KEYS_PER_LEAF / 2;
        // Adds instead of branching, as such a branch cannot be predicted.
        while step > 0 {
            at += step * usize::from(self.0[at + step].0.into() <= key);
            step /= 2;
        }
        self.0[at].1
    }
}

impl IntSegments {
    /// Builds the segments from boundaries in ascending order, at least one.
    pub(super) fn new(boundaries: Vec<(u64, Slot)>) -> Self {
        let base = boundaries[0].0;
        let last = boundaries[boundaries.len() - 1].0 - base;
        let offsets = boundaries.iter().map(|&(key, slot)| (key - base, slot));
        let boundaries = match u32::try_from(last) {
            Ok(_) => Boundaries::Narrow(Leaves::new(offsets.map(|(key, slot)| (key as u32, slot)))),
            Err(_) => Boundaries::Wide(Leaves::new(offsets)),
        };
        Self { base, boundaries }
    }

    /// The slot of an [`ordered`] key.
    #[inline]
    pub(super) fn slot(&self, key: u64) -> Slot {
        if key < self.base {
            return Slot::NONE;
        }
        let key = key - self.base;
        match &self.boundaries {
            Boundaries::Narrow(leaves) => leaves.slot(key),
            Boundaries::Wide(leaves) => leaves.slot(key),
        }
    }

    /// The slots of up to [`BLOCK_SIZE`] keys, which are not yet [`ordered`].
    pub(super) fn slots(&self, keys: &[i64], slots: &mut [Slot]) {
        let mut offsets = [0; BLOCK_SIZE];
        let offsets = &mut offsets[..keys.len()];
        for (key, offset) in keys.iter().zip(&mut *offsets) {
            *offset = ordered(*key).saturating_sub(self.base);
        }
        match &self.boundaries {
            Boundaries::Narrow(leaves) => leaves.slots(offsets, slots),
            Boundaries::Wide(leaves) => leaves.slots(offsets, slots),
        }
        for (key, slot) in keys.iter().zip(slots) {
            if ordered(*key) < self.base {
                *slot = Slot::NONE;
            }
        }
    }

    pub(super) fn size(&self) -> usize {
        match &self.boundaries {
            Boundaries::Narrow(leaves) => leaves.size(),
            Boundaries::Wide(leaves) => leaves.size(),
        }
    }
}
