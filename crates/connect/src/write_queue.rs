//! What a sink shares with the thread that writes: what is under way, refused and failed.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lookaside_stream::{RefusedMessage, StopFlag};

/// How often a wait looks whether the run gives up.
const WAIT: Duration = Duration::from_millis(100);

/// The state of a sink whose messages a thread of its own writes.
#[derive(Default)]
pub(crate) struct WriteState {
    state: Mutex<State>,
    /// Signals that the state changed.
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// How many bytes were passed to the thread and are not written.
    under_way_size: usize,
    refused: Vec<RefusedMessage>,
    /// Why nothing can be written at all.
    failure: Option<String>,
    /// Whether the sink is being dropped.
    pub(crate) is_closing: bool,
}

impl WriteState {
    /// Takes `size` bytes once no more than `size_max` are under way with them. What is larger is
    /// taken alone.
    ///
    /// # Errors
    /// When nothing can be written, or with [`io::ErrorKind::Interrupted`] when the run gives up.
    pub(crate) fn begin(
        &self,
        size: usize,
        size_max: usize,
        give_up: Option<&StopFlag>,
    ) -> io::Result<()> {
        let mut state = self.wait_until_under_way(size_max.saturating_sub(size), give_up)?;
        state.under_way_size += size;
        Ok(())
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn flush(&self, give_up: Option<&StopFlag>) -> io::Result<()> {
        self.wait_until_under_way(0, give_up).map(drop)
    }

    fn wait_until_under_way(
        &self,
        size: usize,
        give_up: Option<&StopFlag>,
    ) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(io::Error::other(failure.clone()));
            }
            if state.under_way_size <= size {
                return Ok(state);
            }
            if give_up.is_some_and(StopFlag::is_raised) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            state = self.wait(state, WAIT);
        }
    }

    /// Records that as many bytes are written.
    pub(crate) fn end(&self, size: usize) {
        self.lock().under_way_size -= size;
        self.changed.notify_all();
    }

    pub(crate) fn refuse(&self, message: RefusedMessage) {
        self.lock().refused.push(message);
    }

    pub(crate) fn take_refused(&self) -> Vec<RefusedMessage> {
        std::mem::take(&mut self.lock().refused)
    }

    /// Records why nothing can be written. A sink of NATS waits instead.
    #[cfg(any(feature = "http", feature = "postgres", feature = "redis"))]
    pub(crate) fn fail(&self, reason: String) {
        self.lock().failure = Some(reason);
        self.changed.notify_all();
    }

    /// Records that the sink is being dropped.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_all();
    }

    /// Nothing that holds this lock leaves the state inconsistent when it panics.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, no longer than `timeout`.
    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
