//! How long point reads take that come after a slow query through the same pool.
//!
//! ```sh
//! cargo run --release -p lookaside-client --example slow_query -- [--postgres URL] [--mysql URL]
//!     [--open 1,3,8] [--delays-ms 5,500] [--reads 20] [--slow-ms 2000] [--rounds 5] [--stall-ms MS]
//! ```
//!
//! Without a URL it starts an embedded PostgreSQL and a private MariaDB. A round opens a new pool of
//! up to eight connections with so many of them open, warms each up, asks the slow query, waits, and
//! then has so many tasks read one row each at the same time. A line of JSON is printed for each
//! case: the latencies of all reads of all rounds in milliseconds, and how many of them took longer
//! than 25 ms.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program that prints what it measured"
)]

use std::env;
use std::time::{Duration, Instant};

use lookaside_client::{Config, Environment, Pool, PoolOptions};
use lookaside_embedded::Postgres;
use lookaside_testing::{Brand, Server};
use lookaside_value::Value;

const ROW_COUNT: i64 = 1_000;

/// What a lookup may take.
const LIMIT: Duration = Duration::from_millis(25);

struct Arguments {
    postgres: Option<String>,
    mysql: Option<String>,
    open: Vec<usize>,
    delays: Vec<Duration>,
    read_count: usize,
    slow: Duration,
    round_count: usize,
    stall: Option<Duration>,
}

/// A server, and how it says things.
struct Site {
    name: &'static str,
    url: String,
    sleep: String,
    read: &'static str,
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // Held until the end.
    let own = arguments.postgres.is_none() && arguments.mysql.is_none();
    let postgres = own.then(|| Postgres::builder().start().expect("an embedded PostgreSQL"));
    let mariadb = own.then(|| Server::start(Brand::MariaDb, &[])).flatten();
    let postgres_url = postgres
        .as_ref()
        .map(Postgres::url)
        .or(arguments.postgres.clone());
    let mysql_url = mariadb
        .as_ref()
        .map(|server| server.url("mysql"))
        .or(arguments.mysql.clone());
    let seconds = arguments.slow.as_secs_f64();
    let sites = [
        postgres_url.map(|url| Site {
            name: "PostgreSQL",
            url,
            sleep: format!("select pg_sleep({seconds})"),
            read: "select name from slow_query_points where id = $1",
        }),
        mysql_url.map(|url| Site {
            name: "MariaDB",
            url,
            sleep: format!("select sleep({seconds})"),
            read: "select name from slow_query_points where id = ?",
        }),
    ];
    for site in sites.into_iter().flatten() {
        runtime.block_on(fill(&site));
        for &open_count in &arguments.open {
            for &delay in &arguments.delays {
                runtime.block_on(measure(&arguments, &site, open_count, delay));
            }
        }
    }
}

fn pool(site: &Site, options: PoolOptions) -> Pool {
    let config = Config::parse(&site.url, &Environment::of_process()).expect("a URL");
    Pool::new(config, options)
}

/// Makes the table that is read.
async fn fill(site: &Site) {
    let pool = pool(site, PoolOptions::default());
    let rows: Vec<_> = (0..ROW_COUNT)
        .map(|id| format!("({id}, 'name {id}')"))
        .collect();
    for sql in [
        "drop table if exists slow_query_points".to_owned(),
        "create table slow_query_points (id int primary key, name varchar(20))".to_owned(),
        format!("insert into slow_query_points values {}", rows.join(", ")),
    ] {
        pool.query(sql, &[]).await.expect("a table");
    }
    pool.close().await;
}

async fn measure(arguments: &Arguments, site: &Site, open_count: usize, delay: Duration) {
    let mut latencies = Vec::new();
    let (mut behind_count, mut connection_count) = (0, 0);
    for _ in 0..arguments.round_count {
        let mut options = PoolOptions::default();
        if let Some(stall) = arguments.stall {
            options.stall = stall;
        }
        let pool = pool(site, options);
        let mut locks = Vec::new();
        for _ in 0..open_count {
            let lock = pool.lock().await.expect("a connection");
            lock.query(site.read, &[Value::Int(1)])
                .await
                .expect("a row");
            locks.push(lock);
        }
        drop(locks);
        while pool.status().idle_count < open_count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let slow = tokio::spawn({
            let (pool, sql) = (pool.clone(), site.sleep.clone());
            async move { pool.query(sql, &[]).await.expect("an answer") }
        });
        tokio::time::sleep(delay).await;
        let reads: Vec<_> = (0..arguments.read_count)
            .map(|number| {
                let (pool, sql) = (pool.clone(), site.read);
                tokio::spawn(async move {
                    let id = i64::try_from(number).expect("it is small") % ROW_COUNT;
                    let begun = Instant::now();
                    let answer = pool.query(sql, &[Value::Int(id)]).await.expect("an answer");
                    assert_eq!(answer.rows.len(), 1, "there is such a row");
                    begun.elapsed()
                })
            })
            .collect();
        for read in reads {
            let latency = read.await.expect("it does not panic");
            // It waited for the slow query if that is done.
            behind_count += usize::from(slow.is_finished());
            latencies.push(latency);
        }
        connection_count = pool.status().connection_count.max(connection_count);
        slow.await.expect("it does not panic");
        pool.close().await;
    }
    latencies.sort_unstable();
    let ms = |latency: Duration| latency.as_secs_f64() * 1_000.0;
    let late_count = latencies.iter().filter(|latency| **latency > LIMIT).count();
    println!(
        "{{\"measure\":\"slow query\",\"server\":\"{}\",\"open\":{open_count},\"delay_ms\":{},\
         \"reads\":{},\"median_ms\":{:.3},\"p99_ms\":{:.3},\"max_ms\":{:.3},\"above_25_ms\":{late_count},\
         \"after_slow\":{behind_count},\"connections_max\":{connection_count}}}",
        site.name,
        delay.as_millis(),
        latencies.len(),
        ms(latencies[latencies.len() / 2]),
        ms(latencies[latencies.len() * 99 / 100]),
        ms(latencies[latencies.len() - 1]),
    );
}

impl Arguments {
    fn parse() -> Self {
        let mut arguments = Self {
            postgres: None,
            mysql: None,
            open: vec![1, 3, 8],
            delays: [5, 500].map(Duration::from_millis).into(),
            read_count: 20,
            slow: Duration::from_secs(2),
            round_count: 5,
            stall: None,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"));
            let number = |text: &str| {
                text.parse()
                    .unwrap_or_else(|_| panic!("{word} {text}: no number"))
            };
            let millis = |text: &str| Duration::from_millis(number(text));
            let count = |text: &str| usize::try_from(number(text)).expect("it is small");
            match word.as_str() {
                "--postgres" => arguments.postgres = Some(value),
                "--mysql" => arguments.mysql = Some(value),
                "--open" => arguments.open = value.split(',').map(count).collect(),
                "--delays-ms" => arguments.delays = value.split(',').map(millis).collect(),
                "--reads" => arguments.read_count = count(&value),
                "--slow-ms" => arguments.slow = millis(&value),
                "--rounds" => arguments.round_count = count(&value),
                "--stall-ms" => arguments.stall = Some(millis(&value)),
                _ => panic!("unknown option {word}; see the head of the source"),
            }
        }
        arguments
    }
}
