//! Large results, a chunk at a time.

use std::env;
use std::fs;
use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};

use lookaside_client::postgres::{Client, Options, Route};
use lookaside_client::{ErrorKind, Result, TransactionOptions, nonblocking};
use lookaside_value::{RowSet, Value};

use super::tokio::block_on;
use super::{config, connect as connect_blocking, databases, shown};

type Stream<'t> = nonblocking::RowStream<'t, lookaside_client::postgres::PostgresDriver>;
type Transaction<'l> = nonblocking::Transaction<'l, lookaside_client::postgres::PostgresDriver>;

const NUMBERS: &str = "select n, 'row ' || n from generate_series(1, $1::int8) n";
const PORTALS: &str = "select count(*) from pg_cursors where name <> ''";

/// Runs a test in a transaction on each server, with named statements and without.
fn in_transactions<F>(test: impl Fn(&'static str, Transaction<'static>) -> F)
where
    F: Future<Output = ()>,
{
    for postgres in databases() {
        for (route, name) in [(Route::Direct, "direct"), (Route::Pooler, "pooler")] {
            block_on(async {
                let options = Options {
                    route,
                    // The statement is forgotten while its portal is open.
                    statement_count_max: 1,
                    result_size_max: 1 << 20,
                    ..Options::default()
                };
                let client = Client::connect_with(&config(&postgres.url()), options).await;
                // What is leaked lives as long as the transaction that borrows it.
                let lock = Box::leak(Box::new(client.unwrap().lock().await.unwrap()));
                let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
                test(name, transaction).await;
            });
        }
    }
}

fn numbers(rows: &RowSet) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_int().unwrap()).collect()
}

async fn rest(stream: Stream<'_>) -> Result<Vec<usize>> {
    rest_behind(stream, 0).await
}

/// The sizes of the chunks behind the number `last`.
async fn rest_behind(mut stream: Stream<'_>, last: usize) -> Result<Vec<usize>> {
    let mut sizes = Vec::new();
    let mut next = last as i64 + 1;
    while let Some(rows) = stream.next_chunk().await? {
        for number in numbers(&rows) {
            assert_eq!(number, next);
            next += 1;
        }
        sizes.push(rows.len());
    }
    assert!(stream.next_chunk().await.unwrap().is_none());
    Ok(sizes)
}

