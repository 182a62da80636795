//! Statistics of an engine.

use std::time::Duration;

use crate::counters::Counts;

/// The statistics of an engine at one moment, from
/// [`Knowledge::snapshot`](crate::Knowledge::snapshot).
///
/// The counts of running sessions are read without stopping them, so they may lag behind each other
/// by a few lookups.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The number of the current generation; the first load is 1.
    pub generation: u64,
    /// Reloads that succeeded.
    pub reload_successes: u64,
    /// Reloads that failed and changed nothing.
    pub reload_failures: u64,
    /// The counters of the sessions.
    pub counts: Counts,
    /// The maximal age of a stale answer that was returned.
    pub stale_age_max: Duration,
    /// Open sessions, including idle ones.
    pub session_count: usize,
    /// Registered statements.
    pub statement_count: usize,
    /// Statements that have a plan and known columns in this generation.
    pub metadata_len: usize,
    /// Whether answers are cached (`[cache] enabled`).
    pub cache_enabled: bool,
    /// Answers in the shared cache.
    pub l1_len: usize,
    /// The capacity of the shared cache in answers.
    pub l1_capacity: usize,
    /// The size of the shared cache in bytes; small answers count with a minimal size.
    pub l1_size: u64,
    /// The maximal size of the shared cache in bytes.
    pub l1_size_max: u64,
    /// The size of the caches of all sessions in bytes.
    pub l0_size: u64,
    /// The maximal size of the caches of all sessions in bytes.
    pub l0_size_max: u64,
    /// The number of last good answers of providers, kept as stale answers (`stale_if_error_ms`).
    pub stale_len: usize,
    /// The size of the last good answers in bytes.
    pub stale_size: u64,
    /// The maximal size of the last good answers in bytes.
    pub stale_size_max: u64,
    /// The lifetime of a cached answer.
    pub ttl: Duration,
    /// The size of the SQLite databases in memory in bytes.
    pub store_size: u64,
    /// The size of the tables that were loaded without SQLite in bytes.
    pub packed_size: u64,
}
