//! Locks, the wait for them, and their end.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use lookaside_client::{ErrorKind, PoolOptions, Request, TransactionOptions};
use lookaside_testing::wait_until_async;
use lookaside_value::Value;
use tokio::time::timeout;

use super::{echo, ms, pool, process};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

fn only_one() -> PoolOptions {
    PoolOptions {
        connection_count_max: 1,
        ..PoolOptions::default()
    }
}

#[test]
fn nobody_else_uses_a_locked_connection() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, PoolOptions::default());
            let mut lock = pool.lock().await.unwrap();
            let mine = shown(&lock.query("select pg_backend_pid()", &[]).await);
            let setup = "create temporary table mine (number int8)";
            lock.query(setup, &[]).await.unwrap();
            let postgres = lock.as_postgres().unwrap();
            let transaction = postgres.begin(TransactionOptions::default()).await.unwrap();
            let insert = "insert into mine values ($1)";
            transaction.query(insert, &[Value::Int(7)]).await.unwrap();
            for _ in 0..20 {
                assert_ne!(process(&pool).await, mine);
            }
            transaction.commit().await.unwrap();
            lock.query("begin", &[]).await.unwrap();
            lock.query(insert, &[Value::Int(8)]).await.unwrap();
            drop(lock);
            // It is shared again, and what was left open is undone.
            wait_until_async("both connections are idle", async || {
                pool.status().idle_count == 2
            })
            .await;
            let lock = pool.lock().await.unwrap();
            let other = pool.lock().await.unwrap();
            for lock in [lock, other] {
                if shown(&lock.query("select pg_backend_pid()", &[]).await) == mine {
                    let sql = "select string_agg(number::text, '+') from mine";
                    assert_eq!(shown(&lock.query(sql, &[]).await), "7");
                }
            }
        });
    }
}

/// A COMMIT that waits behind another query for longer than `query_timeout` is not sent. What follows on
/// the lock is not part of the transaction that it should have ended.
#[test]
fn a_commit_that_is_not_sent_in_time_leaves_no_transaction_open() {
    for postgres in databases().into_iter().take(1) {
        block_on(async {
            let options = PoolOptions {
                query_timeout: Some(ms(5_000)),
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let setup = "create table lost (number int8)";
            pool.query(setup, &[]).await.unwrap();
            let holder = pool.lock().await.unwrap();
            let hold = "select pg_advisory_lock(77)";
            holder.query(hold, &[]).await.unwrap();

            let mut lock = pool.lock().await.unwrap();
            let session = lock.as_postgres().unwrap();
            let transaction = session.begin(TransactionOptions::default()).await.unwrap();
            let insert = "insert into lost values ($1)";
            transaction.query(insert, &[Value::Int(1)]).await.unwrap();
            {
                // Its own time is not over yet, so that it is not cancelled.
                let hold = Request::new(hold, &[]).deadline(Instant::now() + ms(120_000));
                let waits = std::pin::pin!(transaction.request(hold));
                assert!(timeout(ms(100), waits).await.is_err());
            }
            let error = transaction.commit().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
            let later =
                Request::new(insert, &[Value::Int(2)]).deadline(Instant::now() + ms(120_000));
            let unlock = "select pg_advisory_unlock(77)";
            let (inserted, unlocked) = tokio::join!(lock.request(later), holder.query(unlock, &[]));
            inserted.unwrap();
            unlocked.unwrap();
            drop(lock);
            let sql = "select string_agg(number::text, '+') from lost";
            assert_eq!(shown(&holder.query(sql, &[]).await), "2");
            holder.query("drop table lost", &[]).await.unwrap();
        });
    }
}

#[test]
fn a_busy_connection_is_kept_for_who_wants_it_alone() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, only_one());
            let tasks: Vec<_> = (0..20)
                .map(|task| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        for cycle in 0..200 {
                            echo(&pool, task * 200 + cycle).await;
                        }
                    })
                })
                .collect();
            for _ in 0..20 {
                let lock = timeout(ms(120_000), pool.lock()).await.unwrap().unwrap();
                assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn who_waits_first_is_served_first() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, only_one());
            let lock = pool.lock().await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for number in 0..20 {
                let waiting = pool.clone();
                let order = Arc::clone(&order);
                tasks.push(tokio::spawn(async move {
                    let lock = waiting.lock().await.unwrap();
                    order.lock().unwrap().push(number);
                    lock.query("select 7", &[]).await.unwrap();
                }));
                wait_until_async("the request waits", async || {
                    pool.status().waiting_count == number + 1
                })
                .await;
            }
            // A caller gives up.
            tasks.remove(5).abort();
            wait_until_async("one request waits no longer", async || {
                pool.status().waiting_count == 19
            })
            .await;
            drop(lock);
            for task in tasks {
                task.await.unwrap();
            }
            let expected: Vec<usize> = (0..20).filter(|number| *number != 5).collect();
            assert_eq!(*order.lock().unwrap(), expected);
        });
    }
}

