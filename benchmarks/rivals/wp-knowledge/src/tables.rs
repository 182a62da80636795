//! What do loading a table and a lookup by key cost in wp-knowledge 0.19, beside `lookaside-bench table-load` and
//! `table-probes`?
//!
//! `rival-wp-tables DIR COLUMNS [--seconds 1.5]`
//!
//! DIR is what `lookaside-bench table-probes --kind dense --columns COLUMNS --export DIR` wrote. Prints a line of JSON
//! for the load up to the first answer, one for lookups that SQLite answers, and one for lookups that the shared cache
//! answers: 65,536 keys in turn, whose requests are built before the clock starts.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rival_common::measure::{Seen, process_cpu};
use wp_knowledge::facade::init_thread_cloned_from_knowdb;
use wp_knowledge::runtime::{CachePolicy, QueryRequest, fields_to_params, runtime};
use wp_model_core::model::{DataField, Value};

const ENGINE: &str = "wp-knowledge 0.19.0";
/// Lookups between two clock readings.
const BLOCK: usize = 1024;
/// Keys whose requests are built ahead.
const KEY_COUNT: usize = 1 << 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (folder, columns, seconds) = match &words[..] {
        [folder, columns] => (folder, columns, "1.5"),
        [folder, columns, option, seconds] if option == "--seconds" => {
            (folder, columns, seconds.as_str())
        }
        _ => panic!("usage: rival-wp-tables DIR COLUMNS [--seconds SECONDS]"),
    };
    let folder = PathBuf::from(folder);
    let columns: usize = columns.parse().expect("columns are a number");
    let seconds = Duration::from_secs_f64(seconds.parse().expect("seconds are a number"));
    let names: Vec<String> = (1..=columns).map(|column| format!("c{column}")).collect();
    let sql = format!("select {} from t where id = :key", names.join(", "));

    let csv_size = fs::metadata(folder.join("t/data.csv"))
        .expect("t/data.csv")
        .len();
    let scratch = std::env::temp_dir().join(format!("rival-wp-tables-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("a scratch folder");
    let authority = scratch.join("authority.sqlite");
    let (empty, started, cpu_before) = (memory("VmRSS:"), Instant::now(), process_cpu());
    init_thread_cloned_from_knowdb(
        &folder,
        &folder.join("knowdb.toml"),
        &format!("file:{}?mode=rwc&uri=true", authority.display()),
        &orion_variate::EnvDict::default(),
    )
    .expect("the folder loads");
    let open = started.elapsed();
    black_box(row(&request(&sql, 1, CachePolicy::Bypass)));
    println!(
        "{{\"engine\":\"{ENGINE}\",\"bench\":\"table-load\",\"csv_size\":{csv_size},\"open_s\":{},\"answer_s\":{},\
         \"cpu_s\":{},\"resident_empty\":{empty},\"resident\":{},\"resident_max\":{}}}",
        open.as_secs_f64(),
        started.elapsed().as_secs_f64(),
        (process_cpu() - cpu_before).as_secs_f64(),
        memory("VmRSS:"),
        memory("VmHWM:"),
    );

    // After the load, whose memory is measured.
    let keys = fs::read_to_string(folder.join("keys.txt")).expect("keys.txt");
    let keys: Vec<i64> = keys
        .lines()
        .map(|line| line.parse().expect("a key is an integer"))
        .collect();
    let mut hash = Seen::hash();
    for &key in &keys {
        let row = row(&request(&sql, key, CachePolicy::Bypass));
        let values: Vec<String> = row.iter().map(|field| text(field.get_value())).collect();
        hash.see(values.join("|").as_bytes());
    }
    for (case, policy) in [
        ("SQLite", CachePolicy::Bypass),
        ("cached", CachePolicy::UseGlobal),
    ] {
        let requests: Vec<QueryRequest> = keys
            .iter()
            .take(KEY_COUNT)
            .map(|&key| request(&sql, key, policy))
            .collect();
        // Every key is in the cache then.
        for request in &requests {
            black_box(row(request));
        }
        let mut rounds = Vec::new();
        let mut next = 0;
        for _ in 0..3 {
            let (started, cpu_before, mut count) = (Instant::now(), process_cpu(), 0);
            while started.elapsed() < seconds / 3 {
                for _ in 0..BLOCK {
                    black_box(row(&requests[next]));
                    next = (next + 1) % requests.len();
                }
                count += BLOCK;
            }
            rounds.push((process_cpu() - cpu_before).as_nanos() as f64 / count as f64);
        }
        rounds.sort_by(f64::total_cmp);
        println!(
            "{{\"engine\":\"{ENGINE}, {case}\",\"bench\":\"table-probes\",\"case\":\"single\",\
             \"cpu_ns_per_op\":{{\"min\":{:.1},\"median\":{:.1},\"max\":{:.1}}},\"hash\":\"{:016x}\"}}",
            rounds[0], rounds[1], rounds[2], hash.hashed()
        );
    }
    fs::remove_dir_all(&scratch).expect("the scratch folder goes");
}

fn request(sql: &str, key: i64, policy: CachePolicy) -> QueryRequest {
    let params = [DataField::from_int(":key", key)];
    QueryRequest::first_row(sql, fields_to_params(&params), policy)
}

fn row(request: &QueryRequest) -> Vec<DataField> {
    let answer = runtime().execute(request).expect("a lookup answers");
    answer.into_row()
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Chars(text) => text.to_string(),
        other => panic!("a column has {other:?}"),
    }
}

/// A figure of /proc/self/status in bytes.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a size") << 10
}
