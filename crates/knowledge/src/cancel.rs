//! Cancellation of queries: by their time limit, by the caller, or at the end of the program.
//!
//! SQLite calls a progress handler periodically, after a number of instructions of its virtual
//! machine; the handler checks a flag and the clock. A flag is used instead of `sqlite3_interrupt`,
//! which has no effect on a query that begins a moment later.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use crate::error::Error;

/// Virtual machine instructions between two calls of the progress handler: 20 to 100 µs. Measured
/// with callgrind, the handler adds less than 0.1 % to the instructions of a scan, and nothing to a
/// query by index, which ends earlier.
const PERIOD: c_int = 4000;

/// How often a caller that waits for another query, or for a provider, checks for cancellation.
pub(crate) const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Cancels the queries of one [`Session`](crate::Session), from any thread; a clone cancels the
/// same ones.
///
/// Cancelling is final: the running query fails with
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), and so does each later one of that
/// session that needs a database; a batch of [`Session::answer_each`](crate::Session::answer_each)
/// ends before its next set. Single lookups by native plans and caches are still answered. Other
/// sessions are not affected.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    own: AtomicBool,
    /// The flag of the engine, which cancels all its sessions.
    engine: Arc<AtomicBool>,
}

// Relaxed throughout: the flags do not order other accesses, and they are read again soon.
impl CancelHandle {
    /// A handle for one session of an engine.
    pub(crate) fn new(engine: &Arc<AtomicBool>) -> Self {
        Self(Arc::new(Flags {
            own: AtomicBool::new(false),
            engine: Arc::clone(engine),
        }))
    }

    /// Cancels the running query of the session and all later ones.
    pub fn cancel(&self) {
        self.0.own.store(true, Ordering::Relaxed);
    }

    /// Whether the session, or its whole engine, is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.own.load(Ordering::Relaxed) || self.0.engine.load(Ordering::Relaxed)
    }
}

/// Cancels when it is dropped before [`Self::disarm`], for a future whose work continues on a
/// thread after the future is dropped.
pub(crate) struct CancelOnDrop(Option<CancelHandle>);

impl CancelOnDrop {
    pub(crate) fn new(handle: CancelHandle) -> Self {
        Self(Some(handle))
    }

    /// Marks the work as done.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.cancel();
        }
    }
}

/// The limits of the queries on one connection, as its progress handler sees them.
#[derive(Debug)]
pub(crate) struct QueryGuard(Arc<Guarded>);

#[derive(Debug)]
struct Guarded {
    origin: Instant,
    /// Nanoseconds from `origin` to the first call of the handler in the running query; 0 before
    /// that. A query that ends earlier does not read the clock.
    began: AtomicU64,
    limit: Option<Duration>,
    cancel: CancelHandle,
}

impl QueryGuard {
    /// Guards the queries of a connection from now on.
    pub(crate) fn new(
        connection: &mut Connection,
        limit: Option<Duration>,
        cancel: CancelHandle,
    ) -> rusqlite::Result<Self> {
        let guarded = Arc::new(Guarded {
            origin: Instant::now(),
            began: AtomicU64::new(0),
            limit,
            cancel,
        });
        let handler = {
            let guarded = Arc::clone(&guarded);
            move || guarded.must_end()
        };
        connection.progress_handler(PERIOD, Some(handler))?;
        Ok(Self(guarded))
    }

    /// Resets the state at the beginning of a query. The handler runs on the thread of the query,
    /// so `Relaxed` is enough.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.began.store(0, Ordering::Relaxed);
    }

    /// The error of a statement that the handler ended; `None` if the handler did not end it.
    pub(crate) fn ended(&self, sql: &str, source: &rusqlite::Error) -> Option<Error> {
        if source.sqlite_error_code() != Some(ErrorCode::OperationInterrupted) {
            return None;
        }
        Some(match self.0.limit {
            Some(limit) if !self.0.cancel.is_cancelled() => Error::query_timeout(sql, limit),
            _ => Error::query_cancelled(sql),
        })
    }
}

impl Guarded {
    fn must_end(&self) -> bool {
        if self.cancel.is_cancelled() {
            return true;
        }
        let Some(limit) = self.limit else {
            return false;
        };
        let now = self.origin.elapsed();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(1);
        match self.began.load(Ordering::Relaxed) {
            0 => {
                self.began.store(nanos, Ordering::Relaxed);
                false
            }
            began => Duration::from_nanos(nanos.saturating_sub(began)) >= limit,
        }
    }
}