#[test]
fn all_rows_come_in_chunks() {
    in_transactions(|name, transaction| async move {
        for (count, chunk, expected) in [
            (0, 3, vec![]),
            (2, 3, vec![2]),
            (3, 3, vec![3]),
            (7, 3, vec![3, 3, 1]),
            (2, 0, vec![1, 1]),
            (5, u32::MAX, vec![5]),
        ] {
            let stream = transaction.stream(NUMBERS, &[Value::Int(count)], chunk);
            assert_eq!(rest(stream).await.unwrap(), expected, "{name} {count}");
            let open = transaction.query(PORTALS, &[]).await;
            assert_eq!(shown(&open), "0", "{name}");
        }
        // What gives rows and is not a query, and what gives none.
        let table = "create temp table t(v int)";
        let sizes = rest(transaction.stream(table, &[], 1)).await.unwrap();
        assert!(sizes.is_empty());
        let insert = "insert into t select generate_series(1, 5) returning v::int8";
        let sizes = rest(transaction.stream(insert, &[], 2)).await.unwrap();
        assert_eq!(sizes, [2, 2, 1]);
        let mut stream = transaction.stream("show application_name", &[], 1);
        assert_eq!(stream.next_chunk().await.unwrap().unwrap().len(), 1);
        assert!(stream.next_chunk().await.unwrap().is_none());
        drop(stream);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn others_ask_in_between() {
    in_transactions(|name, transaction| async move {
        let count = [Value::Int(100)];
        let mut streams: Vec<_> = (0..3)
            .map(|_| transaction.stream(NUMBERS, &count, 10))
            .collect();
        for round in 0..10 {
            for stream in &mut streams {
                let rows = stream.next_chunk().await.unwrap().unwrap();
                let expected: Vec<_> = (round * 10 + 1..=round * 10 + 10).collect();
                assert_eq!(numbers(&rows), expected, "{name}");
                // Statements come and go meanwhile.
                let sql = format!("select {round}");
                let answer = transaction.query(sql, &[]).await;
                assert_eq!(shown(&answer), round.to_string());
            }
        }
        let open = transaction.query(PORTALS, &[]).await;
        assert_eq!(shown(&open), "3");
        drop(streams);
        let open = transaction.query(PORTALS, &[]).await;
        assert_eq!(shown(&open), "0");
        transaction.commit().await.unwrap();
    });
}

#[test]
fn dropped_half_way_the_transaction_goes_on() {
    in_transactions(|name, transaction| async move {
        for round in 0..20 {
            let mut stream = transaction.stream(NUMBERS, &[Value::Int(1_000)], 10);
            for _ in 0..round % 3 {
                assert_eq!(stream.next_chunk().await.unwrap().unwrap().len(), 10);
            }
            if round % 2 == 0 {
                // A chunk is under way.
                let mut chunk = pin!(stream.next_chunk());
                let mut cx = Context::from_waker(Waker::noop());
                let _ = chunk.as_mut().poll(&mut cx);
            }
            drop(stream);
            let answer = transaction.query(PORTALS, &[]).await;
            assert_eq!(shown(&answer), "0", "{name} {round}");
        }
        // A chunk that was not waited for is not lost.
        let mut stream = transaction.stream(NUMBERS, &[Value::Int(100)], 7);
        let mut count = 0;
        for _ in 0..5 {
            let mut chunk = pin!(stream.next_chunk());
            let mut cx = Context::from_waker(Waker::noop());
            // The answer to the first may be here when the second is asked.
            if let Poll::Ready(chunk) = chunk.as_mut().poll(&mut cx) {
                count += chunk.unwrap().unwrap().len();
            }
        }
        let rest = rest_behind(stream, count).await.unwrap();
        assert_eq!(count + rest.iter().sum::<usize>(), 100);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn an_error_in_the_middle_ends_them() {
    in_transactions(|name, mut transaction| async move {
        for (sql, expected) in [
            ("select nonsense", "42703"),
            ("select 1 / (6 - n) from generate_series(1, 9) n", "22012"),
            ("select 1 where $1", "Misuse"),
            ("copy (select 1) to stdout", "Misuse"),
        ] {
            let savepoint = transaction.savepoint().await.unwrap();
            let mut stream = savepoint.stream(sql, &[], 2);
            let error = loop {
                match stream.next_chunk().await {
                    Ok(rows) => assert_eq!(rows.unwrap().len(), 2, "{name} {sql}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(crate::driver::state(&error), expected, "{name} {sql}");
            let again = stream.next_chunk().await.unwrap_err();
            assert_eq!(again.to_string(), error.to_string());
            drop(stream);
            savepoint.rollback().await.unwrap();
        }
        // A chunk that is too large.
        let large = "select repeat('x', n * 300) from generate_series(1, 9000) n";
        let mut stream = transaction.stream(large, &[], 50);
        let error = loop {
            if let Err(error) = stream.next_chunk().await {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Limit);
        drop(stream);
        assert_eq!(shown(&transaction.query("select 7", &[]).await), "7");
        // The transaction ends in between.
        let mut stream = transaction.stream(NUMBERS, &[Value::Int(9)], 2);
        stream.next_chunk().await.unwrap();
        transaction.query("rollback", &[]).await.unwrap();
        let error = stream.next_chunk().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        drop(stream);
        drop(transaction);
    });
}

#[test]
fn those_that_wait_have_them_too() {
    for postgres in databases() {
        let mut connection = connect_blocking(&postgres);
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let mut stream = transaction.stream(NUMBERS, &[Value::Int(25)], 10);
        let mut sizes = Vec::new();
        while let Some(rows) = stream.next_chunk().unwrap() {
            sizes.push(rows.len());
            let other = stream.transaction();
            let mut inner = other.stream(NUMBERS, &[Value::Int(9)], 2);
            assert_eq!(inner.next_chunk().unwrap().unwrap().len(), 2);
            drop(inner);
            assert_eq!(shown(&other.query(PORTALS, &[])), "1");
        }
        assert_eq!(sizes, [10, 10, 5]);
        drop(stream);
        assert_eq!(shown(&transaction.query(PORTALS, &[])), "0");
        let sql = "select 1 / (3 - n) from generate_series(1, 9) n";
        let mut stream = transaction.stream(sql, &[], 1);
        let errors: Vec<_> = (0..4).map(|_| stream.next_chunk().is_err()).collect();
        assert_eq!(errors, [false, false, true, true]);
        drop(stream);
        transaction.rollback().unwrap();
        assert_eq!(shown(&connection.query("select 7", &[])), "7");
    }
}

/// In a separate process, whose memory no other test uses.
#[test]
fn a_million_rows_take_the_memory_of_one_chunk() {
    const NAME: &str = "live::streams::a_million_rows_take_the_memory_of_one_chunk";
    const URL: &str = "LOOKASIDE_TEST_STREAM_URL";
    if let Ok(url) = env::var(URL) {
        let options = Options {
            result_size_max: 1 << 20,
            ..Options::default()
        };
        let config = config(&url);
        let connected =
            lookaside_client::postgres::blocking::Connection::connect_with(&config, options);
        let mut connection = connected.unwrap();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let sql = "select n, repeat('x', 100) from generate_series(1, 1000000) n";
        let mut stream = transaction.stream(sql, &[], 5_000);
        stream.next_chunk().unwrap().unwrap();
        let (before, mut count) = (peak_memory(), 5_000);
        while let Some(rows) = stream.next_chunk().unwrap() {
            count += rows.len();
        }
        assert_eq!(count, 1_000_000);
        let grown = peak_memory() - before;
        // All of them would be a hundred megabytes and more.
        assert!(grown < 8 << 10, "{grown} KiB more than after the first");
        return;
    }
    for postgres in databases() {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]);
        let output = command.env(URL, postgres.url()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// The most that this process had, in KiB.
pub(crate) fn peak_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}
