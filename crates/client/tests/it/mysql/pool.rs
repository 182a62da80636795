//! Many tasks, few connections.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lookaside_client::mysql::Options;
use lookaside_client::{
    Config, Environment, ErrorKind, Pool, PoolLock, PoolOptions, TransactionOptions,
};
use lookaside_testing::{Brand, Server, wait_until_async};
use lookaside_value::Value;
use tokio::runtime::Builder;

use super::{shown, sites};

fn pool(url: &str, window: usize) -> Pool {
    let config = Config::parse(url, &Environment::empty()).unwrap();
    let mysql = Options {
        window,
        ..Options::default()
    };
    Pool::new(
        config,
        PoolOptions {
            connection_count_max: 4,
            session: vec!["set @tag = 'ours'".to_owned()],
            mysql,
            ..PoolOptions::default()
        },
    )
}

fn run(future: impl Future<Output = ()>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future);
}

#[test]
fn tasks_share_a_pool() {
    for site in sites() {
        for window in [1, 16] {
            run(async {
                let pool = pool(&site.url(), window);
                let tasks: Vec<_> = (0..64_i64)
                    .map(|task| {
                        let pool = pool.clone();
                        tokio::spawn(async move {
                            for step in 0..20 {
                                let values = [Value::Int(task), Value::Int(step)];
                                let answer = pool.query("select ? * 100 + ?, @tag", &values).await;
                                assert_eq!(shown(&answer), format!("{},ours", task * 100 + step));
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                let status = pool.status();
                assert!(status.connection_count <= 4, "{status:?}");
                pool.close().await;
            });
        }
    }
}

/// A query waits on the server until the test releases it, and 21 reads come after it: with one,
/// three and all eight connections open, none of them is sent after it on its connection.
#[test]
fn a_slow_query_holds_up_nobody_else() {
    for site in sites() {
        for (window, open_count) in [(1, 1), (1, 3), (1, 8), (16, 1), (16, 8)] {
            run(async {
                let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
                let mysql = Options {
                    window,
                    ..Options::default()
                };
                let options = PoolOptions {
                    // Whatever is not answered yet takes long.
                    stall: Duration::ZERO,
                    query_timeout: None,
                    mysql,
                    ..PoolOptions::default()
                };
                let pool = Pool::new(config, options);
                let mut locks = Vec::new();
                for _ in 0..open_count {
                    locks.push(pool.lock().await.unwrap());
                }
                drop(locks);
                wait_until_async("all connections are idle", async || {
                    pool.status().idle_count >= open_count
                })
                .await;
                let name = Value::from(format!("{}-slow", site.database));
                let other = super::pool::pool(&site.url(), 1);
                let holder = other.lock().await.unwrap();
                let lock = "select get_lock(?, 100000), connection_id()";
                holder
                    .query(lock, std::slice::from_ref(&name))
                    .await
                    .unwrap();
                let slow = tokio::spawn({
                    let (pool, name) = (pool.clone(), name.clone());
                    async move { shown(&pool.query(lock, &[name]).await) }
                });
                let waits = "select count(*) from information_schema.processlist \
                             where state = 'User lock' and db = database()";
                wait_until_async("the slow query waits", async || {
                    shown(&holder.query(waits, &[]).await) == "1"
                })
                .await;
                let mut connections = Vec::new();
                // As many at the same time as there can be other connections.
                for _ in 0..3 {
                    let reads: Vec<_> = (0..7)
                        .map(|_| {
                            let pool = pool.clone();
                            tokio::spawn(async move {
                                shown(&pool.query("select connection_id()", &[]).await)
                            })
                        })
                        .collect();
                    for read in reads {
                        let read = tokio::time::timeout(Duration::from_secs(60), read).await;
                        connections.push(read.expect("it waits for nothing slow").unwrap());
                    }
                }
                assert!(!slow.is_finished());
                holder
                    .query("select release_lock(?)", &[name])
                    .await
                    .unwrap();
                let slow = slow.await.unwrap();
                let slow = slow.split(',').nth(1).unwrap();
                assert!(
                    connections.iter().all(|connection| connection != slow),
                    "{slow}"
                );
            });
        }
    }
}

#[test]
fn one_has_a_connection_for_oneself() {
    for site in sites() {
        site.execute(&["create table g(k int)"]);
        run(async {
            let pool = pool(&site.url(), 1);
            let mut lock = pool.lock().await.unwrap();
            assert!(lock.as_postgres().is_none());
            let mysql = lock.as_mysql().unwrap();
            let options = TransactionOptions::default();
            let transaction = mysql.begin(options).await.unwrap();
            let insert = transaction.query("insert into g values (?)", &[Value::Int(1)]);
            insert.await.unwrap();
            drop(transaction);
            drop(lock);
            let count = pool.query("select count(*) from g", &[]).await;
            assert_eq!(shown(&count), "0", "what is not committed is undone");
            let description = pool.describe("select k from g").await.unwrap();
            assert_eq!(&*description.columns[0], "k");
            assert_eq!(&*description.column_types[0], "int");
        });
    }
}

#[test]
fn a_pool_outlives_its_server() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(mut server) = Server::start(brand, &[]) else {
            continue;
        };
        run(async {
            let pool = pool(&server.url(""), 1);
            assert_eq!(shown(&pool.query("select 1", &[]).await), "1");
            server.kill();
            let waiting = tokio::spawn({
                let pool = pool.clone();
                async move {
                    // What was sent before the end was noticed may be lost.
                    loop {
                        match pool.query("select 2", &[]).await {
                            Err(error) if error.is_connection_lost() => {}
                            answer => return shown(&answer),
                        }
                    }
                }
            });
            server.start_again();
            assert_eq!(waiting.await.unwrap(), "2");
        });
    }
}

#[test]
fn no_transaction_is_left_open_where_others_ask() {
    for site in sites() {
        run(async {
            let pool = pool(&site.url(), 1);
            for begin in [
                "begin",
                "start transaction",
                "/* */ BEGIN WORK",
                "set autocommit = 0",
                "set names utf8mb4, @@session.AutoCommit = off",
            ] {
                let error = pool.query(begin, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{begin}");
                assert_eq!(shown(&pool.query("select 7", &[]).await), "7");
            }
            if site.is_mariadb() {
                // A block, and no transaction.
                let block = "begin not atomic set @a = 7; end";
                pool.query(block, &[]).await.unwrap();
                assert_eq!(shown(&pool.query("select @a", &[]).await), "7");
            }
        });
    }
}

/// A session whose reset did not complete is closed, not reused.
#[test]
fn an_incomplete_reset_closes_the_session() {
    for site in sites() {
        run(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                session: vec!["set @tag = 'ours'".to_owned()],
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            for opened_count in [1, 2, 3] {
                let mut lock = pool.lock().await.unwrap();
                lock.query("set @tag = 'mine'", &[]).await.unwrap();
                drop_reset(&mut lock);
                drop(lock);
                let mut lock = pool.lock().await.unwrap();
                assert_eq!(shown(&lock.query("select @tag", &[]).await), "ours");
                assert_eq!(pool.status().opened_total, opened_count + 1);
                // One that succeeds makes up for it.
                drop_reset(&mut lock);
                lock.reset().await.unwrap();
                drop(lock);
                assert_eq!(shown(&pool.query("select @tag", &[]).await), "ours");
                assert_eq!(pool.status().opened_total, opened_count + 1);
            }
        });
    }
}

/// Drops a reset that the server has not answered.
fn drop_reset(lock: &mut PoolLock) {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        // Where this thread stands still within the poll, the answer may be there at its end.
        match pin!(lock.reset()).as_mut().poll(&mut cx) {
            Poll::Pending => return,
            Poll::Ready(reset) => reset.unwrap(),
        }
    }
}

#[test]
fn issue_14_a_polled_connection_counts_and_keeps_to_deadlines() {
    for site in sites() {
        crate::live::pool::polled::check(
            &site.url(),
            "select connection_id()",
            "select sleep(600)",
        );
    }
}
