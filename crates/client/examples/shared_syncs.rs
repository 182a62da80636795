//! What it brings to share Syncs: point reads by many tasks, through our pool and tokio-postgres in
//! turn, alone and beside a query of 100 ms.
//!
//! ```sh
//! cargo run --release -p lookaside-client --example shared_syncs -- [--url URL] [--tasks 32]
//!     [--seconds 2] [--rounds 5] [--slow-ms 100] [--workers N]
//! ```
//!
//! Without a URL it starts an embedded PostgreSQL. Each round runs each way once, on a runtime of its
//! own, and prints a line of JSON for it: reads a second, and their latencies in microseconds. Beside
//! the reads, one more task asks the slow query again and again: through the same pool or the
//! connection of the reads (`Same`), or through a connection of its own (`Other`), which for the pool
//! is `Pool::lock`. The statement is prepared before, and every answer is looked at.
#![allow(
    clippy::print_stdout,
    reason = "it is a program that prints what it measured"
)]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookaside_client::{Config, Environment, Pool, PoolOptions, Request, Syncs};
use lookaside_embedded::Postgres;
use lookaside_value::Value;
use tokio::task::JoinSet;

const ROW_COUNT: i64 = 10_000;
const READ: &str = "select name from shared_syncs_points where id = $1";

#[derive(Clone)]
struct Arguments {
    url: Option<String>,
    task_count: u64,
    time: Duration,
    round_count: usize,
    slow: Duration,
    worker_count: Option<usize>,
}

/// A way to read, and what is asked beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    TokioPostgres,
    /// A Sync each.
    Pool,
    /// The pool's option.
    PoolShared,
    /// Each request's own word.
    ReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// The slow query on the connection of the reads, or through their pool.
    Same,
    /// The slow query on a connection of its own.
    Other,
}

fn main() {
    let arguments = Arguments::parse();
    let own = arguments.url.is_none();
    let postgres = own.then(|| Postgres::builder().start().expect("an embedded PostgreSQL"));
    let url = postgres
        .as_ref()
        .map(Postgres::url)
        .or(arguments.url.clone())
        .expect("a URL");
    runtime(&arguments).block_on(fill(&url));
    let cases = [
        (Way::TokioPostgres, Beside::Nothing),
        (Way::Pool, Beside::Nothing),
        (Way::PoolShared, Beside::Nothing),
        (Way::ReadOnly, Beside::Nothing),
        (Way::TokioPostgres, Beside::Other),
        (Way::TokioPostgres, Beside::Same),
        (Way::Pool, Beside::Same),
        (Way::PoolShared, Beside::Same),
        (Way::Pool, Beside::Other),
        (Way::PoolShared, Beside::Other),
    ];
    for round in 1..=arguments.round_count {
        for (way, beside) in cases {
            let runtime = runtime(&arguments);
            match way {
                Way::TokioPostgres => runtime.block_on(theirs(&arguments, &url, round, beside)),
                _ => runtime.block_on(ours(&arguments, &url, round, way, beside)),
            }
        }
    }
}

fn runtime(arguments: &Arguments) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(count) = arguments.worker_count {
        builder.worker_threads(count);
    }
    builder.enable_all().build().expect("a runtime")
}

/// Makes the table that is read.
async fn fill(url: &str) {
    let config = Config::parse(url, &Environment::of_process()).expect("a URL");
    let pool = Pool::new(config, PoolOptions::default());
    for sql in [
        "drop table if exists shared_syncs_points",
        "create table shared_syncs_points (id int8 primary key, name text not null)",
        "insert into shared_syncs_points select id, 'name ' || id from generate_series(0, 9999) id",
        "analyze shared_syncs_points",
    ] {
        pool.query(sql, &[]).await.expect("a table");
    }
    pool.close().await;
}

