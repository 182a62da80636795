//! The state of a change feed, for people and metrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lookaside_value::Position;

use super::failure::FeedResetReason;
use super::horizon::Horizon;

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
    pub(crate) const ALL: [Self; 4] = [Self::Idle, Self::Starting, Self::Live, Self::Down];

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
    /// Why it is down, or was before it started again; while it is starting or live, what it has been
    /// waiting for, which keeps changes from invalidating the answers to some statements.
    pub reason: Option<String>,
    /// How old valid answers are at most: the time since the horizon. `None` without one.
    pub lag: Option<Duration>,
    /// As `lag`; without a horizon, the time since the last one, or since the start.
    pub horizon_age: Duration,
    /// All commits up to this position of the server's log were applied.
    pub position: Option<Position>,
    /// The slot on the server.
    pub slot: Option<String>,
    /// The bytes of the server's log that the slot held back when the server was asked last; it is asked
    /// every 10 s. `None` before that, and if the slot is on another server than the tables.
    pub slot_wal_size: Option<u64>,
    /// Transactions that wait until the server shows them.
    pub queue_len: u64,
    /// Statements whose answers are invalidated by changes.
    pub statement_count: u64,
    /// Changed rows that invalidated answers.
    pub row_count: u64,
    /// Transactions that invalidated answers.
    pub transaction_count: u64,
    /// Transactions that were applied after they had been received, and how long they waited until the
    /// server showed them.
    pub gate_wait_count: u64,
    /// The sum of these times.
    pub gate_wait_total: Duration,
    /// The longest of these times.
    pub gate_wait_max: Duration,
    /// Answers that were outdated when they arrived: their rows had been changed since they were asked
    /// for.
    pub refused_fill_count: u64,
    /// How often all answers were invalidated, because changes may have been missed or tables were
    /// altered. Each failed attempt to connect counts as well.
    pub reset_count: u64,
    /// The same, by reason.
    resets: [u64; FeedResetReason::ALL.len()],
    /// Statements sent to the server to see what it shows.
    pub probe_count: u64,
}

impl FeedStatus {
    /// How often all answers were invalidated, for each reason.
    pub fn resets(&self) -> impl Iterator<Item = (FeedResetReason, u64)> {
        FeedResetReason::ALL.into_iter().zip(self.resets)
    }
}

/// The numbers behind a [`FeedStatus`].
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) queue_len: AtomicU64,
    pub(super) statement_count: AtomicU64,
    pub(super) row_count: AtomicU64,
    pub(super) transaction_count: AtomicU64,
    pub(super) probe_count: AtomicU64,
    /// Counted by callers, who share it with the statements.
    pub(super) refused_fill_count: Arc<AtomicU64>,
    /// By reason.
    resets: [AtomicU64; FeedResetReason::ALL.len()],
    gate_wait_count: AtomicU64,
    gate_wait_nanos: AtomicU64,
    gate_wait_nanos_max: AtomicU64,
    /// One more than the size; 0 while it is unknown.
    slot_wal_size: AtomicU64,
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

    pub(super) fn count_reset(&self, reason: FeedResetReason) {
        self.resets[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A transaction was applied, so long after it had been received.
    pub(super) fn count_gate_wait(&self, wait: Duration) {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.gate_wait_count.fetch_add(1, Ordering::Relaxed);
        self.gate_wait_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.gate_wait_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(super) fn set_slot_wal_size(&self, size: Option<u64>) {
        let size = size.map_or(0, |size| size.saturating_add(1));
        self.slot_wal_size.store(size, Ordering::Relaxed);
    }

    pub(super) fn set_slot(&self, slot: Option<String>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
    }

    pub(super) fn status(&self, horizon: &Horizon, now: Instant) -> FeedStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, reason) = state.clone().unwrap_or((FeedState::Idle, None));
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        // The numbers synchronize nothing, and may differ by what happens meanwhile.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let nanos = |counter: &AtomicU64| Duration::from_nanos(count(counter));
        let resets = std::array::from_fn(|reason| count(&self.resets[reason]));
        FeedStatus {
            state,
            reason,
            lag: (horizon.fresh_as_of()).map(|at| now.saturating_duration_since(at)),
            horizon_age: horizon.age(now),
            position: horizon.position(),
            slot: slot.clone(),
            slot_wal_size: count(&self.slot_wal_size).checked_sub(1),
            queue_len: count(&self.queue_len),
            statement_count: count(&self.statement_count),
            row_count: count(&self.row_count),
            transaction_count: count(&self.transaction_count),
            gate_wait_count: count(&self.gate_wait_count),
            gate_wait_total: nanos(&self.gate_wait_nanos),
            gate_wait_max: nanos(&self.gate_wait_nanos_max),
            refused_fill_count: count(&self.refused_fill_count),
            reset_count: resets.iter().sum(),
            resets,
            probe_count: count(&self.probe_count),
        }
    }
}
