//! How many records per second does one core evaluate, and what does a lookup add?
//!
//! Each case runs batches of generated records. `fill` measures the harness alone: filling the
//! batch. The other cases show the time beyond it. It is CPU time, not wall-clock time, so that
//! other load on the machine does not count. The database is an in-memory hash map in place of a
//! native plan: its probe is part of the `lookup` cases, and the separate case `probe` shows its
//! cost, as wall-clock time of the quickest batch.
//!
//! `cargo run --release -p lookaside-oml --example rate -- [records] [batch] [keys] [case]`
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "printing the numbers is what it is for"
)]

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Instant;

use foldhash::fast::{FixedState, RandomState};
use lookaside_oml::{Evaluator, Model, Options, Program, RunReport};
use lookaside_value::{
    Answers, Batch, BatchQuery, Lookup, LookupError, Name, NameTable, ParamBatch, RowSet,
    RowSetBuilder, StatementId, Text, Value,
};

const CASES: [(&str, &str); 11] = [
    ("fill", ""),
    ("read", "V = read(id) ;"),
    ("take all", "* = take() ;"),
    (
        "lookup, integer keys",
        "V = read(id) ; who = select login from t where id = read(id) ;",
    ),
    (
        "lookup, text keys",
        "V = read(id) ; who = select login from t where id = read(key) ;",
    ),
    (
        "lookup, 1 % of the keys",
        "V = read(id) ; who = select login from t where id = read(hot) ;",
    ),
    (
        "match, 3 literals",
        "V = match read(verb) { chars(PUT) => chars(w) ; chars(POST) => chars(w) ;
         chars(GET) => chars(r) ; } ;",
    ),
    (
        "match, tuple",
        "V = match (read(verb), read(id)) { (chars(PUT), gt(5)) => chars(a) ;
         (starts_with('G'), gt(-1)) => chars(b) ; } ;",
    ),
    ("fmt", "V = fmt(\"{verb} {id}\", @verb, @id) ;"),
    ("pipe", "V = pipe read(ip) | ip4_to_int | skip_empty ;"),
    (
        "six statements",
        "client = take(ip) ;
         class = match read(verb) { chars(PUT) | chars(POST) => chars(w) ; _ => chars(r) ; } ;
         who = select login from t where id = read(id) ; agent : chars = take(agent) ;
         line = fmt(\"{client} {verb}\", @client, @verb) ; * = take() ;",
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (record_count, batch_size) = (number(0, 200_000), number(1, 512).max(1));
    let key_count = number(2, 100_000).max(100);
    let only = arguments.get(3);
    let mut fill_nanos = 0.0;
    println!("{record_count} records, batches of {batch_size}, {key_count} keys");
    println!("{:<26}{:>12}{:>16}  hash", "case", "ns/record", "records/s");
    for (case, statements) in CASES {
        if case != "fill" && only.is_some_and(|only| !case.starts_with(only.as_str())) {
            continue;
        }
        let mut bench = Bench::new(statements, batch_size, key_count);
        bench.run(record_count / 10);
        let (nanos, hash) = bench.run(record_count);
        let nanos = nanos / record_count as f64;
        if case == "fill" {
            fill_nanos = nanos;
            println!("{case:<26}{nanos:>12.1}{:>16}  {hash:016x}", "");
        } else {
            let own = (nanos - fill_nanos).max(0.1);
            println!("{case:<26}{own:>12.1}{:>16.0}  {hash:016x}", 1e9 / own);
        }
    }
    let (nanos, hash) = probe(record_count, batch_size, key_count);
    println!("{:<26}{nanos:>12.1}{:>16}  {hash:016x}", "probe", "");
}

struct Bench {
    evaluator: Option<Evaluator>,
    batch: Batch,
    names: [Name; 6],
    table: Table,
    key_count: usize,
    random: u64,
    batch_size: usize,
}

impl Bench {
    fn new(statements: &str, batch_size: usize, key_count: usize) -> Self {
        let mut table = Table::new(key_count);
        let mut names = NameTable::new();
        let fields = ["id", "key", "hot", "verb", "ip", "agent"].map(|name| names.intern(name));
        let evaluator = (!statements.is_empty()).then(|| {
            let text = format!("name : rate\n---\n{statements}\n");
            let model = Model::parse("rate.oml", &text).expect("the models above are right");
            let program = Program::bind(&model, &mut names, &mut table, &Options::default());
            program
                .expect("the table above takes any statement")
                .evaluator()
        });
        Self {
            evaluator,
            batch: Batch::new(names.into()),
            names: fields,
            table,
            key_count,
            random: 1,
            batch_size,
        }
    }

    fn run(&mut self, record_count: usize) -> (f64, u64) {
        let mut report = RunReport::new();
        let mut hasher = FixedState::default().build_hasher();
        let start = cpu_nanos();
        let mut left = record_count;
        while left > 0 {
            let size = left.min(self.batch_size);
            left -= size;
            self.fill(size);
            if let Some(evaluator) = &mut self.evaluator {
                evaluator.run(&mut self.batch, &mut self.table, &mut report);
            }
            if let Some(field) = self.batch.records()[0].iter().next() {
                field.value.hash(&mut hasher);
            }
        }
        assert_eq!(
            report.lookup_failed_count + report.lookup_absent_count,
            0,
            "all keys are there"
        );
        (cpu_nanos() - start, hasher.finish())
    }

    fn fill(&mut self, size: usize) {
        const VERBS: [Text; 3] = [
            Text::from_static("GET"),
            Text::from_static("POST"),
            Text::from_static("PUT"),
        ];
        const AGENT: Text = Text::from_static("Mozilla/5.0 (X11; Linux x86_64; rv:140.0)");
        let [id, key, hot, verb, ip, agent] = self.names;
        self.batch.clear();
        for _ in 0..size {
            let bits = next(&mut self.random);
            let number = (bits >> 32) as usize % self.key_count;
            let record = self.batch.add();
            record.push(id, number as i64);
            record.push(key, self.table.keys[number].clone());
            record.push(hot, (number % (self.key_count / 100)) as i64);
            record.push(verb, VERBS[number % 3].clone());
            record.push(ip, std::net::Ipv4Addr::from(bits as u32));
            record.push(agent, AGENT);
        }
    }
}

/// The cost per key of the hash map alone, without the rest of [`Table::answer`].
fn probe(record_count: usize, batch_size: usize, key_count: usize) -> (f64, u64) {
    let mut table = Table::new(key_count);
    let mut params = ParamBatch::new(1);
    let mut answers = Answers::new();
    let query = BatchQuery::first(StatementId::from_index(0));
    let (mut random, mut found) = (1, 0_u64);
    let mut nanos = f64::INFINITY;
    for _ in 0..(record_count / batch_size).max(1) {
        params.reset(1);
        for _ in 0..batch_size {
            let number = (next(&mut random) >> 32) as usize % key_count;
            params.push([Value::Int(number as i64)]);
        }
        let start = Instant::now();
        table.answer(query, &params, &mut answers);
        nanos = nanos.min(start.elapsed().as_nanos() as f64);
        found += answers.len() as u64;
    }
    (nanos / batch_size as f64, found)
}

/// splitmix64
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// CPU time of this process, or wall-clock time if the system does not provide it.
fn cpu_nanos() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    match text.split(' ').next().and_then(|field| field.parse().ok()) {
        Some(nanos) => nanos,
        None => START.get_or_init(Instant::now).elapsed().as_nanos() as f64,
    }
}

