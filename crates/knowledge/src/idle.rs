//! Idle sessions, which are reused by the convenience functions.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::session::Session;

/// The number of shards, a power of two: cores share one only if there are more cores.
const SHARD_COUNT: usize = 64;

/// The distance between the shards that a core tries: most machines have few cores, so the further
/// shards belong to no other core.
const STRIDE: usize = 16;

/// The most sessions in a shard; further concurrent callers create sessions that end with the call.
const SESSION_COUNT_MAX: usize = 8;

/// Idle sessions, grouped by the core that used them last.
///
/// A session's data is in the CPU cache of the core that used it, and a lock that only one core
/// takes is nearly free. They are grouped by core and not by thread, so that many threads on a few
/// cores do not evict each other's sessions from the CPU caches.
pub(crate) struct IdleSessions {
    shards: [Shard; SHARD_COUNT],
}

/// On separate cache lines, as otherwise cores would contend for each other's locks.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Vec<Session>>);

impl IdleSessions {
    pub(crate) fn new() -> Self {
        Self {
            shards: [const { Shard(Mutex::new(Vec::new())) }; SHARD_COUNT],
        }
    }

    /// Takes a session from this core's shard.
    pub(crate) fn take(&self) -> Option<Session> {
        self.shard()?.pop()
    }

    /// Returns a session to the shard, unless the shard is full.
    pub(crate) fn put(&self, session: Session) {
        let Some(mut shard) = self.shard() else {
            return;
        };
        // A session from before a reload would keep the old tables in memory.
        if shard.len() < SESSION_COUNT_MAX && session.is_current() {
            shard.push(session);
        }
    }

    /// Calls `work`, which must be short, with a session that stays in its shard.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        make: impl FnOnce() -> Session,
        work: impl FnOnce(&mut Session) -> T,
    ) -> T {
        let Some(mut shard) = self.shard() else {
            return work(&mut make());
        };
        if shard.is_empty() {
            shard.push(make());
        }
        work(shard.last_mut().expect("the shard was just filled"))
    }

    /// Drops all idle sessions.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    /// Locks a shard that is not in use, preferably this core's, without waiting.
    ///
    /// A thread that is preempted while it holds a shard blocks it for the others. If many threads
    /// only query, most of the preempted ones hold a shard, so all shards are tried before a
    /// caller creates a session for one query.
    #[inline]
    fn shard(&self) -> Option<MutexGuard<'_, Vec<Session>>> {
        let core = core_number();
        (0..SHARD_COUNT).find_map(|choice| {
            let index = core + choice * STRIDE + choice * STRIDE / SHARD_COUNT;
            self.shards[index % SHARD_COUNT].try_lock()
        })
    }
}

impl Shard {
    /// A panic cannot leave the list inconsistent.
    fn lock(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, Vec<Session>>> {
        match self.0.try_lock() {
            Ok(list) => Some(list),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The number of the current core; it may be outdated at once, which only costs time.
#[cfg(target_os = "linux")]
#[inline]
fn core_number() -> usize {
    rustix::thread::sched_getcpu()
}

/// A number of the thread, where the system does not provide the core.
#[cfg(not(target_os = "linux"))]
fn core_number() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static COUNT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: the numbers only have to be distinct.
        static NUMBER: Cell<usize> = Cell::new(COUNT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

#[cfg(test)]
mod tests {
    use super::SHARD_COUNT;
    use crate::Knowledge;

    #[test]
    fn a_session_in_use_blocks_no_other_caller() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.sqlite");
        rusqlite::Connection::open(&path).unwrap();
        let knowledge = Knowledge::sqlite_builder(&path).open().unwrap();
        let count = || knowledge.snapshot().session_count;
        // Nested calls, more deeply than there are shards.
        fn nest(knowledge: &Knowledge, depth: usize) -> usize {
            knowledge.with_idle_session(|_| match depth {
                0 => knowledge.snapshot().session_count,
                _ => nest(knowledge, depth - 1),
            })
        }
        assert_eq!(nest(&knowledge, SHARD_COUNT), SHARD_COUNT + 1);
        // The session without a shard is dropped, the others are reused.
        assert_eq!(count(), SHARD_COUNT);
        knowledge.with_session(|_| {});
        knowledge.reload().unwrap();
        assert_eq!(count(), 0);
    }
}
