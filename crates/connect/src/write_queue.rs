//! What a sink shares with the thread that writes: what is under way, refused and failed.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lookaside_stream::{RefusedMessage, StopFlag};
use tracing::{info, warn};

/// How often a wait looks whether the run gives up.
const WAIT: Duration = Duration::from_millis(100);

/// After what time without a delivery a warning is logged.
const STALL: Duration = Duration::from_secs(10);

/// The state of a sink whose messages a thread of its own writes.
pub(crate) struct WriteState {
    /// The name of the connector.
    name: String,
    state: Mutex<State>,
    /// Signals that the state changed.
    changed: Condvar,
}

pub(crate) struct State {
    /// How many bytes were passed to the thread and are not written.
    under_way_size: usize,
    /// When something was written last, or the first of these bytes was passed on.
    written: Instant,
    /// Whether a warning was logged since.
    is_warned: bool,
    refused: Vec<RefusedMessage>,
    /// Why nothing can be written at all.
    failure: Option<String>,
    /// Whether the sink is being dropped.
    pub(crate) is_closing: bool,
}

impl WriteState {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::new(State {
                under_way_size: 0,
                written: Instant::now(),
                is_warned: false,
                refused: Vec::new(),
                failure: None,
                is_closing: false,
            }),
            changed: Condvar::new(),
        }
    }

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
                state.add(size);
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
        let mut state = self.wait_until_under_way(size_max - 1, timeout, give_up)?;
        if let Some(state) = &mut state {
            state.warn(&self.name);
        }
        Ok(state.is_some())
    }

    /// Takes `size` bytes, whether there is room or not.
    #[cfg(feature = "postgres")]
    pub(crate) fn add(&self, size: usize) {
        self.lock().add(size);
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
            state.warn(&self.name);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.wait(state, left.min(WAIT));
        }
    }

    /// Records that as many bytes are written.
    pub(crate) fn end(&self, size: usize) {
        let mut state = self.lock();
        state.under_way_size -= size;
        state.written = Instant::now();
        if std::mem::take(&mut state.is_warned) {
            info!(connector = self.name, "results are delivered again");
        }
        drop(state);
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

impl State {
    fn add(&mut self, size: usize) {
        if self.under_way_size == 0 {
            self.written = Instant::now();
        }
        self.under_way_size += size;
    }

    /// Logs a warning if nothing was written for a while.
    fn warn(&mut self, connector: &str) {
        if !self.is_warned && self.under_way_size > 0 && self.written.elapsed() >= STALL {
            self.is_warned = true;
            let seconds = STALL.as_secs();
            warn!(
                connector,
                "no result was delivered for {seconds} s; is the server available?"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_delivers_nothing_for_a_while_is_warned_of_once() {
        let state = WriteState::new("test://a");
        let is_warned = || {
            assert!(state.wait_room(100, Duration::ZERO, None).unwrap());
            state.lock().is_warned
        };
        let pass_time = || state.lock().written -= STALL;
        pass_time();
        assert!(!is_warned(), "nothing is under way");
        state.begin(7, 100, None).unwrap();
        assert!(!is_warned(), "the time begins with the first bytes");
        state.begin(7, 100, None).unwrap();
        pass_time();
        assert!(is_warned());
        state.end(7);
        assert!(!is_warned());
        pass_time();
        assert!(is_warned());
    }
}
