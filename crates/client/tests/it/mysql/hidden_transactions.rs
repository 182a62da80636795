//! Statements that open a transaction, or turn autocommit off, without saying so by their first word.
//! What others write through the same pool must not become part of that, and be lost with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lookaside_client::mysql::Options;
use lookaside_client::{Config, Environment, ErrorKind, Pool, PoolOptions};
use lookaside_value::Value;
use tokio::runtime::Builder;

use super::{Site, shown, sites};

const WRITER_COUNT: i64 = 8;

const PROCEDURES: &[&str] = &[
    "create table t (tag bigint primary key)",
    "create procedure begins() begin start transaction; end",
    "create procedure chains() begin start transaction; commit and chain; end",
    "create procedure unsets() begin set autocommit = 0; end",
    "create procedure refuses() begin start transaction; signal sqlstate '45000'; end",
    "create procedure forgets() begin set autocommit = 0; signal sqlstate '45000'; end",
    "create procedure selects() begin start transaction; select 7; end",
    "create procedure writes() begin insert into t values (-1); select 7; end",
];

fn pool(site: &Site, window: usize) -> Pool {
    let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
    let options = PoolOptions {
        connection_count_max: 2,
        mysql: Options {
            window,
            ..Options::default()
        },
        ..PoolOptions::default()
    };
    Pool::new(config, options)
}

fn run(future: impl Future<Output = ()>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future);
}

/// Each form, and whether the server itself reports an error for it.
fn forms(site: &Site) -> Vec<(&'static str, bool)> {
    let mut forms = vec![
        ("/*! begin */", false),
        ("/*! set autocommit = 0 */", false),
        ("/*! xa start 'hidden' */", false),
        ("call begins()", false),
        ("call chains()", false),
        ("call unsets()", false),
        ("call selects()", false),
        ("call refuses()", true),
        ("call forgets()", true),
    ];
    if site.is_mariadb() {
        forms.extend([
            ("begin not atomic start transaction; end", false),
            ("/*M! begin */", false),
        ]);
    }
    forms
}

/// Every write that was acknowledged is there in the end, whatever happened beside it.
#[test]
fn acknowledged_writes_stay_beside_hidden_transactions() {
    for site in sites() {
        site.execute(PROCEDURES);
        for window in [1, 32] {
            for (sql, is_refused) in forms(&site) {
                run(check(&site, window, sql, is_refused));
            }
        }
    }
}

