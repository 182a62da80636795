//! Servers that cannot be reached: requests fail at once, and work once the server is there.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use lookaside_client::{Config, ErrorKind, Pool, PoolOptions};
use lookaside_testing::wait_for_async;
use lookaside_value::Value;
use tokio::time::timeout;

use crate::driver::server::Server;
use crate::live::tokio::block_on;
use crate::live::{config, shown};

const ECHO: &str = "select $1";

/// Timeouts much longer than a test may take.
fn patient() -> PoolOptions {
    PoolOptions {
        acquire_timeout: Duration::from_secs(100_000),
        query_timeout: None,
        ..PoolOptions::default()
    }
}

async fn refused(url: &str) {
    let pool = Pool::new(Config::Postgres(config(url)), patient());
    for _ in 0..100 {
        let asked = pool.query(ECHO, &[Value::Int(7)]);
        let asked = timeout(Duration::from_secs(60), asked).await;
        let error = asked.expect("it fails at once").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection, "{error:?}");
        assert!(
            error.is_retryable() && error.is_connection_lost(),
            "{error:?}"
        );
        assert!(error.to_string().contains("cannot connect to"), "{error}");
    }
    let locked = timeout(Duration::from_secs(60), pool.lock()).await;
    assert!(locked.expect("it fails at once").is_err());
    // Most of them failed without an attempt to connect.
    assert!(pool.status().open_failed_total < 100, "{:?}", pool.status());
    assert_eq!(pool.status().waiting_count, 0);
}

#[test]
fn a_refused_port_fails_at_once() {
    block_on(refused("postgres://amy@127.0.0.1:1/shop?sslmode=disable"));
}

#[test]
fn an_unknown_host_fails_at_once() {
    // A label of more than 63 letters is invalid, so no name server is queried.
    let name = "x".repeat(64);
    block_on(refused(&format!(
        "postgres://amy@{name}.test/shop?sslmode=disable"
    )));
}

#[test]
fn a_server_that_comes_late_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!(
        "postgres://amy@{}/shop",
        folder.path().display().to_string().replace('/', "%2F")
    );
    block_on(async {
        let pool = Pool::new(Config::Postgres(config(&url)), patient());
        pool.query(ECHO, &[Value::Int(7)]).await.unwrap_err();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        thread::spawn(move || {
            for socket in listener.incoming() {
                thread::spawn(move || protocol(socket.unwrap()));
            }
        });
        let answer = wait_for_async("the server is tried again", async || {
            let answer = pool.query(ECHO, &[Value::Int(8)]).await;
            if let Err(error) = &answer {
                assert!(error.is_retryable(), "{error:?}");
            }
            answer.is_ok().then_some(answer)
        })
        .await;
        assert_eq!(shown(&answer), "8");
        assert_eq!(pool.status().open_error.map(drop), None);
    });
}

fn protocol(mut socket: impl Read + Write) {
    let mut server = Server::default();
    let mut space = [0; 4096];
    while let Ok(size @ 1..) = socket.read(&mut space) {
        server.receive(&space[..size]);
        if socket.write_all(&server.answer()).is_err() {
            return;
        }
    }
}
