//! A cache of encoded items, valid for 200 ms and shared by all threads, with single-flight reads:
//! while an item is read, other requests for it wait for that read instead of querying.
//!
//! A row that was read before a change and arrives after it must neither be cached nor be sent to
//! requests that came after the change. So each change increments the epoch of the item's shard,
//! and rows queried in an earlier epoch are no longer used for that item.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// How long a cached item is valid.
pub(super) const TTL: Duration = Duration::from_millis(200);

/// With this many shards, threads rarely contend for one.
const SHARD_COUNT: usize = 64;

/// How many items a shard holds before it drops the expired ones.
const SHARD_SIZE_MAX: usize = 4096;

/// `W` represents a request that waits for an item.
#[derive(Debug)]
pub(super) struct ItemCache<W> {
    shards: Vec<Mutex<Shard<W>>>,
}

#[derive(Debug)]
struct Shard<W> {
    entries: HashMap<i32, Entry>,
    /// The reads that new requests may join.
    reads: HashMap<i32, Read<W>>,
    /// Reads of items that have changed since. Earlier requests still wait for them.
    outdated: Vec<(i32, Read<W>)>,
    /// Incremented by each change.
    epoch: u64,
    /// An upper bound of the last change of all items without an entry.
    floor: u64,
}

#[derive(Debug)]
struct Entry {
    body: Option<Arc<[u8]>>,
    expires: Instant,
    /// The epoch that the last change of the item began.
    changed: u64,
}

/// Concurrent reads of one item have different epochs.
#[derive(Debug)]
struct Read<W> {
    epoch: u64,
    waiting: Vec<W>,
}

#[derive(Debug)]
pub(super) enum Found<'a, W> {
    Hit(Arc<[u8]>),
    /// The item is not being read: the caller must read it.
    Miss(Fill<W>),
    /// The item is being read.
    UnderWay(Queue<'a, W>),
}

/// The obligation to read an item, and the permission to cache it. If this is dropped, the requests
/// that wait for it stay unanswered.
#[derive(Debug)]
pub(super) struct Fill<W> {
    /// `None` when the read is over.
    cache: Option<Arc<ItemCache<W>>>,
    id: i32,
    epoch: u64,
}

/// The requests that wait for a read, which cannot end while this is held.
#[derive(Debug)]
pub(super) struct Queue<'a, W> {
    shard: MutexGuard<'a, Shard<W>>,
    id: i32,
}

impl<W> ItemCache<W> {
    pub(super) fn new() -> Self {
        let shards = std::iter::repeat_with(|| {
            Mutex::new(Shard {
                entries: HashMap::new(),
                reads: HashMap::new(),
                outdated: Vec::new(),
                epoch: 0,
                floor: 0,
            })
        });
        Self {
            shards: shards.take(SHARD_COUNT).collect(),
        }
    }

    fn shard(&self, id: i32) -> MutexGuard<'_, Shard<W>> {
        let index = id as u32 as usize % SHARD_COUNT;
        // No panic under the lock leaves a shard inconsistent.
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(self: &Arc<Self>, id: i32, now: Instant) -> Found<'_, W> {
        let mut shard = self.shard(id);
        if let Some(entry) = shard.entries.get(&id)
            && entry.expires > now
            && let Some(body) = &entry.body
        {
            return Found::Hit(Arc::clone(body));
        }
        shard.part_with_outdated(id);
        if shard.reads.contains_key(&id) {
            return Found::UnderWay(Queue { shard, id });
        }
        let epoch = shard.epoch;
        let waiting = Vec::new();
        shard.reads.insert(id, Read { epoch, waiting });
        Found::Miss(Fill {
            cache: Some(Arc::clone(self)),
            id,
            epoch,
        })
    }

    /// Marks an item as changed, or possibly changed.
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

impl<W> Fill<W> {
    /// Caches the row that was read, unless it may predate a change, and returns the requests that
    /// wait for it.
    pub(super) fn keep(mut self, body: &[u8], now: Instant) -> Vec<W> {
        let Some(cache) = self.cache.take() else {
            return Vec::new();
        };
        let mut shard = cache.shard(self.id);
        let changed = shard.changed(self.id);
        if changed <= self.epoch {
            shard.make_room(now);
            let entry = Entry {
                body: Some(body.into()),
                expires: now + TTL,
                changed,
            };
            shard.entries.insert(self.id, entry);
        }
        shard.end(self.id, self.epoch)
    }

    /// Ends the read without a row, and returns the waiting requests.
    pub(super) fn end(mut self) -> Vec<W> {
        self.take_waiting()
    }

    fn take_waiting(&mut self) -> Vec<W> {
        match self.cache.take() {
            Some(cache) => cache.shard(self.id).end(self.id, self.epoch),
            None => Vec::new(),
        }
    }
}

impl<W> Drop for Fill<W> {
    fn drop(&mut self) {
        drop(self.take_waiting());
    }
}

impl<W> Queue<'_, W> {
    pub(super) fn join(mut self, waiting: W) {
        let read = self.shard.reads.get_mut(&self.id);
        let read = read.expect("the shard was locked since the read was found");
        read.waiting.push(waiting);
    }
}

impl<W> Shard<W> {
    /// The epoch of the item's last change, or a later one.
    fn changed(&self, id: i32) -> u64 {
        let entry = self.entries.get(&id);
        entry.map_or(self.floor, |entry| entry.changed)
    }

