//! Caches of database answers: of one session, of all sessions, or of a caller.
//!
//! All layers store a [`CacheEntry`], the rows and the moment they expire, under a [`Key`]. A key
//! is found by its hash, which is computed once for all layers, and then compared in full. Entries
//! belong to one generation of the tables: the shared layer is part of it, a session empties its
//! layer when it sees a new generation, and a caller's layer compares the number.

mod bounded;
mod budget;
mod call;
mod expiry;
mod local;
mod shared;

use std::hash::{BuildHasher, Hash, Hasher};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use lookaside_value::{Extent, RowSet, StatementId, Value};
use quick_cache::Equivalent;

use self::expiry::ExpiryAndSize;
use crate::clock::Ticks;
use crate::versions::{DataVersion, Version};

pub(crate) use bounded::{BoundedCache, HeapSize, allocated, rows_size, value_size};
pub(crate) use budget::{CacheBytes, LocalBudget};
pub use call::CallCache;
pub(crate) use local::{LocalCache, SlotIndex};
pub(crate) use shared::{Flight, Leader, SharedCache};

/// A key by reference, with its hash, which is computed once for all layers.
#[derive(Clone, Copy)]
pub(crate) struct KeyRef<'a> {
    pub(crate) hash: u64,
    statement: StatementId,
    pub(crate) extent: Extent,
    /// The version of the data that the answer depends on, read when this key was made. Not a part of
    /// the key.
    pub(crate) version: DataVersion,
    pub(crate) params: &'a [Value],
}

impl PartialEq for KeyRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.statement == other.statement
            && self.extent == other.extent
            && self.params == other.params
    }
}

impl Eq for KeyRef<'_> {}

impl<'a> KeyRef<'a> {
    // A call would copy the key twice, which is a tenth of a hit of the first cache.
    #[inline(always)]
    pub(crate) fn new(
        hasher: &foldhash::quality::RandomState,
        statement: StatementId,
        extent: Extent,
        params: &'a [Value],
    ) -> Self {
        let mut state = hasher.build_hasher();
        state.write_usize(statement.index() * 2 + usize::from(extent == Extent::All));
        let hash = match params {
            // Without a loop, the state stays in registers.
            [param] => {
                param.hash(&mut state);
                state.finish()
            }
            params => {
                params.iter().for_each(|param| param.hash(&mut state));
                state.finish()
            }
        };
        Self {
            hash,
            statement,
            extent,
            version: DataVersion::UNTRACKED,
            params,
        }
    }

    /// The same key, for data of this version.
    #[inline]
    pub(crate) fn at(self, version: DataVersion) -> Self {
        Self { version, ..self }
    }

    /// A key that owns its parameters.
    pub(crate) fn to_key(self) -> Key {
        let params = match self.params {
            [param] => KeyParams::One(param.clone()),
            params => KeyParams::Any(params.into()),
        };
        Key {
            hash: self.hash,
            statement: self.statement,
            extent: self.extent,
            params,
        }
    }

    /// Bytes on the heap of a key that owns its parameters.
    pub(crate) fn heap_size(&self) -> usize {
        let own = match self.params {
            [_] => 0,
            // Two reference counters precede shared values.
            params => allocated(size_of_val(params) + 2 * size_of::<usize>()),
        };
        own + self.params.iter().map(value_size).sum::<usize>()
    }

    #[inline]
    fn is(&self, key: &Key) -> bool {
        self.hash == key.hash
            && self.statement == key.statement
            && self.extent == key.extent
            && match (self.params, &key.params) {
                ([param], KeyParams::One(other)) => param == other,
                (params, other) => params == other.as_slice(),
            }
    }
}

/// A key with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    hash: u64,
    statement: StatementId,
    extent: Extent,
    params: KeyParams,
}

/// Most keys have one parameter, which then needs no allocation of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyParams {
    One(Value),
    Any(Arc<[Value]>),
}

impl KeyParams {
    #[inline]
    fn as_slice(&self) -> &[Value] {
        match self {
            Self::One(param) => slice::from_ref(param),
            Self::Any(params) => params,
        }
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    #[inline]
    fn equivalent(&self, key: &Key) -> bool {
        self.is(key)
    }
}

/// One answer: the rows, and when they expire.
///
/// Each layer stores it by value, so a hit reads the layer's slot and then the rows.
#[derive(Clone, Debug)]
pub(crate) struct CacheEntry {
    pub(crate) rows: RowSet,
    /// The size is the heap size of the answer and its key.
    expiry: ExpiryAndSize,
    /// The version of the key before the database was queried.
    version: Version,
    /// The age of the answer in milliseconds at the moment it expires, at most 24 days. The
    /// highest bit marks a stale answer, which replaces one that a failing server did not give.
    age_ms: u32,
}

/// The bit in [`CacheEntry::age_ms`] that marks a stale answer.
const IS_STALE: u32 = 1 << 31;

/// The longest lifetime of an answer, 24.8 days: the age of one that lived longer would be too small.
pub(crate) const LIFETIME_MAX: Duration = Duration::from_millis((IS_STALE - 1) as u64);

impl CacheEntry {
    /// An answer whose query was made `lifetime` before it expires.
    pub(crate) fn new(key: &KeyRef<'_>, rows: RowSet, expires: Ticks, lifetime: Duration) -> Self {
        let size = key.heap_size() + rows_size(&rows);
        Self {
            rows,
            expiry: ExpiryAndSize::new(expires, size),
            version: key.version.version(),
            age_ms: Self::capped_ms(lifetime),
        }
    }

