//! The cache of encoded bodies of one I/O thread: a hit is a hash, a comparison and a copy.
//!
//! A body's key is the lookup, the format and the query as the client wrote it, so a hit does not
//! even parse the parameters. A body is valid for one generation of the tables and, if it depends
//! on the time, for the lifetime that its lookup sets. No lock is taken and nothing is shared; on a
//! miss, the rows are usually in a cache that is shared.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use lookaside_http::negotiate::Encoding;
use lookaside_knowledge::DataVersion;

use super::encode::BodyFormat;
use super::tag::Tag;

/// Larger bodies are not cached: copying one takes as long as encoding it.
const BODY_SIZE_MAX: usize = 64 << 10;

/// A longer query is unlikely to be repeated.
const QUERY_SIZE_MAX: usize = 1024;

/// The overhead of a cached answer in bytes.
const OVERHEAD: u64 = 160;

/// Bodies of one I/O thread, in two-way sets; the more recently used one is first.
pub(crate) struct AnswerCache {
    hasher: RandomState,
    /// Empty until the first answer: a server with native plans only needs none.
    slots: Box<[Option<Slot>]>,
    slot_count: usize,
    /// Bytes of all slots together.
    size: u64,
    size_max: u64,
    rng_state: u32,
}

struct Slot {
    hash: u64,
    lookup: u32,
    format: BodyFormat,
    coding: Encoding,
    query: Box<str>,
    answer: Answer,
}

/// One encoded answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    /// Whether there is a row; otherwise the body is a problem.
    pub(crate) is_found: bool,
    /// The generation of the tables that it is from.
    pub(crate) generation: u64,
    /// `None` if it depends on the tables only.
    pub(crate) expiry: Option<Expiry>,
}

/// The age and lifetime of an answer that depends on the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    /// How old the answer was.
    pub(crate) age: Duration,
    /// When it had this age.
    pub(crate) at: Instant,
    pub(crate) expires: Instant,
    /// A validator made from the body; `None` for a stale answer.
    pub(crate) tag: Option<Tag>,
    /// The version of the data that the answer depends on.
    pub(crate) version: DataVersion,
    /// Whether it replaces one that a failing server did not give.
    pub(crate) is_stale: bool,
    /// The moment that it was fresh as of; `None` for a stale answer, which includes nothing for
    /// certain.
    pub(crate) fresh_as_of: Option<Instant>,
}

impl Expiry {
    /// How old the answer is, and for how long it remains valid.
    pub(crate) fn freshness(&self, now: Instant) -> (Duration, Duration) {
        // A change may end the validity of an answer that a change feed follows at any time.
        let rest = match self.version.is_tracked() {
            true => Duration::ZERO,
            false => self.expires.saturating_duration_since(now),
        };
        (self.age(now), rest)
    }

    /// How old the answer is.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.age + now.saturating_duration_since(self.at)
    }
}

/// The key of a cached answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) lookup: u32,
    pub(crate) format: BodyFormat,
    /// The coding of the body; each coding is a separate entry.
    pub(crate) coding: Encoding,
    pub(crate) query: &'a str,
}

impl AnswerCache {
    /// Creates a cache of about `size_max` bytes.
    pub(crate) fn new(size_max: u64) -> Self {
        // The count assumes answers of a few hundred bytes; it is a power of two, so that a mask
        // selects the set.
        let count = match (size_max / 512).min(1 << 20) {
            0 => 0,
            count => count.next_power_of_two().max(2),
        };
        Self {
            hasher: RandomState::default(),
            slots: Box::default(),
            slot_count: count as usize,
            size: 0,
            size_max,
            rng_state: 0x9e37_79b9,
        }
    }

    fn hash(&self, key: Key<'_>) -> u64 {
        let mut state = self.hasher.build_hasher();
        state.write_u32(key.lookup);
        key.format.hash(&mut state);
        state.write(key.query.as_bytes());
        // The identity coding, which is looked up first, does not change the hash. Codings of one
        // answer are in different sets, so they do not evict each other.
        let coding = (key.coding as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state.finish() ^ coding
    }

    fn first_slot(&self, hash: u64) -> usize {
        (hash as usize & (self.slots.len() / 2 - 1)) * 2
    }

    /// Returns the answer of a key if it is still valid; `may_reuse` decides on one that depends on
    /// the time and has not expired.
    #[inline]
    pub(crate) fn find(
        &mut self,
        key: Key<'_>,
        generation: u64,
        now: Instant,
        may_reuse: impl Fn(&Expiry) -> bool,
    ) -> Option<&Answer> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = self.hash(key);
        let first = self.first_slot(hash);
        let found = (first..first + 2).find(|slot| {
            self.slots[*slot]
                .as_ref()
                .is_some_and(|slot| slot.is(hash, key) && slot.answer.is_right(generation, now))
        })?;
        let expiry = self.slots[found].as_ref()?.answer.expiry.as_ref();
        if !expiry.is_none_or(may_reuse) {
            return None;
        }
        if found != first {
            self.slots.swap(first, found);
        }
        self.slots[first].as_ref().map(|slot| &slot.answer)
    }

