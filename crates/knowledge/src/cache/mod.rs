//! Answers of the database, kept: by one session, by all of them, or by a caller.
//!
//! All layers keep an [`Entry`], the rows and the moment they expire, under a [`Key`]. A key is found
//! by one hash, which is computed once, and then compared in full. Entries belong to one generation
//! of the tables: the shared layer lives and dies with it, a session empties its layer when it
//! meets a new one, and a caller's layer compares the number.

mod bounded;
mod budget;
mod call;
mod local;
mod shared;

use std::hash::{BuildHasher, Hash, Hasher};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use lookaside_value::{RowSet, StatementId, Value};
use quick_cache::Equivalent;

use crate::clock::Ticks;

pub(crate) use bounded::{BoundedCache, HeapSize, allocated, rows_size, value_size};
pub(crate) use budget::{CacheBytes, LocalBudget};
pub use call::CallCache;
pub(crate) use local::{LocalCache, SlotIndex};
pub(crate) use shared::{Flight, Leader, SharedCache};

/// How many of the rows an answer holds.
// Part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The first one.
    First,
    /// All.
    All,
}

/// A key by reference, with its hash, which is computed once for all layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyRef<'a> {
    pub(crate) hash: u64,
    statement: StatementId,
    pub(crate) extent: Extent,
    pub(crate) params: &'a [Value],
}

impl<'a> KeyRef<'a> {
    #[inline]
    pub(crate) fn new(
        hasher: &foldhash::quality::RandomState,
        statement: StatementId,
        extent: Extent,
        params: &'a [Value],
    ) -> Self {
        let mut state = hasher.build_hasher();
        state.write_usize(statement.index() * 2 + usize::from(extent == Extent::All));
        for param in params {
            param.hash(&mut state);
        }
        Self {
            hash: state.finish(),
            statement,
            extent,
            params,
        }
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
            // Two counters stand before shared values.
            params => allocated(size_of_val(params) + 2 * size_of::<usize>()),
        };
        own + self.params.iter().map(value_size).sum::<usize>()
    }

    #[inline]
    fn is(&self, key: &Key) -> bool {
        self.hash == key.hash
            && self.statement == key.statement
            && self.extent == key.extent
            && self.params == key.params.as_slice()
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

/// One answer: the rows, and until when they may be given out.
///
/// It stands by value in each layer, so that a hit reads the layer's slot and then the rows.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) rows: RowSet,
    expires: Ticks,
    /// Bytes on the heap of the answer and its key; capped, which no bound comes near.
    size: u32,
    /// How many milliseconds old the answer is at the moment it expires, capped at 24 days; the
    /// highest bit says that it stands in for one that a server did not give.
    age_ms: u32,
}

/// In [`Entry::age_ms`].
const IS_STALE: u32 = 1 << 31;

impl Entry {
    /// The answer to a question that was asked `lifetime` before it expires.
    pub(crate) fn new(key: &KeyRef<'_>, rows: RowSet, expires: Ticks, lifetime: Duration) -> Self {
        let size = key.heap_size() + rows_size(&rows);
        Self {
            rows,
            expires,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            age_ms: Self::capped_ms(lifetime),
        }
    }

    /// The answer to such a question that no cache takes.
    pub(crate) fn uncached(rows: RowSet, expires: Ticks, lifetime: Duration) -> Self {
        Self {
            rows,
            expires,
            size: u32::MAX,
            age_ms: Self::capped_ms(lifetime),
        }
    }

    fn capped_ms(age: Duration) -> u32 {
        u32::try_from(age.as_millis()).map_or(IS_STALE - 1, |ms| ms.min(IS_STALE - 1))
    }

    /// The same as an answer that stands in for a newer one.
    pub(crate) fn stale(mut self) -> Self {
        self.age_ms |= IS_STALE;
        self
    }

    /// Whether it stands in for an answer that a server did not give.
    pub(crate) fn is_stale(&self) -> bool {
        self.age_ms & IS_STALE != 0
    }

    /// How long ago it was asked for, in whole milliseconds, so that the rounding of ticks is not
    /// an age.
    pub(crate) fn age(&self, now: Ticks) -> Duration {
        let at_expiry = Duration::from_millis((self.age_ms & !IS_STALE).into());
        // One of the two is nothing: it expires later, or has expired.
        let age = at_expiry.saturating_sub(now.until(self.expires)) + self.expires.until(now);
        Duration::from_millis(age.as_millis() as u64)
    }

    /// For how long it may still be given out.
    pub(crate) fn fresh_for(&self, now: Ticks) -> Duration {
        now.until(self.expires)
    }

    #[inline]
    pub(crate) fn is_fresh(&self, now: Ticks) -> bool {
        now < self.expires
    }
}

/// Takes the hash that a key brings along.
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

    /// The key of statement 0 with one parameter, hashed to a chosen number.
    pub(super) fn key(params: &[Value], hash: u64) -> KeyRef<'_> {
        KeyRef {
            hash,
            statement: StatementId::from_index(0),
            extent: Extent::First,
            params,
        }
    }

    pub(super) fn entry(key: KeyRef<'_>, text: &str) -> Entry {
        let mut rows = RowSetBuilder::new(["v"]);
        rows.push([Value::from(text)]);
        let lifetime = Duration::from_secs(1);
        let expires = Clock::manual().now().after(lifetime);
        Entry::new(&key, rows.build(), expires, lifetime)
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
        let old = Entry::new(&key(&value, 1), rows, expires, lifetime).stale();
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
