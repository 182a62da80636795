//! Rows that come and go by COPY.

use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options};
use lookaside_client::{ErrorKind, Request, Result, TransactionOptions};
use lookaside_value::Value;

use super::tokio::{block_on, connect};
use super::{config, connect as connect_blocking, databases, shown};

const IN: &str = "copy t from stdin";
const COUNT: &str = "select count(*) from t";

async fn copy(client: &Client, request: Request) -> Result<lookaside_client::Answer> {
    client.request(request).await?.remove(0)
}

#[test]
fn rows_come_and_go() {
    for postgres in databases() {
        postgres.execute("create table t(k int, v text)").unwrap();
        block_on(async {
            let client = connect(&postgres).await;
            // Others are under way, before it and behind it.
            let others = async {
                for tag in 0..50 {
                    let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                    assert_eq!(shown(&answer), tag.to_string());
                }
            };
            let many: String = (0..100_000).map(|k| format!("{k}\tvalue {k}\n")).collect();
            let copied = copy(&client, Request::copy_in(IN, many.as_bytes()));
            let (copied, ()) = ::tokio::join!(copied, others);
            assert_eq!(copied.unwrap().row_count, Some(100_000));

            let sql = "copy (select * from t where k < 2 order by k) to stdout";
            let answer = copy(&client, Request::copy_out(sql)).await.unwrap();
            let lines: Vec<&[u8]> = answer.rows.iter().map(|row| bytes(&row[0])).collect();
            assert_eq!(lines, [&b"0\tvalue 0\n"[..], b"1\tvalue 1\n"]);
            assert_eq!(answer.row_count, Some(2));
        });
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?} is not bytes"),
    }
}

#[test]
fn what_goes_wrong_leaves_the_connection_in_step() {
    for postgres in databases() {
        postgres
            .execute("create table t(k int, v text not null)")
            .unwrap();
        block_on(async {
            let client = connect(&postgres).await;
            let many = |bad: &str| {
                let rows: String = (0..20_000).map(|k| format!("{k}\tx\n")).collect();
                format!("{rows}{bad}\n{rows}").into_bytes()
            };
            for (request, expected) in [
                (Request::copy_in(IN, many("bad\tx")), "22P02"),
                (Request::copy_in(IN, many("1\t\\N")), "23502"),
                (Request::copy_in(IN, many("1")), "22P04"),
                (
                    Request::copy_in("copy nothing from stdin", many("")),
                    "42P01",
                ),
                (Request::copy_in("copy t fro stdin", many("")), "42601"),
                (Request::copy_in("select 1", many("")), "Misuse"),
                (Request::copy_in("copy t from stdin\0", many("")), "Misuse"),
                (Request::copy_out(IN), "57014"),
                (Request::copy_out("copy (select 1 / 0) to stdout"), "22012"),
                (Request::new(IN, &[]), "Misuse"),
            ] {
                assert_eq!(shown(&copy(&client, request).await), expected);
                assert_eq!(shown(&client.query(COUNT, &[]).await), "0");
            }
            // Data for a COPY that gives some is of no use.
            let request = Request::copy_in("copy (select 7) to stdout", many(""));
            assert_eq!(shown(&copy(&client, request).await), "0x370a");
        });
    }
}

#[test]
fn one_is_taken_back() {
    for postgres in databases() {
        postgres.execute("create table t(k int, v text)").unwrap();
        block_on(async {
            let options = Options {
                result_size_max: 1_000,
                ..Options::default()
            };
            let client = Client::connect_with(&config(&postgres.url()), options).await;
            let client = client.unwrap();
            let slow = "copy (select pg_sleep(60)) to stdout";
            let deadline = Instant::now() + Duration::from_millis(50);
            let late = copy(&client, Request::copy_out(slow).deadline(deadline)).await;
            assert_eq!(late.unwrap_err().kind(), ErrorKind::Deadline);
            let large = "copy (select repeat('x', 2000)) to stdout";
            let large = copy(&client, Request::copy_out(large)).await;
            assert_eq!(large.unwrap_err().kind(), ErrorKind::Limit);
            for _ in 0..20 {
                let request = Request::copy_in(IN, &b"1\tx\n"[..]);
                let copied = copy(&client, request);
                let _ = ::tokio::time::timeout(Duration::from_micros(200), copied).await;
                assert_eq!(shown(&client.query("select 7", &[]).await), "7");
            }
        });
        let mut connection = connect_blocking(&postgres);
        connection.query("truncate t", &[]).unwrap();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        for _ in 0..3 {
            let request = Request::copy_in(IN, &b"1\tx\n"[..]);
            transaction.request(request).unwrap().remove(0).unwrap();
        }
        transaction.rollback().unwrap();
        assert_eq!(shown(&connection.query(COUNT, &[])), "0");
    }
}
