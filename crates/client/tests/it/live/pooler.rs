//! Behind a PgBouncer whose sessions change with each transaction.

use std::time::Duration;

use lookaside_client::postgres::{Client, Options, Route, blocking::Connection};
use lookaside_client::{Syncs, TransactionOptions};
use lookaside_embedded::Postgres;
use lookaside_testing::Pooler;
use lookaside_value::{ParamBatch, Value};

use super::tokio::block_on;
use super::{config, database, shown};

/// A pooler before a database of a server of its own.
struct Pooled {
    pooler: Pooler,
    postgres: Postgres,
}

impl Pooled {
    fn start(version: &str) -> Option<Self> {
        let postgres = database(version, true)?;
        let pooler = Pooler::start(&postgres.tcp_url().expect("the server listens"))?;
        Some(Self { pooler, postgres })
    }

    fn url(&self) -> String {
        self.pooler.url(self.postgres.database())
    }

    fn connect(&self) -> Connection {
        Connection::connect_with(&config(&self.url()), options()).unwrap()
    }
}

fn options() -> Options {
    Options {
        route: Route::Pooler,
        ..Options::default()
    }
}

#[test]
fn never_a_wrong_value_under_ddl() {
    for version in ["18", "15"] {
        let Some(pooler) = Pooled::start(version) else {
            return;
        };
        ddl(&pooler);
        search_path(&pooler);
        sessions_change(&pooler);
        tasks(&pooler);
    }
}

/// What another session does to the table `t(k int, a int, b text)` with the row `1, 2, three`, and
/// the answers before and after, alone and in flights.
fn ddl(pooler: &Pooled) {
    const TABLE: &str = "drop table if exists t; drop type if exists mood; \
        create type mood as enum ('good'); create table t(k int, a int, b text); \
        insert into t values (1, 2, 'three')";
    let sql = "select * from t where k = $1";
    for (ddl, expected) in [
        ("alter table t alter a type bigint", "1,2,three"),
        ("alter table t alter a type text", "1,2,three"),
        ("alter table t alter a type float4", "1,2,three"),
        (
            "alter table t alter a type mood using 'good'::mood",
            "1,good,three",
        ),
        ("alter table t alter b type bytea using 'x'", "1,2,0x78"),
        (
            "alter table t rename a to c; alter table t rename b to a; alter table t rename c to b",
            "1,2,three",
        ),
        (
            "alter table t drop a; alter table t add a int default 9",
            "1,three,9",
        ),
        ("alter table t add c int default 4", "1,2,three,4"),
        ("alter table t add c mood default 'good'", "1,2,three,good"),
        ("alter table t drop b", "1,2"),
        ("alter table t alter k type bigint", "1,2,three"),
        ("alter table t alter k type text", "1,2,three"),
        ("drop table t", "42P01"),
        (
            "drop table t; create table t(a text, k int); insert into t values ('new', 1)",
            "new,1",
        ),
    ] {
        pooler.postgres.execute(TABLE).unwrap();
        let mut connections = [pooler.connect(), pooler.connect(), pooler.connect()];
        for connection in &mut connections {
            let before = connection.query(sql, &[Value::Int(1)]);
            assert_eq!(shown(&before), "1,2,three");
        }
        pooler.postgres.execute(ddl).unwrap();
        let [single, each, shared] = &mut connections;
        for _ in 0..2 {
            let after = single.query(sql, &[Value::Int(1)]);
            assert_eq!(shown(&after), expected, "{ddl}");
        }
        for (connection, syncs) in [(each, Syncs::Each), (shared, Syncs::Shared)] {
            let mut params = ParamBatch::new(1);
            for _ in 0..10 {
                params.push([Value::Int(1)]);
            }
            for answer in connection.query_many(sql, params, syncs).unwrap() {
                assert_eq!(shown(&answer), expected, "{ddl} {syncs:?}");
            }
        }
    }
}

fn search_path(pooler: &Pooled) {
    pooler
        .postgres
        .execute(
            "create schema other; create table w(k int, v int); insert into w values (1, 7); \
             create table other.w(k int, v text); insert into other.w values (1, 'seven')",
        )
        .unwrap();
    let mut connection = pooler.connect();
    let sql = "select v from w where k = $1";
    assert_eq!(shown(&connection.query(sql, &[Value::Int(1)])), "7");
    let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
    transaction
        .query("set local search_path to other", &[])
        .unwrap();
    assert_eq!(shown(&transaction.query(sql, &[Value::Int(1)])), "seven");
    transaction.commit().unwrap();
    assert_eq!(shown(&connection.query(sql, &[Value::Int(1)])), "7");
}

