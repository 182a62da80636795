//! Rows that stay as the server sent them say what values say.

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{Answer, ErrorKind, Request, Result};
use lookaside_value::Value;

use super::{config, connect, databases};

fn one(connection: &mut Connection, request: Request) -> Result<Answer> {
    connection.request(request)?.pop().unwrap()
}

fn values(answer: &Answer) -> Vec<Vec<Value>> {
    let rows = answer.raw.as_deref().unwrap();
    assert!(answer.rows.is_empty() && !answer.rows.columns().is_empty());
    let row = |row: lookaside_client::postgres::RawRow<'_>| {
        row.map(|field| field.value().unwrap()).collect()
    };
    let values: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(values.len(), rows.len());
    values
}

#[test]
fn raw_rows_say_what_values_say() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        for sql in [
            "select n::int2, n, n::int8, n::text, n % 2 = 0, nullif(n, 2), n / 3.0, '[1]'::jsonb, \
             array[n, null], timestamptz '2026-11-22 01:02:03Z', 'NaN'::float8, '10.0.0.1'::inet from generate_series(1, 300) as n",
            "select null::int, ''::text, 'x'::varchar, 'y'::\"char\", 1.5::float4, 'a b'::tsvector",
            "select 1 where false",
            "select",
            "values (1, 'a'), (null, null)",
        ] {
            let plain = one(&mut connection, Request::new(sql, &[])).unwrap();
            let raw = one(&mut connection, Request::new(sql, &[]).raw_rows()).unwrap();
            assert_eq!(raw.row_count, plain.row_count, "{sql}");
            if sql == "select" {
                assert_eq!(raw.raw.unwrap().len(), 1);
                continue;
            }
            // As text, because NaN is equal to nothing.
            let expected: Vec<_> = plain.rows.iter().collect();
            let found = values(&raw);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{sql}");
            assert_eq!(raw.rows.columns(), plain.rows.columns());
        }
        // A statement that gives no rows, and one that gives those that it changed.
        connection
            .query("create temp table t (a int)", &[])
            .unwrap();
        let sql = "insert into t values (1), (2)";
        let raw = one(&mut connection, Request::new(sql, &[]).raw_rows()).unwrap();
        assert_eq!((raw.raw.unwrap().len(), raw.row_count), (0, Some(2)));
        let sql = "update t set a = a + $1 returning a";
        let request = Request::new(sql, &[Value::Int(5)]).raw_rows();
        let raw = one(&mut connection, request.clone()).unwrap();
        assert_eq!(values(&raw), [[Value::Int(6)], [Value::Int(7)]]);
        // The column becomes another.
        connection
            .query("alter table t alter a type text", &[])
            .unwrap();
        let sql = "select a from t";
        let raw = one(&mut connection, Request::new(sql, &[]).raw_rows()).unwrap();
        let texts = raw.raw.iter().flat_map(|rows| rows.iter().flatten());
        let texts: Vec<_> = texts.map(|field| field.text()).collect();
        assert_eq!(texts, [Some("6"), Some("7")]);
        connection
            .query("alter table t alter a type int using a::int", &[])
            .unwrap();
        let raw = one(&mut connection, Request::new(sql, &[]).raw_rows()).unwrap();
        assert_eq!(values(&raw), [[Value::Int(6)], [Value::Int(7)]]);
        // An error in the middle, and an answer after it.
        let sql = "select 12 / (3 - n) from generate_series(1, $1) n";
        let error = one(
            &mut connection,
            Request::new(sql, &[Value::Int(5)]).raw_rows(),
        );
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Refused);
        let raw = one(
            &mut connection,
            Request::new(sql, &[Value::Int(2)]).raw_rows(),
        )
        .unwrap();
        assert_eq!(values(&raw), [[Value::Int(6)], [Value::Int(12)]]);
    }
}

#[test]
fn raw_rows_have_a_limit() {
    for postgres in databases() {
        let options = Options {
            result_size_max: 10_000,
            ..Options::default()
        };
        let mut connection = Connection::connect_with(&config(&postgres.url()), options).unwrap();
        let sql = "select repeat('x', 100) from generate_series(1, $1)";
        let ask = |count| Request::new(sql, &[Value::Int(count)]).raw_rows();
        let error = one(&mut connection, ask(200)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(
            one(&mut connection, ask(80)).unwrap().raw.unwrap().len(),
            80
        );
    }
}
