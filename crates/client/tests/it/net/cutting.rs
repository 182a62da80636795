//! A pool behind a proxy that cuts connections in the middle of packets: no caller is stuck.
//!
//! `LOOKASIDE_CUT_RUNS` sets the number of runs on each server, 2 by default.

use std::env;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use lookaside_client::{Config, Environment, Pool, PoolOptions};
use lookaside_value::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::live::database;
use crate::live::tokio::block_on;
use crate::mysql::sites;

const TASK_COUNT: i64 = 32;
const QUERY_COUNT: i64 = 100;

/// Longer than any answer takes on a machine that is busy with other things.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Passes bytes on to a server, and cuts each connection after a random number of them. It ends with
/// the test's process.
struct Proxy {
    port: u16,
    cut_count: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(server_port: u16, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut_count = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&cut_count);
        thread::spawn(move || {
            let mut random = Rng::with_seed(seed);
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else {
                    continue;
                };
                // Most log-ins fit in, and some do not.
                let size_max = random.usize(500..12_000);
                let sizes = [random.usize(500..12_000), size_max];
                for (from, to, size) in [(&client, &server, sizes[0]), (&server, &client, sizes[1])]
                {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let count = Arc::clone(&count);
                    thread::spawn(move || pass(from, to, size, &count));
                }
            }
        });
        Self { port, cut_count }
    }
}

/// Passes on so many bytes, and then ends both connections.
fn pass(mut from: TcpStream, mut to: TcpStream, mut size: usize, cut_count: &AtomicUsize) {
    let mut space = [0; 4096];
    while size > 0 {
        let size_max = size.min(space.len());
        let Ok(read_size @ 1..) = from.read(&mut space[..size_max]) else {
            break;
        };
        size -= read_size;
        if to.write_all(&space[..read_size]).is_err() {
            break;
        }
    }
    // Only the number matters.
    cut_count.fetch_add(usize::from(size == 0), Ordering::Relaxed);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// One run: 32 tasks, six connections. Says how many queries were lost and how many connections cut.
fn run(url: &str, server_port: u16, sql: &'static str, seed: u64) -> (u64, usize) {
    let proxy = Proxy::start(server_port, seed);
    let url = url.replace(
        &format!("127.0.0.1:{server_port}"),
        &format!("127.0.0.1:{}", proxy.port),
    );
    let config = Config::parse(&url, &Environment::empty()).unwrap();
    let lost_count = Arc::new(AtomicU64::new(0));
    block_on(async {
        let pool = Pool::new(
            config,
            PoolOptions {
                connection_count_max: 6,
                // A timeout would hide a caller that is stuck.
                query_timeout: None,
                ..PoolOptions::default()
            },
        );
        let mut tasks = JoinSet::new();
        for task in 0..TASK_COUNT {
            let (pool, lost_count) = (pool.clone(), Arc::clone(&lost_count));
            tasks.spawn(async move {
                for number in 0..QUERY_COUNT {
                    let tag = Value::Int(task * QUERY_COUNT + number);
                    let answer = timeout(TIMEOUT, pool.query(sql, std::slice::from_ref(&tag)));
                    let Ok(answer) = answer.await else {
                        panic!("seed {seed}: a caller is stuck: {:?}", pool.status());
                    };
                    match answer {
                        Ok(answer) => assert_eq!(answer.rows.row(0)[0], tag, "seed {seed}"),
                        Err(_) => {
                            lost_count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        let closed = timeout(TIMEOUT, pool.close()).await;
        assert!(closed.is_ok(), "seed {seed}: {:?}", pool.status());
    });
    let lost_count = lost_count.load(Ordering::Relaxed);
    (lost_count, proxy.cut_count.load(Ordering::Relaxed))
}

fn runs(name: &str, url: &str, server_port: u16, sql: &'static str) {
    let count = env::var("LOOKASIDE_CUT_RUNS").map_or(2, |count| count.parse().expect("a number"));
    let (mut lost_count, mut cut_count) = (0, 0);
    for number in 0..count {
        let seed = fastrand::u64(..);
        let (lost, cut) = run(url, server_port, sql, seed);
        lost_count += lost;
        cut_count += cut;
        eprintln!("{name}: run {number}, seed {seed}: {cut} connections cut, {lost} queries lost");
    }
    eprintln!("{name}: {count} runs, {cut_count} connections cut, {lost_count} queries lost");
    assert!(cut_count > 0, "the proxy cuts");
}

#[test]
fn no_caller_of_postgres_waits_for_a_connection_that_was_cut() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    let url = postgres.tcp_url().expect("it listens on TCP");
    let config = Config::parse(&url, &Environment::empty()).unwrap();
    runs(
        "PostgreSQL",
        &url,
        config.hosts()[0].port,
        "select $1::int8",
    );
}

#[test]
fn no_caller_of_mysql_waits_for_a_connection_that_was_cut() {
    for site in sites() {
        // MySQL lets root in on its socket only.
        site.execute(&[
            "create user if not exists cut@'%'",
            "grant all on *.* to cut@'%'",
        ]);
        let port = site.server.port();
        let url = format!(
            "mysql://cut@127.0.0.1:{port}/{}?ssl-mode=disabled",
            site.database
        );
        let name = format!("{:?}", site.server.brand());
        runs(&name, &url, port, "select cast(? as signed)");
    }
}
