//! Pools on servers that are awkward.

use std::io::{Read as _, Write as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lookaside_client::{Config, ErrorKind, Pool, PoolOptions, Request, TransactionOptions};
use lookaside_testing::{wait_for_async, wait_until_async};
use lookaside_value::Value;

use super::{NO_CUT, Site, protocol};
use crate::driver::server::Server;
use crate::live::tokio::block_on;
use crate::live::{config, shown};

const ECHO: &str = "select $1";

fn pool(ports: &[u16], options: PoolOptions) -> Pool {
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let url = format!(
        "postgres://amy@{}/shop?sslmode=disable&target_session_attrs=any",
        hosts.join(",")
    );
    Pool::new(Config::Postgres(config(&url)), options)
}

/// The time to try one host is longer by default than a request waits for a connection.
#[test]
fn a_silent_host_leaves_time_for_the_next() {
    let (silent, good) = (Site::silent(), Site::start(NO_CUT));
    block_on(async {
        let options = PoolOptions {
            acquire_timeout: Duration::from_secs(6),
            ..PoolOptions::default()
        };
        let pool = pool(&[silent.port, silent.port, good.port], options);
        let answer = pool.query(ECHO, &[Value::Int(7)]).await;
        assert_eq!(shown(&answer), "7");
    });
}

/// Who was refused looks at it later than the next connection is made.
#[test]
fn who_hears_late_of_a_refusal_hears_its_reason() {
    let count = AtomicUsize::new(0);
    let site = Site::serve(move |mut socket| {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            return protocol(socket, NO_CUT);
        }
        let _ = socket.read(&mut [0; 1024]);
        let refusal = b"E\0\0\0\x20SFATAL\0VFATAL\0C28P01\0Mno\0\0";
        let mut refusal = refusal.to_vec();
        refusal[4] = u8::try_from(refusal.len() - 1).unwrap();
        socket.write_all(&refusal).unwrap();
    });
    block_on(async {
        let pool = pool(&[site.port], PoolOptions::default());
        let params = [Value::Int(7)];
        let mut late = pin!(pool.query(ECHO, &params));
        let poll = late.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(poll, Poll::Pending));
        wait_until_async("one log-in fails", async || {
            pool.status().open_failed_total == 1
        })
        .await;
        wait_until_async("no request waits", async || {
            pool.status().waiting_count == 0
        })
        .await;
        let answer = wait_for_async("an answer but a refusal", async || {
            match pool.query(ECHO, &params).await {
                Err(error) if error.kind() == ErrorKind::Refused => None,
                answer => Some(answer),
            }
        })
        .await;
        assert_eq!(shown(&answer), "7");
        let error = late.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.sqlstate().unwrap().to_string(), "28P01");
    });
}

#[test]
fn limits_that_are_for_ever() {
    let site = Site::start(NO_CUT);
    block_on(async {
        let options = PoolOptions {
            connection_count_max: 2,
            stall: Duration::MAX,
            acquire_timeout: Duration::MAX,
            idle_timeout: Some(Duration::MAX),
            lifetime_max: Some(Duration::MAX),
            check_after: Duration::MAX,
            check_timeout: Duration::MAX,
            ..PoolOptions::default()
        };
        let pool = pool(&[site.port], options);
        for number in 1..4 {
            let answer = pool.query(ECHO, &[Value::Int(number)]).await;
            assert_eq!(shown(&answer), number.to_string());
            let lock = pool.lock().await.unwrap();
            let answer = lock.query(ECHO, &[Value::Int(number)]).await;
            assert_eq!(shown(&answer), number.to_string());
        }
    });
}

/// Logs in, and then sends nothing. A query that waits for its statement was not sent itself.
#[test]
fn who_does_not_even_prepare_is_given_up() {
    let site = Site::serve(|mut socket| {
        let _ = socket.read(&mut [0; 1024]);
        let _ = socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        while matches!(socket.read(&mut [0; 1024]), Ok(1..)) {}
    });
    block_on(async {
        let options = PoolOptions {
            connection_count_max: 1,
            check_timeout: Duration::from_millis(100),
            ..PoolOptions::default()
        };
        let pool = pool(&[site.port], options);
        let deadline = Instant::now() + Duration::from_secs(2);
        let request = Request::new(ECHO, &[Value::Int(7)]).deadline(deadline);
        let mut answers = pool.request(request).await.unwrap();
        let error = answers.pop().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadline);
        wait_until_async("no connection is left", async || {
            pool.status().connection_count == 0
        })
        .await;
    });
}

