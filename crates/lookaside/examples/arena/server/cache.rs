//! Items as they were sent, for a fifth of a second, shared by all threads, and the reads that are
//! under way for them: while one is, others who want the item wait for it instead of asking.
//!
//! What is read from the database before a change and arrives after it must neither be kept nor be
//! told to those who ask after the change: whoever changes an item steps the epoch of its shard, and
//! what was asked for in an earlier epoch is not taken for that item any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// How long an item is answered without asking the database.
pub(super) const TTL: Duration = Duration::from_millis(200);

/// Threads seldom meet in one of so many.
const SHARD_COUNT: usize = 64;

/// How many items a shard holds before it drops those that are past their time.
const SHARD_SIZE_MAX: usize = 4096;

/// `W` is whoever waits for an item.
#[derive(Debug)]
pub(super) struct ItemCache<W> {
    shards: Vec<Mutex<Shard<W>>>,
}

#[derive(Debug)]
struct Shard<W> {
    entries: HashMap<i32, Entry>,
    /// The reads that whoever asks now may wait for.
    reads: HashMap<i32, Read<W>>,
    /// Those of items that have changed since. Who asked before still waits for them.
    outdated: Vec<(i32, Read<W>)>,
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

/// Of two reads of an item that are under way at once, one is from an earlier epoch.
#[derive(Debug)]
struct Read<W> {
    epoch: u64,
    waiting: Vec<W>,
}

#[derive(Debug)]
pub(super) enum Found<'a, W> {
    Hit(Arc<[u8]>),
    /// Nobody is reading it: whoever gets this does.
    Miss(Fill<W>),
    /// Somebody is.
    UnderWay(Queue<'a, W>),
}

/// The duty to read an item, and the leave to keep it. Who waits for it goes unanswered should this be
/// dropped.
#[derive(Debug)]
pub(super) struct Fill<W> {
    /// `None` when the read is over.
    cache: Option<Arc<ItemCache<W>>>,
    id: i32,
    epoch: u64,
}

/// Those who wait for a read, which cannot end meanwhile.
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
        // Nothing that runs under the lock leaves a shard half changed.
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

impl<W> Fill<W> {
    /// Keeps what was read, unless it may be from before a change, and gives those who wait for it.
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

    /// There is nothing to keep. Gives those who wait.
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

    /// Nobody may join a read that may be from before a change.
    fn part_with_outdated(&mut self, id: i32) {
        let changed = self.changed(id);
        if self.reads.get(&id).is_some_and(|read| read.epoch < changed)
            && let Some(read) = self.reads.remove(&id)
        {
            self.outdated.push((id, read));
        }
    }

    /// A read is over.
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
        // What brought nothing is asked again.
        let fill = miss(&cache, 65, now);
        join(&cache, 65, now, "c");
        assert_eq!(fill.end(), ["c"]);
        drop(miss(&cache, 65, now));
        drop(miss(&cache, 65, now));
    }

    /// Who asks after a change waits for a read that began after it.
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

    /// A change is not forgotten with the entry that knew of it.
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
