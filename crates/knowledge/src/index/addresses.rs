//! Segments between 16-byte keys, as those of addresses are.
//!
//! IPv4 addresses differ only in their last 32 bits (`::ffff:a.b.c.d`), and most IPv6 networks in
//! their first 64. A search over one array of all keys would compare whole keys in twenty steps, so
//! the boundaries within the IPv4 addresses are in an array of their own.

use super::ints::IntSegments;
use super::radix::TieredDirectory;
use super::slots::Slot;

/// The first 96 bits of the keys of IPv4 addresses.
const MAPPED: u128 = 0xffff;

/// The first key of an IPv4 address.
const MAPPED_FIRST: u128 = MAPPED << 32;

/// The first key after all IPv4 addresses.
const MAPPED_END: u128 = (MAPPED + 1) << 32;

/// A map from keys to slots: each boundary begins a segment that extends to the next one.
#[derive(Debug)]
pub(super) struct AddressSegments {
    ip4: IntSegments,
    others: WideSegments,
}

impl AddressSegments {
    /// Builds the segments from boundaries in ascending order.
    pub(super) fn new(boundaries: &[(u128, Slot)]) -> Self {
        let ip4_at = boundaries.partition_point(|(key, _)| *key < MAPPED_FIRST);
        let after_at = boundaries.partition_point(|(key, _)| *key < MAPPED_END);
        let (before, ip4) = (&boundaries[..ip4_at], &boundaries[ip4_at..after_at]);
        let after = &boundaries[after_at..];
        let slot_before = |boundaries: &[(u128, Slot)], otherwise| {
            boundaries.last().map_or(otherwise, |(_, slot)| *slot)
        };
        // Each part begins with the segment that reaches into it.
        let at_first = slot_before(before, Slot::NONE);
        let at_end = slot_before(ip4, at_first);
        let mut ip4: Vec<(u64, Slot)> = ip4
            .iter()
            .map(|&(key, slot)| ((key - MAPPED_FIRST) as u64, slot))
            .collect();
        if ip4.first().is_none_or(|(key, _)| *key > 0) {
            ip4.insert(0, (0, at_first));
        }
        let mut others = vec![(0, Slot::NONE)];
        others.extend_from_slice(before);
        others.push((MAPPED_END, at_end));
        others.extend_from_slice(after);
        // The later of two equal boundaries is the one that counts.
        others.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
        Self {
            ip4: IntSegments::new(ip4),
            others: WideSegments::new(&others),
        }
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn slot(&self, key: u128) -> Slot {
        match key >> 32 == MAPPED {
            true => self.ip4.slot(u64::from(key as u32)),
            false => self.others.slot(key),
        }
    }

    /// The slots of the keys just before and just after a byte string of another size.
    pub(super) fn slots_around(&self, string: &[u8]) -> [Slot; 2] {
        // The nearest key: cut off, or with zeros appended.
        let mut nearest = [0; 16];
        let size = string.len().min(nearest.len());
        nearest[..size].copy_from_slice(&string[..size]);
        let nearest = u128::from_be_bytes(nearest);
        let around = match string.len() > 16 {
            true => [Some(nearest), nearest.checked_add(1)],
            false => [nearest.checked_sub(1), Some(nearest)],
        };
        around.map(|key| key.map_or(Slot::NONE, |key| self.slot(key)))
    }

    pub(super) fn size(&self) -> usize {
        self.ip4.size() + self.others.size()
    }
}

/// Segments that begin at zero.
#[derive(Debug)]
struct WideSegments {
    directory: TieredDirectory,
    /// The upper halves of the boundaries with their slots.
    uppers: Box<[(u64, Slot)]>,
    lowers: Box<[u64]>,
}

impl WideSegments {
    fn new(boundaries: &[(u128, Slot)]) -> Self {
        let uppers: Vec<u64> = boundaries
            .iter()
            .map(|(key, _)| (key >> 64) as u64)
            .collect();
        let slots = boundaries.iter().map(|(_, slot)| *slot);
        Self {
            directory: TieredDirectory::new(&uppers),
            uppers: uppers.into_iter().zip(slots).collect(),
            lowers: boundaries.iter().map(|(key, _)| *key as u64).collect(),
        }
    }

    #[inline]
    fn slot(&self, key: u128) -> Slot {
        let (upper, lower) = ((key >> 64) as u64, key as u64);
        let is_before = |index: usize| {
            let other = self.uppers[index].0;
            // Without a branch for unequal halves, which cannot be predicted.
            other < upper || other == upper && self.lowers[index] <= lower
        };
        let count = self
            .directory
            .count_before(upper, self.uppers.len(), is_before);
        self.uppers[count - 1].1
    }

    fn size(&self) -> usize {
        self.directory.size() + size_of_val(&*self.uppers) + size_of_val(&*self.lowers)
    }
}
