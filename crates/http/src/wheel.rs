//! A hierarchical timer wheel with a resolution of milliseconds.
//!
//! A timer is in a slot of the lowest level that covers its distance; when the slot is reached, its
//! timers move a level down, or are due. Inserting and cancelling take constant time.

use crate::slab::{Key, Slab};

const SLOT_BITS: u32 = 6;
const SLOT_COUNT: usize = 1 << SLOT_BITS;
/// 64^5 ms are 12 days; later timers are in the last slot and are inserted again when it is
/// reached.
const LEVEL_COUNT: usize = 5;
const TICK_COUNT: u64 = 1 << (SLOT_BITS * LEVEL_COUNT as u32);
/// One slot of the last level less: it would be the current slot.
const DISTANCE_MAX: u64 = TICK_COUNT - TICK_COUNT / SLOT_COUNT as u64;

// Each slot of a level has a bit in `Level::occupied`.
const _: () = assert!(SLOT_COUNT == u64::BITS as usize);
// `Entry::level` has a value left for timers that are due.
const _: () = assert!(LEVEL_COUNT < u8::MAX as usize);
const _: () = assert!(DISTANCE_MAX < TICK_COUNT);

struct Entry<T> {
    at: u64,
    value: T,
    level: u8,
    slot: u8,
    /// Neighbours in the slot's ring.
    previous: Option<Key>,
    next: Option<Key>,
}

struct Level {
    occupied: u64,
    heads: [Option<Key>; SLOT_COUNT],
}

