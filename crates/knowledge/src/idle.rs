//! Sessions that wait for the next caller of the convenience functions.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::session::Session;

/// Shelves, a power of two: cores share one only when there are more of them.
const SHELF_COUNT: usize = 64;

/// How far apart a core's first choices of a shelf are: most machines have few cores, so these are
/// shelves of no other one.
const STRIDE: usize = 16;

/// Sessions on a shelf; more callers at once make sessions of their own, which end with the call.
const SESSION_COUNT_MAX: usize = 8;

/// Sessions by the core that used them last.
///
/// What a session keeps lies in the caches of the core that used it, and a lock that one core takes
/// costs next to nothing. By core and not by thread, so that many threads on a few cores do not
/// wash each other's sessions out of the caches.
pub(crate) struct IdleSessions {
    shelves: [Shelf; SHELF_COUNT],
}

/// On cache lines of its own, or cores would wait for each other's locks after all.
#[derive(Default)]
#[repr(align(128))]
struct Shelf(Mutex<Vec<Session>>);

impl IdleSessions {
    pub(crate) fn new() -> Self {
        Self {
            shelves: [const { Shelf(Mutex::new(Vec::new())) }; SHELF_COUNT],
        }
    }

    /// A session that this core used, or one that used the same shelf.
    pub(crate) fn take(&self) -> Option<Session> {
        self.shelf()?.pop()
    }

    /// Keeps a session, unless too many are kept already.
    pub(crate) fn put(&self, session: Session) {
        let Some(mut shelf) = self.shelf() else {
            return;
        };
        // One from before a reload would keep the old tables in memory.
        if shelf.len() < SESSION_COUNT_MAX && session.is_current() {
            shelf.push(session);
        }
    }

    /// Does something short with a session where it lies.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        make: impl FnOnce() -> Session,
        work: impl FnOnce(&mut Session) -> T,
    ) -> T {
        let Some(mut shelf) = self.shelf() else {
            return work(&mut make());
        };
        if shelf.is_empty() {
            shelf.push(make());
        }
        work(shelf.last_mut().expect("the shelf was just filled"))
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        for shelf in &self.shelves {
            shelf.lock().clear();
        }
    }

    /// A shelf that nobody uses at this moment, this core's if that is one: nobody waits for one.
    ///
    /// A thread that the system puts aside while it holds a shelf keeps it from the others. Where
    /// many threads do nothing but ask, most of those that do not run at a moment hold one, so all
    /// shelves are tried before a caller makes a session for one question.
    #[inline]
    fn shelf(&self) -> Option<MutexGuard<'_, Vec<Session>>> {
        let core = core_number();
        (0..SHELF_COUNT).find_map(|choice| {
            let index = core + choice * STRIDE + choice * STRIDE / SHELF_COUNT;
            self.shelves[index % SHELF_COUNT].try_lock()
        })
    }
}

impl Shelf {
    /// No panic can leave the list half-done.
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

/// The core that this runs on; another one a moment later, perhaps, which costs time and nothing
/// else.
#[cfg(target_os = "linux")]
#[inline]
fn core_number() -> usize {
    rustix::thread::sched_getcpu()
}

/// Where the system does not tell, a number of the thread.
#[cfg(not(target_os = "linux"))]
fn core_number() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static COUNT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Only the number itself has to be another one each time.
        static NUMBER: Cell<usize> = Cell::new(COUNT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

#[cfg(test)]
mod tests {
    use super::SHELF_COUNT;
    use crate::Knowledge;

    #[test]
    fn who_uses_a_session_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.sqlite");
        rusqlite::Connection::open(&path).unwrap();
        let knowledge = Knowledge::sqlite_builder(&path).open().unwrap();
        let count = || knowledge.snapshot().session_count;
        // Each within the one before, more deeply than there are shelves.
        fn nest(knowledge: &Knowledge, depth: usize) -> usize {
            knowledge.with_idle_session(|_| match depth {
                0 => knowledge.snapshot().session_count,
                _ => nest(knowledge, depth - 1),
            })
        }
        assert_eq!(nest(&knowledge, SHELF_COUNT), SHELF_COUNT + 1);
        // The one without a shelf is gone, the others are used again.
        assert_eq!(count(), SHELF_COUNT);
        knowledge.with_session(|_| {});
        knowledge.reload().unwrap();
        assert_eq!(count(), 0);
    }
}