    /// As [`Self::new`], for an answer that is not cached.
    pub(crate) fn uncached(rows: RowSet, expires: Ticks, lifetime: Duration) -> Self {
        Self {
            rows,
            expiry: ExpiryAndSize::new(expires, usize::MAX),
            version: Version::UNTRACKED,
            age_ms: Self::capped_ms(lifetime),
        }
    }

    fn capped_ms(age: Duration) -> u32 {
        u32::try_from(age.as_millis()).map_or(IS_STALE - 1, |ms| ms.min(IS_STALE - 1))
    }

    /// The same entry, marked as stale.
    pub(crate) fn stale(mut self) -> Self {
        self.age_ms |= IS_STALE;
        self
    }

    /// Whether it is a stale answer, which replaces one that a failing server did not give.
    pub(crate) fn is_stale(&self) -> bool {
        self.age_ms & IS_STALE != 0
    }

    /// How long ago its query was made, in whole milliseconds, so that the rounding of ticks does
    /// not count as age.
    pub(crate) fn age(&self, now: Ticks) -> Duration {
        let at_expiry = Duration::from_millis((self.age_ms & !IS_STALE).into());
        // One of the two terms is zero: the entry expires later, or has expired.
        let expires = self.expiry.expires();
        let age = at_expiry.saturating_sub(now.until(expires)) + expires.until(now);
        Duration::from_millis(age.as_millis() as u64)
    }

    /// How long it remains fresh.
    pub(crate) fn fresh_for(&self, now: Ticks) -> Duration {
        now.until(self.expiry.expires())
    }

    /// Whether it has not expired.
    #[inline]
    pub(crate) fn is_fresh(&self, now: Ticks) -> bool {
        self.expiry.is_after(now)
    }

    /// Whether it answers a key: it has not expired, and its data has not changed.
    #[inline]
    pub(crate) fn answers(&self, key: &KeyRef<'_>, now: Ticks) -> bool {
        self.version == key.version.version() && self.is_fresh(now)
    }

    /// The version of its data.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The heap size of the answer and its key in bytes, rounded up.
    #[inline]
    fn size(&self) -> u64 {
        self.expiry.size()
    }
}

/// A hasher that returns the precomputed hash of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prehashed(u64);

impl BuildHasher for Prehashed {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Prehashed {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys bring a 64-bit hash along");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use lookaside_value::RowSetBuilder;

    use super::*;
    use crate::clock::Clock;

    /// A key of statement 0 with a chosen hash.
    pub(super) fn key(params: &[Value], hash: u64) -> KeyRef<'_> {
        KeyRef {
            hash,
            statement: StatementId::from_index(0),
            extent: Extent::First,
            version: DataVersion::UNTRACKED,
            params,
        }
    }

    pub(super) fn entry(key: KeyRef<'_>, text: &str) -> CacheEntry {
        let mut rows = RowSetBuilder::new(["v"]);
        rows.push([Value::from(text)]);
        let lifetime = Duration::from_secs(1);
        let expires = Clock::manual().now().after(lifetime);
        CacheEntry::new(&key, rows.build(), expires, lifetime)
    }

    #[test]
    fn an_entry_knows_its_age() {
        let clock = Clock::manual();
        let value = [Value::Int(1)];
        let fresh = entry(key(&value, 1), "x");
        assert_eq!(fresh.age(clock.now()), Duration::ZERO);
        clock.advance(Duration::from_millis(500));
        assert_eq!(fresh.age(clock.now()), Duration::from_millis(500));
        assert!(!fresh.is_stale());
        assert_eq!(fresh.fresh_for(clock.now()), Duration::from_millis(500));
        clock.advance(Duration::from_millis(1500));
        assert_eq!(fresh.age(clock.now()), Duration::from_secs(2));
        assert_eq!(fresh.fresh_for(clock.now()), Duration::ZERO);
        let rows = fresh.rows.clone();
        let expires = clock.now().after(Duration::from_secs(1));
        let lifetime = Duration::from_secs(90);
        let old = CacheEntry::new(&key(&value, 1), rows, expires, lifetime).stale();
        assert!(old.is_stale());
        assert_eq!(old.age(clock.now()), Duration::from_secs(89));
    }

    #[test]
    fn keys_are_compared_in_full() {
        let hasher = foldhash::quality::RandomState::default();
        let new = |index, extent, params| {
            KeyRef::new(&hasher, StatementId::from_index(index), extent, params)
        };
        let one = [Value::Int(1)];
        let text = [Value::from("1")];
        let two = [Value::Int(1), Value::Null];
        let base = new(0, Extent::First, &one);
        assert!(base.is(&base.to_key()));
        for other in [
            new(1, Extent::First, &one),
            new(0, Extent::All, &one),
            new(0, Extent::First, &text),
            new(0, Extent::First, &two),
        ] {
            let collided = KeyRef {
                hash: base.hash,
                ..other
            };
            assert!(!collided.is(&base.to_key()), "{:?}", other.params);
        }
    }
}
