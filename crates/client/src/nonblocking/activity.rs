//! When a connection last sent or received something.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Written by the task that owns the socket, and read by callers that wait for the server.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Nanoseconds from the start to the last transfer.
    last: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Bytes were sent or received.
    pub(super) fn mark(&self, now: Instant) {
        let age = now.saturating_duration_since(self.start);
        // It overflows after five centuries. Relaxed, because nothing but the time is shared.
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.last.store(age, Ordering::Relaxed);
    }

    /// When bytes were last sent or received.
    pub(super) fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}
