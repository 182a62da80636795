//! Locks, transactions and savepoints.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options};
use lookaside_client::{ErrorKind, Isolation, Request, Result, TransactionOptions};
use lookaside_embedded::Postgres;
use lookaside_value::Value;

use super::tokio::{block_on, connect};
use super::{database, databases, shown};

const TABLE: &str = "create table t(v int unique deferrable initially deferred)";
const INSERT: &str = "insert into t values ($1)";
const NAME: &str = "show application_name";
const ALL: &str = "select coalesce(string_agg(v::text, ' ' order by v), '') from t";

/// Runs a test on each server, with the table and a client that is shared.
fn with_clients<F: Future<Output = ()>>(test: impl Fn(Client, Client) -> F) {
    for postgres in databases() {
        postgres.execute(TABLE).unwrap();
        block_on(async { test(connect(&postgres).await, connect(&postgres).await).await });
    }
}

fn int(int: i64) -> [Value; 1] {
    [Value::Int(int)]
}

/// Polls once, and drops the future. On a busy machine the answer may be there by then.
pub(crate) fn begin_and_drop<T>(future: impl Future<Output = Result<T>>) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(result) = future.as_mut().poll(&mut cx) {
        assert!(result.is_ok(), "{:?}", result.err());
    }
}

#[test]
fn what_others_ask_waits() {
    with_clients(|client, _| async move {
        let lock = client.lock().await.unwrap();
        let set = "set application_name to 'mine'";
        lock.query(set, &[]).await.unwrap();
        let (second, third) = (client.clone(), client.clone());
        let second = ::tokio::spawn(async move {
            let lock = second.lock().await.unwrap();
            shown(&lock.query(NAME, &[]).await)
        });
        let third = ::tokio::spawn(async move { shown(&third.query(NAME, &[]).await) });
        for _ in 0..100 {
            assert_eq!(shown(&lock.query(NAME, &[]).await), "mine");
            ::tokio::task::yield_now().await;
            assert!(!second.is_finished());
            assert!(!third.is_finished());
        }
        let set = "set application_name to 'yours'";
        lock.query(set, &[]).await.unwrap();
        drop(lock);
        assert_eq!(second.await.unwrap(), "yours");
        assert_eq!(third.await.unwrap(), "yours");
    });
}

#[test]
fn a_transaction_is_committed_or_undone() {
    with_clients(|client, other| async move {
        let mut lock = client.lock().await.unwrap();
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        transaction.query(INSERT, &int(1)).await.unwrap();
        assert_eq!(shown(&other.query(ALL, &[]).await), "");
        transaction.commit().await.unwrap();
        assert_eq!(shown(&other.query(ALL, &[]).await), "1");

        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        transaction.query(INSERT, &int(2)).await.unwrap();
        drop(transaction);
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        assert_eq!(shown(&transaction.query(ALL, &[]).await), "1");
        transaction.query(INSERT, &int(3)).await.unwrap();
        transaction.rollback().await.unwrap();
        drop(lock);
        assert_eq!(shown(&client.query(ALL, &[]).await), "1");
    });
}

#[test]
fn savepoints_nest() {
    with_clients(|client, _| async move {
        let mut lock = client.lock().await.unwrap();
        let mut transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        transaction.query(INSERT, &int(1)).await.unwrap();
        for number in 2..5 {
            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.query(INSERT, &int(number)).await.unwrap();
            match number {
                2 => drop(savepoint),
                3 => savepoint.rollback().await.unwrap(),
                _ => savepoint.commit().await.unwrap(),
            }
        }
        let mut outer = transaction.savepoint().await.unwrap();
        outer.query(INSERT, &int(5)).await.unwrap();
        let inner = outer.savepoint().await.unwrap();
        inner.query(INSERT, &int(6)).await.unwrap();
        // An error is undone with its savepoint.
        let error = inner.query("select 1 / 0", &[]).await;
        assert_eq!(shown(&error), "22012");
        let error = inner.commit().await.unwrap_err();
        assert_eq!(error.sqlstate().unwrap().to_string(), "25P02");
        outer.query(INSERT, &int(7)).await.unwrap();
        outer.commit().await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(shown(&lock.query(ALL, &[]).await), "1 4 5 7");
    });
}

#[test]
fn a_transaction_that_failed_says_so() {
    with_clients(|client, _| async move {
        let mut lock = client.lock().await.unwrap();
        let mut transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        transaction.query(INSERT, &int(1)).await.unwrap();
        assert_eq!(
            shown(&transaction.query("select 1 / 0", &[]).await),
            "22012"
        );
        assert_eq!(shown(&transaction.query("select 1", &[]).await), "25P02");
        assert!(transaction.savepoint().await.is_err());
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert_eq!(shown(&lock.query(ALL, &[]).await), "");

        // A constraint that is checked at the end.
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        for _ in 0..2 {
            transaction.query(INSERT, &int(1)).await.unwrap();
        }
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.sqlstate().unwrap().to_string(), "23505");
        assert_eq!(shown(&lock.query(ALL, &[]).await), "");
    });
}