#[test]
fn who_waits_in_vain_hears_why() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                // Enough to connect on a busy machine.
                acquire_timeout: ms(2_000),
                ..only_one()
            };
            let pool = pool(&postgres, options);
            let lock = pool.lock().await.unwrap();
            let error = pool.query("select 7", &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit);
            assert!(error.to_string().contains("acquire_timeout"), "{error}");
            assert!(error.is_retryable());
            assert_eq!(pool.status().wait_timeout_total, 1);
            drop(lock);
        });
    }
}

#[test]
fn a_pool_that_is_closed_answers_what_is_under_way() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres, only_one());
            echo(&pool, 7).await;
            let under_way = tokio::spawn({
                let pool = pool.clone();
                async move { pool.query("select pg_sleep(5)", &[]).await }
            });
            wait_until_async("one request is in flight", async || {
                pool.status().in_flight_count == 1
            })
            .await;
            let waiting = tokio::spawn({
                let pool = pool.clone();
                async move { pool.lock().await.map(drop) }
            });
            wait_until_async("one request waits", async || {
                pool.status().waiting_count == 1
            })
            .await;
            pool.close().await;
            under_way.await.unwrap().unwrap();
            let error = waiting.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
            let error = pool.query("select 7", &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert_eq!(pool.status().connection_count, 0);
            // Nothing is closed twice.
            pool.close().await;
        });
    }
}

/// What others ask would become a part of it.
#[test]
fn no_transaction_is_left_open_where_others_ask() {
    for postgres in databases() {
        postgres.execute("create table t (k int)").unwrap();
        block_on(async {
            let pool = pool(&postgres, only_one());
            for begin in ["begin", "START TRANSACTION read only"] {
                let error = pool.query(begin, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{begin}");
                assert!(error.to_string().contains("Pool::lock"), "{error}");
                echo(&pool, 7).await;
            }
            for (sql, last) in [
                ("begin; select 1 / 0", "22012"),
                ("begin; insert into t values (1)", ""),
                ("begin; insert into t values (1); commit", ""),
            ] {
                let answers = pool.request(Request::script(sql, 9)).await.unwrap();
                assert_eq!(shown(answers.last().unwrap()), last, "{sql}");
                echo(&pool, 7).await;
            }
            let count = pool.query("select count(*) from t", &[]).await;
            assert_eq!(shown(&count), "1");
            let state = "select state from pg_stat_activity where pid = pg_backend_pid()";
            assert_eq!(shown(&pool.query(state, &[]).await), "active");
        });
    }
}

/// A session whose reset did not complete is closed, not reused.
#[test]
fn an_incomplete_reset_closes_the_session() {
    for postgres in databases().into_iter().take(1) {
        block_on(async {
            postgres
                .execute("create table divisors (divisor int8); insert into divisors values (1)")
                .unwrap();
            let options = PoolOptions {
                session: vec![
                    "select 1 / divisor from divisors".to_owned(),
                    "set application_name = 'ours'".to_owned(),
                ],
                ..only_one()
            };
            let pool = pool(&postgres, options);
            let name = async || shown(&pool.query("show application_name", &[]).await);
            assert_eq!(name().await, "ours");
            // Its future is dropped when the first part of it is on its way.
            let mut lock = pool.lock().await.unwrap();
            let mut cx = Context::from_waker(Waker::noop());
            // Where this thread stands still within the poll, the answer may be there at its end.
            while let Poll::Ready(reset) = pin!(lock.reset()).as_mut().poll(&mut cx) {
                reset.unwrap();
            }
            drop(lock);
            assert_eq!(name().await, "ours");
            // One of the statements fails.
            let mut lock = pool.lock().await.unwrap();
            lock.query("update divisors set divisor = 0", &[])
                .await
                .unwrap();
            lock.reset().await.unwrap_err();
            lock.query("update divisors set divisor = 1", &[])
                .await
                .unwrap();
            drop(lock);
            assert_eq!(name().await, "ours");
            // One that succeeds makes up for it, and the connection stays.
            let mut lock = pool.lock().await.unwrap();
            lock.query("begin", &[]).await.unwrap();
            lock.reset().await.unwrap_err();
            lock.query("rollback", &[]).await.unwrap();
            lock.reset().await.unwrap();
            drop(lock);
            assert_eq!(name().await, "ours");
            assert_eq!(pool.status().opened_total, 3);
        });
    }
}
