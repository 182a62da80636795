//! The current state and the counters of a pool.

use std::time::Duration;

use super::planner::Counts;
use super::state::Totals;
use crate::Error;

/// A pool at one moment. The totals only increase, so the difference of two snapshots is what
/// happened in between.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Usable connections.
    pub connection_count: usize,
    /// Connections without requests in flight.
    pub idle_count: usize,
    /// Connections that are locked.
    pub locked_count: usize,
    /// Connections that are being opened.
    pub opening_count: usize,
    /// Requests in flight on shared connections, including those whose callers are gone.
    pub in_flight_count: usize,
    /// Requests that wait for a connection.
    pub waiting_count: usize,
    /// Connections opened so far.
    pub opened_total: u64,
    /// Connections that could not be opened.
    pub open_failed_total: u64,
    /// Connections that ended without being closed by the pool.
    pub lost_total: u64,
    /// Requests that had to wait for a connection.
    pub wait_total: u64,
    /// The total time of those waits.
    pub wait_time_total: Duration,
    /// Requests whose wait timed out.
    pub wait_timeout_total: u64,
    /// The last error by which a connection could not be opened or was lost.
    pub last_error: Option<Error>,
    /// Why no connection could be opened, if none was opened since.
    pub open_error: Option<Error>,
}

impl PoolStatus {
    pub(super) fn new(counts: &Counts, totals: &Totals, last_error: Option<Error>) -> Self {
        Self {
            connection_count: counts.open + counts.locked,
            idle_count: counts.idle,
            locked_count: counts.locked,
            opening_count: counts.opening,
            in_flight_count: counts.in_flight,
            waiting_count: counts.waiting,
            opened_total: totals.opened,
            open_failed_total: totals.failed,
            lost_total: totals.lost,
            wait_total: totals.waits,
            wait_time_total: totals.waited,
            wait_timeout_total: totals.late,
            last_error,
            open_error: None,
        }
    }
}