#[test]
fn options_reach_the_server() {
    with_clients(|client, _| async move {
        let mut lock = client.lock().await.unwrap();
        let mut options = TransactionOptions::default();
        options.is_read_only = true;
        for (isolation, name) in [
            (Isolation::ReadUncommitted, "read uncommitted"),
            (Isolation::ReadCommitted, "read committed"),
            (Isolation::RepeatableRead, "repeatable read"),
            (Isolation::Serializable, "serializable"),
        ] {
            options.isolation = Some(isolation);
            let transaction = lock.begin(options).await.unwrap();
            let shows = transaction.query("show transaction_isolation", &[]).await;
            assert_eq!(shown(&shows), name);
            assert_eq!(shown(&transaction.query(INSERT, &int(1)).await), "25006");
        }
    });
}

#[test]
fn a_lock_leaves_no_transaction_behind() {
    with_clients(|client, _| async move {
        for is_failed in [false, true] {
            let lock = client.lock().await.unwrap();
            lock.query("begin", &[]).await.unwrap();
            lock.query(INSERT, &int(1)).await.unwrap();
            if is_failed {
                lock.query("select 1 / 0", &[]).await.unwrap_err();
            }
            drop(lock);
            assert_eq!(shown(&client.query(ALL, &[]).await), "");
        }
        // Nor one whose begin was not awaited.
        let mut lock = client.lock().await.unwrap();
        begin_and_drop(lock.begin(TransactionOptions::default()));
        lock.query(INSERT, &int(2)).await.unwrap();
        drop(lock);
        assert_eq!(shown(&client.query(ALL, &[]).await), "2");
    });
}

/// The statement is prepared in a round trip of its own, which nothing may overtake.
#[test]
fn dropped_futures_stay_in_their_transaction() {
    with_clients(|client, _| async move {
        let mut lock = client.lock().await.unwrap();
        for number in 0..100 {
            let insert = format!("insert into t values ({number})");
            let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
            begin_and_drop(transaction.query(insert, &[]));
            if number % 3 == 0 {
                ::tokio::task::yield_now().await;
            }
            match number % 4 {
                0 => drop(transaction),
                1 => begin_and_drop(transaction.rollback()),
                2 => begin_and_drop(transaction.commit()),
                _ => transaction.commit().await.unwrap(),
            }
        }
        drop(lock);
        // An insert may not have been sent before its future was dropped. If it was, it shared the
        // fate of its transaction.
        let sql = "select count(*) from t where v % 4 < 2";
        assert_eq!(shown(&client.query(sql, &[]).await), "0");
    });
}

#[test]
fn a_deadline_fails_its_transaction_and_no_other() {
    with_clients(|client, _| async move {
        let mut lock = client.lock().await.unwrap();
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        // Time enough to be sent on a busy machine.
        let deadline = Instant::now() + Duration::from_secs(3);
        let sleep = Request::new("select pg_sleep(600)", &[]).deadline(deadline);
        let error = transaction.request(sleep).await.unwrap().remove(0);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Deadline);
        assert_eq!(shown(&transaction.query("select 1", &[]).await), "25P02");
        transaction.rollback().await.unwrap();
        lock.query(INSERT, &int(1)).await.unwrap();
        drop(lock);
        assert_eq!(shown(&client.query(ALL, &[]).await), "1");
    });
}

#[test]
fn a_lost_connection_ends_all_waiting() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    block_on(async {
        let client = connect(&postgres).await;
        let mut lock = client.lock().await.unwrap();
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        let other = client.clone();
        let waiting = ::tokio::spawn(async move { other.lock().await.err().unwrap() });
        ::tokio::task::spawn_blocking(move || Postgres::close(postgres).unwrap())
            .await
            .unwrap();
        let error = transaction.query("select 1", &[]).await.unwrap_err();
        assert!(error.is_connection_lost(), "{error:?}");
        drop(transaction);
        let error = waiting.await.unwrap();
        assert!(
            error.is_connection_lost() && error.is_retryable(),
            "{error:?}"
        );
        assert!(lock.is_closed());
    });
}

#[test]
fn those_that_wait_have_transactions_too() {
    for postgres in databases() {
        postgres.execute(TABLE).unwrap();
        let config = super::config(&postgres.url());
        let mut connection = lookaside_client::postgres::blocking::Connection::connect_with(
            &config,
            Options::default(),
        )
        .unwrap();
        let options = TransactionOptions::default();
        let mut transaction = connection.begin(options).unwrap();
        transaction.query(INSERT, &int(1)).unwrap();
        let mut savepoint = transaction.savepoint().unwrap();
        savepoint.query("select 1 / 0", &[]).unwrap_err();
        savepoint.commit().unwrap_err();
        let mut savepoint = transaction.savepoint().unwrap();
        savepoint.query(INSERT, &int(2)).unwrap();
        savepoint.rollback().unwrap();
        let mut savepoint = transaction.savepoint().unwrap();
        savepoint.query(INSERT, &int(3)).unwrap();
        savepoint.commit().unwrap();
        transaction.commit().unwrap();
        let mut transaction = connection.begin(options).unwrap();
        transaction.query(INSERT, &int(4)).unwrap();
        drop(transaction);
        let mut transaction = connection.begin(options).unwrap();
        transaction.query("select 1 / 0", &[]).unwrap_err();
        transaction.commit().unwrap_err();
        assert_eq!(shown(&connection.query(ALL, &[])), "1 3");
    }
}