pub(crate) struct Wheel<T> {
    entries: Slab<Entry<T>>,
    levels: Vec<Level>,
    /// All timers before this tick have been returned.
    now: u64,
    /// Due timers that have not been returned yet, in order.
    due: Vec<Key>,
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        let level = || Level {
            occupied: 0,
            heads: [None; SLOT_COUNT],
        };
        Self {
            entries: Slab::new(),
            levels: (0..LEVEL_COUNT).map(|_| level()).collect(),
            now: 0,
            due: Vec::new(),
        }
    }

    /// Inserts a timer for a tick; if that has passed, it is due with the next
    /// [`advance`](Self::advance).
    pub(crate) fn insert(&mut self, at: u64, value: T) -> Key {
        let key = self.entries.insert(Entry {
            at,
            value,
            level: 0,
            slot: 0,
            previous: None,
            next: None,
        });
        self.link(key, at);
        key
    }

    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        self.entries.get(key)?;
        self.unlink(key);
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// Returns the next timer that is due at `tick`, if any; call it until there is none.
    pub(crate) fn advance(&mut self, tick: u64) -> Option<T> {
        loop {
            // A timer that was cancelled since is no longer there.
            while let Some(key) = self.due.pop() {
                if let Some(entry) = self.entries.remove(key) {
                    return Some(entry.value);
                }
            }
            let (level, slot, at) = self.next_turn().filter(|&(_, _, at)| at <= tick)?;
            self.now = at;
            let mut cursor = self.take_slot(level, slot);
            while let Some(key) = cursor {
                let entry = self.entries.get_mut(key).expect("a slot holds live timers");
                assert_eq!(
                    usize::from(entry.slot),
                    slot,
                    "a timer is linked in its slot"
                );
                cursor = entry.next.take();
                entry.previous = None;
                match entry.at {
                    due if due <= at => {
                        entry.level = u8::MAX;
                        self.due.push(key);
                    }
                    later => self.link(key, later),
                }
            }
            if level == 0 {
                self.now = at + 1;
            }
        }
    }

    /// A tick that is not later than the next timer.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        match self.due.is_empty() {
            true => self.next_turn().map(|(_, _, at)| at),
            false => Some(self.now),
        }
    }

    fn link(&mut self, key: Key, at: u64) {
        let at = at.clamp(self.now, self.now + DISTANCE_MAX);
        // The level is that of the highest digit in which the tick and the current one differ.
        let level = match (at ^ self.now).checked_ilog2() {
            None => 0,
            Some(bit) => (bit / SLOT_BITS) as usize,
        };
        let level = level.min(LEVEL_COUNT - 1);
        let slot = (at >> (SLOT_BITS * level as u32)) as usize % SLOT_COUNT;
        debug_assert_eq!(
            self.levels[level].heads[slot].is_some(),
            self.levels[level].occupied & 1 << slot != 0,
            "the bit of a slot says whether it has timers"
        );
        let head = self.levels[level].heads[slot].replace(key);
        self.levels[level].occupied |= 1 << slot;
        let entry = self.entries.get_mut(key).expect("it was just put there");
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.previous, entry.next) = (None, head);
        if let Some(head) = head {
            let head = self
                .entries
                .get_mut(head)
                .expect("a slot holds live timers");
            head.previous = Some(key);
        }
    }

    fn unlink(&mut self, key: Key) {
        let entry = self.entries.get_mut(key).expect("the caller has looked");
        if entry.level == u8::MAX {
            return;
        }
        let (level, slot) = (entry.level as usize, entry.slot as usize);
        let (previous, next) = (entry.previous.take(), entry.next.take());
        if let Some(next) = next {
            self.entries
                .get_mut(next)
                .expect("neighbours live")
                .previous = previous;
        }
        match previous {
            Some(previous) => {
                self.entries
                    .get_mut(previous)
                    .expect("neighbours live")
                    .next = next;
            }
            None => {
                let level = &mut self.levels[level];
                level.heads[slot] = next;
                if next.is_none() {
                    level.occupied &= !(1 << slot);
                }
            }
        }
    }

    fn take_slot(&mut self, level: usize, slot: usize) -> Option<Key> {
        let level = &mut self.levels[level];
        level.occupied &= !(1 << slot);
        level.heads[slot].take()
    }

    /// The first slot that is not empty, and the tick of its turn.
    fn next_turn(&self) -> Option<(usize, usize, u64)> {
        let turns = self.levels.iter().enumerate().filter_map(|(index, level)| {
            if level.occupied == 0 {
                return None;
            }
            let shift = SLOT_BITS * index as u32;
            let position = (self.now >> shift) as u32 % SLOT_COUNT as u32;
            let distance = level.occupied.rotate_right(position).trailing_zeros();
            let slot = (position + distance) as usize % SLOT_COUNT;
            let turn = ((self.now >> shift) + u64::from(distance)) << shift;
            // The current slot of a higher level began in the past.
            Some((index, slot, turn.max(self.now)))
        });
        turns.min_by_key(|&(_, _, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_time_whatever_the_steps() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut wheel = Wheel::new();
            let mut model: Vec<(u64, Key, u64)> = Vec::new();
            let mut now = 0_u64;
            for number in 0..3_000_u64 {
                match random.u8(..10) {
                    0..5 => {
                        let far = 1_u64 << random.u32(0..34);
                        let at = (now + random.u64(0..far)).saturating_sub(random.u64(0..3));
                        model.push((at, wheel.insert(at, number), number));
                    }
                    5 if !model.is_empty() => {
                        let (_, key, number) = model.swap_remove(random.usize(..model.len()));
                        assert_eq!(wheel.cancel(key), Some(number));
                        assert_eq!(wheel.cancel(key), None);
                    }
                    _ => {
                        let far = 1 << random.u32(0..30);
                        now += random.u64(0..far);
                        if let Some(tick) = wheel.next_tick() {
                            let first = model.iter().map(|&(at, ..)| at).min().unwrap();
                            assert!(tick <= first.max(wheel.now), "seed {seed}");
                        }
                        let mut due: Vec<u64> = std::iter::from_fn(|| wheel.advance(now)).collect();
                        let mut expected: Vec<u64> = Vec::new();
                        model.retain(|&(at, _, number)| {
                            if at <= now {
                                expected.push(number);
                            }
                            at > now
                        });
                        due.sort_unstable();
                        expected.sort_unstable();
                        assert_eq!(due, expected, "seed {seed} at {now}");
                    }
                }
            }
        }
    }
}
