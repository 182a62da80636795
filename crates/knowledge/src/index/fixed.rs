//! Byte strings of equal size that differ in at most eight bytes, stored as integers.
//!
//! IPv4 addresses as 16-byte keys are an example: they share twelve bytes.

use super::ints::IntSegments;
use super::slots::Slot;

/// The position of the integer in each string.
#[derive(Debug)]
pub(super) struct FixedLayout {
    /// The common prefix of all strings.
    common: Box<[u8]>,
    /// How many bytes follow, eight at most.
    rest_size: usize,
}

impl FixedLayout {
    /// The layout of these strings, if they have one.
    pub(super) fn of<'a>(mut strings: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let first = strings.next()?;
        let mut common = first;
        for string in strings {
            if string.len() != first.len() {
                return None;
            }
            if !string.starts_with(common) {
                let is_same = |(a, b): &(&u8, &u8)| a == b;
                let size = common.iter().zip(string).take_while(is_same).count();
                common = &common[..size];
            }
            if first.len() - common.len() > size_of::<u64>() {
                return None;
            }
        }
        Some(Self {
            common: common.into(),
            rest_size: first.len() - common.len(),
        })
    }

    /// The integer of a string that has this layout: its last eight bytes.
    #[inline]
    pub(super) fn key(&self, string: &[u8]) -> u64 {
        match string.last_chunk::<8>() {
            // The common bytes in front are equal in all keys, so including them does not change
            // the order.
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => {
                let mut padded = [0; 8];
                padded[8 - string.len()..].copy_from_slice(string);
                u64::from_be_bytes(padded)
            }
        }
    }
}

/// Segments between strings of one size.
#[derive(Debug)]
pub(super) struct FixedSegments {
    layout: FixedLayout,
    ints: IntSegments,
}

impl FixedSegments {
    pub(super) fn new(layout: FixedLayout, ints: IntSegments) -> Self {
        Self { layout, ints }
    }

    /// The slot of a string; `None` if it has another size, since it is then between two integers.
    #[inline]
    pub(super) fn slot(&self, string: &[u8]) -> Option<Slot> {
        let common = &self.layout.common;
        if string.len() != common.len() + self.layout.rest_size {
            return None;
        }
        Some(match string.starts_with(common) {
            true => self.ints.slot(self.layout.key(string)),
            // Less or greater than all bounds.
            false => Slot::NONE,
        })
    }

    /// The slots of the strings of this layout just before and just after a string of another size.
    pub(super) fn slots_around(&self, string: &[u8]) -> [Slot; 2] {
        let size = self.layout.common.len() + self.layout.rest_size;
        // The string of this size that is nearest: cut off, or with zeros appended.
        let mut nearest = string[..string.len().min(size)].to_vec();
        nearest.resize(size, 0);
        if !nearest.starts_with(&self.layout.common) {
            return [Slot::NONE; 2];
        }
        let nearest = self.layout.key(&nearest);
        let around = match string.len() > size {
            true => [Some(nearest), nearest.checked_add(1)],
            false => [nearest.checked_sub(1), Some(nearest)],
        };
        around.map(|key| key.map_or(Slot::NONE, |key| self.ints.slot(key)))
    }

    pub(super) fn size(&self) -> usize {
        self.ints.size()
    }
}
