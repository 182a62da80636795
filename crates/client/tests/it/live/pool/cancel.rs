//! Requests that are canceled: by a token, or because their futures are dropped.

use lookaside_client::{CancelToken, ErrorKind, Pool, PoolOptions, Request, TransactionOptions};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until_async;

use super::{echo, ms, pool};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

/// Waits on the server until it is cancelled.
const SLOW: &str = "select pg_sleep(100000)";

/// How many of those the server works on.
pub(super) async fn slow_count(other: &Pool) -> String {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() \
               and state = 'active' and query like 'select pg_sleep%' and pid <> pg_backend_pid()";
    shown(&other.query(sql, &[]).await)
}

/// Pools whose queries end when they are canceled and not before.
pub(super) fn pools(postgres: &Postgres, options: PoolOptions) -> (Pool, Pool) {
    let patient = |options: PoolOptions| PoolOptions {
        query_timeout: None,
        acquire_timeout: ms(100_000_000),
        ..options
    };
    (
        pool(postgres, patient(options)),
        pool(postgres, patient(PoolOptions::default())),
    )
}

#[test]
fn a_token_cancels_what_the_server_works_on() {
    for postgres in databases() {
        block_on(async {
            let (pool, other) = pools(&postgres, PoolOptions::default());
            let token = CancelToken::new();
            let ask = || {
                let (pool, token) = (pool.clone(), token.clone());
                tokio::spawn(async move {
                    pool.request(Request::new(SLOW, &[]).cancel_token(&token))
                        .await
                })
            };
            let asked = [ask(), ask()];
            wait_until_async("the query runs", async || slow_count(&other).await != "0").await;
            token.cancel();
            for asked in asked {
                let error = match asked.await.unwrap() {
                    Ok(mut answers) => answers.pop().unwrap().unwrap_err(),
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::Canceled, "{error:?}");
            }
            wait_until_async("the query is cancelled", async || {
                slow_count(&other).await == "0"
            })
            .await;
            echo(&pool, 7).await;
            // Later requests with the token are canceled, too.
            let request = Request::new("select 7", &[]).cancel_token(&token);
            let error = pool.request(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Canceled);
            assert_eq!(pool.status().lost_total, 0);
        });
    }
}

#[test]
fn a_token_cancels_a_wait_for_a_connection() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                acquire_timeout: ms(100_000_000),
                query_timeout: None,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let lock = pool.lock().await.unwrap();
            let token = CancelToken::new();
            let asked = tokio::spawn({
                let (pool, token) = (pool.clone(), token.clone());
                async move {
                    pool.request(Request::new("select 7", &[]).cancel_token(&token))
                        .await
                }
            });
            wait_until_async("one request waits", async || {
                pool.status().waiting_count == 1
            })
            .await;
            token.cancel();
            let error = asked.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Canceled);
            assert_eq!(pool.status().waiting_count, 0);
            drop(lock);
            echo(&pool, 7).await;
        });
    }
}

#[test]
fn a_token_cancels_a_query_of_a_lock() {
    for postgres in databases() {
        block_on(async {
            let (pool, other) = pools(&postgres, PoolOptions::default());
            let token = CancelToken::new();
            let lock = pool.lock().await.unwrap();
            let request = Request::new(SLOW, &[]).cancel_token(&token);
            let cancel = async {
                wait_until_async("one query runs", async || slow_count(&other).await == "1").await;
                token.cancel();
            };
            let (answers, ()) = tokio::join!(lock.request(request), cancel);
            let error = answers.unwrap().pop().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Canceled);
            assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
        });
    }
}

#[test]
fn a_dropped_future_cancels_its_query_if_asked_to() {
    for postgres in databases() {
        for is_of_pool in [true, false] {
            block_on(async {
                let options = PoolOptions {
                    cancel_on_drop: is_of_pool,
                    ..PoolOptions::default()
                };
                let (pool, other) = pools(&postgres, options);
                let asked = tokio::spawn({
                    let pool = pool.clone();
                    let request = Request::new(SLOW, &[]);
                    let request = match is_of_pool {
                        true => request,
                        false => request.cancel_on_drop(),
                    };
                    async move { pool.request(request).await }
                });
                wait_until_async("one query runs", async || slow_count(&other).await == "1").await;
                asked.abort();
                wait_until_async("the query is cancelled", async || {
                    slow_count(&other).await == "0"
                })
                .await;
                wait_until_async("nothing is in flight", async || {
                    pool.status().in_flight_count == 0
                })
                .await;
                echo(&pool, 7).await;
                assert_eq!(pool.status().lost_total, 0, "its connection is kept");
            });
        }
    }
}

/// The option of the pool holds there as well.
#[test]
fn a_dropped_future_of_a_lock_cancels_its_query_if_asked_to() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                cancel_on_drop: true,
                check_timeout: ms(100_000_000),
                ..PoolOptions::default()
            };
            let (pool, other) = pools(&postgres, options);
            let mut lock = pool.lock().await.unwrap();
            let until_asked =
                || wait_until_async("one query runs", async || slow_count(&other).await == "1");
            let is_over = async || slow_count(&other).await == "0";
            tokio::select! {
                answer = lock.query(SLOW, &[]) => panic!("{answer:?}"),
                () = until_asked() => {}
            }
            wait_until_async("the query is cancelled", is_over).await;
            assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            let postgres = lock.as_postgres().unwrap();
            let transaction = postgres.begin(TransactionOptions::default()).await.unwrap();
            tokio::select! {
                answer = transaction.query(SLOW, &[]) => panic!("{answer:?}"),
                () = until_asked() => {}
            }
            wait_until_async("the query is cancelled", is_over).await;
            let error = transaction.query("select 7", &[]).await.unwrap_err();
            assert_eq!(error.sqlstate().unwrap().to_string(), "25P02");
            transaction.rollback().await.unwrap();
            assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            assert_eq!(pool.status().lost_total, 0);
        });
    }
}
