//! Large results, a chunk at a time.

use std::env;
use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};

use lookaside_client::mysql::{Client, MysqlDriver, Options};
use lookaside_client::{ErrorKind, Result, TransactionOptions, nonblocking};
use lookaside_value::{RowSet, Value};

use super::{Site, config, connect_to, run, sites};
use crate::live::streams::peak_memory;
use crate::live::tokio::block_on;

type Stream<'t> = nonblocking::RowStream<'t, MysqlDriver>;
type Transaction<'l> = nonblocking::Transaction<'l, MysqlDriver>;

const NUMBERS: &str = "select n, concat('row ', n) from numbers where n <= ? order by n";

/// The numbers from 1 to 1,000.
fn fill(site: &Site) {
    site.execute(&[
        "create table d(v int)",
        "insert into d values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        "create table numbers(n bigint primary key)",
        "insert into numbers select a.v * 100 + b.v * 10 + c.v + 1 from d a, d b, d c",
        "create table t(v int) engine = innodb",
        "create procedure both_of(k int) begin select 0; select n from numbers where n <= k; end",
    ]);
}

/// Runs a test in a transaction on each server, for narrow and wide connections.
fn in_transactions<F>(test: impl Fn(bool, usize, Transaction<'static>) -> F)
where
    F: Future<Output = ()>,
{
    for site in sites() {
        fill(&site);
        for window in [1, 16] {
            block_on(async {
                let options = Options {
                    window,
                    // The statement is forgotten while its cursor is open.
                    statement_count_max: 1,
                    result_size_max: 1 << 20,
                    ..Options::default()
                };
                let client = Client::connect_with(&config(&site.url()), options).await;
                // What is leaked lives as long as the transaction that borrows it.
                let lock = Box::leak(Box::new(client.unwrap().lock().await.unwrap()));
                let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
                test(site.is_mariadb(), window, transaction).await;
            });
            site.execute(&["truncate table t"]);
        }
    }
}

fn numbers(rows: &RowSet) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_int().unwrap()).collect()
}

async fn rest(stream: Stream<'_>) -> Result<Vec<usize>> {
    rest_behind(stream, 0).await
}

/// The sizes of the chunks that come when `last` rows have come.
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

/// How often the session has fetched, and how many statements it has prepared and not closed.
async fn counts(transaction: &Transaction<'_>) -> [i64; 2] {
    let mut counts = [0; 3];
    let names = ["Com_stmt_fetch", "Com_stmt_prepare", "Com_stmt_close"];
    for (count, name) in counts.iter_mut().zip(names) {
        let sql = format!("show session status like '{name}'");
        let answer = transaction.query(sql, &[]).await.unwrap();
        *count = answer.rows.row(0)[1].to_text().parse().unwrap();
    }
    let [fetched, prepared, closed] = counts;
    [fetched, prepared - closed]
}