    /// Stores an answer, possibly evicting another one, unless it has already expired.
    pub(crate) fn keep(&mut self, key: Key<'_>, answer: &Answer, now: Instant) {
        if self.slot_count == 0
            || answer.body.len() > BODY_SIZE_MAX
            || key.query.len() > QUERY_SIZE_MAX
            || !answer.is_right(answer.generation, now)
        {
            return;
        }
        if self.slots.is_empty() {
            let mut slots = Vec::new();
            slots.resize_with(self.slot_count, || None);
            self.slots = slots.into();
        }
        let hash = self.hash(key);
        let first = self.first_slot(hash);
        let generation = answer.generation;
        let is_free = |slot: &Option<Slot>| {
            slot.as_ref()
                .is_none_or(|slot| slot.is(hash, key) || !slot.answer.is_right(generation, now))
        };
        let place = match (is_free(&self.slots[first]), is_free(&self.slots[first + 1])) {
            (true, _) => first,
            (false, true) => first + 1,
            // Random admission: repeated queries are soon admitted, and one-time queries rarely
            // evict them.
            (false, false) if self.admits() => first + 1,
            (false, false) => return,
        };
        let slot = Slot {
            hash,
            lookup: key.lookup,
            format: key.format,
            coding: key.coding,
            query: key.query.into(),
            answer: Answer {
                // Copied to its exact size: the original has spare capacity.
                body: answer.body.as_slice().to_vec(),
                ..*answer
            },
        };
        self.size += slot.size();
        if let Some(old) = self.slots[place].replace(slot) {
            self.size -= old.size();
        }
        if self.size > self.size_max {
            // The answers are larger than assumed: some are evicted, in no particular order.
            self.drop_some(place);
        }
    }

    fn drop_some(&mut self, kept: usize) {
        let count = self.slots.len();
        let start = self.rng_state as usize;
        for step in 0..count {
            let index = start.wrapping_add(step) & (count - 1);
            if self.size <= self.size_max - self.size_max / 8 {
                break;
            }
            if index != kept
                && let Some(old) = self.slots[index].take()
            {
                self.size -= old.size();
            }
        }
    }

    /// Clears the cache: lookups have other numbers now.
    pub(crate) fn clear(&mut self) {
        self.slots = Box::default();
        self.size = 0;
    }

    /// Admits one in four, by Marsaglia's xorshift.
    fn admits(&mut self) -> bool {
        self.rng_state ^= self.rng_state << 13;
        self.rng_state ^= self.rng_state >> 17;
        self.rng_state ^= self.rng_state << 5;
        self.rng_state.is_multiple_of(4)
    }
}

impl Slot {
    fn is(&self, hash: u64, key: Key<'_>) -> bool {
        self.hash == hash
            && self.lookup == key.lookup
            && self.format == key.format
            && self.coding == key.coding
            && *self.query == *key.query
    }

    fn size(&self) -> u64 {
        OVERHEAD + self.query.len() as u64 + self.answer.body.len() as u64
    }
}

impl Answer {
    fn is_right(&self, generation: u64, now: Instant) -> bool {
        self.generation == generation
            && self
                .expiry
                .as_ref()
                .is_none_or(|expiry| now < expiry.expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str, generation: u64, expires: Option<Instant>) -> Answer {
        Answer {
            body: body.as_bytes().to_vec(),
            is_found: true,
            generation,
            expiry: expires.map(|expires| Expiry {
                age: Duration::ZERO,
                at: expires,
                expires,
                tag: None,
                version: DataVersion::default(),
                is_stale: false,
                fresh_as_of: None,
            }),
        }
    }

    fn key(query: &str) -> Key<'_> {
        Key {
            lookup: 0,
            format: BodyFormat::Json,
            coding: Encoding::Identity,
            query,
        }
    }

    #[test]
    fn an_answer_is_found_by_all_of_its_key_while_it_is_right() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut answers = AnswerCache::new(1 << 20);
        answers.keep(key("id=1"), &answer("a", 1, None), now);
        answers.keep(key("id=2"), &answer("b", 1, Some(later)), now);
        let body = |answers: &mut AnswerCache, key, generation, now| {
            let found = answers.find(key, generation, now, |_| true)?;
            Some(String::from_utf8(found.body.to_vec()).unwrap())
        };
        assert_eq!(body(&mut answers, key("id=1"), 1, later), Some("a".into()));
        assert_eq!(body(&mut answers, key("id=1"), 2, now), None);
        assert_eq!(body(&mut answers, key("id=2"), 1, now), Some("b".into()));
        assert_eq!(body(&mut answers, key("id=2"), 1, later), None);
        assert_eq!(body(&mut answers, key("id=3"), 1, now), None);
        for other in [
            Key {
                lookup: 1,
                ..key("id=1")
            },
            Key {
                format: BodyFormat::Csv,
                ..key("id=1")
            },
            Key {
                coding: Encoding::Gzip,
                ..key("id=1")
            },
        ] {
            assert_eq!(body(&mut answers, other, 1, now), None);
        }
        answers.clear();
        assert_eq!(body(&mut answers, key("id=1"), 1, now), None);
        assert_eq!(answers.size, 0);
        answers.keep(key("id=2"), &answer("b", 1, Some(later)), later);
        assert_eq!(answers.size, 0, "it was too old when it came");
    }

    #[test]
    fn bytes_are_bounded_and_a_cache_may_be_none() {
        let now = Instant::now();
        let mut answers = AnswerCache::new(1 << 20);
        let body = "x".repeat(8000);
        for id in 0..10_000 {
            answers.keep(key(&format!("id={id}")), &answer(&body, 1, None), now);
            assert!(answers.size <= 1 << 20, "{}", answers.size);
        }
        let slots = answers.slots.iter().flatten();
        assert_eq!(slots.map(Slot::size).sum::<u64>(), answers.size);
        assert!(answers.size > 1 << 18, "{}", answers.size);
        answers.keep(
            key("large"),
            &answer(&"x".repeat(BODY_SIZE_MAX + 1), 1, None),
            now,
        );
        assert!(answers.find(key("large"), 1, now, |_| true).is_none());
        let mut none = AnswerCache::new(0);
        none.keep(key("a"), &answer("a", 1, None), now);
        assert!(none.find(key("a"), 1, now, |_| true).is_none());
    }
}
