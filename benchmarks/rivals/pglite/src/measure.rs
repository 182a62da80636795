//! Wall time of each operation, CPU time of all of them, as one line of JSON.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Where the server's share of the CPU time is to be found.
#[derive(Clone, Copy)]
pub enum Server {
    /// In this process, on other threads than the one that measures.
    Inside,
    /// In the process that serves the connection. Checkpointer, WAL writer and autovacuum are not
    /// counted.
    Outside,
}

/// What a connection's server has used of the CPU.
#[derive(Clone, Copy)]
pub enum ServerCpu {
    OtherThreads,
    Process(u32),
}

impl Server {
    pub fn cpu(self, backend_pid: u32) -> ServerCpu {
        match self {
            Self::Inside => ServerCpu::OtherThreads,
            Self::Outside => ServerCpu::Process(backend_pid),
        }
    }
}

impl ServerCpu {
    /// Nothing if the kernel does not tell about that process.
    fn now(self) -> Option<Duration> {
        match self {
            Self::OtherThreads => Some(clock(ClockId::ProcessCPUTime).saturating_sub(client_cpu())),
            Self::Process(pid) => {
                let times = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
                let nanoseconds = times.split(' ').next()?.parse().ok()?;
                Some(Duration::from_nanos(nanoseconds))
            }
        }
    }
}

/// CPU time of the thread that measures, which is the client.
fn client_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// CPU time of all threads since the process began.
pub fn process_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs from its creation.
pub struct Stopwatch {
    server: Option<ServerCpu>,
    server_cpu: Option<Duration>,
    client_cpu: Duration,
    wall: Instant,
}

impl Stopwatch {
    pub fn start(server: Option<ServerCpu>) -> Self {
        Self {
            server,
            server_cpu: server.and_then(ServerCpu::now),
            client_cpu: client_cpu(),
            wall: Instant::now(),
        }
    }

    fn stop(self) -> (Duration, Duration, Option<Duration>) {
        let wall = self.wall.elapsed();
        let client_cpu = client_cpu() - self.client_cpu;
        let server_cpu = match (self.server.and_then(ServerCpu::now), self.server_cpu) {
            (Some(after), Some(before)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        (wall, client_cpu, server_cpu)
    }
}

/// Times of operations of one kind.
pub struct Measure {
    name: String,
    walls: Vec<Duration>,
    client_cpu: Duration,
    /// Nothing once a single operation's was unknown.
    server_cpu: Option<Duration>,
    /// Over what the operations left behind: equal hashes, equal work.
    hash: Option<String>,
}

impl Measure {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            walls: Vec::new(),
            client_cpu: Duration::ZERO,
            server_cpu: Some(Duration::ZERO),
            hash: None,
        }
    }

    /// Records what the operations left behind, by its FNV-1a hash.
    pub fn set_answers(&mut self, answers: &str) {
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = answers.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        self.hash = Some(format!("{hash:016x}"));
    }

    /// One operation, timed as a whole.
    pub fn add(&mut self, stopwatch: Stopwatch) {
        let wall = self.add_cpu(stopwatch);
        self.walls.push(wall);
    }

    /// One operation among many: its CPU time comes with `add_cpu` for all of them.
    pub fn add_wall(&mut self, wall: Duration) {
        self.walls.push(wall);
    }

    /// CPU time of the operations whose wall time was added one by one.
    pub fn add_cpu(&mut self, stopwatch: Stopwatch) -> Duration {
        let (wall, client_cpu, server_cpu) = stopwatch.stop();
        self.client_cpu += client_cpu;
        self.server_cpu = self.server_cpu.zip(server_cpu).map(|(sum, cpu)| sum + cpu);
        wall
    }

    /// One operation whose times another process took; its CPU time counts as the server's.
    pub fn add_foreign(&mut self, wall: Duration, cpu: Duration) {
        self.walls.push(wall);
        self.server_cpu = self.server_cpu.map(|sum| sum + cpu);
    }

    fn to_json(&self, report: &Report) -> Value {
        let mut walls = self.walls.clone();
        walls.sort_unstable();
        let count = walls.len();
        let (first, last) = (walls.first(), walls.last());
        let (first, last) = first
            .zip(last)
            .expect("a measure has at least one operation");
        let median = (walls[(count - 1) / 2] + walls[count / 2]) / 2;
        let share = |cpu: Duration| microseconds(cpu) / count as f64;
        json!({
            "engine": report.engine,
            "place": report.place,
            "name": self.name,
            "median_us": rounded(microseconds(median)),
            "min_us": rounded(microseconds(*first)),
            "max_us": rounded(microseconds(*last)),
            "count": count,
            "client_cpu_us": rounded(share(self.client_cpu)),
            "server_cpu_us": self.server_cpu.map(|cpu| rounded(share(cpu))),
            "hash": self.hash,
        })
    }
}

/// Where lines go and what stands in each of them.
pub struct Report {
    pub engine: String,
    /// File system and settings, in the caller's words.
    pub place: String,
}

impl Report {
    pub fn print(&self, measure: &Measure) {
        println!("{}", measure.to_json(self));
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1000.0
}

/// Two decimals are finer than any clock here.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}
