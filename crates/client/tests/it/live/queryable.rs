//! The methods that clients, locks, transactions and pools have in common.

use lookaside_client::postgres::{Client, blocking};
use lookaside_client::{
    Config, ErrorKind, Isolation, Pool, PoolOptions, Queryable, TransactionOptions, params,
};
use lookaside_embedded::Postgres;

use super::databases;
use super::tokio::block_on;

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
            let transaction = pool.begin().await.unwrap();
            check(&transaction).await;
            transaction.rollback().await.unwrap();
        });
    }
}

#[test]
fn other_counts_of_rows_are_errors() {
    for postgres in databases() {
        block_on(async {
            let client = Client::connect(&postgres.url()).await.unwrap();
            for (sql, expected) in [
                ("select 1 where false", "the statement gave no row"),
                ("select generate_series(1, 3)", "the statement gave 3 rows"),
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
