//! What a sink shares with the thread that writes: what is under way, refused and failed.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
        let room = size_max.saturating_sub(size);
        loop {
            if let Some(mut state) = self.wait_until_under_way(room, WAIT, give_up)? {
                state.under_way_size += size;
                return Ok(());
            }
        }
    }

    /// Waits until less than `size_max` bytes are under way, no longer than `timeout`; returns whether
    /// that is so.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn wait_room(
        &self,
        size_max: usize,
        timeout: Duration,
        give_up: Option<&StopFlag>,
    ) -> io::Result<bool> {
        let state = self.wait_until_under_way(size_max - 1, timeout, give_up)?;
        Ok(state.is_some())
    }

    /// Takes `size` bytes, whether there is room or not.
    #[cfg(feature = "postgres")]
    pub(crate) fn add(&self, size: usize) {
        self.lock().under_way_size += size;
    }

    /// Waits until nothing is under way, no longer than `timeout`; returns whether that is so.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn flush(&self, timeout: Duration, give_up: Option<&StopFlag>) -> io::Result<bool> {
        let state = self.wait_until_under_way(0, timeout, give_up)?;
        Ok(state.is_some())
    }

    /// Waits until no more than `size` bytes are under way, no longer than `timeout`.
    fn wait_until_under_way(
        &self,
        size: usize,
        timeout: Duration,
        give_up: Option<&StopFlag>,
    ) -> io::Result<Option<MutexGuard<'_, State>>> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(io::Error::other(failure.clone()));
            }
            if state.under_way_size <= size {
                return Ok(Some(state));
            }
            if give_up.is_some_and(StopFlag::is_raised) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.wait(state, left.min(WAIT));
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
