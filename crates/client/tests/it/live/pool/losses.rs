//! Servers that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use lookaside_client::{Error, Pool, PoolOptions, Request, Syncs};
use lookaside_testing::{WAIT_MAX, wait_until_async};
use lookaside_value::{ParamBatch, Value};

use super::{ms, pool, pool_at, process, signal};
use crate::live::restart::Server;
use crate::live::tokio::block_on;
use crate::live::{database, databases, shown};

/// How many queries are asked while their server is killed again and again.
const QUERY_COUNT: i64 = 1_000_000;

/// Asks until there is an answer, which a query that only reads may.
async fn insist(
    pool: &Pool,
    request: &Request,
) -> Vec<lookaside_client::Result<lookaside_client::Answer>> {
    let begun = Instant::now();
    loop {
        match pool.request(request.clone()).await {
            Ok(answers) => return answers,
            Err(error) => assert!(is_passing(&error), "{error:?}"),
        }
        assert!(begun.elapsed() < WAIT_MAX, "the server never answers");
        // sleep: where the port is refused, that is said at once
        tokio::time::sleep(ms(1)).await;
    }
}

fn is_passing(error: &Error) -> bool {
    let state = error.sqlstate();
    let state = state.as_ref().map(|state| state.as_bytes());
    error.is_connection_lost() || matches!(state, Some(b"57P01" | b"57P02" | b"57P03"))
}

#[test]
fn a_million_answers_reach_their_callers_whatever_dies() {
    // Skips where there is none.
    if database("18", false).is_none() {
        return;
    }
    let mut server = Server::start("18", "million");
    block_on(async {
        let pool = pool_at(&server.url(), PoolOptions::default());
        let next = Arc::new(AtomicI64::new(0));
        let lost = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..64)
            .map(|task| {
                let (pool, next, lost) = (pool.clone(), Arc::clone(&next), Arc::clone(&lost));
                // Alone, and in flights of each kind.
                let (count, syncs) = match task % 4 {
                    0 | 1 => (1, Syncs::Each),
                    2 => (50, Syncs::Each),
                    _ => (200, Syncs::Shared),
                };
                tokio::spawn(async move {
                    loop {
                        let first = next.fetch_add(count, Ordering::Relaxed);
                        if first >= QUERY_COUNT {
                            return;
                        }
                        let mut params = ParamBatch::new(1);
                        (first..first + count).for_each(|tag| params.push([Value::Int(tag)]));
                        let request = Request::many("select $1::int8", params).syncs(syncs);
                        let answers = insist(&pool, &request).await;
                        assert_eq!(answers.len(), count as usize);
                        for (tag, answer) in (first..).zip(answers) {
                            match answer {
                                Ok(answer) => assert_eq!(answer.rows.row(0)[0], Value::Int(tag)),
                                Err(error) => {
                                    assert!(is_passing(&error), "{error:?}");
                                    lost.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        let mut round = 0;
        while next.load(Ordering::Relaxed) < QUERY_COUNT {
            // sleep: queries run between two failures of their server
            tokio::time::sleep(ms(400)).await;
            round += 1;
            match round % 4 {
                1 | 3 => {
                    // Sessions end.
                    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                               where pid <> pg_backend_pid() and backend_type = 'client backend'";
                    insist(&pool, &Request::new(sql, &[])).await;
                }
                2 => {
                    // One dies, and the server takes all others along and starts anew.
                    let sql = Request::new("select pg_backend_pid()", &[]);
                    let answer = insist(&pool, &sql).await.pop().unwrap();
                    if answer.is_ok() {
                        signal("-KILL", &shown(&answer));
                    }
                }
                _ => {
                    server.stop().await;
                    // sleep: queries meet a server that is stopped
                    tokio::time::sleep(ms(100)).await;
                    server.start_again().await;
                    insist(&pool, &Request::new("select 7", &[])).await;
                }
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        let status = pool.status();
        assert!(round >= 4, "each kind of death was met");
        assert!(status.lost_total > 0, "{status:?}");
        assert_eq!(status.waiting_count, 0);
        wait_until_async("nothing is in flight", async || {
            pool.status().in_flight_count == 0
        })
        .await;
        eprintln!(
            "{} of a million were lost, {status:?}",
            lost.load(Ordering::Relaxed)
        );
    });
}

#[test]
fn a_server_may_come_late() {
    if database("18", false).is_none() {
        return;
    }
    let mut server = Server::start("18", "late");
    block_on(async {
        let url = server.url();
        server.stop().await;
        let pool = pool_at(&url, PoolOptions::default());
        // The port is refused, which is said at once.
        let error = pool.query("select 7", &[]).await.unwrap_err();
        assert!(
            error.is_retryable() && error.is_connection_lost(),
            "{error:?}"
        );
        server.start_again().await;
        let answers = insist(&pool, &Request::new("select 7", &[])).await;
        assert_eq!(shown(&answers[0]), "7");
    });
}

#[test]
fn a_server_that_stays_away_is_named() {
    block_on(async {
        // A port that takes connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let options = PoolOptions {
            acquire_timeout: ms(200),
            ..PoolOptions::default()
        };
        let url = format!("postgres://amy@127.0.0.1:{port}/shop?sslmode=disable");
        let pool = pool_at(&url, options);
        let error = pool.query("select 7", &[]).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("acquire_timeout"), "{error}");
    });
}

#[test]
fn a_request_finds_another_connection_when_its_own_is_gone() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let other = super::pool(&postgres, PoolOptions::default());
            for _ in 0..20 {
                let first = process(&pool).await;
                let sql = format!("select pg_terminate_backend({first})");
                assert_eq!(shown(&other.query(sql, &[]).await), "true");
                // What is lost is seen, and not requested again.
                wait_until_async("no connection is left", async || {
                    pool.status().connection_count == 0
                })
                .await;
                assert_ne!(process(&pool).await, first);
            }
            assert_eq!(pool.status().lost_total, 20);
        });
    }
}
