//! The methods that clients, locks, transactions and pools have in common.

use lookaside_client::blocking::Queryable as BlockingQueryable;
use lookaside_client::mysql::{Client, blocking};
use lookaside_client::{
    Config, ErrorKind, Pool, PoolOptions, Queryable, TransactionOptions, params,
};

use super::sites;
use crate::live::tokio::block_on;

async fn check(db: &impl Queryable) {
    let by_id = "select name from goods where id = ?";
    let row = db.query_one(by_id, params![1]).await.unwrap();
    assert_eq!(row.as_ref().get::<&str>("name").unwrap(), "Tea");
    assert!(db.query_opt(by_id, params![3]).await.unwrap().is_none());
    let rename = "update goods set name = ? where id = ?";
    for (id, name, changed) in [(2, "Bread", 1), (2, "Milk", 1), (3, "Tea", 0)] {
        let answer = db.execute(rename, params![name, id]).await;
        assert_eq!(answer.unwrap(), changed, "{id}");
    }
    let error = db.batch_execute("select 1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
}

fn check_blocking(db: &mut impl BlockingQueryable) {
    let by_id = "select name from goods where id = ?";
    let row = db.query_one(by_id, params![1]).unwrap();
    assert_eq!(row.as_ref().get::<&str>("name").unwrap(), "Tea");
    assert!(db.query_opt(by_id, params![3]).unwrap().is_none());
    let error = db.query_one(by_id, params![3]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let error = db.query_opt("select id from goods", &[]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let rename = "update goods set name = ? where id = ?";
    for (id, name, changed) in [(2, "Rice", 1), (2, "Salt", 1), (3, "Tea", 0)] {
        let answer = db.execute(rename, params![name, id]);
        assert_eq!(answer.unwrap(), changed, "{id}");
    }
    let error = db.batch_execute("select 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let description = db.describe(by_id).unwrap();
    assert_eq!(&*description.columns[0], "name");
}

#[test]
fn blocking_connections_and_their_transactions_are_queried_alike() {
    for site in sites() {
        site.execute(&[
            "create table goods(id bigint, name text) engine = InnoDB",
            "insert into goods values (1, 'Tea'), (2, null)",
        ]);
        let mut connection = site.connect();
        check_blocking(&mut connection);
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        transaction
            .execute("update goods set name = null", &[])
            .unwrap();
        transaction.rollback().unwrap();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        check_blocking(&mut transaction);
        transaction.commit().unwrap();
        let last = "select name from goods where id = 2";
        let row = connection.query_one(last, &[]).unwrap();
        assert_eq!(row.as_ref().get::<&str>(0).unwrap(), "Salt");
    }
}

#[test]
fn whatever_reaches_a_server_is_queried_alike() {
    for site in sites() {
        site.execute(&[
            "create table goods(id bigint, name text)",
            "insert into goods values (1, 'Tea'), (2, null)",
        ]);
        let mut connection = blocking::Connection::connect(&site.url()).unwrap();
        let answer = connection.query("select ? + 1", params![6]).unwrap();
        assert_eq!(answer.map(|row| row.get::<i64>(0)).unwrap(), [7]);
        block_on(async {
            let client = Client::connect(&site.url()).await.unwrap();
            check(&client).await;
            let mut lock = client.lock().await.unwrap();
            check(&lock).await;
            let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
            check(&transaction).await;
            transaction.commit().await.unwrap();
            drop(lock);
            let config: Config = site.url().parse().unwrap();
            let pool = Pool::new(config, PoolOptions::default());
            check(&pool).await;
            check(&pool.lock().await.unwrap()).await;
            let transaction = pool.begin().await.unwrap();
            transaction.execute("delete from goods", &[]).await.unwrap();
            transaction.rollback().await.unwrap();
            let mut transaction = pool.begin().await.unwrap();
            check(&transaction).await;
            for is_kept in [false, true] {
                let mut savepoint = transaction.savepoint().await.unwrap();
                check(&savepoint).await;
                let inner = savepoint.savepoint().await.unwrap();
                inner.execute("delete from goods", &[]).await.unwrap();
                inner.rollback().await.unwrap();
                if is_kept {
                    check(&savepoint).await;
                    savepoint.commit().await.unwrap();
                } else {
                    savepoint.execute("delete from goods", &[]).await.unwrap();
                    drop(savepoint);
                }
            }
            transaction.commit().await.unwrap();
            let last = "select name from goods where id = 2";
            let row = client.query_one(last, &[]).await.unwrap();
            assert_eq!(row.as_ref().get::<&str>(0).unwrap(), "Milk");
        });
    }
}