async fn check(site: &Site, window: usize, sql: &'static str, is_refused: bool) {
    static TAGS: AtomicUsize = AtomicUsize::new(0);
    let pool = pool(site, window);
    let remaining = Arc::new(AtomicUsize::new(12));
    let writers: Vec<_> = (0..WRITER_COUNT)
        .map(|_| {
            let (pool, remaining) = (pool.clone(), Arc::clone(&remaining));
            tokio::spawn(async move {
                let mut acknowledged = BTreeSet::new();
                while remaining.load(Ordering::SeqCst) > 0 || acknowledged.is_empty() {
                    let tag = TAGS.fetch_add(1, Ordering::SeqCst) as i64;
                    let insert = "insert into t values (?)";
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
        // The name of a distributed transaction is free once its connection has ended.
        let number = TAGS.fetch_add(1, Ordering::SeqCst);
        let answer = pool
            .query(sql.replace("hidden", &format!("x{number}")), &[])
            .await;
        let error = answer.expect_err("it is not to be acknowledged");
        // One may be in the flight of another.
        if error.is_connection_lost() {
            continue;
        }
        if is_refused {
            assert_eq!(error.sqlstate().unwrap().as_bytes(), b"45000", "{sql}");
        } else {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}: {error:?}");
            assert!(error.to_string().contains("Pool::lock"), "{sql}: {error}");
        }
    }
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    pool.close().await;
    let mut connection = site.connect();
    let answer = super::run(&mut connection, "select tag from t");
    let found: BTreeSet<i64> = answer.map(|row| row.get(0)).unwrap().into_iter().collect();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{sql}, window {window}: {lost:?} are lost");
    assert!(
        !acknowledged.is_empty(),
        "{sql}: nothing was written at all"
    );
}

/// A statement that failed can have left a transaction open, and its answer does not tell.
#[test]
fn what_follows_an_error_waits_for_the_status() {
    for site in sites() {
        site.execute(PROCEDURES);
        run(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            for round in 0..5 {
                let refused = pool.query("call refuses()", &[]).await;
                assert_eq!(
                    refused.unwrap_err().sqlstate().unwrap().as_bytes(),
                    b"45000"
                );
                // It is sent on another connection, and not lost with the first.
                let insert = "insert into t values (?)";
                pool.query(insert, &[Value::Int(round)]).await.unwrap();
            }
            let count = pool.query("select count(*) from t", &[]).await;
            assert_eq!(shown(&count), "5");
        });
    }
}

/// What belongs to a session, or to a transaction, takes a connection for itself.
#[test]
fn changes_of_the_session_are_refused() {
    for site in sites() {
        site.execute(PROCEDURES);
        run(async {
            let pool = pool(&site, 1);
            for sql in [
                "set @a = 1",
                "set names latin1",
                "set transaction isolation level serializable",
                "use mysql",
                "lock tables t write",
                "unlock tables",
                "prepare p from 'select 1'",
                "xa start 'x'",
                "xa begin 'x'",
                "xa end 'x'",
                "xa prepare 'x'",
                "begin",
            ] {
                let error = pool.query(sql, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}");
                assert!(error.to_string().contains("Pool::lock"), "{error}");
            }
            if site.is_mariadb() {
                for sql in [
                    "set statement max_statement_time = 10 for use mysql",
                    "execute immediate 'use mysql'",
                    "flush tables with read lock",
                    "backup stage start",
                    "backup lock t",
                ] {
                    let error = pool.query(sql, &[]).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}");
                }
                let sql = "set statement max_statement_time = 10 for select 7";
                assert_eq!(shown(&pool.query(sql, &[]).await), "7");
            }
            let set = pool.query("set @a = ?", &[Value::Int(1)]).await;
            assert_eq!(set.unwrap_err().kind(), ErrorKind::Misuse);
            // Nothing of it was sent, so the connection is the same.
            assert_eq!(pool.status().opened_total, 1);
            // A locked connection takes them all.
            let lock = pool.lock().await.unwrap();
            for sql in [
                "set @a = 1",
                "xa start 'x'",
                "insert into t values (100)",
                "xa end 'x'",
                "xa prepare 'x'",
                "xa commit 'x'",
                "/*! begin */",
                "insert into t values (101)",
                "commit",
            ] {
                lock.query(sql, &[])
                    .await
                    .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            }
            // The same statement stays refused where it is prepared by now.
            let set = lock.query("set @a = ?", &[Value::Int(1)]).await;
            set.unwrap();
            drop(lock);
            let set = pool.query("set @a = ?", &[Value::Int(1)]).await;
            assert_eq!(set.unwrap_err().kind(), ErrorKind::Misuse);
            let count = pool.query("select count(*) from t", &[]).await;
            assert_eq!(shown(&count), "2");
            // A procedure that commits what it does is fine.
            assert_eq!(shown(&pool.query("call writes()", &[]).await), "7");
        });
    }
}

/// What one left behind is not the next one's.
#[test]
fn a_lock_gives_the_session_back_as_it_was() {
    for site in sites() {
        site.execute(PROCEDURES);
        run(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            for (round, sql) in [
                "set autocommit = 0",
                "call unsets()",
                "call forgets()",
                "begin",
            ]
            .into_iter()
            .enumerate()
            {
                let lock = pool.lock().await.unwrap();
                let _ = lock.query(sql, &[]).await;
                lock.query("insert into t values (7)", &[]).await.unwrap();
                drop(lock);
                let insert = "insert into t values (?)";
                let tag = Value::Int(100 + round as i64);
                pool.query(insert, &[tag]).await.unwrap();
                let mut other = site.connect();
                let count = super::run(&mut other, "select count(*), min(tag) from t");
                assert_eq!(shown(&Ok(count)), format!("{},100", round + 1), "{sql}");
            }
            // It is the same connection all the time.
            assert_eq!(pool.status().opened_total, 1);
        });
    }
}

/// Whether autocommit is on is a part of what the sessions of a pool begin with.
#[test]
fn autocommit_stays_as_the_session_begins() {
    for site in sites() {
        site.execute(&["create table t (tag bigint primary key)"]);
        run(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                session: vec!["set autocommit = 0".to_owned(), "set @a = 5".to_owned()],
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            let state = "select @@autocommit, @a";
            for round in 0..3 {
                let mut lock = pool.lock().await.unwrap();
                assert_eq!(shown(&lock.query(state, &[]).await), "0,5", "{round}");
                if round == 1 {
                    lock.reset().await.unwrap();
                    assert_eq!(shown(&lock.query(state, &[]).await), "0,5");
                    // It is as it was for the next one, also if it was turned on.
                    lock.query("set autocommit = 1", &[]).await.unwrap();
                    lock.query("insert into t values (1)", &[]).await.unwrap();
                    continue;
                }
                lock.query("insert into t values (2)", &[]).await.unwrap();
                // It is not committed, and so undone.
                drop(lock);
                // What would not be committed is refused, and nothing is sent.
                let error = pool
                    .query("insert into t values (3)", &[])
                    .await
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
                let insert = "insert into t values (?)";
                let error = pool.query(insert, &[Value::Int(3)]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            }
            assert_eq!(pool.status().opened_total, 1);
            let mut other = site.connect();
            let tags = super::run(&mut other, "select tag from t");
            assert_eq!(shown(&Ok(tags)), "1");
        });
    }
}