async fn ours(arguments: &Arguments, url: &str, round: usize, way: Way, beside: Beside) {
    let config = Config::parse(url, &Environment::of_process()).expect("a URL");
    let syncs = match way {
        Way::PoolShared => Syncs::Shared,
        _ => Syncs::Each,
    };
    let pool = Pool::new(
        config,
        PoolOptions {
            syncs,
            ..PoolOptions::default()
        },
    );
    pool.query(READ, &[Value::Int(1)]).await.expect("a row");
    let sql: Arc<str> = READ.into();
    let read = {
        let pool = pool.clone();
        move |id: i64| {
            let (pool, sql) = (pool.clone(), Arc::clone(&sql));
            async move {
                let request = Request::new(sql, &[Value::Int(id)]);
                let request = match way {
                    Way::ReadOnly => request.read_only(),
                    _ => request,
                };
                let mut answers = pool.request(request).await.expect("an answer");
                let answer = answers.pop().expect("one answer").expect("a row");
                assert_eq!(answer.rows.len(), 1);
            }
        }
    };
    let sleep = {
        let (pool, sql) = (pool.clone(), sleep_sql(arguments));
        async move || {
            // It is not said to be one that shares.
            let request = Request::new(sql.as_str(), &[]).syncs(Syncs::Each);
            let answers = match beside {
                Beside::Other => {
                    let lock = pool.lock().await.expect("a connection");
                    lock.request(request).await
                }
                _ => pool.request(request).await,
            };
            answers.expect("an answer");
        }
    };
    measure(arguments, round, way, beside, read, sleep).await;
    pool.close().await;
}

async fn theirs(arguments: &Arguments, url: &str, round: usize, beside: Beside) {
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
            .await
            .expect("a connection");
        tokio::spawn(connection);
        Arc::new(client)
    };
    let client = connect().await;
    let statement = client.prepare(READ).await.expect("a statement");
    let slow = match beside {
        Beside::Other => connect().await,
        _ => Arc::clone(&client),
    };
    let sleep_statement = slow
        .prepare(&sleep_sql(arguments))
        .await
        .expect("a statement");
    let read = move |id: i64| {
        let (client, statement) = (Arc::clone(&client), statement.clone());
        async move {
            let rows = client.query(&statement, &[&id]).await.expect("an answer");
            assert_eq!(rows.len(), 1);
        }
    };
    let sleep = async move || {
        slow.query(&sleep_statement, &[]).await.expect("an answer");
    };
    measure(arguments, round, Way::TokioPostgres, beside, read, sleep).await;
}

fn sleep_sql(arguments: &Arguments) -> String {
    format!("select pg_sleep({})", arguments.slow.as_secs_f64())
}

async fn measure<R>(
    arguments: &Arguments,
    round: usize,
    way: Way,
    beside: Beside,
    read: impl Fn(i64) -> R + Clone + Send + 'static,
    sleep: impl AsyncFn(),
) where
    R: Future<Output = ()> + Send + 'static,
{
    let is_over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..arguments.task_count {
        let (read, is_over) = (read.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(task);
            let mut latencies = Vec::with_capacity(1 << 16);
            // Nothing else is published with it.
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                read(random.i64(0..ROW_COUNT)).await;
                latencies.push(begun.elapsed());
            }
            latencies
        });
    }
    let mut slow_count = 0;
    let end = begun + arguments.time;
    if beside == Beside::Nothing {
        tokio::time::sleep_until(end.into()).await;
    }
    while Instant::now() < end {
        sleep().await;
        slow_count += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut latencies: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    let elapsed = begun.elapsed();
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        latencies[index.min(latencies.len() - 1)].as_secs_f64() * 1e6
    };
    println!(
        "{{\"round\":{round},\"measure\":\"point read, {} tasks\",\"way\":\"{way:?}\",\
         \"beside\":\"{beside:?}\",\"reads\":{},\"per_second\":{:.0},\"p50_us\":{:.0},\
         \"p99_us\":{:.0},\"p999_us\":{:.0},\"max_us\":{:.0},\"slow_queries\":{slow_count}}}",
        arguments.task_count,
        latencies.len(),
        latencies.len() as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    );
}

impl Arguments {
    fn parse() -> Self {
        let mut arguments = Self {
            url: None,
            task_count: 32,
            time: Duration::from_secs(2),
            round_count: 5,
            slow: Duration::from_millis(100),
            worker_count: None,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"));
            let number = || -> u64 {
                value
                    .parse()
                    .unwrap_or_else(|_| panic!("{word} {value}: no number"))
            };
            let count = || usize::try_from(number()).expect("it is small");
            match word.as_str() {
                "--url" => arguments.url = Some(value),
                "--tasks" => arguments.task_count = number(),
                "--seconds" => arguments.time = Duration::from_secs(number()),
                "--rounds" => arguments.round_count = count(),
                "--slow-ms" => arguments.slow = Duration::from_millis(number()),
                "--workers" => arguments.worker_count = Some(count()),
                _ => panic!("unknown option {word}; see the head of the source"),
            }
        }
        arguments
    }
}
