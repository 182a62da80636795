//! Requests that share connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lookaside_client::{Pool, PoolOptions, Request};
use lookaside_testing::wait_until_async;
use lookaside_value::{ParamBatch, Value};
use tokio::time::timeout;

use super::{echo, ms, pool, process};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

#[test]
fn ten_thousand_cycles_leave_nothing_behind() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 3,
                pipeline_depth: 2,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let tasks: Vec<_> = (0..10)
                .map(|task| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        for cycle in 0..1_000 {
                            let tag = task * 1_000 + cycle;
                            match cycle % 10 {
                                // Given up after whatever can be done in that time.
                                0 => drop(timeout(ms(0), echo(&pool, tag)).await),
                                1 => drop(pool.lock().await.unwrap()),
                                2 => drop(timeout(ms(0), pool.lock()).await),
                                _ => echo(&pool, tag).await,
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            wait_until_async("nothing is in flight", async || {
                pool.status().in_flight_count == 0
            })
            .await;
            let status = pool.status();
            assert_eq!((status.waiting_count, status.locked_count), (0, 0));
            assert!(status.connection_count <= 3);
            assert_eq!(
                status.opened_total, status.connection_count as u64,
                "{status:?}"
            );
            assert_eq!(status.lost_total, 0);
            pool.close().await;
            assert_eq!(pool.status().connection_count, 0);
        });
    }
}

#[test]
fn few_connections_serve_many_tasks() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, PoolOptions::default());
            let tasks: Vec<_> = (0..64)
                .map(|task| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        for cycle in 0..100 {
                            echo(&pool, task * 100 + cycle).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            // Unless the machine is so busy that answers are late.
            let status = pool.status();
            assert!((1..=8).contains(&status.connection_count), "{status:?}");
            assert_eq!(status.wait_timeout_total, 0);
        });
    }
}

/// A query waits on the server for as long as the test likes, and 21 reads come after it: with one,
/// three and all eight connections open, none of them is sent behind it.
#[test]
fn what_takes_long_holds_up_nobody_else() {
    for postgres in databases() {
        for open_count in [1, 3, 8] {
            block_on(async {
                let options = PoolOptions {
                    // Whatever is not answered yet takes long.
                    stall: Duration::ZERO,
                    query_timeout: None,
                    ..PoolOptions::default()
                };
                let pool = pool(&postgres, options);
                open(&pool, open_count).await;
                let patient = PoolOptions {
                    query_timeout: None,
                    ..PoolOptions::default()
                };
                let other = super::pool(&postgres, patient);
                let holder = other.lock().await.unwrap();
                holder
                    .query("select pg_advisory_lock(7)", &[])
                    .await
                    .unwrap();
                let slow = tokio::spawn({
                    let pool = pool.clone();
                    async move {
                        let sql = "select pg_backend_pid(), pg_advisory_lock(7)";
                        shown(&pool.query(sql, &[]).await)
                    }
                });
                let waits = "select count(*) from pg_locks where locktype = 'advisory' \
                             and not granted and database = \
                             (select oid from pg_database where datname = current_database())";
                wait_until_async("one query waits for the lock", async || {
                    shown(&holder.query(waits, &[]).await) == "1"
                })
                .await;
                let mut processes = Vec::new();
                // As many at the same time as there can be other connections.
                for _ in 0..3 {
                    let reads: Vec<_> = (0..7)
                        .map(|_| {
                            let pool = pool.clone();
                            tokio::spawn(async move { process(&pool).await })
                        })
                        .collect();
                    for read in reads {
                        let read = timeout(ms(60_000), read).await;
                        processes.push(read.expect("it waits for nothing slow").unwrap());
                    }
                }
                assert!(!slow.is_finished());
                holder
                    .query("select pg_advisory_unlock(7)", &[])
                    .await
                    .unwrap();
                let slow = slow.await.unwrap();
                let slow = slow.split(',').next().unwrap();
                assert!(
                    processes.iter().all(|process| process != slow),
                    "{slow}: {processes:?}"
                );
                assert!(pool.status().connection_count > 1);
            });
        }
    }
}

/// Opens so many connections, which are idle then.
async fn open(pool: &Pool, count: usize) {
    let mut locks = Vec::new();
    for _ in 0..count {
        locks.push(pool.lock().await.unwrap());
    }
    drop(locks);
    wait_until_async("all connections are idle", async || {
        pool.status().idle_count == count
    })
    .await;
}

#[test]
fn each_session_begins_as_told() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                session: vec![
                    "set application_name = 'lookups'".to_owned(),
                    "set jit = off".to_owned(),
                ],
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let sql = "select current_setting('application_name'), current_setting('jit')";
            assert_eq!(shown(&pool.query(sql, &[]).await), "lookups,off");
        });
    }
}

#[test]
fn a_session_that_cannot_begin_says_why() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                session: vec!["set jit = perhaps".to_owned()],
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let started = Instant::now();
            let error = pool.query("select 7", &[]).await.unwrap_err();
            assert!(error.to_string().contains("`set jit = perhaps`"), "{error}");
            assert_eq!(error.sqlstate().unwrap().as_bytes(), b"22023");
            assert!(!error.is_retryable());
            // Nor is it tried again at once.
            for _ in 0..100 {
                pool.query("select 7", &[]).await.unwrap_err();
            }
            let count = pool.status().open_failed_total;
            let often = 5 + started.elapsed().as_secs();
            assert!(count <= often, "{:?}", pool.status());
        });
    }
}

#[test]
fn a_flight_is_answered_in_its_order_and_a_statement_described() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, PoolOptions::default());
            let mut params = ParamBatch::new(1);
            (0..1_000).for_each(|tag| params.push([Value::Int(tag)]));
            let syncs = lookaside_client::Syncs::Shared;
            let answers = pool
                .query_many("select $1::int8 as tag", params, syncs)
                .await;
            for (tag, answer) in answers.unwrap().into_iter().enumerate() {
                assert_eq!(shown(&answer), tag.to_string());
            }
            let description = pool.describe("select $1::int8 as tag").await.unwrap();
            assert_eq!(&*description.columns[0], "tag");
        });
    }
}

#[test]
fn a_deadline_counts_while_waiting_for_a_connection() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let lock = pool.lock().await.unwrap();
            let request = Request::new("select 7", &[]).deadline(Instant::now() + ms(30));
            let error = pool.request(request).await.unwrap_err();
            assert_eq!(error.kind(), lookaside_client::ErrorKind::Deadline);
            assert!(error.is_retryable());
            drop(lock);
            echo(&pool, 7).await;
        });
    }
}

#[test]
fn a_pool_outlives_a_runtime() {
    for postgres in databases() {
        let options = PoolOptions {
            connection_count_max: 2,
            ..PoolOptions::default()
        };
        let pool = pool(&postgres, options);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            block_on(async {
                for tag in 0..10 {
                    echo(&pool, tag).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        assert_eq!(count.load(Ordering::Relaxed), 30);
    }
}
