//! A rate limit.

use std::fmt;

/// So many requests a second, with so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Time per request; at least 1.
    pub(crate) interval_ns: u64,
    /// How far ahead of that pace requests may run.
    pub(crate) burst_ns: u64,
}

impl Rate {
    /// `per_second` from 1 to 10^9, `burst` from 1.
    pub(crate) fn new(per_second: u64, burst: u64) -> Self {
        let interval_ns = 1_000_000_000 / per_second;
        Self {
            interval_ns,
            burst_ns: interval_ns.saturating_mul(burst - 1),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = 1_000_000_000 / self.interval_ns;
        let burst = self.burst_ns / self.interval_ns + 1;
        write!(f, "{per_second} per second, {burst} at once after a pause")
    }
}
