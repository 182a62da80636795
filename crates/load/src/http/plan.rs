//! What a run does, decided before it begins, and its clock.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::target::Target;
use super::template::Template;

/// A request still unanswered this long after the end of a run at a fixed rate counts as unanswered.
pub(super) const DRAIN_NS_MAX: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) templates: Vec<Template>,
    pub(super) connection_count: usize,
    /// Requests on a connection at once.
    pub(super) depth: usize,
    pub(super) requests_per_connection: Option<u64>,
    pub(super) thread_count: usize,
    /// Whether each request takes the next template, not each connection.
    pub(super) rotates: bool,
    /// Requests a second of all threads; as fast as they are answered without it.
    pub(super) rate: Option<u64>,
    pub(super) timeout: Duration,
    /// Statuses that are not failures.
    pub(super) statuses: Vec<RangeInclusive<u16>>,
    pub(super) expected_body: Option<Vec<u8>>,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn expects(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }
}

/// The time of a run, in nanoseconds since it began, and the part of it that counts.
#[derive(Debug)]
pub(super) struct Clock {
    begin: Instant,
    /// What is before this warms up.
    pub(super) from_ns: u64,
    end_ns: AtomicU64,
}

impl Clock {
    pub(super) fn start(warm_up: Duration, length: Duration) -> Self {
        let from_ns = nanoseconds(warm_up);
        Self {
            begin: Instant::now(),
            from_ns,
            end_ns: AtomicU64::new(from_ns.saturating_add(nanoseconds(length))),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        nanoseconds(self.begin.elapsed())
    }

    /// Relaxed, here and below: nothing else is published with it, and a thread that sees it late
    /// ends late by the one batch of events that it is at.
    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the run now, where it was to last longer.
    pub(super) fn stop(&self) {
        self.end_ns.fetch_min(self.now_ns(), Ordering::Relaxed);
    }

    pub(super) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && at_ns < self.end_ns()
    }
}

/// A time of 584 years is as good as forever.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
