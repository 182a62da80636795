//! Statements that open a transaction without saying so by their first word. What others write
//! through the same pool must not become part of it, and be lost with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lookaside_client::postgres::{self, Route};
use lookaside_client::{ErrorKind, PoolOptions};
use lookaside_embedded::Postgres;
use lookaside_value::Value;

use super::{echo, pool};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

const WRITER_COUNT: usize = 8;

/// Every write that was acknowledged is there in the end, whatever happened beside it.
#[test]
fn acknowledged_writes_stay_beside_hidden_transactions() {
    for postgres in databases() {
        postgres
            .execute("create table t (tag int8 primary key)")
            .unwrap();
        for route in [Route::Direct, Route::Pooler] {
            for sql in [
                "; begin",
                ";;/**/START TRANSACTION",
                "; -- \n begin read only",
            ] {
                block_on(check(&postgres, route, sql));
            }
        }
    }
}

async fn check(postgres: &Postgres, route: Route, sql: &'static str) {
    static TAGS: AtomicUsize = AtomicUsize::new(0);
    let options = PoolOptions {
        connection_count_max: 2,
        postgres: postgres::Options {
            route,
            ..postgres::Options::default()
        },
        ..PoolOptions::default()
    };
    let pool = pool(postgres, options);
    let remaining = Arc::new(AtomicUsize::new(12));
    let writers: Vec<_> = (0..WRITER_COUNT)
        .map(|_| {
            let (pool, remaining) = (pool.clone(), Arc::clone(&remaining));
            tokio::spawn(async move {
                let mut acknowledged = BTreeSet::new();
                while remaining.load(Ordering::SeqCst) > 0 || acknowledged.is_empty() {
                    let tag = TAGS.fetch_add(1, Ordering::SeqCst) as i64;
                    let insert = "insert into t values ($1)";
                    match pool.query(insert, &[Value::Int(tag)]).await {
                        Ok(_) => drop(acknowledged.insert(tag)),
                        Err(error) => assert!(error.is_connection_lost(), "{error:?}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    while remaining.fetch_sub(1, Ordering::SeqCst) > 1 {
        let answer = pool.query(sql, &[]).await;
        let error = answer.expect_err("it is not to be acknowledged");
        if !error.is_connection_lost() {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}: {error:?}");
            assert!(error.to_string().contains("Pool::lock"), "{sql}: {error}");
        }
    }
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    pool.close().await;
    let mut connection = crate::live::connect(postgres);
    let answer = connection.query("select tag from t", &[]).unwrap();
    let found: BTreeSet<i64> = answer.map(|row| row.get(0)).unwrap().into_iter().collect();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{sql}, {route:?}: {lost:?} are lost");
    assert!(
        !acknowledged.is_empty(),
        "{sql}: nothing was written at all"
    );
}

/// What belongs to a session takes a connection for itself.
#[test]
fn changes_of_the_session_are_refused() {
    for postgres in databases() {
        postgres.execute("create table t (k int)").unwrap();
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                session: vec!["set application_name = 'ours'".to_owned()],
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            echo(&pool, 7).await;
            for sql in [
                "set search_path to other",
                "SET ROLE none",
                "/* */ reset all",
                "listen goods",
                "unlisten *",
                "discard all",
                "prepare p as select 1",
                "prepare transaction 'p'",
                "deallocate all",
                "; set role none",
                ";set search_path = other",
                "; /* */ ; listen a",
            ] {
                let error = pool.query(sql, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}");
                assert!(error.to_string().contains("Pool::lock"), "{error}");
            }
            // Nothing of it was sent, so the connection is the same.
            assert_eq!(pool.status().opened_total, 1);
            // A locked connection takes them all, and forgets none of what is refused elsewhere.
            let set = "set application_name = 'mine'";
            let lock = pool.lock().await.unwrap();
            for sql in [
                set,
                "listen goods",
                "; begin",
                "insert into t values (1)",
                "commit",
            ] {
                lock.query(sql, &[])
                    .await
                    .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            }
            drop(lock);
            let error = pool.query(set, &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            let count = pool.query("select count(*) from t", &[]).await;
            assert_eq!(shown(&count), "1");
        });
    }
}
