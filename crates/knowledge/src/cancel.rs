//! What ends a query before its answer is there: its time limit, its caller, or the end of the
//! program.
//!
//! SQLite calls a progress handler every so many instructions of its virtual machine; the handler
//! looks at a flag and at the clock. A flag and not `sqlite3_interrupt`, which has no effect on a
//! query that begins a moment later.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use crate::error::Error;

/// Virtual machine instructions between two calls of the progress handler: 20 to 100 µs. Measured
/// with callgrind, the handler adds less than 0.1 % to the instructions of a scan, and nothing to a
/// query by index, which is over before.
const PERIOD: c_int = 4000;

/// How often a caller that waits for another query, or for a provider, checks for cancellation.
pub(crate) const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Cancels the queries of one [`Session`](crate::Session), from any thread; a clone cancels the
/// same ones.
///
/// Cancelling is final: the query that runs fails with
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), and so does each later one of that session
/// that asks a database; a batch of [`Session::answer_each`](crate::Session::answer_each) ends before
/// its next set. Single native plans and caches go on answering. Other sessions are not affected.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    own: AtomicBool,
    /// Of the engine, whose cancellation is that of all its sessions.
    engine: Arc<AtomicBool>,
}

// Relaxed throughout: the flags order nothing, and who reads them reads them again soon.
impl CancelHandle {
    /// A handle for one session of an engine.
    pub(crate) fn new(engine: &Arc<AtomicBool>) -> Self {
        Self(Arc::new(Flags {
            own: AtomicBool::new(false),
            engine: Arc::clone(engine),
        }))
    }

    /// Cancels what the session asks and will ask.
    pub fn cancel(&self) {
        self.0.own.store(true, Ordering::Relaxed);
    }

    /// Whether the session, or all sessions of its engine, are cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.own.load(Ordering::Relaxed) || self.0.engine.load(Ordering::Relaxed)
    }
}

/// Cancels when it is dropped before [`Self::disarm`]: where a future is dropped whose work goes on
/// in a thread.
pub(crate) struct CancelOnDrop(Option<CancelHandle>);

impl CancelOnDrop {
    pub(crate) fn new(handle: CancelHandle) -> Self {
        Self(Some(handle))
    }

    /// The work is done.
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
    /// Nanoseconds from `origin` to the first call of the handler in the query that runs; 0 before
    /// it. A query that ends before that reads no clock.
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

    /// Notes that another query begins. The handler runs on the thread of the query, so `Relaxed`
    /// is enough.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.began.store(0, Ordering::Relaxed);
    }

    /// Why a statement failed that was ended by the handler; nothing if it was not.
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