#[test]
fn all_rows_come_in_chunks() {
    in_transactions(|is_mariadb, window, transaction| async move {
        for (count, chunk, expected, fetch_count) in [
            (0, 3, vec![], 1),
            (2, 3, vec![2], 1),
            (3, 3, vec![3], 2),
            (7, 3, vec![3, 3, 1], 3),
            (2, 0, vec![1, 1], 3),
            (5, u32::MAX, vec![5], 1),
        ] {
            let [fetched, open] = counts(&transaction).await;
            let stream = transaction.stream(NUMBERS, &[Value::Int(count)], chunk);
            assert_eq!(rest(stream).await.unwrap(), expected, "{window} {count}");
            let after = counts(&transaction).await;
            assert_eq!(after, [fetched + fetch_count, open], "{window} {count}");
        }
        // Columns have their names in each chunk.
        let mut stream = transaction.stream("select n as number from numbers", &[], 600);
        for _ in 0..2 {
            let rows = stream.next_chunk().await.unwrap().unwrap();
            assert_eq!(&*rows.columns()[0], "number");
        }
        drop(stream);
        // What gives rows and has no cursor, and what gives none.
        let mut stream = transaction.stream("call both_of(5)", &[], 2);
        let rows = stream.next_chunk().await.unwrap().unwrap();
        assert_eq!(numbers(&rows), [0]);
        assert!(stream.next_chunk().await.unwrap().is_none());
        drop(stream);
        let insert = "insert into t select n from numbers where n <= 5";
        let sizes = rest(transaction.stream(insert, &[], 1)).await.unwrap();
        assert!(sizes.is_empty());
        if is_mariadb {
            let insert = "insert into t select n from numbers where n <= 5 returning v";
            let sizes = rest(transaction.stream(insert, &[], 2)).await.unwrap();
            assert_eq!(sizes, [2, 2, 1]);
        }
        let mut stream = transaction.stream("show character set", &[], 10);
        let mut sizes = Vec::new();
        while let Some(rows) = stream.next_chunk().await.unwrap() {
            assert_eq!(&*rows.columns()[0], "Charset");
            sizes.push(rows.len());
        }
        assert!(sizes.len() > 3 && sizes[..3] == [10; 3], "{sizes:?}");
        drop(stream);
        let sum = transaction.query("select sum(v) from t", &[]).await;
        let expected = if is_mariadb { "30" } else { "15" };
        assert_eq!(super::shown(&sum), expected);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn others_ask_in_between() {
    in_transactions(|_, window, transaction| async move {
        let before = counts(&transaction).await;
        let count = [Value::Int(100)];
        let mut streams: Vec<_> = (0..3)
            .map(|_| transaction.stream(NUMBERS, &count, 10))
            .collect();
        for round in 0..10 {
            for stream in &mut streams {
                let rows = stream.next_chunk().await.unwrap().unwrap();
                let expected: Vec<_> = (round * 10 + 1..=round * 10 + 10).collect();
                assert_eq!(numbers(&rows), expected, "{window}");
                // Statements come and go meanwhile, that of the streams as well.
                let sql = format!("select {round}");
                let answer = transaction.query(sql, &[]).await;
                assert_eq!(super::shown(&answer), round.to_string());
                let whole = transaction.query(NUMBERS, &count).await.unwrap();
                assert_eq!(whole.rows.len(), 100);
            }
        }
        let open = counts(&transaction).await;
        assert_eq!(open, [before[0] + 30, before[1] + 3]);
        drop(streams);
        assert_eq!(counts(&transaction).await[1], before[1]);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn dropped_half_way_the_transaction_goes_on() {
    in_transactions(|_, window, transaction| async move {
        let [_, open] = counts(&transaction).await;
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
            assert_eq!(counts(&transaction).await[1], open, "{window} {round}");
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
fn an_error_ends_them() {
    in_transactions(|_, window, transaction| async move {
        let [_, open] = counts(&transaction).await;
        for (sql, expected) in [
            ("select nonsense", "1054"),
            ("select ?", "Misuse"),
            // All rows are read when the cursor is opened.
            ("select (select n from numbers where n > 5)", "1242"),
        ] {
            let mut stream = transaction.stream(sql, &[], 2);
            let error = stream.next_chunk().await.unwrap_err();
            let refused = error.mysql().map(|refused| refused.code().to_string());
            let found = refused.unwrap_or_else(|| format!("{:?}", error.kind()));
            assert_eq!(found, expected, "{window} {sql}");
            let again = stream.next_chunk().await.unwrap_err();
            assert_eq!(again.to_string(), error.to_string());
            drop(stream);
        }
        // What could not be prepared was counted as well.
        assert_eq!(counts(&transaction).await[1], open + 1);
        // A chunk that is too large.
        let large = "select repeat('x', n * 30) from numbers order by n";
        let mut stream = transaction.stream(large, &[], 100);
        let mut chunk_count = 0;
        let error = loop {
            match stream.next_chunk().await {
                Ok(rows) => chunk_count += usize::from(rows.is_some()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(chunk_count > 2, "{chunk_count}");
        drop(stream);
        assert_eq!(counts(&transaction).await[1], open + 1);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn those_that_wait_have_them_too() {
    for site in sites() {
        fill(&site);
        let mut connection = site.connect();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let mut stream = transaction.stream(NUMBERS, &[Value::Int(25)], 10);
        let mut sizes = Vec::new();
        while let Some(rows) = stream.next_chunk().unwrap() {
            sizes.push(rows.len());
            let other = stream.transaction();
            let mut inner = other.stream(NUMBERS, &[Value::Int(9)], 2);
            assert_eq!(inner.next_chunk().unwrap().unwrap().len(), 2);
            drop(inner);
            assert_eq!(super::shown(&other.query("select 7", &[])), "7");
        }
        assert_eq!(sizes, [10, 10, 5]);
        drop(stream);
        let mut stream = transaction.stream("select nonsense", &[], 1);
        assert!(stream.next_chunk().is_err());
        drop(stream);
        transaction.rollback().unwrap();
        assert_eq!(super::shown(&connection.query("select 7", &[])), "7");
    }
}

/// In a separate process, whose memory no other test uses.
#[test]
fn many_rows_take_the_memory_of_one_chunk() {
    const NAME: &str = "mysql::streams::many_rows_take_the_memory_of_one_chunk";
    const URL: &str = "LOOKASIDE_TEST_MYSQL_STREAM_URL";
    if let Ok(url) = env::var(URL) {
        let options = Options {
            result_size_max: 1 << 20,
            ..Options::default()
        };
        let mut connection = connect_to(&url, options).unwrap();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let sql = "select a.n, repeat('x', 100) from numbers a, numbers b where b.n <= 200";
        let mut stream = transaction.stream(sql, &[], 5_000);
        stream.next_chunk().unwrap().unwrap();
        let (before, mut count) = (peak_memory(), 5_000);
        while let Some(rows) = stream.next_chunk().unwrap() {
            count += rows.len();
        }
        assert_eq!(count, 200_000);
        let grown = peak_memory() - before;
        // All of them would be twenty megabytes and more.
        assert!(grown < 8 << 10, "{grown} KiB more than after the first");
        return;
    }
    for site in sites() {
        fill(&site);
        run(&mut site.connect(), "do 0");
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]);
        let output = command.env(URL, site.url()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
