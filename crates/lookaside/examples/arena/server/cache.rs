//! Items as they were sent, for a fifth of a second, shared by all threads.
//!
//! What is read from the database before a change and arrives after it must not be kept: whoever
//! changes an item steps the epoch of its shard, and what was asked for in an earlier epoch is not
//! taken for that item any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// How long an item is answered without asking the database.
pub(super) const TTL: Duration = Duration::from_millis(200);

/// Threads seldom meet in one of so many.
const SHARD_COUNT: usize = 64;

/// How many items a shard holds before it drops those that are past their time.
const SHARD_SIZE_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct ItemCache {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<i32, Entry>,
    /// Steps with each change.
    epoch: u64,
    /// The last change of an item that has no entry is not after this.
    floor: u64,
}

#[derive(Debug)]
struct Entry {
    body: Option<Arc<[u8]>>,
    expires: Instant,
    /// The epoch that the last change began.
    changed: u64,
}

/// The leave to keep an item that is about to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    id: i32,
    epoch: u64,
}

#[derive(Debug)]
pub(super) enum Found {
    Hit(Arc<[u8]>),
    Miss(Fill),
}

impl ItemCache {
    pub(super) fn new() -> Self {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARD_COUNT);
        Self {
            shards: shards.collect(),
        }
    }

    fn shard(&self, id: i32) -> MutexGuard<'_, Shard> {
        let index = id as u32 as usize % SHARD_COUNT;
        // Nothing that runs under the lock leaves a shard half changed.
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: i32, now: Instant) -> Found {
        let shard = self.shard(id);
        if let Some(entry) = shard.entries.get(&id)
            && entry.expires > now
            && let Some(body) = &entry.body
        {
            return Found::Hit(Arc::clone(body));
        }
        Found::Miss(Fill {
            id,
            epoch: shard.epoch,
        })
    }

    /// Keeps what was read, unless it may be from before a change.
    pub(super) fn fill(&self, fill: Fill, body: &[u8], now: Instant) {
        let mut shard = self.shard(fill.id);
        let changed = shard.entries.get(&fill.id).map(|entry| entry.changed);
        let changed = changed.unwrap_or(shard.floor);
        if changed > fill.epoch {
            return;
        }
        shard.make_room(now);
        let entry = Entry {
            body: Some(body.into()),
            expires: now + TTL,
            changed,
        };
        shard.entries.insert(fill.id, entry);
    }

    /// The item has been changed, or may have been.
    pub(super) fn invalidate(&self, id: i32, now: Instant) {
        let mut shard = self.shard(id);
        shard.make_room(now);
        shard.epoch += 1;
        let entry = Entry {
            body: None,
            expires: now,
            changed: shard.epoch,
        };
        shard.entries.insert(id, entry);
    }
}

impl Shard {
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < SHARD_SIZE_MAX {
            return;
        }
        let mut floor = self.floor;
        self.entries.retain(|_, entry| {
            let stays = entry.expires > now;
            if !stays {
                floor = floor.max(entry.changed);
            }
            stays
        });
        self.floor = floor;
        if self.entries.len() == SHARD_SIZE_MAX {
            self.entries.clear();
            self.floor = self.epoch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(cache: &ItemCache, id: i32, now: Instant) -> Fill {
        match cache.find(id, now) {
            Found::Miss(fill) => fill,
            Found::Hit(body) => panic!("there is {body:?}"),
        }
    }

    fn is_hit(cache: &ItemCache, id: i32, now: Instant) -> bool {
        matches!(cache.find(id, now), Found::Hit(_))
    }

    #[test]
    fn items_are_kept_for_a_fifth_of_a_second() {
        let (cache, now) = (ItemCache::new(), Instant::now());
        cache.fill(miss(&cache, 1, now), b"one", now);
        assert!(is_hit(&cache, 1, now + Duration::from_millis(199)));
        assert!(!is_hit(&cache, 1, now + Duration::from_millis(200)));
        assert!(!is_hit(&cache, 65, now), "of the same shard");
    }

    #[test]
    fn what_arrives_after_a_change_is_not_kept() {
        let (cache, now) = (ItemCache::new(), Instant::now());
        let early = miss(&cache, 1, now);
        let neighbour = miss(&cache, 65, now);
        cache.invalidate(1, now);
        cache.fill(early, b"old", now);
        assert!(!is_hit(&cache, 1, now));
        cache.fill(neighbour, b"other", now);
        assert!(is_hit(&cache, 65, now), "the neighbour was not changed");
        let late = miss(&cache, 1, now);
        cache.fill(late, b"new", now);
        assert!(is_hit(&cache, 1, now));
        cache.fill(early, b"old", now);
        assert!(matches!(cache.find(1, now), Found::Hit(body) if *body == *b"new"));
        cache.invalidate(1, now);
        assert!(!is_hit(&cache, 1, now));
    }

    /// A change is not forgotten with the entry that knew of it.
    #[test]
    fn changes_outlive_their_entries() {
        let (cache, now) = (ItemCache::new(), Instant::now());
        let early = miss(&cache, 64, now);
        cache.invalidate(64, now);
        let later = now + TTL;
        for index in 2..=2 * SHARD_SIZE_MAX as i32 {
            let id = index * 64;
            let fill = miss(&cache, id, later);
            cache.fill(fill, b"x", later);
        }
        assert!(cache.shard(64).entries.len() <= SHARD_SIZE_MAX);
        assert!(!cache.shard(64).entries.contains_key(&64));
        cache.fill(early, b"old", later);
        assert!(!is_hit(&cache, 64, later));
        cache.fill(miss(&cache, 64, later), b"new", later);
        assert!(is_hit(&cache, 64, later));
    }
}
