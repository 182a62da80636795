//! Items kept for 200 ms, encoded, by all threads together.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const KEPT: Duration = Duration::from_millis(200);
/// Threads that ask for different items seldom meet.
const SHARD_COUNT: usize = 64;

pub static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// What an update invalidated while it was being read is not kept: each shard counts its updates, and
/// a read keeps what it brings only where none came between.
pub struct Cache {
    shards: Vec<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    items: HashMap<i32, (Instant, Vec<u8>)>,
    updates: u64,
}

impl Default for Cache {
    fn default() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::default()).collect();
        Self { shards }
    }
}

impl Cache {
    fn shard(&self, id: i32) -> MutexGuard<'_, Kept> {
        let shard = &self.shards[id as usize % SHARD_COUNT];
        shard.lock().expect("nothing panics while it is held")
    }

    /// What is kept, or what to say when it is read.
    pub fn find(&self, id: i32) -> Result<Vec<u8>, u64> {
        let shard = self.shard(id);
        match shard.items.get(&id) {
            Some((until, item)) if *until > Instant::now() => Ok(item.clone()),
            _ => Err(shard.updates),
        }
    }

    pub fn keep(&self, id: i32, updates: u64, item: Vec<u8>) {
        let mut shard = self.shard(id);
        if shard.updates == updates {
            shard.items.insert(id, (Instant::now() + KEPT, item));
        }
    }

    pub fn forget(&self, id: i32) {
        let mut shard = self.shard(id);
        shard.updates += 1;
        shard.items.remove(&id);
    }
}
