//! What does a lookup cost in wp-knowledge 0.19, on the same table and keys as `lookaside bench lookup`?
//!
//! `rival-wp-knowledge DIR --case bypass|global|local [--seconds 5] [--threads 1]`
//!
//! DIR is what `lookaside bench lookup --export DIR` wrote: `knowdb.toml`, the table folder `kv` and
//! `keys.txt`, one key a line. Requests are built before the clock starts, the caches are warm, each
//! thread has a local cache of its own, and CPU time of the process is reported. The last line of output is JSON in the
//! form of `lookaside bench --json`; `hash` is over the answers to one pass over the keys.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rival_common::measure::{Seen, process_cpu};
use wp_knowledge::cache::FieldQueryCache;
use wp_knowledge::facade::{cache_query_fields, init_thread_cloned_from_knowdb};
use wp_knowledge::runtime::{CachePolicy, QueryRequest, fields_to_params, runtime};
use wp_model_core::model::{DataField, Value};

const SQL: &str = "select value from kv where id = :id";
/// Operations of all threads between two looks at the clock.
const BLOCK: usize = 64 * 4096;

struct Arguments {
    folder: PathBuf,
    case: String,
    seconds: f64,
    threads: usize,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        folder: PathBuf::new(),
        case: "global".into(),
        seconds: 5.0,
        threads: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"))
        };
        match word.as_str() {
            "--case" => arguments.case = value(),
            "--seconds" => arguments.seconds = value().parse().expect("seconds are a number"),
            "--threads" => arguments.threads = value().parse().expect("threads are a number"),
            folder => arguments.folder = folder.into(),
        }
    }
    arguments
}

fn main() {
    let arguments = arguments();
    let scratch = std::env::temp_dir().join(format!("rival-wp-knowledge-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    let authority = format!(
        "file:{}?mode=rwc&uri=true",
        scratch.join("authority.sqlite").display()
    );
    init_thread_cloned_from_knowdb(
        &arguments.folder,
        &arguments.folder.join("knowdb.toml"),
        &authority,
        &orion_variate::EnvDict::default(),
    )
    .expect("the folder loads");

    let keys: Vec<i64> = std::fs::read_to_string(arguments.folder.join("keys.txt"))
        .expect("keys.txt")
        .lines()
        .map(|line| line.parse().expect("a key is an integer"))
        .collect();
    let key_max = *keys.iter().max().expect("at least one key") as usize;
    let requests = Requests::new(key_max, &arguments.case);
    let mut lookers: Vec<Looker> = (0..arguments.threads)
        .map(|thread| Looker {
            local: FieldQueryCache::with_capacity(key_max + 1),
            next: keys.len() / arguments.threads * thread,
        })
        .collect();

    let mut hash = Seen::hash();
    for looker in &mut lookers {
        hash = Seen::hash();
        for &key in &keys {
            let row = requests.ask(key, &mut looker.local);
            match row.first().map(DataField::get_value) {
                Some(Value::Chars(text)) => hash.see(text.as_str().as_bytes()),
                other => panic!("key {key} answered {other:?}"),
            }
        }
    }

    // One round to warm up, as ours.
    lookers
        .iter_mut()
        .for_each(|looker| looker.look(&requests, &keys, BLOCK));
    let started = Instant::now();
    let cpu_before = process_cpu();
    let mut op_count = 0_u64;
    while started.elapsed() < Duration::from_secs_f64(arguments.seconds) {
        if let [looker] = &mut lookers[..] {
            looker.look(&requests, &keys, BLOCK);
            op_count += BLOCK as u64;
            continue;
        }
        let share = BLOCK / lookers.len();
        std::thread::scope(|scope| {
            for looker in &mut lookers {
                scope.spawn(|| looker.look(&requests, &keys, share));
            }
        });
        op_count += (share * lookers.len()) as u64;
    }
    let cpu = process_cpu() - cpu_before;
    let wall = started.elapsed();
    std::fs::remove_dir_all(&scratch).expect("the scratch folder goes");
    println!(
        "{{\"engine\":\"wp-knowledge 0.19.0\",\"bench\":\"lookup\",\"case\":\"{}{}\",\"keys\":{},\
         \"distinct\":{},\"ops\":{op_count},\"cpu_ns_per_op\":{:.1},\"wall_ns_per_op\":{:.1},\
         \"hash\":\"{:016x}\"}}",
        arguments.case,
        if arguments.threads == 1 {
            String::new()
        } else {
            format!(", {} threads", arguments.threads)
        },
        keys.len(),
        requests.distinct,
        cpu.as_nanos() as f64 / op_count as f64,
        wall.as_nanos() as f64 / op_count as f64,
        hash.hashed(),
    );
}

/// Everything that a caller could prepare ahead, prepared ahead.
struct Requests {
    case: String,
    prepared: Vec<QueryRequest>,
    params: Vec<[DataField; 1]>,
    keys: Vec<[DataField; 1]>,
    distinct: usize,
}

impl Requests {
    fn new(key_max: usize, case: &str) -> Self {
        let policy = match case {
            "bypass" => CachePolicy::Bypass,
            "global" | "local" => CachePolicy::UseGlobal,
            other => panic!("case {other}: one of bypass, global, local"),
        };
        let fields = |name: &str| -> Vec<[DataField; 1]> {
            (0..=key_max as i64)
                .map(|key| [DataField::from_int(name, key)])
                .collect()
        };
        let params = fields(":id");
        let prepared = params
            .iter()
            .map(|param| QueryRequest::first_row(SQL, fields_to_params(param), policy))
            .collect();
        Self {
            case: case.into(),
            prepared,
            params,
            keys: fields("id"),
            distinct: key_max,
        }
    }

    fn ask(&self, key: i64, local: &mut FieldQueryCache) -> Vec<DataField> {
        let key = key as usize;
        if self.case == "local" {
            cache_query_fields(SQL, &self.keys[key], &self.params[key], local)
        } else {
            runtime()
                .execute(&self.prepared[key])
                .expect("a lookup answers")
                .into_row()
        }
    }
}

/// One thread's cache and where it is among the keys.
struct Looker {
    local: FieldQueryCache,
    next: usize,
}

impl Looker {
    fn look(&mut self, requests: &Requests, keys: &[i64], count: usize) {
        for _ in 0..count {
            black_box(requests.ask(keys[self.next], &mut self.local));
            self.next = (self.next + 1) % keys.len();
        }
    }
}
