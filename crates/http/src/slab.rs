//! A generational slab: a key is an index and the number of earlier uses of its slot, so a stale
//! key never matches.

/// The key of an entry. It fits into 56 bits, which leaves room for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    generation: u32,
}

const GENERATION_BITS: u32 = 24;

// A tag has room beside a key in 64 bits.
const _: () = assert!(u32::BITS + GENERATION_BITS <= 56);

impl Key {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Converts bits to a key; those above 56 are ignored.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32 & ((1 << GENERATION_BITS) - 1),
        }
    }
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What holds after each change.
    #[inline]
    fn check(&self) {
        assert_eq!(
            self.len + self.free.len(),
            self.slots.len(),
            "each place is free or has an entry"
        );
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            assert!(slot.value.is_none(), "a free place is empty");
            slot.value = Some(value);
            let generation = slot.generation;
            self.check();
            return Key { index, generation };
        }
        let index = u32::try_from(self.slots.len()).expect("descriptors are fewer than 2^32");
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        self.check();
        Key {
            index,
            generation: 0,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some(slot) if slot.generation == key.generation => slot.value.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize) {
            Some(slot) if slot.generation == key.generation => slot.value.as_ref(),
            _ => None,
        }
    }

    /// The key of the current entry at an index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref().map(|_| Key {
            index,
            generation: slot.generation,
        })
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
        self.free.push(key.index);
        self.len -= 1;
        self.check();
        Some(value)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        (0..self.slots.len() as u32).filter_map(|index| self.key_at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_nobody_who_came_later() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(first.index, second.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut 'b'));
        assert_eq!(Key::from_bits(second.to_bits() | 3 << 56), second);
        assert_eq!(slab.keys().collect::<Vec<_>>(), [second]);
        assert_eq!(slab.len(), 1);
    }
}
