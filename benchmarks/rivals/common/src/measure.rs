//! Wall time, CPU time of client and server, latencies, and the line of JSON that tells them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::server::Server;

/// CPU time of this process, all threads.
pub fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs from its creation.
pub struct Stopwatch {
    server: Option<Server>,
    server_cpu: Option<Duration>,
    client_cpu: Duration,
    wall: Instant,
}

impl Stopwatch {
    pub fn start(server: Option<Server>) -> Self {
        Self {
            server,
            server_cpu: server.and_then(Server::cpu),
            client_cpu: process_cpu(),
            wall: Instant::now(),
        }
    }

    pub fn stop(self, op_count: u64, latencies: Latencies) -> Measure {
        let wall = self.wall.elapsed();
        let client_cpu = process_cpu() - self.client_cpu;
        let server_cpu = self
            .server
            .and_then(Server::cpu)
            .zip(self.server_cpu)
            .map(|(after, before)| after.saturating_sub(before));
        Measure {
            op_count,
            wall,
            client_cpu,
            server_cpu,
            latencies,
        }
    }
}

/// What the operations of a run took.
pub struct Measure {
    op_count: u64,
    wall: Duration,
    client_cpu: Duration,
    server_cpu: Option<Duration>,
    latencies: Latencies,
}

impl Measure {
    /// Prints the run as a line of JSON. `case` says what was asked how, `hash` is over the answers.
    pub fn print(mut self, engine: &str, bench: &str, case: &str, hash: u64) {
        assert!(self.op_count > 0, "a run has operations");
        let count = self.op_count as f64;
        let share = |cpu: Duration| rounded(microseconds(cpu) / count);
        let line = json!({
            "engine": engine,
            "bench": bench,
            "case": case,
            "ops": self.op_count,
            "ops_per_s": (count / self.wall.as_secs_f64()).round(),
            "client_cpu_us": share(self.client_cpu),
            "server_cpu_us": self.server_cpu.map(share),
            "p50_us": self.latencies.percentile(50),
            "p95_us": self.latencies.percentile(95),
            "hash": format!("{hash:016x}"),
        });
        println!("{line}");
    }
}

/// Times of single operations in nanoseconds.
#[derive(Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    pub fn add(&mut self, latency: Duration) {
        // Four seconds are as good as forever.
        self.0
            .push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
    }

    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// In microseconds, without interpolation, as the original takes it.
    fn percentile(&mut self, percent: usize) -> Option<f64> {
        self.0.sort_unstable();
        let last = self.0.len().checked_sub(1)?;
        Some(rounded(f64::from(self.0[last * percent / 100]) / 1000.0))
    }
}

/// What is done with an answer: counted in a hash before the clock starts, kept from the optimiser
/// while it runs.
pub enum Seen {
    Hash(u64),
    Nothing,
}

impl Seen {
    /// FNV-1a, as in our benchmark.
    pub fn hash() -> Self {
        Self::Hash(0xcbf2_9ce4_8422_2325)
    }

    pub fn see(&mut self, answer: &[u8]) {
        match self {
            Self::Nothing => _ = black_box(answer),
            Self::Hash(hash) => {
                for &byte in answer.iter().chain(b"\n") {
                    *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
    }

    pub fn hashed(&self) -> u64 {
        match self {
            Self::Hash(hash) => *hash,
            Self::Nothing => 0,
        }
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1000.0
}

/// Three decimals: a nanosecond.
fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}