    /// Makes a read that may predate a change unavailable to new requests.
    fn part_with_outdated(&mut self, id: i32) {
        let changed = self.changed(id);
        if self.reads.get(&id).is_some_and(|read| read.epoch < changed)
            && let Some(read) = self.reads.remove(&id)
        {
            self.outdated.push((id, read));
        }
    }

    /// Removes a finished read, and returns its waiting requests.
    fn end(&mut self, id: i32, epoch: u64) -> Vec<W> {
        let read = match self.reads.get(&id) {
            Some(read) if read.epoch == epoch => self.reads.remove(&id),
            _ => {
                let mut outdated = self.outdated.iter();
                let index = outdated.position(|(other, read)| *other == id && read.epoch == epoch);
                index.map(|index| self.outdated.swap_remove(index).1)
            }
        };
        read.map_or_else(Vec::new, |read| read.waiting)
    }

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

    type Cache = Arc<ItemCache<&'static str>>;

    fn new() -> (Cache, Instant) {
        (Arc::new(ItemCache::new()), Instant::now())
    }

    fn miss(cache: &Cache, id: i32, now: Instant) -> Fill<&'static str> {
        match cache.find(id, now) {
            Found::Miss(fill) => fill,
            other => panic!("there is {other:?}"),
        }
    }

    fn join(cache: &Cache, id: i32, now: Instant, who: &'static str) {
        match cache.find(id, now) {
            Found::UnderWay(queue) => queue.join(who),
            other => panic!("there is {other:?}"),
        }
    }

    fn is_hit(cache: &Cache, id: i32, now: Instant) -> bool {
        matches!(cache.find(id, now), Found::Hit(_))
    }

    #[test]
    fn items_are_kept_for_a_fifth_of_a_second() {
        let (cache, now) = new();
        assert!(miss(&cache, 1, now).keep(b"one", now).is_empty());
        assert!(is_hit(&cache, 1, now + Duration::from_millis(199)));
        assert!(!is_hit(&cache, 1, now + Duration::from_millis(200)));
        assert!(!is_hit(&cache, 65, now), "of the same shard");
    }

    #[test]
    fn what_arrives_after_a_change_is_not_kept() {
        let (cache, now) = new();
        let early = miss(&cache, 1, now);
        let neighbour = miss(&cache, 65, now);
        cache.invalidate(1, now);
        let late = miss(&cache, 1, now);
        early.keep(b"old", now);
        join(&cache, 1, now, "it is not kept");
        neighbour.keep(b"other", now);
        assert!(is_hit(&cache, 65, now), "the neighbour was not changed");
        late.keep(b"new", now);
        assert!(matches!(cache.find(1, now), Found::Hit(body) if *body == *b"new"));
        cache.invalidate(1, now);
        assert!(!is_hit(&cache, 1, now));
    }

    #[test]
    fn what_arrives_after_a_newer_one_does_not_replace_it() {
        let (cache, now) = new();
        let early = miss(&cache, 1, now);
        cache.invalidate(1, now);
        miss(&cache, 1, now).keep(b"new", now);
        early.keep(b"old", now);
        assert!(matches!(cache.find(1, now), Found::Hit(body) if *body == *b"new"));
    }

    #[test]
    fn who_asks_while_an_item_is_read_waits() {
        let (cache, now) = new();
        let fill = miss(&cache, 1, now);
        join(&cache, 1, now, "a");
        join(&cache, 1, now, "b");
        let other = miss(&cache, 65, now);
        assert_eq!(fill.keep(b"one", now), ["a", "b"]);
        assert!(other.end().is_empty());
        // After a read without a result, the next request is a miss again.
        let fill = miss(&cache, 65, now);
        join(&cache, 65, now, "c");
        assert_eq!(fill.end(), ["c"]);
        drop(miss(&cache, 65, now));
        drop(miss(&cache, 65, now));
    }

    /// A request after a change waits for a read that began after it.
    #[test]
    fn nobody_joins_a_read_from_before_a_change() {
        let (cache, now) = new();
        let first = miss(&cache, 1, now);
        join(&cache, 1, now, "before");
        cache.invalidate(1, now);
        let second = miss(&cache, 1, now);
        join(&cache, 1, now, "between");
        cache.invalidate(1, now);
        let third = miss(&cache, 1, now);
        join(&cache, 1, now, "after");
        assert_eq!(second.keep(b"2", now), ["between"]);
        assert_eq!(third.keep(b"3", now), ["after"]);
        assert_eq!(first.keep(b"1", now), ["before"]);
        assert!(matches!(cache.find(1, now), Found::Hit(body) if *body == *b"3"));
        let shard = cache.shard(1);
        assert!(shard.reads.is_empty() && shard.outdated.is_empty());
    }

    /// A change is still effective after its entry was dropped.
    #[test]
    fn changes_outlive_their_entries() {
        let (cache, now) = new();
        let early = miss(&cache, 64, now);
        cache.invalidate(64, now);
        let later = now + TTL;
        for index in 2..=2 * SHARD_SIZE_MAX as i32 {
            let id = index * 64;
            miss(&cache, id, later).keep(b"x", later);
        }
        assert!(cache.shard(64).entries.len() <= SHARD_SIZE_MAX);
        assert!(!cache.shard(64).entries.contains_key(&64));
        let late = miss(&cache, 64, later);
        early.keep(b"old", later);
        assert!(!is_hit(&cache, 64, later));
        late.keep(b"new", later);
        assert!(is_hit(&cache, 64, later));
    }
}
