//! What statements take and give, as servers describe them.

use lookaside_client::Description;
use lookaside_value::{Text, Value};

use super::{connect, databases, shown};

fn said(description: &Description) -> String {
    let join = |texts: &[Text]| texts.iter().map(Text::as_str).collect::<Vec<_>>().join(",");
    let columns = description.columns.iter().zip(&description.column_types);
    let columns: Vec<_> = columns
        .map(|(name, type_name)| format!("{name} {type_name}"))
        .collect();
    format!(
        "({}) {}",
        join(&description.parameter_types),
        columns.join(",")
    )
}

#[test]
fn statements_are_described_and_not_run() {
    for postgres in databases() {
        postgres
            .execute("create table t(k int primary key, v varchar(3)[], at timestamptz)")
            .unwrap();
        let mut connection = connect(&postgres);
        for (sql, expected) in [
            (
                "select * from t where k = $1 and v = $2",
                "(int4,varchar[]) k int4,v varchar[],at timestamptz",
            ),
            ("insert into t values ($1)", "(int4) "),
            (
                "insert into t values ($1) returning k + 1::int8 as n",
                "(int4) n int8",
            ),
            ("select", "() "),
        ] {
            let description = connection.describe(sql).unwrap();
            assert_eq!(said(&description), expected, "{sql}");
        }
        let count = connection.query("select count(*) from t", &[]);
        assert_eq!(shown(&count), "0");
        let error = connection.describe("select nothing").unwrap_err();
        assert_eq!(error.sqlstate().unwrap().to_string(), "42703");

        // It is the same statement that a query runs.
        let count = "select count(*) from pg_prepared_statements where statement like '%where k%'";
        assert_eq!(shown(&connection.query(count, &[])), "2");
        let sql = "select * from t where k = $1 and v = $2";
        connection
            .query(sql, &[Value::Int(1), Value::Null])
            .unwrap();
        assert_eq!(shown(&connection.query(count, &[])), "2");
    }
}

/// The server describes them by numbers, which are looked up.
#[test]
fn types_of_a_database_have_their_names() {
    for postgres in databases() {
        postgres
            .execute(
                "create type mood as enum ('sad', 'happy'); create schema other; \
                 create type other.pair as (a int, b int); create domain positive as int; \
                 create table t(m mood, ms mood[], p other.pair, d positive)",
            )
            .unwrap();
        let mut connection = connect(&postgres);
        let sql = "select m, ms, p from t where m = $1 and p = $2::other.pair";
        let expected = "(mood,other.pair) m mood,ms mood[],p other.pair";
        assert_eq!(said(&connection.describe(sql).unwrap()), expected);
        super::tokio::block_on(async {
            let config = super::config(&postgres.url());
            let options = lookaside_client::postgres::Options::default();
            let client = lookaside_client::postgres::Client::connect_with(&config, options);
            let client = client.await.unwrap();
            assert_eq!(said(&client.describe(sql).await.unwrap()), expected);
            let lock = client.lock().await.unwrap();
            assert_eq!(said(&lock.describe(sql).await.unwrap()), expected);
            let config = lookaside_client::Config::Postgres(config);
            let pool = lookaside_client::Pool::new(config, Default::default());
            assert_eq!(said(&pool.describe(sql).await.unwrap()), expected);
            let lock = pool.lock().await.unwrap();
            assert_eq!(said(&lock.describe(sql).await.unwrap()), expected);
        });
    }
}