/// Wherever the pooler sends it, a query is answered; what others hold it does not wait for.
fn sessions_change(pooler: &Pooled) {
    let process = |answer: lookaside_client::Result<lookaside_client::Answer>| {
        answer.unwrap().rows.row(0)[0].as_int().unwrap()
    };
    let sql = "select pg_backend_pid()";
    let mut pooled = pooler.connect();
    let mut holders: Vec<_> = (0..10).map(|_| pooler.connect()).collect();
    let mut answered_by = std::collections::BTreeSet::new();
    for (index, holder) in holders.iter_mut().enumerate() {
        // The sessions take turns.
        for _ in 0..index % 2 {
            pooled.query("select 1", &[]).unwrap();
        }
        let mut held = holder.begin(TransactionOptions::default()).unwrap();
        let other = process(pooled.query(sql, &[]));
        assert_ne!(process(held.query(sql, &[])), other);
        answered_by.insert(other);
        held.commit().unwrap();
    }
    assert_eq!(answered_by.len(), 2);
}

fn tasks(pooler: &Pooled) {
    block_on(async {
        let client = Client::connect_with(&config(&pooler.url()), options()).await;
        let client = client.unwrap();
        let tasks: Vec<_> = (0..1_000)
            .map(|tag| {
                let client = client.clone();
                ::tokio::spawn(async move {
                    let sql = match tag % 10 {
                        0 => "select 10 / ($1::int8 - $1::int8)",
                        1 => "select $1::int8, repeat('x', 3000)",
                        _ => "select $1::int8",
                    };
                    let answer = client.query(sql, &[Value::Int(tag)]).await;
                    match tag % 10 {
                        0 => assert_eq!(shown(&answer), "22012"),
                        _ => assert_eq!(answer.unwrap().rows.row(0)[0], Value::Int(tag)),
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// How a query may end where the session is another one than that which prepared its statement.
fn check_named(answer: &lookaside_client::Result<lookaside_client::Answer>, expected: i64) {
    let shown = shown(answer);
    let is_known = shown == expected.to_string() || ["26000", "25P02"].contains(&&*shown);
    assert!(is_known, "{shown} instead of {expected}");
}

/// Named statements, where the pooler lets each transaction run in another session: each query gets
/// its answer or an error, none gets that of another, and none waits without end.
#[test]
fn named_statements_behind_a_pooler_end_in_an_error() {
    for version in ["18", "15"] {
        let Some(pooler) = Pooled::start(version) else {
            return;
        };
        let config = config(&pooler.url());
        block_on(async {
            let limit = Duration::from_secs(120);
            let tasks: Vec<_> = (0..10)
                .map(|index| {
                    let config = config.clone();
                    ::tokio::spawn(async move {
                        for round in 0..20 {
                            let client = Client::connect_with(&config, Options::default()).await;
                            let client = client.unwrap();
                            named(&client, index + round).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                let done = ::tokio::time::timeout(limit, task).await;
                done.expect("it hangs").unwrap();
            }
        });
    }
}

/// Asks in all ways at once.
async fn named(client: &Client, salt: i64) {
    let alone = (0..50).map(|tag| {
        let client = client.clone();
        ::tokio::spawn(async move {
            let sql = format!("select $1::int8 + {}", (tag + salt) % 7);
            let answer = client.query(sql.as_str(), &[Value::Int(tag)]).await;
            check_named(&answer, tag + (tag + salt) % 7);
        })
    });
    let together = [Syncs::Each, Syncs::Shared].map(|syncs| {
        let client = client.clone();
        ::tokio::spawn(async move {
            let mut params = ParamBatch::new(1);
            (0..100).for_each(|tag| params.push([Value::Int(tag)]));
            let sql = format!("select $1::int8 - {salt}");
            let answers = client.query_many(sql, params, syncs).await.unwrap();
            for (tag, answer) in (0..).zip(&answers) {
                check_named(answer, tag - salt);
            }
        })
    });
    for task in alone.chain(together).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let mut lock = client.lock().await.unwrap();
    for _ in 0..3 {
        let begun = lock.begin(TransactionOptions::default()).await;
        let Ok(transaction) = begun else { continue };
        let answer = transaction.query("select $1::int8", &[Value::Int(7)]).await;
        check_named(&answer, 7);
        let _ = transaction.commit().await;
    }
}

/// The pooler has two sessions, and a client that leaves a transaction open in one keeps it.
#[test]
fn no_transaction_stays_open_behind_a_pooler() {
    for version in ["18", "15"] {
        let Some(pooler) = Pooled::start(version) else {
            return;
        };
        let connect =
            || Connection::connect_with(&config(&pooler.url()), Options::default()).unwrap();
        let mut connections: Vec<_> = (0..6).map(|_| connect()).collect();
        // The pooler opens a session when there is none that is free.
        let first_two = &mut connections[..2];
        let held = first_two.iter_mut().map(|connection| {
            let begun = connection.begin(TransactionOptions::default());
            begun.unwrap()
        });
        drop(held.collect::<Vec<_>>());
        for round in 0..10 {
            for connection in &mut connections {
                let begun = connection.begin(TransactionOptions::default());
                let mut transaction = begun.unwrap();
                let answer = transaction.query("select $1::int8", &[Value::Int(round)]);
                check_named(&answer, round);
                match round % 3 {
                    0 => drop(transaction),
                    1 => transaction.rollback().unwrap(),
                    _ => assert_eq!(transaction.commit().is_ok(), answer.is_ok()),
                }
                let answer = connection.query("select $1::int8", &[Value::Int(round)]);
                check_named(&answer, round);
            }
        }
    }
}