/// Rows by key, as in a native plan.
struct Table {
    keys: Vec<Text>,
    places: HashMap<Value, usize, RandomState>,
    rows: RowSet,
    columns: [Text; 1],
}

impl Table {
    fn new(key_count: usize) -> Self {
        let keys: Vec<Text> = (0..key_count)
            .map(|n| Text::from(format!("user-{n}")))
            .collect();
        let mut rows = RowSetBuilder::new(["login"]);
        let mut places = HashMap::default();
        for (index, key) in keys.iter().enumerate() {
            rows.push([Value::Text(key.clone())]);
            places.insert(Value::Text(key.clone()), index);
            places.insert(Value::Int(index as i64), index);
        }
        Self {
            keys,
            places,
            rows: rows.build(),
            columns: ["login".into()],
        }
    }
}

impl Lookup for Table {
    fn prepare(&mut self, _: &str, _: &[Text]) -> Result<StatementId, LookupError> {
        Ok(StatementId::from_index(0))
    }

    fn columns(&self, _: StatementId) -> &[Text] {
        &self.columns
    }

    fn answer(&mut self, _: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        answers.clear();
        let rows = answers.add_rows(self.rows.clone());
        for set in params.iter() {
            match self.places.get(&set[0]) {
                Some(index) => answers.push_row(rows, *index),
                None => answers.push_absent(),
            }
        }
    }
}
