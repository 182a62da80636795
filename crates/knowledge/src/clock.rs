//! A coarse, monotonic clock for expiry checks, at a few nanoseconds per reading.

use std::time::Duration;

/// A moment in ticks of 2^-32 seconds since an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(u64);

impl Ticks {
    /// Before every moment of a clock.
    pub(crate) const START: Self = Self(0);

    /// The moment `duration` later; saturates at the largest value.
    pub(crate) fn after(self, duration: Duration) -> Self {
        let seconds = duration.as_secs().saturating_mul(1 << 32);
        let fraction = (u64::from(duration.subsec_nanos()) << 32) / 1_000_000_000;
        Self(self.0.saturating_add(seconds).saturating_add(fraction))
    }

    /// The moment in units of 2^-12 seconds, rounded down; saturates at the largest 42-bit number.
    #[inline]
    pub(crate) fn coarse(self) -> u64 {
        (self.0 >> COARSE_SHIFT).min(COARSE_MAX)
    }

    /// The moment of a number from [`Self::coarse`].
    pub(crate) fn from_coarse(coarse: u64) -> Self {
        Self(coarse << COARSE_SHIFT)
    }

    /// The time from this moment to a later one; zero if that is earlier.
    pub(crate) fn until(self, later: Self) -> Duration {
        let ticks = later.0.saturating_sub(self.0);
        let nanos = ((ticks & 0xffff_ffff) * 1_000_000_000) >> 32;
        Duration::new(ticks >> 32, nanos as u32)
    }
}

/// Of the 32 bits for the fraction of a second, those that [`Ticks::coarse`] leaves out.
const COARSE_SHIFT: u32 = 20;
const COARSE_MAX: u64 = (1 << 42) - 1;

/// The clock may be behind by this much, so an answer may be older than it seems.
pub(crate) const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The time source of expiry checks.
///
/// The system's coarse clock (`CLOCK_MONOTONIC_COARSE` on Linux) advances with the timer interrupt,
/// every 1 to 10 ms, and costs 6 ns where the exact one costs 21 ns. A lifetime in the cache is
/// therefore exact to 10 ms, which is why `ttl_ms` below that means "about one tick".
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    #[cfg(test)]
    Manual(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

impl Clock {
    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Ticks {
        match self {
            // The other constructor also stores the reading into a global that all threads share.
            Self::System => Ticks(coarsetime::Instant::now_without_cache_update().as_ticks()),
            #[cfg(test)]
            Self::Manual(ticks) => Ticks(ticks.load(std::sync::atomic::Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
impl Clock {
    /// A clock that stands still until [`Self::advance`].
    pub(crate) fn manual() -> Self {
        Self::Manual(std::sync::Arc::default())
    }

    /// Moves a manual clock on.
    pub(crate) fn advance(&self, duration: Duration) {
        let Self::Manual(ticks) = self else {
            panic!("only a manual clock can be moved");
        };
        let Ticks(later) = self.now().after(duration);
        ticks.store(later, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_add_up_and_do_not_overflow() {
        let zero = Ticks(0);
        assert_eq!(zero.after(Duration::from_secs(3)), Ticks(3 << 32));
        assert_eq!(zero.after(Duration::from_millis(500)), Ticks(1 << 31));
        assert_eq!(zero.after(Duration::MAX), Ticks(u64::MAX));
        let later = zero.after(Duration::from_millis(2500));
        assert_eq!(zero.until(later), Duration::from_millis(2500));
        assert_eq!(later.until(zero), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::System;
        let first = clock.now();
        assert!(first <= clock.now());
    }
}
