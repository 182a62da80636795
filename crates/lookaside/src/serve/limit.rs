//! How many requests a key may make: the generic cell rate algorithm, a token bucket that is stored
//! as one number.
//!
//! The number is the moment at which the bucket will be full again; a request advances it by the
//! time that one token takes. This costs one compare-and-swap per request, no timer and no lock. A
//! crate would bring its own map of keys and clocks; the keys are a list here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::Rate;

/// The bucket of one key, shared by all threads.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// Nanoseconds since the start; `Relaxed`, since it synchronizes nothing else.
    full_at: AtomicU64,
}

impl Bucket {
    /// Creates a full bucket.
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            full_at: AtomicU64::new(0),
        }
    }

    /// Takes a token, or returns how long to wait for one. `now` counts from any fixed moment, the
    /// same for all callers.
    pub(crate) fn take(&self, now: Duration) -> Result<(), Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let ahead = full_at.saturating_sub(now);
            if ahead > self.rate.burst_ns {
                return Err(Duration::from_nanos(ahead - self.rate.burst_ns));
            }
            let next = full_at.max(now).saturating_add(self.rate.interval_ns);
            match self.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(found) => full_at = found,
            }
        }
    }

    /// The rate of this bucket.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_burst_and_then_a_steady_rate() {
        let bucket = Bucket::new(Rate::new(10, 3));
        let at = Duration::from_millis;
        for now in [at(0), at(0), at(1)] {
            assert_eq!(bucket.take(now), Ok(()));
        }
        assert_eq!(bucket.take(at(2)), Err(at(98)));
        assert_eq!(bucket.take(at(99)), Err(at(1)));
        assert_eq!(bucket.take(at(100)), Ok(()));
        assert_eq!(bucket.take(at(150)), Err(at(50)));
        // A long pause fills it to the burst, not beyond.
        for _ in 0..3 {
            assert_eq!(bucket.take(at(10_000)), Ok(()));
        }
        assert_eq!(bucket.take(at(10_000)), Err(at(100)));
    }

    #[test]
    fn threads_share_a_bucket() {
        let bucket = Bucket::new(Rate::new(1, 1000));
        let taken: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let take = || bucket.take(Duration::ZERO).is_ok();
                        (0..1000).filter(|_| take()).count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(taken, 1000);
    }
}