/// What the first connection of a [`freezing`] server does.
#[derive(Default)]
struct Freezer {
    is_frozen: AtomicBool,
    /// Something came since.
    has_heard: AtomicBool,
}

impl Freezer {
    fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
    }

    fn has_heard(&self) -> bool {
        self.has_heard.load(Ordering::SeqCst)
    }
}

/// A server whose first connection reads everything and sends nothing once it is frozen.
fn freezing() -> (Site, Arc<Freezer>) {
    let freezer = Arc::new(Freezer::default());
    let (first, count) = (Arc::clone(&freezer), AtomicUsize::new(0));
    let site = Site::serve(move |mut socket| {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            return protocol(socket, NO_CUT);
        }
        let mut server = Server::default();
        let mut space = [0; 4096];
        while let Ok(size @ 1..) = socket.read(&mut space) {
            server.receive(&space[..size]);
            if first.is_frozen.load(Ordering::SeqCst) {
                first.has_heard.store(true, Ordering::SeqCst);
            } else if socket.write_all(&server.answer()).is_err() {
                return;
            }
        }
    });
    (site, freezer)
}

/// What a lock leaves behind.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// A transaction that the pool ends.
    Open,
    /// A transaction whose end was sent before the lock was dropped.
    Ending,
    /// A query.
    Query,
}

const LEFT: [Left; 3] = [Left::Open, Left::Ending, Left::Query];

/// Drops a lock of the pool's only connection when its server answers nothing any more.
async fn leave(pool: &Pool, freezer: &Freezer, left: Left) {
    let mut lock = pool.lock().await.unwrap();
    match left {
        Left::Open => {
            lock.query("begin", &[]).await.unwrap();
            freezer.freeze();
        }
        Left::Ending => {
            let postgres = lock.as_postgres().unwrap();
            let transaction = postgres.begin(TransactionOptions::default()).await;
            let transaction = transaction.unwrap();
            freezer.freeze();
            drop(transaction);
        }
        Left::Query => {
            lock.query(ECHO, &[Value::Int(7)]).await.unwrap();
            freezer.freeze();
            let params = [Value::Int(7)];
            tokio::select! {
                answer = lock.query(ECHO, &params) => panic!("{answer:?}"),
                () = wait_until_async("the server has received the query", async || freezer.has_heard()) => {}
            }
        }
    }
}

#[test]
fn a_deadline_holds_behind_a_dropped_lock_that_is_not_released() {
    for left in LEFT {
        let (site, freezer) = freezing();
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                check_timeout: Duration::MAX,
                query_timeout: None,
                ..PoolOptions::default()
            };
            let pool = pool(&[site.port], options);
            leave(&pool, &freezer, left).await;
            for _ in 0..2 {
                let deadline = Instant::now() + Duration::from_millis(100);
                let request = Request::new(ECHO, &[Value::Int(7)]).deadline(deadline);
                let asked = pool.request(request);
                let asked = tokio::time::timeout(Duration::from_secs(120), asked).await;
                let error = match asked.expect("an end to it") {
                    Ok(mut answers) => answers.pop().unwrap().unwrap_err(),
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::Deadline, "{left:?}");
                assert!(error.is_retryable(), "{left:?}: it was not sent");
            }
        });
    }
}

#[test]
fn a_dropped_lock_that_is_not_released_in_time_ends_its_connection() {
    for left in LEFT {
        let (site, freezer) = freezing();
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                check_timeout: Duration::from_millis(100),
                query_timeout: None,
                // No other connection is waited for.
                stall: Duration::MAX,
                ..PoolOptions::default()
            };
            let pool = pool(&[site.port], options);
            leave(&pool, &freezer, left).await;
            let asked = pool.query(ECHO, &[Value::Int(8)]);
            let asked = tokio::time::timeout(Duration::from_secs(120), asked).await;
            assert_eq!(shown(&asked.expect("an end to it")), "8", "{left:?}");
            assert_eq!(site.count.load(Ordering::SeqCst), 2, "{left:?}");
        });
    }
}
