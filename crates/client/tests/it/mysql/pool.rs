//! Many tasks, few connections.

use std::time::Duration;

use lookaside_client::mysql::Options;
use lookaside_client::{Config, Environment, ErrorKind, Pool, PoolOptions, TransactionOptions};
use lookaside_testing::{Brand, Server};
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

/// Whoever meets a slow query waits behind it, and has another connection opened for the rest.
#[test]
fn a_slow_query_holds_up_one_other_at_most() {
    for site in sites() {
        run(async {
            let pool = pool(&site.url(), 1);
            let ask = |sql: &'static str| {
                let pool = pool.clone();
                tokio::spawn(async move { shown(&pool.query(sql, &[]).await) })
            };
            let slow = ask("select sleep(2)");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let behind = ask("select 1");
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(ask("select 2").await.unwrap(), "2");
            assert!(!slow.is_finished(), "another connection answers meanwhile");
            assert_eq!(slow.await.unwrap(), "0");
            assert_eq!(behind.await.unwrap(), "1");
        });
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
