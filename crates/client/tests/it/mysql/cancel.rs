//! Requests of a pool that are canceled: by a token, or because their futures are dropped.

use lookaside_client::{CancelToken, Config, Environment, ErrorKind, Pool, PoolOptions, Request};
use lookaside_testing::wait_until_async;
use lookaside_value::Value;

use super::{Site, shown, sites};
use crate::live::tokio::block_on;

/// Waits on the server while another session holds the lock.
const SLOW: &str = "select get_lock(?, 100000)";

fn pool(site: &Site, options: PoolOptions) -> Pool {
    let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
    Pool::new(config, options)
}

/// Waits until so many sessions wait for a lock.
async fn until_waiting(other: &Pool, name: &str, expected: &str) {
    let sql = "select count(*) from information_schema.processlist where state = 'User lock' \
               and db = database()";
    let what = format!("{name}: {expected} wait");
    wait_until_async(&what, async || {
        shown(&other.query(sql, &[]).await) == expected
    })
    .await;
}

/// The name of a lock, and the connection that holds it.
async fn held(site: &Site, other: &Pool) -> (Value, lookaside_client::PoolLock) {
    let name = Value::from(format!("{}-held", site.database));
    let holder = other.lock().await.unwrap();
    let answer = holder.query(SLOW, std::slice::from_ref(&name)).await;
    assert_eq!(shown(&answer), "1");
    (name, holder)
}

#[test]
fn a_token_cancels_what_the_server_works_on() {
    for site in sites() {
        block_on(async {
            let pool = pool(&site, PoolOptions::default());
            let other = super::cancel::pool(&site, PoolOptions::default());
            let (name, _holder) = held(&site, &other).await;
            let token = CancelToken::new();
            let asked = tokio::spawn({
                let (pool, token) = (pool.clone(), token.clone());
                let request = Request::new(SLOW, &[name]).cancel_token(&token);
                async move { pool.request(request).await }
            });
            until_waiting(&other, "asked", "1").await;
            token.cancel();
            let error = asked.await.unwrap().unwrap().pop().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Canceled, "{error:?}");
            until_waiting(&other, "canceled", "0").await;
            assert_eq!(shown(&pool.query("select 7", &[]).await), "7");
            assert_eq!(pool.status().lost_total, 0);
        });
    }
}

#[test]
fn a_dropped_future_cancels_its_query_if_asked_to() {
    for site in sites() {
        for is_of_pool in [true, false] {
            block_on(async {
                let options = PoolOptions {
                    cancel_on_drop: is_of_pool,
                    ..PoolOptions::default()
                };
                let pool = pool(&site, options);
                let other = super::cancel::pool(&site, PoolOptions::default());
                let (name, _holder) = held(&site, &other).await;
                let asked = tokio::spawn({
                    let pool = pool.clone();
                    let request = Request::new(SLOW, &[name]);
                    let request = match is_of_pool {
                        true => request,
                        false => request.cancel_on_drop(),
                    };
                    async move { pool.request(request).await }
                });
                until_waiting(&other, "asked", "1").await;
                asked.abort();
                until_waiting(&other, "dropped", "0").await;
                assert_eq!(shown(&pool.query("select 7", &[]).await), "7");
                assert_eq!(pool.status().lost_total, 0, "its connection is kept");
            });
        }
    }
}

/// The option of the pool holds there as well.
#[test]
fn a_dropped_future_of_a_lock_cancels_its_query_if_asked_to() {
    for site in sites() {
        block_on(async {
            let options = PoolOptions {
                cancel_on_drop: true,
                ..PoolOptions::default()
            };
            let pool = pool(&site, options);
            let other = super::cancel::pool(&site, PoolOptions::default());
            let (name, _holder) = held(&site, &other).await;
            let name = [name];
            let lock = pool.lock().await.unwrap();
            tokio::select! {
                answer = lock.query(SLOW, &name) => panic!("{answer:?}"),
                () = until_waiting(&other, "asked", "1") => {}
            }
            until_waiting(&other, "dropped", "0").await;
            assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            assert_eq!(pool.status().lost_total, 0, "its connection is kept");
        });
    }
}
