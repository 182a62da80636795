//! How a benchmark measures: rounds of fixed length, CPU time of the process, the spread of the rounds.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// How long, how often, and how it is shown.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Rounds {
    /// The minimum duration of a round in seconds.
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS")]
    pub seconds: f64,
    /// Rounds after the warm-up round; the median is the result to quote.
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    pub rounds: usize,
    /// Print one line of JSON per case.
    #[arg(long)]
    pub json: bool,
}

/// Nanoseconds for one operation, over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Of the cheapest round.
    pub min: f64,
    /// Of the round in the middle, which is the figure to quote.
    pub median: f64,
    /// Of the most expensive round.
    pub max: f64,
}

impl Spread {
    /// Over the samples.
    ///
    /// # Panics
    ///
    /// Without any sample.
    pub fn new(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        assert!(!samples.is_empty(), "at least one round was measured");
        let (min, max) = (samples[0], samples[samples.len() - 1]);
        Self {
            min,
            median: samples[samples.len() / 2],
            max,
        }
    }
}

/// The costs of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What was measured, with its version.
    pub engine: String,
    /// The benchmark.
    pub bench: &'static str,
    /// Which of its cases.
    pub case: String,
    /// Operations in all measured rounds.
    pub ops: u64,
    /// CPU time an operation, all threads of the process.
    pub cpu_ns_per_op: Spread,
    /// Wall time an operation.
    pub wall_ns_per_op: Spread,
    /// The hash over the answers of one pass; equal hashes mean equal answers.
    pub hash: String,
    /// Further information about the case, as `name=value` pairs.
    pub notes: Vec<(&'static str, String)>,
}

/// CPU time that the process used so far, user and system, all threads.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The bounds that `--seconds` is clamped to, also if it is negative or not a number.
const ROUND_LENGTH_MIN: Duration = Duration::from_millis(1);
const ROUND_LENGTH_MAX: Duration = Duration::from_secs(3600);

/// Runs `block`, which returns how many operations it did, until each round is full. Returns the
/// number of operations, and the CPU and wall time of one.
///
/// ```
/// use lookaside_load::measure::{Rounds, measure};
///
/// let rounds = Rounds { seconds: 0.001, rounds: 3, json: false };
/// let (count, cpu, wall) = measure(rounds, || Ok::<_, ()>(1)).unwrap();
/// assert!(count >= 3 && cpu.min <= cpu.max && wall.median > 0.0);
/// ```
///
/// # Errors
///
/// The first error of `block`.
pub fn measure<E>(
    rounds: Rounds,
    mut block: impl FnMut() -> Result<u64, E>,
) -> Result<(u64, Spread, Spread), E> {
    let round_length = Duration::try_from_secs_f64(rounds.seconds)
        .unwrap_or_default()
        .clamp(ROUND_LENGTH_MIN, ROUND_LENGTH_MAX);
    let (mut ops_total, mut cpu, mut wall) = (0, Vec::new(), Vec::new());
    // The first round warms caches and is discarded.
    for round in 0..=rounds.rounds.max(1) {
        let (started, cpu_before, mut ops) = (Instant::now(), cpu_time(), 0);
        while ops == 0 || started.elapsed() < round_length {
            ops += block()?;
        }
        let (cpu_used, wall_used) = (cpu_time() - cpu_before, started.elapsed());
        if round > 0 {
            ops_total += ops;
            cpu.push(cpu_used.as_nanos() as f64 / ops as f64);
            wall.push(wall_used.as_nanos() as f64 / ops as f64);
        }
    }
    Ok((ops_total, Spread::new(cpu), Spread::new(wall)))
}

/// FNV-1a over answers, each ended by a line feed: the rivals' programs print the same.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHash(u64);

impl AnswerHash {
    /// Creates an empty hash.
    #[expect(
        clippy::new_without_default,
        reason = "an empty hash is a place to begin, not a value to fall back on"
    )]
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds an answer.
    pub fn add(&mut self, answer: &[u8]) {
        for &byte in answer.iter().chain(b"\n") {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash as sixteen hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}
