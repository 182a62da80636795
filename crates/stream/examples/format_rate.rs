//! What does a record cost in each format, decoded and encoded, on one core?
//!
//! ```sh
//! cargo run --release -p lookaside-stream --example format_rate -- [LINES] [ROUNDS] [FORMAT]
//! ```
//!
//! Lines of one chunk are decoded repeatedly, then encoded as JSON; the base case only splits the
//! lines. A round is short compared with a time slice, so the best round was not preempted and its
//! time is CPU time; the median shows how busy the machine was.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Instant;

use lookaside_stream::{Chunk, FormatOptions, InputFormat, OutputFormat, Rejects};
use lookaside_value::{Batch, Name, NameTable, Value};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse().expect("LINES and ROUNDS are numbers"),
        None => default,
    };
    let (lines, rounds) = (number(1_000), number(200));
    let only = arguments.next();

    println!("{lines} lines a batch, {rounds} rounds; ns a record, best / median");
    for (format, options, make) in inputs() {
        if only.as_deref().is_some_and(|only| only != format) {
            continue;
        }
        let mut text = String::new();
        let mut seed = 42;
        for _ in 0..lines {
            make(&mut text, &mut seed);
        }
        measure(format, &options, &text, lines, rounds);
    }
}

type Make = fn(&mut String, &mut u64);

fn inputs() -> Vec<(&'static str, FormatOptions, Make)> {
    let pattern = r#"^(?<ip>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]+)\] "(?<request>[^"]*)" (?<status>\d+) (?<length>\d+)"#;
    let columns = "ip,user,time,request,status,length,referer,agent";
    vec![
        ("raw", FormatOptions::new(), access_line),
        ("access", FormatOptions::new(), access_line),
        ("json", FormatOptions::new(), json_line),
        (
            "csv",
            FormatOptions::new().set("columns", columns),
            csv_line,
        ),
        ("kv", FormatOptions::new(), kv_line),
        ("syslog", FormatOptions::new(), syslog_line),
        (
            "regex",
            FormatOptions::new().set("pattern", pattern),
            access_line,
        ),
    ]
}

fn measure(format: &str, options: &FormatOptions, text: &str, lines: usize, rounds: usize) {
    /// How often a batch is decoded in one round, so that a round is long compared with reading the
    /// clock.
    const REPEATS: usize = 5;

    let input = InputFormat::new(format, options).expect("options of this file");
    let outputs = OutputFormat::NAMES.map(|name| {
        let options = match name {
            "csv" => FormatOptions::new().set("extra", "ignore"),
            _ => FormatOptions::new(),
        };
        OutputFormat::new(name, &options).expect("a known name")
    });
    let mut names = NameTable::new();
    input.intern(&mut names);
    let added = ["asn", "org", "class", "epoch"].map(|text| names.intern(text));
    for output in &outputs {
        output.intern(&mut names);
    }
    let names = Arc::new(names);
    let mut decoder = input.decoder(&names);
    let mut batch = Batch::new(names.clone());
    let mut rejects = Rejects::new();
    let chunk = Chunk::new(text.as_bytes(), 1);

    let decode = best(rounds, || {
        for _ in 0..REPEATS {
            batch.clear();
            decoder.decode(&chunk, &mut batch, &mut rejects);
        }
        REPEATS * lines
    });
    assert_eq!(
        (rejects.count(), batch.len()),
        (0, lines),
        "{:?}",
        rejects.first()
    );
    enrich(&mut batch, added);
    println!(
        "{format:<8} in  {:>4} bytes a line       {:>6.0} / {:.0}",
        text.len() / lines,
        decode.0,
        decode.1
    );
    for output in outputs {
        let mut encoder = output.encoder(&names);
        let mut out = String::new();
        let encode = best(rounds, || {
            for _ in 0..REPEATS {
                out.clear();
                encoder.encode(&batch, &mut out, &mut rejects);
            }
            REPEATS * lines
        });
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        hasher.write(out.as_bytes());
        println!(
            "{:>8} out {:>4} bytes, {:>2} fields      {:>6.0} / {:.0}   {:016x}",
            output.name(),
            out.len() / lines,
            batch.records()[0].len(),
            encode.0,
            encode.1,
            hasher.finish()
        );
    }
}

/// Adds four fields, as a lookup and a match do.
fn enrich(batch: &mut Batch, [asn, org, class, epoch]: [Name; 4]) {
    for record in batch.records_mut() {
        record.push(asn, 64_500_i64);
        record.push(org, "Example Networks Ltd");
        record.push(class, Value::Symbol("ok".into()));
        record.push(epoch, 1_772_360_102_i64);
    }
}

/// The best and the median of the nanoseconds of an operation.
fn best(rounds: usize, mut run: impl FnMut() -> usize) -> (f64, f64) {
    let mut times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = Instant::now();
            let count = run();
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";

struct Event {
    ip: String,
    second: u64,
    path: String,
    status: u64,
    length: u64,
}

fn event(seed: &mut u64) -> Event {
    let octets: [u64; 4] = std::array::from_fn(|_| next(seed) % 223 + 1);
    Event {
        ip: format!("{}.{}.{}.{}", octets[0], octets[1], octets[2], octets[3]),
        second: next(seed) % 60,
        path: format!("/shop/cart/{}?id={}", next(seed) % 1000, next(seed)),
        status: [200, 200, 200, 301, 404, 500][(next(seed) % 6) as usize],
        length: next(seed) % 100_000,
    }
}

fn access_line(out: &mut String, seed: &mut u64) {
    let Event {
        ip,
        second,
        path,
        status,
        length,
    } = event(seed);
    let _ = writeln!(
        out,
        "{ip} - amy [01/Mar/2026:10:15:{second:02} +0000] \"GET {path} HTTP/1.1\" {status} {length} \
         \"https://www.example.com/shop/list\" \"{AGENT}\""
    );
}

fn json_line(out: &mut String, seed: &mut u64) {
    let Event {
        ip,
        second,
        path,
        status,
        length,
    } = event(seed);
    let _ = writeln!(
        out,
        "{{\"ip\":\"{ip}\",\"user\":\"amy\",\"time\":\"2026-03-01T10:15:{second:02}Z\",\
         \"request\":\"GET {path} HTTP/1.1\",\"status\":{status},\"length\":{length},\
         \"referer\":\"https://www.example.com/shop/list\",\"agent\":\"{AGENT}\"}}"
    );
}

fn csv_line(out: &mut String, seed: &mut u64) {
    let Event {
        ip,
        second,
        path,
        status,
        length,
    } = event(seed);
    let _ = writeln!(
        out,
        "{ip},amy,2026-03-01T10:15:{second:02}Z,GET {path} HTTP/1.1,{status},{length},\
         https://www.example.com/shop/list,\"{AGENT}\""
    );
}

fn kv_line(out: &mut String, seed: &mut u64) {
    let Event {
        ip,
        second,
        path,
        status,
        length,
    } = event(seed);
    let _ = writeln!(
        out,
        "ip={ip} user=amy time=2026-03-01T10:15:{second:02}Z request=\"GET {path} HTTP/1.1\" \
         status={status} length={length} referer=https://www.example.com/shop/list agent=\"{AGENT}\""
    );
}

fn syslog_line(out: &mut String, seed: &mut u64) {
    let Event {
        ip, second, path, ..
    } = event(seed);
    let _ = writeln!(
        out,
        "<34>1 2026-03-01T10:15:{second:02}.003Z web-7 shop 4711 REQ [net@32473 ip=\"{ip}\" if=\"eth0\"] \
         request {path} took longer than expected"
    );
}
