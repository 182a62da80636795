//! Segments between integer boundaries.

use super::BLOCK_SIZE;
use super::radix::Directory;
use super::slots::Slot;

/// Maps a signed key to an unsigned one of the same order.
#[inline]
pub(super) fn ordered(key: i64) -> u64 {
    (key as u64) ^ (1 << 63)
}

/// A map from integers to slots: `boundaries[i]` begins a segment that extends to the next one.
#[derive(Debug)]
pub(super) struct IntSegments {
    /// The first boundary; the boundaries are stored relative to it.
    base: u64,
    directory: Directory,
    boundaries: Boundaries,
}

/// Key and slot are adjacent, so a probe loads one cache line for both.
#[derive(Debug)]
enum Boundaries {
    /// Offsets that fit 32 bits, as IPv4 addresses do: half the memory, half the cache misses.
    Narrow(Box<[(u32, Slot)]>),
    Wide(Box<[(u64, Slot)]>),
}

impl IntSegments {
    /// Builds the segments from boundaries in ascending order, at least one.
    pub(super) fn new(boundaries: Vec<(u64, Slot)>) -> Self {
        let base = boundaries[0].0;
        let offsets = boundaries.iter().map(|(key, _)| key - base);
        let directory = Directory::new(offsets);
        let last = boundaries[boundaries.len() - 1].0 - base;
        let boundaries = if u32::try_from(last).is_ok() {
            let narrow = boundaries
                .iter()
                .map(|&(key, slot)| ((key - base) as u32, slot));
            Boundaries::Narrow(narrow.collect())
        } else {
            Boundaries::Wide(
                boundaries
                    .iter()
                    .map(|&(key, slot)| (key - base, slot))
                    .collect(),
            )
        };
        Self {
            base,
            directory,
            boundaries,
        }
    }

    /// The slot of an [`ordered`] key.
    #[inline]
    pub(super) fn slot(&self, key: u64) -> Slot {
        if key < self.base {
            return Slot::NONE;
        }
        let key = key - self.base;
        // The first boundary is zero, so at least one is not after the key.
        match &self.boundaries {
            Boundaries::Narrow(boundaries) => {
                let narrow = u32::try_from(key).unwrap_or(u32::MAX);
                let count = self
                    .directory
                    .count_before(key, boundaries.len(), |at| boundaries[at].0 <= narrow);
                boundaries[count - 1].1
            }
            Boundaries::Wide(boundaries) => {
                let count = self
                    .directory
                    .count_before(key, boundaries.len(), |at| boundaries[at].0 <= key);
                boundaries[count - 1].1
            }
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
            Boundaries::Narrow(boundaries) => self.slots_between(boundaries, offsets, slots),
            Boundaries::Wide(boundaries) => self.slots_between(boundaries, offsets, slots),
        }
        for (key, slot) in keys.iter().zip(slots) {
            if ordered(*key) < self.base {
                *slot = Slot::NONE;
            }
        }
    }

    fn slots_between<K: Copy + Into<u64>>(
        &self,
        boundaries: &[(K, Slot)],
        offsets: &[u64],
        slots: &mut [Slot],
    ) {
        let mut counts = [0; BLOCK_SIZE];
        let counts = &mut counts[..offsets.len()];
        let is_before = |offset, at: usize| boundaries[at].0.into() <= offset;
        (self.directory).counts_before(offsets, boundaries.len(), counts, is_before);
        for (count, slot) in counts.iter().zip(slots) {
            *slot = boundaries[count - 1].1;
        }
    }

    pub(super) fn size(&self) -> usize {
        self.directory.size()
            + match &self.boundaries {
                Boundaries::Narrow(boundaries) => size_of_val(&**boundaries),
                Boundaries::Wide(boundaries) => size_of_val(&**boundaries),
            }
    }
}
