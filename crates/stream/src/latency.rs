//! How long batches take from being read to being delivered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each power of two of microseconds is divided into so many buckets, so that a percentile is at most
/// an eighth too high.
const PARTS: u64 = 8;

/// Up to about 19 hours.
const BUCKET_COUNT: usize = 34 * PARTS as usize;

/// A histogram of times.
#[derive(Debug)]
pub(crate) struct Histogram([AtomicU64; BUCKET_COUNT]);

/// The times that batches took from being read to being delivered: written by a sink of bytes, or
/// confirmed by the broker of a sink of messages. They are counted in buckets; a percentile is at most
/// 12.5 % too high.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKET_COUNT])
    }
}

impl Histogram {
    pub(crate) fn record(&self, time: Duration) {
        // Relaxed: the counts order nothing.
        self.0[bucket_of(time)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Latencies {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        Latencies(counts.collect())
    }
}

impl Latencies {
    /// Those that were added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.0.iter().zip(&earlier.0);
        Self(counts.map(|(now, then)| now - then).collect())
    }

    /// The time that a part of the batches, such as 0.99, did not exceed; `None` if there are none.
    pub fn percentile(&self, part: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().sum();
        let rank = (total as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(end_of(bucket))
    }
}

/// The bucket of a time: times below `PARTS` microseconds have one each.
fn bucket_of(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let power = micros.max(PARTS).ilog2() - PARTS.ilog2();
    let bucket = u64::from(power) * PARTS + (micros >> power);
    (bucket as usize).min(BUCKET_COUNT - 1)
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let power = (bucket / PARTS).saturating_sub(1);
    let micros = ((bucket - power * PARTS + 1) << power) - 1;
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_contains_its_times() {
        let mut before = 0;
        for micros in (0..100_000).chain([1 << 20, (1 << 30) + 12345, 1 << 35]) {
            let time = Duration::from_micros(micros);
            let bucket = bucket_of(time);
            assert!(bucket == before || bucket == before + 1 || micros > 100_000);
            before = bucket;
            let end = end_of(bucket);
            assert!(time <= end, "{micros}");
            assert!(
                end.as_micros() <= u128::from(micros + micros / PARTS),
                "{micros}"
            );
        }
        assert_eq!(bucket_of(Duration::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_counted_times() {
        let histogram = Histogram::default();
        let none = histogram.counts();
        assert_eq!(none.percentile(0.5), None);
        (1..=100).for_each(|n| histogram.record(Duration::from_millis(n)));
        let all = histogram.counts();
        for (part, expected) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let found = all.percentile(part).unwrap().as_secs_f64() * 1e3;
            assert!(
                (expected..expected * 1.125).contains(&found),
                "{part} {found}"
            );
        }
        histogram.record(Duration::from_secs(2));
        let new = histogram.counts().since(&all);
        let seconds = new.percentile(0.5).unwrap().as_secs_f64();
        assert!((2.0..2.25).contains(&seconds), "{seconds}");
    }
}
