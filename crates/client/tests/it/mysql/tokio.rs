//! Many tasks on one connection.

use std::time::Duration;

use lookaside_client::mysql::{Client, Options};
use lookaside_client::{ErrorKind, Request, TransactionOptions};
use lookaside_value::Value;
use tokio::runtime::{Builder, Runtime};

use super::{Site, config, shown, sites};
use crate::live::tokio::{asked_behind, drop_begun};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connect(site: &Site, window: usize) -> Client {
    let options = Options {
        window,
        ..Options::default()
    };
    Client::connect_with(&config(&site.url()), options)
        .await
        .unwrap()
}

#[test]
fn tasks_share_a_connection() {
    for site in sites() {
        for window in [1, 32] {
            runtime().block_on(async {
                let client = connect(&site, window).await;
                let tasks: Vec<_> = (0..200_i64)
                    .map(|task| {
                        let client = client.clone();
                        tokio::spawn(async move {
                            for step in 0..5 {
                                let values = [Value::Int(task), Value::Int(step)];
                                let answer = client.query("select ? * 10 + ?", &values).await;
                                assert_eq!(shown(&answer), (task * 10 + step).to_string());
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
}

#[test]
fn futures_can_be_dropped() {
    for site in sites() {
        for window in [1, 16] {
            runtime().block_on(async {
                let client = connect(&site, window).await;
                for index in 0..100_i64 {
                    let slow = "select ? + sleep(0.005)";
                    let values = [Value::Int(index)];
                    let dropped = client.query(slow, &values);
                    let patience = Duration::from_micros(100 * (index as u64 % 20));
                    let _ = tokio::time::timeout(patience, dropped).await;
                    let answer = client.query("select ?", &[Value::Int(index)]).await;
                    assert_eq!(shown(&answer), index.to_string());
                }
            });
        }
    }
}

/// What waits to be sent while another query takes long.
#[test]
fn nothing_is_sent_for_futures_that_were_dropped() {
    for site in sites() {
        site.execute(&["create table x(k int, at int primary key auto_increment)"]);
        let name = [Value::from(format!("{}-queued", site.database))];
        let take = "select get_lock(?, 100000)";
        runtime().block_on(async {
            let holder = connect(&site, 1).await;
            assert_eq!(shown(&holder.query(take, &name).await), "1");
            let client = connect(&site, 1).await;
            let rows = asked_behind(
                &client,
                client.query(take, &name),
                async || drop(holder.query("select release_lock(?)", &name).await.unwrap()),
                "insert into x(k) values (?)",
                "select k from x order by at",
            );
            assert_eq!(rows.await, "3 11");
        });
    }
}

#[test]
fn transactions_and_savepoints() {
    for site in sites() {
        site.execute(&["create table x(k int)"]);
        runtime().block_on(async {
            let client = connect(&site, 16).await;
            let mut lock = client.lock().await.unwrap();
            let mut options = TransactionOptions::default();
            options.isolation = Some(lookaside_client::Isolation::ReadCommitted);
            let mut transaction = lock.begin(options).await.unwrap();
            let insert = "insert into x values (?)";
            transaction.query(insert, &[Value::Int(1)]).await.unwrap();
            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.query(insert, &[Value::Int(2)]).await.unwrap();
            savepoint.rollback().await.unwrap();
            transaction.commit().await.unwrap();
            let mut read_only = TransactionOptions::default();
            read_only.is_read_only = true;
            let transaction = lock.begin(read_only).await.unwrap();
            let error = transaction
                .query(insert, &[Value::Int(3)])
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            drop(transaction);
            drop(lock);
            let answer = client.query("select k from x", &[]).await;
            assert_eq!(shown(&answer), "1");
        });
    }
}

/// Rows that come after their future was dropped are not kept until the last of them has come.
#[test]
fn dropped_futures_keep_no_rows() {
    for site in sites() {
        let rows = "select repeat('x', 1000000) from numbers";
        site.execute(&[
            "create table numbers (number int primary key)",
            "insert into numbers with recursive n (k) as \
             (select 1 union all select k + 1 from n where k < 200) select k from n",
            &format!("create procedure large() begin {rows}; {rows}; select 7; end"),
        ]);
        // All on this thread, where memory is counted.
        let runtime = runtime();
        let client = runtime.block_on(connect(&site, 16));
        let query = Request::new(rows, &[]);
        let with = Request::new(format!("{rows} where number > ?"), &[Value::Int(0)]);
        let call = Request::new("call large()", &[]);
        for request in [query, with, call.clone(), call.all_results()] {
            let counted = allocation_counter::measure(|| {
                runtime.block_on(async {
                    drop_begun(client.request(request)).await;
                    assert_eq!(shown(&client.query("select 7", &[]).await), "7");
                });
            });
            assert!(counted.bytes_max < 50_000_000, "{counted:?}");
        }
        let counted = allocation_counter::measure(|| {
            runtime.block_on(async {
                let mut lock = client.lock().await.unwrap();
                let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
                let mut chunks = transaction.stream(rows, &[], 1_000);
                drop_begun(chunks.next_chunk()).await;
                drop(chunks);
                transaction.commit().await.unwrap();
            });
        });
        assert!(counted.bytes_max < 50_000_000, "{counted:?}");
    }
}
