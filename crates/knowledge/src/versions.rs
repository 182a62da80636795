//! Version counters of the data behind cached answers.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of counters of a provider: 256 KiB, so that they stay in a core's cache. Measured: four
/// times as many, of eight bytes, cost up to 3 ns more per hit.
const SLOT_COUNT: usize = 1 << 16;

/// The version of the data that an answer depends on.
///
/// An entry of a cache keeps the version that was read before its query was sent. It is valid as
/// long as the counter has not changed, so an answer that arrives after a change was applied is
/// invalid from the beginning, and a change is applied without a search for entries.
///
/// Counters are odd. An even version is that of an answer which no change feed invalidates; if there is a
/// feed, it tells how often the feed has been live before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u32);

impl Version {
    /// There is no change feed, or it has never been live.
    pub(crate) const UNTRACKED: Self = Self(0);
}

/// The version of the data that an answer depends on, with the counter that has it. An answer is valid
/// as long as the counter has this version; see [`Session::may_reuse`](crate::Session::may_reuse).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataVersion {
    version: Version,
    /// Of no meaning if no change feed invalidates the answer.
    slot: VersionSlot,
}

/// That of an answer which no change feed invalidates.
impl Default for DataVersion {
    fn default() -> Self {
        Self::UNTRACKED
    }
}

impl DataVersion {
    /// There is no change feed, or it has never been live.
    pub(crate) const UNTRACKED: Self = Self::untracked(0);

    /// No change feed invalidates the answer, after its statement has become live, or ceased to be, so many
    /// times.
    pub(crate) const fn untracked(transition_count: u32) -> Self {
        Self {
            version: Version(transition_count.wrapping_mul(2)),
            slot: VersionSlot(0),
        }
    }

    #[inline]
    pub(crate) fn version(self) -> Version {
        self.version
    }

    /// Whether a change feed invalidates the answer.
    #[inline]
    pub fn is_tracked(self) -> bool {
        !self.version.0.is_multiple_of(2)
    }

    /// The same counter, at another time.
    pub(crate) fn with(self, version: Version) -> Self {
        Self { version, ..self }
    }
}

/// A counter of [`Versions`], found by the hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VersionSlot(u16);

impl VersionSlot {
    /// The slot of a hash. Takes other bits than the caches, which take the lowest, and than the
    /// shards of the shared cache.
    #[inline]
    pub(crate) fn of(hash: u64) -> Self {
        Self((hash >> 24) as u16)
    }
}

/// The counters of a provider. Keys with the same slot are invalidated together, which costs a query
/// and nothing else.
#[derive(Debug)]
pub(crate) struct Versions(Box<[AtomicU32; SLOT_COUNT]>);

impl Versions {
    pub(crate) fn new() -> Self {
        let counters: Box<[AtomicU32]> = (0..SLOT_COUNT).map(|_| AtomicU32::new(1)).collect();
        Self(counters.try_into().expect("it has this length"))
    }

    /// The version of a slot. `Acquire`: a caller that sees a horizon sees all changes before it.
    #[inline]
    pub(crate) fn get(&self, slot: VersionSlot) -> DataVersion {
        let version = Version(self.0[usize::from(slot.0)].load(Ordering::Acquire));
        DataVersion { version, slot }
    }

    /// Whether an answer of this version is valid still.
    pub(crate) fn is_current(&self, of: DataVersion) -> bool {
        of.is_tracked() && self.get(of.slot) == of
    }

    /// Invalidates all entries of a slot. Counters are odd, so they skip [`Version::UNTRACKED`] when
    /// they wrap around.
    pub(crate) fn touch(&self, slot: VersionSlot) {
        self.0[usize::from(slot.0)].fetch_add(2, Ordering::Release);
    }

    /// Invalidates all entries.
    pub(crate) fn touch_all(&self) {
        for counter in self.0.iter() {
            counter.fetch_add(2, Ordering::Release);
        }
    }

    /// Invalidates all entries, also those of keys that have another counter from now on: all counters
    /// get a value that is greater than all before. Meanwhile, no other thread changes counters.
    ///
    /// Only if one counter has had 2^31 changes, the value begins anew, and may be that of an entry
    /// which is as old.
    pub(crate) fn renew(&self) {
        let values = self.0.iter().map(|it| it.load(Ordering::Relaxed));
        let next = values.max().unwrap_or_default().wrapping_add(2);
        for counter in self.0.iter() {
            counter.store(next, Ordering::Release);
        }
    }
}

