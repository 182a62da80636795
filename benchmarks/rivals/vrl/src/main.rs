//! What does it cost VRL 0.38 to parse a combined access-log line, map it and write it as JSON?
//!
//! `rival-vrl LOG [--seconds 5] [--print]`, and `rival-vrl contains DIR [--seconds 5]` for the cost of
//! `ip_cidr_contains` over a list of networks, of which one call looks at each in turn: DIR is what
//! `lookaside-bench contains --case lists --export DIR` wrote.
//!
//! LOG is what `lookaside bench enrich --export DIR` wrote. The program below does what the model of
//! `lookaside bench enrich --case parse-map` does: eight typed fields and one match on the status.
//! VRL has no table lookups outside of Vector, so that part has no rival here. One thread works and
//! its CPU time is reported; compiling the program and reading the file are not timed. `--print`
//! writes the events, to compare them with ours.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use vrl::compiler::runtime::Runtime;
use vrl::compiler::{Program, TargetValue, TimeZone};
use vrl::value;
use vrl::value::{Secrets, Value};

/// The allocator that our own program uses, so that it is no difference between the two.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROGRAM: &str = r#"
. = parse_apache_log!(.message, format: "combined")
status = int!(.status)
.class = if status < 300 { "ok" } else if status < 400 { "redirect" } else if status < 500 { "client_error" } else { "server_error" }
"#;

/// Events between two looks at the clock.
const BLOCK: usize = 256;

fn main() {
    let mut path = None;
    let mut seconds = 5.0;
    let (mut print, mut contains) = (false, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let value = words.next().expect("--seconds needs a value");
                seconds = value.parse().expect("seconds are a number");
            }
            "--print" => print = true,
            "contains" => contains = true,
            file => path = Some(file.to_owned()),
        }
    }
    let path = path.expect("a log file or a folder");
    if contains {
        return measure_contains(&path, seconds);
    }
    let text = std::fs::read_to_string(path).expect("the log is text");
    let lines: Vec<Value> = text.lines().map(Value::from).collect();
    let mut worker = Worker::new(PROGRAM);

    if print {
        for line in &lines {
            println!("{}", worker.event(line));
        }
        return;
    }
    let mut bytes = 0;
    for line in &lines {
        bytes += worker.event(line).len() + 1;
    }
    let started = Instant::now();
    let cpu_before = cpu_time();
    let mut event_count = 0_u64;
    let mut next = 0;
    while started.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..BLOCK {
            black_box(worker.event(&lines[next]));
            next += 1;
            if next == lines.len() {
                next = 0;
            }
        }
        event_count += BLOCK as u64;
    }
    let cpu = cpu_time() - cpu_before;
    println!(
        "{{\"engine\":\"vrl 0.38.0\",\"bench\":\"enrich\",\"case\":\"parse-map\",\"events\":{event_count},\
         \"cpu_ns_per_op\":{:.1},\"wall_ns_per_op\":{:.1},\"pass_bytes\":{bytes}}}",
        cpu.as_nanos() as f64 / event_count as f64,
        started.elapsed().as_nanos() as f64 / event_count as f64,
    );
}

struct Worker {
    runtime: Runtime,
    program: Program,
    timezone: TimeZone,
}

/// Whether one of the networks of `values.txt` contains an address of `keys.txt`.
fn measure_contains(folder: &str, seconds: f64) {
    let read = |name| std::fs::read_to_string(format!("{folder}/{name}")).expect("exported text");
    let values = read("values.txt");
    let networks: Vec<String> = values.lines().map(|it| format!("{it:?}")).collect();
    let program = format!("ip_cidr_contains!([{}], .ip)", networks.join(", "));
    let mut worker = Worker::new(&program);
    let keys: Vec<Value> = read("keys.txt").lines().map(Value::from).collect();
    // FNV-1a over the results, as the other programs print it.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for key in &keys {
        let text = if worker.resolve(key) == Value::Boolean(true) {
            "1\n"
        } else {
            "\n"
        };
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let (mut count, mut next) = (0_u64, 0);
    while started.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..BLOCK {
            black_box(worker.resolve(&keys[next]));
            next = (next + 1) % keys.len();
        }
        count += BLOCK as u64;
    }
    let cpu = cpu_time() - cpu_before;
    println!(
        "{{\"engine\":\"vrl 0.38.0, ip_cidr_contains over a list\",\"bench\":\"contains\",\"case\":\"lists\",\
         \"rows\":{},\"cpu_ns_per_op\":{:.1},\"wall_ns_per_op\":{:.1},\"hash\":\"{hash:016x}\"}}",
        networks.len(),
        cpu.as_nanos() as f64 / count as f64,
        started.elapsed().as_nanos() as f64 / count as f64,
    );
}

impl Worker {
    fn new(program: &str) -> Self {
        let compiled = vrl::compiler::compile(program, &vrl::stdlib::all());
        Self {
            runtime: Runtime::default(),
            program: compiled
                .unwrap_or_else(|errors| panic!("{errors:?}"))
                .program,
            timezone: TimeZone::default(),
        }
    }

    /// The result of the program for an event with an address.
    fn resolve(&mut self, value: &Value) -> Value {
        let mut target = TargetValue {
            value: value!({ "ip": (value.clone()) }),
            metadata: Value::Object(BTreeMap::new()),
            secrets: Secrets::default(),
        };
        self.runtime.clear();
        let result = self
            .runtime
            .resolve(&mut target, &self.program, &self.timezone);
        result.unwrap_or_else(|error| panic!("{error}"))
    }

    /// One line in, its JSON out.
    fn event(&mut self, line: &Value) -> String {
        let mut target = TargetValue {
            value: value!({ "message": (line.clone()) }),
            metadata: Value::Object(BTreeMap::new()),
            secrets: Secrets::default(),
        };
        self.runtime.clear();
        self.runtime
            .resolve(&mut target, &self.program, &self.timezone)
            .unwrap_or_else(|error| panic!("{error}"));
        serde_json::to_string(&target.value).expect("a VRL value is JSON")
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
