//! The methods that clients, locks, transactions and pools have in common.

use std::fmt::Debug;

use lookaside_client::blocking::Queryable as BlockingQueryable;
use lookaside_client::postgres::{Client, blocking};
use lookaside_client::{
    Config, ErrorKind, Isolation, ParamBatch, Pool, PoolOptions, Queryable, Request, Result, Row,
    Syncs, TransactionOptions, params,
};
use lookaside_embedded::Postgres;

use super::databases;
use super::tokio::block_on;
use super::transactions::begin_and_drop;

fn pool(postgres: &Postgres) -> Pool {
    let config: Config = postgres.url().parse().unwrap();
    let options = PoolOptions {
        connection_count_max: 1,
        ..PoolOptions::default()
    };
    Pool::new(config, options)
}

async fn count(db: &impl Queryable) -> i64 {
    let row = db.query_one("select count(*) as n from goods", &[]).await;
    row.unwrap().as_ref().get("n").unwrap()
}

/// The same with each; all see the table `goods(id int8, name text)` with the rows 1 and 2.
async fn check(db: &impl Queryable) {
    let by_id = "select name from goods where id = $1";
    let row = db.query_one(by_id, params![1]).await.unwrap();
    assert_eq!(row.as_ref().get::<&str>("name").unwrap(), "Tea");
    assert!(db.query_opt(by_id, params![3]).await.unwrap().is_none());
    let row = db.query_opt(by_id, params![2]).await.unwrap().unwrap();
    assert_eq!(row.as_ref().get::<Option<String>>(0).unwrap(), None);
    let rename = "update goods set name = $2 where id = $1";
    for (id, changed) in [(1, 1), (3, 0)] {
        let answer = db.execute(rename, params![id, "Tea"]).await;
        assert_eq!(answer.unwrap(), changed, "{id}");
    }
    let description = db.describe(by_id).await.unwrap();
    assert_eq!(&*description.parameter_types[0], "int8");
}

#[test]
fn whatever_reaches_a_server_is_queried_alike() {
    for postgres in databases() {
        block_on(async {
            let client = Client::connect(&postgres.url()).await.unwrap();
            let script = "create table goods(id int8, name text);
                insert into goods values (1, 'Tea'), (2, null)";
            client.batch_execute(script).await.unwrap();
            check(&client).await;
            let mut lock = client.lock().await.unwrap();
            check(&lock).await;
            let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
            check(&transaction).await;
            transaction.commit().await.unwrap();
            drop(lock);
            let pool = pool(&postgres);
            check(&pool).await;
            check(&pool.lock().await.unwrap()).await;
            let mut transaction = pool.begin().await.unwrap();
            check(&transaction).await;
            check(&transaction.savepoint().await.unwrap()).await;
            transaction.rollback().await.unwrap();
        });
    }
}

/// A result as text; of an error, its kind and its message.
fn text<T: Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

fn values(row: Row) -> String {
    format!("{:?}", row.as_ref().values())
}

/// Three parameter sets without a value.
fn three_sets() -> ParamBatch {
    let mut sets = ParamBatch::new(0);
    (0..3).for_each(|_| sets.push([]));
    sets
}

/// What each method returns for a statement.
async fn results(db: &impl Queryable, sql: &str) -> Vec<String> {
    let many = db.query_many(sql, three_sets(), Syncs::Each).await.unwrap();
    let script = db.request(Request::script(sql, 9)).await.unwrap();
    let mut results = vec![
        text(db.query(sql, &[]).await),
        text(db.query_one(sql, &[]).await.map(values)),
        text(db.query_opt(sql, &[]).await.map(|row| row.map(values))),
        text(db.execute(sql, &[]).await),
        text(db.batch_execute(sql).await),
        text(db.describe(sql).await),
    ];
    results.extend(many.into_iter().chain(script).map(text));
    results
}

