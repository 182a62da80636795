//! What is known of a server that is unavailable.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::lock;
use crate::error::Error;

/// How long after a failure a server without a connection counts as unavailable.
const PERIOD: Duration = Duration::from_secs(30);

/// The last failure while there was no connection; none since the server has answered.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failure: Mutex<Option<(Instant, Error)>>,
    /// Whether there is a failure, so that answers take no lock. Relaxed throughout: a query that
    /// reads an old value only waits for longer or shorter than it could.
    is_recorded: AtomicBool,
}

impl Outage {
    pub(super) fn record(&self, error: Error) {
        let mut failure = lock(&self.failure);
        *failure = Some((Instant::now(), error));
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Ends it, as the server has answered.
    pub(super) fn end(&self) {
        if self.is_recorded.load(Ordering::Relaxed) {
            let mut failure = lock(&self.failure);
            *failure = None;
            self.is_recorded.store(false, Ordering::Relaxed);
        }
    }

    /// The failure, unless it is too old.
    pub(super) fn error(&self) -> Option<Error> {
        if !self.is_recorded.load(Ordering::Relaxed) {
            return None;
        }
        let failure = lock(&self.failure);
        let (at, error) = failure.as_ref()?;
        (at.elapsed() < PERIOD).then(|| error.clone())
    }
}
