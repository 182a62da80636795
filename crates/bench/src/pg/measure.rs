//! How long something takes, on the clock and of this process's CPU time.

use std::time::{Duration, Instant};

use lookaside_load::measure::{Spread, cpu_time};

/// The times of the rounds of one case, in nanoseconds per operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Samples {
    /// Adds a round of `ops` operations.
    pub(super) fn push(&mut self, wall: Duration, cpu: Duration, ops: u64) {
        assert!(ops > 0, "a round does something");
        self.wall.push(wall.as_nanos() as f64 / ops as f64);
        self.cpu.push(cpu.as_nanos() as f64 / ops as f64);
    }

    /// Measures a round of `ops` operations.
    pub(super) fn time<T, E>(
        &mut self,
        ops: u64,
        round: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (started, cpu_before) = (Instant::now(), cpu_time());
        let done = round()?;
        self.push(started.elapsed(), cpu_time() - cpu_before, ops);
        Ok(done)
    }

    pub(super) fn round_count(&self) -> usize {
        self.wall.len()
    }

    pub(super) fn wall(&self) -> Spread {
        Spread::new(self.wall.clone())
    }

    pub(super) fn cpu(&self) -> Spread {
        Spread::new(self.cpu.clone())
    }
}

/// Latencies of single operations, of which the slow ones matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    /// Measures one operation.
    pub(super) fn time<T, E>(&mut self, operation: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = Instant::now();
        let done = operation()?;
        self.0.push(started.elapsed().as_nanos() as u64);
        Ok(done)
    }

    /// A quantile in nanoseconds, given in thousandths.
    pub(super) fn quantile(&mut self, thousandths: usize) -> f64 {
        assert!(!self.0.is_empty(), "an operation was measured");
        self.0.sort_unstable();
        let index = (self.0.len() * thousandths / 1000).min(self.0.len() - 1);
        self.0[index] as f64
    }
}