/// The same of a connection that blocks.
fn blocking_results(db: &mut impl BlockingQueryable, sql: &str) -> Vec<String> {
    let many = db.query_many(sql, three_sets(), Syncs::Each).unwrap();
    let script = db.request(Request::script(sql, 9)).unwrap();
    let mut results = vec![
        text(db.query(sql, &[])),
        text(db.query_one(sql, &[]).map(values)),
        text(db.query_opt(sql, &[]).map(|row| row.map(values))),
        text(db.execute(sql, &[])),
        text(db.batch_execute(sql)),
        text(db.describe(sql)),
    ];
    results.extend(many.into_iter().chain(script).map(text));
    results
}

#[test]
fn blocking_connections_return_what_clients_do() {
    for postgres in databases() {
        postgres
            .execute("create type mood as enum ('sad', 'happy')")
            .unwrap();
        let mut connection = blocking::Connection::connect(&postgres.url()).unwrap();
        block_on(async {
            let client = Client::connect(&postgres.url()).await.unwrap();
            let mut lock = client.lock().await.unwrap();
            for sql in [
                "select 7 as n, 'Tea' as name",
                "select 'happy'::mood",
                "select 1 where false",
                "select generate_series(1, 3)",
                "create temporary table if not exists t(n int)",
                "insert into t values (1), (2)",
                "update t set n = 3 where n = 1 returning n",
                "select 1; select 2",
                "select 1/0",
                "selec",
                "select $1::int",
            ] {
                let expected = results(&lock, sql).await;
                assert_eq!(blocking_results(&mut connection, sql), expected, "{sql}");
                let options = TransactionOptions::default();
                let transaction = lock.begin(options).await.unwrap();
                let expected = results(&transaction, sql).await;
                transaction.rollback().await.unwrap();
                let mut transaction = connection.begin(options).unwrap();
                let found = blocking_results(&mut transaction, sql);
                transaction.rollback().unwrap();
                assert_eq!(found, expected, "{sql}");
            }
        });
        // What the methods are for, and not only that they agree.
        let row = connection.query_one("select 'Tea' as name", &[]).unwrap();
        assert_eq!(row.as_ref().get::<&str>("name").unwrap(), "Tea");
        let none = connection.query_opt("select 1 where false", &[]).unwrap();
        assert!(none.is_none());
        let error = connection.query_one("select 1 where false", &[]);
        assert_eq!(error.err().unwrap().kind(), ErrorKind::Misuse);
        connection.batch_execute("truncate t; select 1").unwrap();
        let insert = "insert into t select generate_series(1, $1)";
        assert_eq!(connection.execute(insert, params![5]).unwrap(), 5);
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        assert_eq!(transaction.execute("delete from t", &[]).unwrap(), 5);
        let mut savepoint = transaction.savepoint().unwrap();
        assert_eq!(savepoint.execute(insert, params![2]).unwrap(), 2);
        savepoint.rollback().unwrap();
        transaction.commit().unwrap();
        assert_eq!(connection.execute("delete from t", &[]).unwrap(), 0);
    }
}

#[test]
fn other_counts_of_rows_are_errors() {
    for postgres in databases() {
        block_on(async {
            let client = Client::connect(&postgres.url()).await.unwrap();
            for (sql, expected) in [
                ("select 1 where false", "the statement returned no row"),
                (
                    "select generate_series(1, 3)",
                    "the statement returned 3 rows",
                ),
            ] {
                let error = client.query_one(sql, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse);
                assert!(error.to_string().starts_with(expected), "{error}");
            }
            let several = client.query_opt("select generate_series(1, 3)", &[]).await;
            assert_eq!(several.unwrap_err().kind(), ErrorKind::Misuse);
            let failed = client.batch_execute("select 1; select 1/0; select 2").await;
            assert_eq!(failed.unwrap_err().sqlstate().unwrap().as_bytes(), b"22012");
        });
    }
}

