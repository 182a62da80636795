//! The state of an engine in numbers.

use std::time::Duration;

use crate::counters::Counts;

/// The state of an engine at one moment, from [`Knowledge::snapshot`](crate::Knowledge::snapshot).
///
/// The counts of running sessions are read without stopping them, so they may lag behind each other
/// by a few lookups.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Number of the tables that are served; the first load is 1.
    pub generation: u64,
    /// Reloads that were taken over.
    pub reload_successes: u64,
    /// Reloads that failed and left the state as it was.
    pub reload_failures: u64,
    /// What the sessions did, by layer.
    pub counts: Counts,
    /// How old the oldest answer was that stood in for one that a provider did not give.
    pub stale_age_max: Duration,
    /// Sessions that live, idle ones included.
    pub session_count: usize,
    /// Statements that the engine knows.
    pub statement_count: usize,
    /// Statements that have a plan and known columns in this generation.
    pub metadata_len: usize,
    /// Whether answers are kept (`[cache] enabled`).
    pub cache_enabled: bool,
    /// Answers in the shared cache.
    pub l1_len: usize,
    /// Answers that the shared cache may hold.
    pub l1_capacity: usize,
    /// Bytes in the shared cache; small answers count with their share of the room.
    pub l1_size: u64,
    /// Bytes that the shared cache may hold.
    pub l1_size_max: u64,
    /// Bytes that the caches of all sessions took of those that they may have.
    pub l0_size: u64,
    /// Bytes that they may have together.
    pub l0_size_max: u64,
    /// Last good answers of providers, kept for when they give none (`stale_if_error_ms`).
    pub stale_len: usize,
    /// Bytes of them.
    pub stale_size: u64,
    /// Bytes that there may be of them.
    pub stale_size_max: u64,
    /// How long an answer is given out.
    pub ttl: Duration,
    /// Bytes of the SQLite database in memory.
    pub store_size: u64,
}
