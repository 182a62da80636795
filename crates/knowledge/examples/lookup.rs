//! What does one lookup through the facade cost? CPU nanoseconds of one thread, by layer.
//!
//! `cargo run --release -p lookaside-knowledge --example lookup -- [KEYS] [LOOKUPS] [RANGES.csv]`
//!
//! `empty` is the harness alone: the loop and the choice of a key. RANGES.csv has lines
//! `first,last,number,text` of IPv4 addresses; without it, ranges are generated.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use lookaside_knowledge::{Knowledge, Policy, Value, params};

const KEY_COUNT: usize = 100_000;
const LOOKUP_COUNT: usize = 2_000_000;
const ROUND_COUNT: usize = 5;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let key_count = args.next().map_or(Ok(KEY_COUNT), |arg| arg.parse())?;
    let lookup_count = args.next().map_or(Ok(LOOKUP_COUNT), |arg| arg.parse())?;
    let folder = tempfile::tempdir()?;
    let ranges = args
        .next()
        .map_or_else(|| Ok(made_up_ranges()), fs::read_to_string)?;
    let range_count = ranges.lines().count();
    write_tables(folder.path(), key_count, &ranges)?;
    let knowledge = Knowledge::open(folder.path())?;
    println!(
        "{key_count} keys, {range_count} ranges, {lookup_count} lookups, {:?}",
        knowledge.load_report().elapsed
    );

    let mut random = fastrand::Rng::with_seed(7);
    let uniform: Vec<Value> = (0..1 << 20)
        .map(|_| Value::Int(random.i64(1..=key_count as i64)))
        .collect();
    let zipf = Zipf::new(key_count, 0.99);
    let skewed: Vec<Value> = (0..1 << 20)
        .map(|_| Value::Int(zipf.key(&mut random)))
        .collect();
    let hot: Vec<Value> = (0..1 << 20)
        .map(|op| Value::Int(op * 17 % 128 + 1))
        .collect();
    let addresses: Vec<Value> = (0..1 << 20)
        .map(|_| Value::Int(i64::from(random.u32(..))))
        .collect();

    let native = knowledge.prepare("select value from kv where id = :id")?;
    let by_text = knowledge.prepare("select value from kv where name = :name")?;
    let sqlite = knowledge.prepare("select value from kv where id = :id and 1 = 1")?;
    let range = knowledge.prepare("select asn, org from ranges where lo <= :ip and hi >= :ip")?;
    for statement in [&native, &by_text, &sqlite, &range] {
        let explained = knowledge.explain(statement.sql())?;
        println!("{}: {}", explained.kind, statement.sql());
    }
    let texts: Vec<Value> = (0..1 << 20)
        .map(|_| Value::from(format!("name-{}", random.usize(1..=key_count))))
        .collect();

    let mut session = knowledge.session();
    let mut one = |name: &str, statement, keys: &[Value], policy: fn() -> Policy<'static>| {
        measure(name, lookup_count, keys, |key| {
            let row = session
                .first_with(statement, std::slice::from_ref(key), policy())
                .unwrap();
            row.map_or(0, |row| row.len())
        });
    };
    measure("empty", lookup_count, &uniform, |key| {
        key.as_int().unwrap_or(0) as usize & 1
    });
    one("hash plan, int keys", &native, &uniform, || Policy::Global);
    one("hash plan, text keys", &by_text, &texts, || Policy::Global);
    one(
        "interval plan, random addresses",
        &range,
        &addresses,
        || Policy::Global,
    );
    one("L0 hit, 128 keys", &sqlite, &hot, || Policy::Global);
    one("L0/L1 hits, Zipf 0.99", &sqlite, &skewed, || Policy::Global);
    one("L1 hits mostly, uniform", &sqlite, &uniform, || {
        Policy::Global
    });
    one("SQLite, no cache", &sqlite, &uniform, || Policy::Bypass);
    measure(
        "SQL text and named parameter",
        lookup_count / 4,
        &uniform,
        |key| {
            let named = params! {"id" => key.clone()};
            let row = knowledge
                .query_first("select value from kv where id = :id", &named)
                .unwrap();
            row.map_or(0, |row| row.len())
        },
    );
    println!("{:#?}", knowledge.snapshot());
    Ok(())
}

fn write_tables(folder: &Path, key_count: usize, ranges: &str) -> Result<()> {
    let config = "version = 2\n[cache]\ncapacity = 200000\nttl_ms = 3600000\ncapacity_bytes = 268435456\n[csv]\nhas_header = false\n\
        [[tables]]\nname = \"kv\"\ncolumns.by_index = [0, 1, 2]\n\
        [[tables]]\nname = \"ranges\"\ncolumns.by_index = [0, 1, 2, 3]\n";
    fs::write(folder.join("knowdb.toml"), config)?;
    let mut kv = String::new();
    for id in 1..=key_count {
        writeln!(kv, "{id},name-{id},value_{id}")?;
    }
    for (table, create, insert, data) in [
        (
            "kv",
            "create table {table} (id integer primary key, name text, value text not null)",
            "insert into {table} values (?1, ?2, ?3)",
            kv.as_str(),
        ),
        (
            "ranges",
            "create table {table} (lo integer, hi integer, asn integer, org text)",
            "insert into {table} values (ip4_int(?1), ip4_int(?2), ?3, ?4)",
            ranges,
        ),
    ] {
        fs::create_dir(folder.join(table))?;
        fs::write(folder.join(table).join("create.sql"), create)?;
        fs::write(folder.join(table).join("insert.sql"), insert)?;
        fs::write(folder.join(table).join("data.csv"), data)?;
    }
    Ok(())
}

/// 400,000 consecutive ranges with a gap after each.
fn made_up_ranges() -> String {
    let step = u32::MAX / 400_000;
    let mut ranges = String::new();
    for index in 0..400_000_u32 {
        let first = std::net::Ipv4Addr::from(index * step);
        let last = std::net::Ipv4Addr::from(index * step + step - 100);
        writeln!(ranges, "{first},{last},{index},org {index}").expect("a string takes any text");
    }
    ranges
}

/// Runs the lookups once to warm up, then several times; prints the best and the worst round.
fn measure(name: &str, count: usize, keys: &[Value], mut lookup: impl FnMut(&Value) -> usize) {
    let mut rounds = Vec::new();
    let mut sum = 0;
    for round in 0..=ROUND_COUNT {
        let before = thread_cpu_ns();
        for op in 0..count {
            sum += lookup(&keys[op & (keys.len() - 1)]);
        }
        if round > 0 {
            rounds.push((thread_cpu_ns() - before) as f64 / count as f64);
        }
    }
    rounds.sort_by(f64::total_cmp);
    let median = rounds[rounds.len() / 2];
    println!(
        "{name:32} min {:7.1} median {median:7.1} max {:7.1} ns  (sum {sum})",
        rounds[0],
        rounds[rounds.len() - 1]
    );
}

/// CPU time of this thread in nanoseconds, as counted by Linux.
fn thread_cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Keys from 1 with a probability of 1/rank^exponent.
struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    fn new(key_count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let cumulated = (1..=key_count).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self {
            cumulated: cumulated.collect(),
        }
    }

    fn key(&self, random: &mut fastrand::Rng) -> i64 {
        let last = self.cumulated.last().expect("there are keys");
        let at = random.f64() * last;
        self.cumulated.partition_point(|&sum| sum < at) as i64 + 1
    }
}