/// The pool has one connection, so what follows a transaction waits for its end.
#[test]
fn a_transaction_of_a_pool_is_committed_or_undone() {
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres);
            pool.execute("create table goods(id int8)", &[])
                .await
                .unwrap();
            let insert = "insert into goods values ($1)";
            let transaction = pool.begin().await.unwrap();
            transaction.execute(insert, params![1]).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(count(&pool).await, 1);

            let transaction = pool.begin().await.unwrap();
            transaction.execute(insert, params![2]).await.unwrap();
            assert_eq!(count(&transaction).await, 2);
            transaction.rollback().await.unwrap();
            assert_eq!(count(&pool).await, 1);

            let transaction = pool.begin().await.unwrap();
            transaction.execute(insert, params![3]).await.unwrap();
            drop(transaction);
            assert_eq!(count(&pool).await, 1);

            let mut options = TransactionOptions::default();
            options.isolation = Some(Isolation::Serializable);
            options.is_read_only = true;
            let transaction = pool.begin_with(options).await.unwrap();
            let refused = transaction.execute(insert, params![4]).await.unwrap_err();
            assert_eq!(refused.sqlstate().unwrap().as_bytes(), b"25006");
            // The server turns it into a ROLLBACK.
            assert!(transaction.commit().await.is_err());
            assert_eq!(count(&pool).await, 1);
        });
    }
}

async fn ids(db: &impl Queryable) -> String {
    let sql = "select coalesce(string_agg(id::text, ' ' order by id), '') from goods";
    let row = db.query_one(sql, &[]).await.unwrap();
    row.as_ref().get(0).unwrap()
}

/// The pool has one connection, so what follows a transaction waits for its end.
#[test]
fn savepoints_of_a_pool_are_undone_without_the_rest() {
    const INSERT: &str = "insert into goods values ($1)";
    for postgres in databases() {
        block_on(async {
            let pool = pool(&postgres);
            let create = "create table goods(id int8 primary key)";
            pool.execute(create, &[]).await.unwrap();
            let mut transaction = pool.begin().await.unwrap();
            transaction.execute(INSERT, params![1]).await.unwrap();

            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.execute(INSERT, params![2]).await.unwrap();
            assert_eq!(ids(&savepoint).await, "1 2");
            savepoint.rollback().await.unwrap();
            assert_eq!(ids(&transaction).await, "1");

            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.execute(INSERT, params![3]).await.unwrap();
            drop(savepoint);
            assert_eq!(ids(&transaction).await, "1");

            let mut outer = transaction.savepoint().await.unwrap();
            outer.execute(INSERT, params![4]).await.unwrap();
            let inner = outer.savepoint().await.unwrap();
            inner.execute(INSERT, params![5]).await.unwrap();
            inner.rollback().await.unwrap();
            let inner = outer.savepoint().await.unwrap();
            inner.execute(INSERT, params![6]).await.unwrap();
            inner.commit().await.unwrap();
            assert_eq!(ids(&outer).await, "1 4 6");
            outer.commit().await.unwrap();

            // After an error, nothing but the savepoint can be gone back to.
            let savepoint = transaction.savepoint().await.unwrap();
            assert!(savepoint.execute(INSERT, params![1]).await.is_err());
            assert!(savepoint.execute(INSERT, params![7]).await.is_err());
            let refused = savepoint.commit().await.unwrap_err();
            assert_eq!(refused.sqlstate().unwrap().as_bytes(), b"25P02");
            transaction.execute(INSERT, params![8]).await.unwrap();

            // The savepoint that is not waited for is gone, and takes nothing along.
            begin_and_drop(transaction.savepoint());
            transaction.execute(INSERT, params![9]).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(ids(&pool).await, "1 4 6 8 9");

            let mut transaction = pool.begin().await.unwrap();
            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.execute(INSERT, params![10]).await.unwrap();
            savepoint.commit().await.unwrap();
            drop(transaction);
            assert_eq!(ids(&pool).await, "1 4 6 8 9");
        });
    }
}

#[test]
fn a_url_is_enough_to_connect() {
    for postgres in databases() {
        let mut connection = blocking::Connection::connect(&postgres.url()).unwrap();
        let answer = connection.query("select $1::int8 + 1", params![6]).unwrap();
        assert_eq!(answer.map(|row| row.get::<i64>(0)).unwrap(), [7]);
    }
    let Err(error) = blocking::Connection::connect("mysql://amy@localhost/shop") else {
        panic!("the URL is not PostgreSQL's");
    };
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("`postgres://`"), "{cause}");
}
