//! Latencies, one by one, and their percentiles.

use serde::Serialize;

/// Samples in the unit of their figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<f64>);

/// Percentiles of samples, by the nearest rank; zeros without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Samples {
    pub(super) fn add(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub(super) fn percentiles(mut self) -> Percentiles {
        self.0.sort_by(f64::total_cmp);
        let rank = |percent: usize| {
            let rank = (self.0.len() * percent).div_ceil(100);
            self.0.get(rank.saturating_sub(1)).copied()
        };
        Percentiles {
            count: self.0.len(),
            p50: rank(50).unwrap_or_default(),
            p99: rank(99).unwrap_or_default(),
            max: rank(100).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let of = |count: u32| {
            let mut samples = Samples::default();
            (1..=count)
                .rev()
                .for_each(|sample| samples.add(sample.into()));
            let it = samples.percentiles();
            (it.p50, it.p99, it.max)
        };
        assert_eq!(of(0), (0.0, 0.0, 0.0));
        assert_eq!(of(1), (1.0, 1.0, 1.0));
        assert_eq!(of(200), (100.0, 198.0, 200.0));
    }
}