/// The slots that one transaction touches, without repetition once there are many.
#[derive(Clone, Debug, Default)]
pub(crate) struct TouchedSlots {
    list: Vec<VersionSlot>,
    /// One bit a slot, from the moment on when a list would be larger.
    bits: Option<Box<[u64; SLOT_COUNT / 64]>>,
    /// All slots.
    is_all: bool,
}

/// A longer list takes more memory than one bit for each slot.
const LIST_LEN_MAX: usize = SLOT_COUNT / 8 / size_of::<VersionSlot>();

impl TouchedSlots {
    pub(crate) fn add(&mut self, slot: VersionSlot) {
        if self.is_all {
            return;
        }
        if let Some(bits) = &mut self.bits {
            set(bits, slot);
        } else if self.list.last() != Some(&slot) {
            self.list.push(slot);
            if self.list.len() > LIST_LEN_MAX {
                let mut bits = Box::new([0; SLOT_COUNT / 64]);
                for slot in std::mem::take(&mut self.list) {
                    set(&mut bits, slot);
                }
                self.bits = Some(bits);
            }
        }
    }

    pub(crate) fn add_all(&mut self) {
        *self = Self {
            is_all: true,
            ..Self::default()
        };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.bits.is_none() && !self.is_all
    }

    /// The size on the heap in bytes.
    pub(crate) fn heap_size(&self) -> usize {
        self.list.capacity() * size_of::<VersionSlot>()
            + self.bits.as_ref().map_or(0, |bits| size_of_val(&**bits))
    }

    /// Touches all of them, and returns how many there were.
    pub(crate) fn apply(&self, versions: &Versions) -> u64 {
        if self.is_all {
            versions.touch_all();
            return SLOT_COUNT as u64;
        }
        let mut count = 0;
        for slot in &self.list {
            versions.touch(*slot);
            count += 1;
        }
        for (word, bits) in self.bits.iter().flat_map(|bits| bits.iter().enumerate()) {
            let mut bits = *bits;
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                versions.touch(VersionSlot(index as u16));
                bits &= bits - 1;
                count += 1;
            }
        }
        count
    }
}

fn set(bits: &mut [u64; SLOT_COUNT / 64], slot: VersionSlot) {
    let index = usize::from(slot.0);
    bits[index / 64] |= 1 << (index % 64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_slot_has_another_version_and_is_never_unfed() {
        let versions = Versions::new();
        let (one, other) = (VersionSlot::of(1 << 24), VersionSlot::of(2 << 24));
        let before = versions.get(one);
        versions.touch(one);
        assert_ne!(versions.get(one), before);
        assert_eq!(versions.get(other).version, before.version);
        versions.0[1].store(u32::MAX, Ordering::Relaxed);
        assert!(!versions.is_current(before));
        versions.touch(one);
        assert!(versions.get(one).is_tracked());
        let before = versions.get(other);
        assert!(versions.is_current(before));
        versions.touch_all();
        assert!(!versions.is_current(before));
    }

    #[test]
    fn renewed_versions_are_none_that_any_counter_has_had() {
        let versions = Versions::new();
        let slots = [1, 2, 3].map(|number| VersionSlot::of(number << 24));
        let mut had = vec![];
        for (round, slot) in slots.into_iter().enumerate() {
            for _ in 0..=round {
                had.extend(slots.map(|slot| versions.get(slot).version));
                versions.touch(slot);
            }
            had.extend(slots.map(|slot| versions.get(slot).version));
            versions.renew();
            for slot in slots {
                let version = versions.get(slot);
                assert!(version.is_tracked());
                assert!(!had.contains(&version.version), "round {round}");
            }
        }
    }

    #[test]
    fn few_and_many_touched_slots_are_applied() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for count in [0, 1, 10, LIST_LEN_MAX, LIST_LEN_MAX + 1, 30_000] {
            let versions = Versions::new();
            let start = versions.get(VersionSlot(0)).version;
            let mut touched = TouchedSlots::default();
            let slots: Vec<VersionSlot> = (0..count).map(|_| VersionSlot(random.u16(..))).collect();
            slots.iter().for_each(|slot| touched.add(*slot));
            assert_eq!(touched.is_empty(), count == 0);
            assert!(touched.heap_size() <= 3 * SLOT_COUNT / 8);
            touched.apply(&versions);
            let expected: std::collections::HashSet<VersionSlot> = slots.into_iter().collect();
            for index in 0..=u16::MAX {
                let is_touched = versions.get(VersionSlot(index)).version != start;
                let is_expected = expected.contains(&VersionSlot(index));
                assert_eq!(is_touched, is_expected, "{index}, seed {seed}");
            }
        }
    }
}
