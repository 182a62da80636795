//! The state of a change feed, for people and metrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::horizon::Horizon;
use super::position::Position;

/// What a change feed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeedState {
    /// No statement of the provider was used yet.
    Idle,
    /// It connects, or waits for transactions that began before it.
    Starting,
    /// Changes invalidate answers.
    Live,
    /// It cannot follow the changes, or has lost the connection, and tries again. Answers are as fresh
    /// as their age tells.
    Down,
}

impl FeedState {
    /// The name in logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for FeedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The status of the change feed of a provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedStatus {
    /// What it does.
    pub state: FeedState,
    /// Why it is down.
    pub reason: Option<String>,
    /// How old valid answers are at most: the time since the horizon. `None` without one.
    pub lag: Option<Duration>,
    /// All commits up to this position of the server's log were applied.
    pub position: Option<Position>,
    /// The slot on the server.
    pub slot: Option<String>,
    /// Transactions that wait until the server shows them.
    pub queue_len: u64,
    /// Statements whose answers are invalidated by changes.
    pub statement_count: u64,
    /// Changed rows that invalidated answers.
    pub row_count: u64,
    /// Transactions that invalidated answers.
    pub transaction_count: u64,
    /// How often all answers were invalidated, because changes may have been missed or tables were
    /// altered.
    pub reset_count: u64,
    /// Statements sent to the server to see what it shows.
    pub probe_count: u64,
}

/// The numbers behind a [`FeedStatus`].
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) queue_len: AtomicU64,
    pub(super) statement_count: AtomicU64,
    pub(super) row_count: AtomicU64,
    pub(super) transaction_count: AtomicU64,
    pub(super) reset_count: AtomicU64,
    pub(super) probe_count: AtomicU64,
    state: Mutex<Option<(FeedState, Option<String>)>>,
    slot: Mutex<Option<String>>,
}

impl Figures {
    /// Sets the state; returns whether it or its reason has changed.
    pub(super) fn set_state(&self, state: FeedState, reason: Option<String>) -> bool {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Some((state, reason));
        let has_changed = *current != next;
        *current = next;
        has_changed
    }

    pub(super) fn set_slot(&self, slot: Option<String>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
    }

    pub(super) fn status(&self, horizon: &Horizon, now: Instant) -> FeedStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, reason) = state.clone().unwrap_or((FeedState::Idle, None));
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FeedStatus {
            state,
            reason,
            lag: (horizon.fresh_as_of()).map(|at| now.saturating_duration_since(at)),
            position: horizon.position(),
            slot: slot.clone(),
            queue_len: count(&self.queue_len),
            statement_count: count(&self.statement_count),
            row_count: count(&self.row_count),
            transaction_count: count(&self.transaction_count),
            reset_count: count(&self.reset_count),
            probe_count: count(&self.probe_count),
        }
    }
}
