//! How many connections there are, and for how long.

use std::time::{Duration, Instant};

use lookaside_client::{PoolOptions, Syncs};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until_async;
use lookaside_value::Value;

use super::{echo, ms, pool, pool_at, process};
use crate::live::tokio::block_on;
use crate::live::{database, databases, shown};

#[test]
fn idle_connections_go_and_the_minimum_stays() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 4,
                connection_count_min: 2,
                pipeline_depth: 1,
                idle_timeout: Some(ms(100)),
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            echo(&pool, 7).await;
            let locks = tokio::join!(pool.lock(), pool.lock(), pool.lock(), pool.lock());
            assert_eq!(pool.status().connection_count, 4);
            drop(locks);
            wait_until_async("two connections are left", async || {
                pool.status().connection_count == 2
            })
            .await;
            // sleep: three times as long as a connection may be idle
            tokio::time::sleep(ms(300)).await;
            assert_eq!(pool.status().connection_count, 2);
            assert_eq!(pool.status().lost_total, 0);
            echo(&pool, 7).await;
        });
    }
}

#[test]
fn old_connections_are_replaced() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                lifetime_max: Some(ms(100)),
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            // It is not opened before.
            let started = Instant::now();
            let first = process(&pool).await;
            while process(&pool).await == first {
                assert!(started.elapsed() < Duration::from_secs(120));
            }
            assert!(started.elapsed() >= ms(90));
            assert_eq!(pool.status().lost_total, 0);
        });
    }
}

#[test]
fn what_was_idle_for_long_is_checked() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                check_after: ms(50),
                // A server that is well answers in that time, however busy the machine is.
                check_timeout: ms(3_000),
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let first = process(&pool).await;
            // sleep: the connection has to be idle for longer than `check_after`
            tokio::time::sleep(ms(100)).await;
            assert_eq!(process(&pool).await, first);

            // A server that is there and says nothing.
            super::signal("-STOP", &first);
            // sleep: the connection has to be idle for longer than `check_after`
            tokio::time::sleep(ms(100)).await;
            let started = Instant::now();
            let second = process(&pool).await;
            super::signal("-CONT", &first);
            assert_ne!(second, first);
            assert!(started.elapsed() >= ms(2_900), "it was given its time");
        });
    }
}

#[test]
fn a_connection_that_answers_nobody_is_given_up() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                check_timeout: ms(3_000),
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let first = process(&pool).await;
            super::signal("-STOP", &first);
            let late = tokio::time::timeout(ms(50), echo(&pool, 7)).await;
            assert!(late.is_err());
            let second = process(&pool).await;
            super::signal("-CONT", &first);
            assert_ne!(second, first);
            assert_eq!(pool.status().in_flight_count, 0);
        });
    }
}

#[test]
fn a_full_server_is_shared_as_it_is() {
    // Skips where there is none.
    if database("18", false).is_none() {
        return;
    }
    let builder = Postgres::builder().version("18".parse().unwrap());
    let builder = builder.fresh_cluster().setting("max_connections", "5");
    let postgres = builder.start().unwrap();
    block_on(async {
        let options = PoolOptions {
            pipeline_depth: 1,
            ..PoolOptions::default()
        };
        let pool = pool(&postgres, options);
        let started = Instant::now();
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for _ in 0..20 {
                        pool.query("select pg_sleep(0.001)", &[]).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let status = pool.status();
        assert!((1..=5).contains(&status.connection_count), "{status:?}");
        let state = status
            .last_error
            .as_ref()
            .and_then(|error| error.sqlstate());
        assert_eq!(state.unwrap().as_bytes(), b"53300");
        let often = 50 + started.elapsed().as_millis() / 250;
        assert!(
            u128::from(status.open_failed_total) < often,
            "it is not asked all the time: {status:?}"
        );
        // An exclusive user gets one of those that there are.
        drop(pool.lock().await.unwrap());
    });
}

#[test]
fn a_wrong_password_fails_at_once() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    let url = postgres.tcp_url().expect("it listens on TCP");
    let url = url.replace(postgres.password().unwrap(), "wrong");
    block_on(async {
        let options = PoolOptions {
            acquire_timeout: Duration::from_secs(600),
            ..PoolOptions::default()
        };
        let pool = pool_at(&url, options);
        let started = Instant::now();
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.query("select 7", &[]).await.unwrap_err() })
            })
            .collect();
        for task in tasks {
            let error = task.await.unwrap();
            assert_eq!(error.sqlstate().unwrap().as_bytes(), b"28P01", "{error:?}");
            assert!(!error.is_retryable());
        }
        // Not the time in which a connection may come.
        let took = started.elapsed();
        assert!(took < Duration::from_secs(300), "{took:?}");
        // Those that were asked for before the first was refused, and one a second or so.
        let count = pool.status().open_failed_total;
        assert!(count <= 8 + took.as_secs(), "{:?}", pool.status());
    });
}

/// Far more statements than stay prepared, asked by many at once, some of which fail: each is prepared
/// again and again, and none is sent to be run that the server was told to forget.
#[test]
fn statements_that_are_forgotten_all_the_time_are_found() {
    for postgres in databases() {
        for (statement_count_max, syncs) in [
            (8, Syncs::Each),
            (8, Syncs::Shared),
            (1, Syncs::Each),
            (0, Syncs::Shared),
        ] {
            block_on(async {
                let mut options = PoolOptions {
                    connection_count_max: 2,
                    acquire_timeout: ms(100_000_000),
                    query_timeout: Some(ms(100_000_000)),
                    syncs,
                    ..PoolOptions::default()
                };
                options.postgres.statement_count_max = statement_count_max;
                let pool = pool(&postgres, options);
                let tasks: Vec<_> = (0..32_u64)
                    .map(|task| {
                        let pool = pool.clone();
                        tokio::spawn(async move {
                            let mut random = fastrand::Rng::with_seed(task);
                            for _ in 0..300 {
                                let text = random.i64(..40);
                                let sql = format!("select 100 / $1::int8 + {text}");
                                let divisor = random.i64(..5);
                                let answer = pool.query(sql, &[Value::Int(divisor)]).await;
                                let expected = match 100_i64.checked_div(divisor) {
                                    Some(quotient) => (quotient + text).to_string(),
                                    None => "22012".to_owned(),
                                };
                                assert_eq!(shown(&answer), expected);
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }
}
