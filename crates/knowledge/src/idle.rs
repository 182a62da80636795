//! Sessions that wait for the next caller of the convenience functions.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::Session;

/// Shelves, a power of two: threads share one only when there are more of them.
const SHELF_COUNT: usize = 16;

/// Sessions on a shelf; more callers at once make sessions of their own, which end with the call.
const SESSION_COUNT_MAX: usize = 8;

/// Sessions by the thread that used them last.
///
/// What a session keeps lies in the caches of the core that used it, and a lock that one thread
/// takes costs next to nothing: so a thread gets its own session back.
#[derive(Default)]
pub(crate) struct IdleSessions {
    shelves: [Shelf; SHELF_COUNT],
}

/// On cache lines of its own, or threads would wait for each other's locks after all.
#[derive(Default)]
#[repr(align(128))]
struct Shelf(Mutex<Vec<Session>>);

impl IdleSessions {
    /// A session that this thread used, or one that used the same shelf.
    pub(crate) fn take(&self) -> Option<Session> {
        self.shelf().pop()
    }

    /// Keeps a session, unless too many are kept already.
    pub(crate) fn put(&self, session: Session) {
        let mut shelf = self.shelf();
        // One from before a reload would keep the old tables in memory.
        if shelf.len() < SESSION_COUNT_MAX && session.is_current() {
            shelf.push(session);
        }
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        for shelf in &self.shelves {
            shelf.lock().clear();
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Vec<Session>> {
        self.shelves[thread_number() % SHELF_COUNT].lock()
    }
}

impl Shelf {
    /// No panic can leave the list half-done.
    fn lock(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads in the order in which they first asked.
fn thread_number() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            // Only the number itself has to be another one each time.
            let new = COUNT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        })
    })
}
