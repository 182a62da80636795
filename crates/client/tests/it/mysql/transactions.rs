//! Transactions and savepoints, of both faces.

use lookaside_client::mysql::{Client, Options};
use lookaside_client::{Answer, Isolation, Result, TransactionOptions};
use lookaside_value::Value;

use super::{config, sites};

const INSERT: &str = "insert into t values (?)";
const ALL: &str = "select group_concat(v order by v) from t";

fn shown(answer: Result<Answer>) -> String {
    answer.unwrap().rows.row(0)[0].to_text().to_string()
}

fn read_only() -> TransactionOptions {
    let mut options = TransactionOptions::default();
    options.is_read_only = true;
    options.isolation = Some(Isolation::Serializable);
    options
}

#[test]
fn those_that_wait_have_them() {
    for site in sites() {
        site.execute(&["create table t(v int) engine = innodb"]);
        let mut connection = site.connect();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        transaction.query(INSERT, &[Value::Int(1)]).unwrap();
        for number in 2..5 {
            let mut savepoint = transaction.savepoint().unwrap();
            savepoint.query(INSERT, &[Value::Int(number)]).unwrap();
            match number {
                2 => drop(savepoint),
                3 => savepoint.roll_back().unwrap(),
                _ => savepoint.commit().unwrap(),
            }
        }
        transaction.commit().unwrap();
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        transaction.query(INSERT, &[Value::Int(5)]).unwrap();
        drop(transaction);
        let mut transaction = connection.begin(read_only()).unwrap();
        assert!(transaction.query(INSERT, &[Value::Int(6)]).is_err());
        drop(transaction);
        assert_eq!(shown(connection.query(ALL, &[])), "1,4");
    }
}

#[test]
fn a_shared_connection_is_left_as_it_was() {
    for site in sites() {
        site.execute(&["create table t(v int) engine = innodb"]);
        let runtime = ::tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let client = Client::connect(&config(&site.url()), Options::default()).await;
            let client = client.unwrap();
            let mut lock = client.lock().await.unwrap();
            let mut transaction = lock.begin(TransactionOptions::default()).await.unwrap();
            transaction.query(INSERT, &[Value::Int(1)]).await.unwrap();
            let savepoint = transaction.savepoint().await.unwrap();
            savepoint.query(INSERT, &[Value::Int(2)]).await.unwrap();
            drop(savepoint);
            transaction.commit().await.unwrap();
            lock.query("start transaction", &[]).await.unwrap();
            lock.query(INSERT, &[Value::Int(3)]).await.unwrap();
            drop(lock);
            assert_eq!(shown(client.query(ALL, &[]).await), "1");
        });
    }
}
