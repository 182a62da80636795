//! What a pool does at the moment, and has done so far.

use std::time::Duration;

use super::planner::Counts;
use super::state::Totals;
use crate::Error;

/// A pool at one moment. What counts events only grows, so the difference of two is what happened
/// in between.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Connections that can be used.
    pub connection_count: usize,
    /// Connections with nothing under way.
    pub idle_count: usize,
    /// Connections that are locked.
    pub locked_count: usize,
    /// Connections that are being opened.
    pub opening_count: usize,
    /// Requests under way on shared connections, with those whose callers are gone.
    pub in_flight_count: usize,
    /// Requests that wait for a connection.
    pub waiting_count: usize,
    /// Connections opened so far.
    pub opened_total: u64,
    /// Connections that could not be opened.
    pub open_failed_total: u64,
    /// Connections that ended without being closed here.
    pub lost_total: u64,
    /// Requests that had to wait for a connection, and how long in all.
    pub wait_total: u64,
    /// See [`wait_total`](Self::wait_total).
    pub wait_time_total: Duration,
    /// Requests that waited in vain.
    pub wait_timeout_total: u64,
    /// Why a connection could not be opened or was lost, the last time that happened.
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
