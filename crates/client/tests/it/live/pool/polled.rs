//! Connections of a pool on the event loop of their holder.

use std::time::Instant;

use lookaside_client::{
    Answer, Config, Environment, ErrorKind, PolledConnection, Pool, PoolOptions, Request, Result,
};
use lookaside_testing::wait_until_async;

use super::{echo, ms, pool, signal};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

/// Asks and waits; what was asked before and cancelled has a reply, too.
fn query(connection: &mut PolledConnection, request: Request) -> Result<Answer> {
    let ticket = connection.submit(request)?;
    connection.flush(Instant::now());
    loop {
        match connection.next_reply() {
            Some(reply) if reply.ticket == ticket => return reply.into_answer(),
            Some(reply) => {
                let error = reply.into_answer().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Canceled);
            }
            None => {
                connection.wait(connection.deadline()).unwrap();
                connection.turn(Instant::now());
            }
        }
    }
}

pub(crate) fn check(url: &str, process: &str, sleep: &'static str) {
    let config = Config::parse(url, &Environment::empty()).unwrap();
    let session = match config {
        Config::Mysql(_) => "set @tag = 'ours'",
        _ => "set application_name = 'ours'",
    };
    let options = PoolOptions {
        connection_count_max: 2,
        acquire_timeout: ms(500),
        session: vec![session.to_owned()],
        ..PoolOptions::default()
    };
    block_on(async {
        let pool = Pool::new(config, options);
        let mut polled = Vec::new();
        for _ in 0..2 {
            polled.push(pool.lock().await.unwrap().into_polled().await.unwrap());
        }
        // They are the pool's two connections, and it can have no other.
        assert_eq!(pool.status().locked_count, 2);
        let error = pool.query(process.to_owned(), &[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let first = shown(&query(&mut polled[0], Request::new(process, &[])));
        let second = shown(&query(&mut polled[1], Request::new(process, &[])));
        assert_ne!(first, second);
        // A deadline is kept to, and a request that is cancelled ends; what follows is answered.
        let deadline = Instant::now() + ms(200);
        let late = query(&mut polled[0], Request::new(sleep, &[]).deadline(deadline));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Deadline);
        assert_eq!(
            shown(&query(&mut polled[0], Request::new(process, &[]))),
            first
        );
        let ticket = polled[0].submit(Request::new(sleep, &[])).unwrap();
        polled[0].flush(Instant::now());
        polled[0].cancel(ticket);
        assert_eq!(
            shown(&query(&mut polled[0], Request::new(process, &[]))),
            first
        );
        // One that is let go of makes room for another.
        polled.pop();
        wait_until_async("the pool answers", async || {
            pool.query(process.to_owned(), &[]).await.is_ok()
        })
        .await;
        drop(polled);
        wait_until_async("no connection is locked", async || {
            pool.status().locked_count == 0
        })
        .await;
        for _ in 0..20 {
            drop(pool.lock().await.unwrap().into_polled().await.unwrap());
        }
        pool.close().await;
    });
}

#[test]
fn issue_14_a_polled_connection_counts_and_keeps_to_deadlines() {
    for postgres in databases() {
        check(
            &postgres.url(),
            "select pg_backend_pid()",
            "select pg_sleep(600)",
        );
    }
}

#[test]
fn issue_14_a_polled_connection_that_is_lost_says_so_and_gives_its_place_back() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            for _ in 0..10 {
                let lock = pool.lock().await.unwrap();
                let process = shown(&lock.query("select pg_backend_pid()", &[]).await);
                let mut polled = lock.into_polled().await.unwrap();
                let ticket = polled
                    .submit(Request::new("select pg_sleep(600)", &[]))
                    .unwrap();
                polled.flush(Instant::now());
                signal("-TERM", &process);
                let reply = loop {
                    polled.wait(None).unwrap();
                    polled.turn(Instant::now());
                    if let Some(reply) = polled.next_reply() {
                        break reply;
                    }
                };
                assert_eq!(reply.ticket, ticket);
                assert!(reply.into_answer().unwrap_err().is_connection_lost());
                while polled.end().is_none() {
                    polled.wait(None).unwrap();
                    polled.turn(Instant::now());
                }
                assert!(polled.submit(Request::new("select 1", &[])).is_err());
                drop(polled);
                echo(&pool, 7).await;
            }
        });
    }
}

#[test]
fn issue_14_a_pool_that_closes_waits_for_its_polled_connections() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, PoolOptions::default());
            let lock = pool.lock().await.unwrap();
            let polled = lock.into_polled().await.unwrap();
            let closed = tokio::spawn({
                let pool = pool.clone();
                async move { pool.close().await }
            });
            // It waits for the holder.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(!closed.is_finished());
            drop(polled);
            closed.await.unwrap();
        });
    }
}
