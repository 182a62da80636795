//! The face that tasks share.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options};
use lookaside_client::{Error, ErrorKind, Request, Syncs};
use lookaside_embedded::Postgres;
use lookaside_value::{ParamBatch, Value};

use super::{config, database, databases, shown};

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(super) async fn connect(postgres: &Postgres) -> Client {
    let config = config(&postgres.url());
    Client::connect(&config, Options::default()).await.unwrap()
}

#[test]
fn ten_thousand_answers_reach_their_tasks() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let tasks: Vec<_> = (0..10_000)
                .map(|tag| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        // Errors and statements of different callers among them.
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
}

#[test]
fn a_large_flight_blocks_neither_side() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let mut params = ParamBatch::new(2);
            for tag in 0..2_000 {
                params.push([Value::Int(tag), Value::from("x".repeat(5_000))]);
            }
            let sql = "select $1::int8, repeat($2, 3)";
            let answers = client.query_many(sql, params, Syncs::Shared).await.unwrap();
            for (tag, answer) in (0..).zip(answers) {
                assert_eq!(answer.unwrap().rows.row(0)[0], Value::Int(tag));
            }
        });
    }
}

#[test]
fn statements_are_described() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let description = client.describe("select $1::int8 as n").await.unwrap();
            assert_eq!(description.columns[..], ["n"]);
            assert_eq!(description.parameter_types[..], ["int8"]);
        });
    }
}

#[test]
fn dropped_futures_cost_a_discarded_answer() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            for tag in 0..1_000 {
                {
                    let mut future = pin!(client.query("select $1::int8", &[Value::Int(-1)]));
                    let mut cx = Context::from_waker(Waker::noop());
                    // It may even be done already.
                    let _: Poll<_> = future.as_mut().poll(&mut cx);
                }
                if tag % 10 == 0 {
                    let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                    assert_eq!(shown(&answer), tag.to_string());
                }
            }
        });
    }
}

#[test]
fn a_deadline_hits_only_its_own_query() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let started = Instant::now();
            let sleep = Request::new("select pg_sleep(60)", &[]);
            let sleep = sleep.deadline(started + Duration::from_millis(50));
            let late = client.request(sleep);
            let others = async {
                for tag in 0..100 {
                    let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                    assert_eq!(shown(&answer), tag.to_string());
                }
            };
            let (late, ()) = tokio::join!(late, others);
            let error = late.unwrap().pop().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert!(started.elapsed() < Duration::from_secs(30));
        });
    }
}

#[test]
fn a_killed_server_fails_everybody() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    block_on(async {
        let client = connect(&postgres).await;
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    loop {
                        if let Err(error) = client.query("select 7", &[]).await {
                            return error;
                        }
                    }
                })
            })
            .collect();
        client.query("select 7", &[]).await.unwrap();
        tokio::task::spawn_blocking(|| postgres.close().unwrap())
            .await
            .unwrap();
        for task in tasks {
            let error: Error = task.await.unwrap();
            assert!(error.is_connection_lost(), "{error:?}");
        }
        assert!(client.is_closed());
        let error = client.query("select 7", &[]).await.unwrap_err();
        assert!(error.is_connection_lost());
        assert!(error.is_retryable());
    });
}

#[test]
fn the_last_handle_ends_the_session() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let other = connect(&postgres).await;
            let answer = client.query("select pg_backend_pid()", &[]).await;
            let process = answer.unwrap().rows.row(0)[0].clone();
            drop(client);
            let sql = "select count(*) from pg_stat_activity where pid = $1";
            let started = Instant::now();
            while shown(&other.query(sql, std::slice::from_ref(&process)).await) != "0" {
                assert!(started.elapsed() < Duration::from_secs(10));
            }
        });
    }
}
