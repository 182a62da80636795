//! The clock of a run.

use std::fmt;
use std::time::{Duration, Instant};

/// A moment: nanoseconds since the run's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the run.
    pub const START: Self = Self(0);

    /// From nanoseconds since the run's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the run's start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The moment later by `duration`, at most 584 years after the start.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(duration)))
    }

    /// The moment earlier by `duration`, but not before the start.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(duration)))
    }

    /// The duration since an earlier moment; 0 if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds since the run's start, to the microsecond.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1000;
        write!(f, "{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
    }
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The one monotonic clock of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts a clock now.
    #[expect(
        clippy::new_without_default,
        reason = "starting a clock is not a default value"
    )]
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// The current moment.
    pub fn now(&self) -> Time {
        self.time(Instant::now())
    }

    /// A moment of the system's monotonic clock, which a claim may be given in; the run's start if
    /// it is earlier.
    pub fn time(&self, instant: Instant) -> Time {
        Time(nanos_of(instant.saturating_duration_since(self.0)))
    }
}
