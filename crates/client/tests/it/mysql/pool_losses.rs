//! Connections of a pool that cannot be had, or are lost.

use lookaside_client::{Config, Environment, Pool, PoolOptions};
use lookaside_testing::{Brand, Server, wait_until_async};
use lookaside_value::Value;

use super::{shown, sites};
use crate::live::tokio::block_on;

fn pool(url: &str, options: PoolOptions) -> Pool {
    let config = Config::parse(url, &Environment::empty()).unwrap();
    Pool::new(config, options)
}

async fn echo(pool: &Pool, tag: i64) {
    let answer = pool
        .query("select cast(? as signed)", &[Value::Int(tag)])
        .await;
    assert_eq!(shown(&answer), tag.to_string());
}

async fn echo_by_many(pool: &Pool) {
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for cycle in 0..50 {
                    echo(&pool, task * 50 + cycle).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn a_session_that_cannot_begin_says_why() {
    for site in sites() {
        block_on(async {
            let options = PoolOptions {
                session: vec!["set no_such_setting = 1".to_owned()],
                ..PoolOptions::default()
            };
            let pool = pool(&site.url(), options);
            let error = pool.query("select 7", &[]).await.unwrap_err();
            assert!(
                error.to_string().contains("`set no_such_setting = 1`"),
                "{error}"
            );
            assert_eq!(error.mysql().unwrap().code(), 1193);
        });
    }
}

#[test]
fn lost_connections_are_replaced() {
    for site in sites() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&site.url(), options);
            for round in 1..10 {
                let answer = pool.query("select connection_id()", &[]).await;
                let mut other = site.connect();
                super::run(&mut other, &format!("kill {}", shown(&answer)));
                wait_until_async("the connection is lost", async || {
                    pool.status().lost_total >= round
                })
                .await;
                echo(&pool, 7).await;
            }
        });
    }
}

#[test]
fn a_full_server_is_shared_as_it_is() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::start(brand, &["--max-connections=10"]) else {
            continue;
        };
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 30,
                pipeline_depth: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&server.url(""), options);
            echo_by_many(&pool).await;
            let status = pool.status();
            assert!((1..=11).contains(&status.connection_count), "{status:?}");
            assert!(status.open_failed_total < 100, "{status:?}");
        });
    }
}
