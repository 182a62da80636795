//! Transactions and savepoints, nonblocking and blocking.

use lookaside_client::mysql::{Client, Options};
use lookaside_client::{Answer, Isolation, Result, Syncs, TransactionOptions};
use lookaside_value::{ParamBatch, Value};

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
                3 => savepoint.rollback().unwrap(),
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
            let client = Client::connect_with(&config(&site.url()), Options::default()).await;
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

/// A server that breaks a deadlock rolls the whole transaction back. What was asked behind it must
/// not be done on its own then.
#[test]
fn nothing_of_a_transaction_is_done_without_the_rest() {
    for site in sites() {
        site.execute(&[
            "create table t(k int primary key, v int not null) engine = innodb",
            "insert into t values (1, 0), (2, 0), (3, 0), (4, 0)",
            "create table heavy(k int) engine = innodb",
        ]);
        for window in [1, 16] {
            let mut connection = site.connect_wide(window);
            let options = TransactionOptions::default();
            let mut transaction = connection.begin(options).unwrap();
            assert_eq!(changed(transaction.query(UPDATE, &[Value::Int(1)])), "1");
            let other = meet_halfway(&site);
            let mut params = ParamBatch::new(1);
            (2..5).for_each(|key| params.push([Value::Int(key)]));
            let answers = transaction.query_many(UPDATE, params, Syncs::Each).unwrap();
            assert_eq!(super::shown(&answers[0]), "1213");
            for answer in &answers[1..] {
                let error = answer.as_ref().unwrap_err();
                assert!(error.to_string().contains("rolled"), "{error:?}");
            }
            assert!(transaction.query("select 7", &[]).is_err());
            assert!(transaction.savepoint().is_err());
            assert!(transaction.commit().is_err());
            other.join().unwrap();
            let sql = "select group_concat(v order by k) from t";
            assert_eq!(shown(connection.query(sql, &[])), "0,0,0,0");
            // What is refused for another reason ends nothing.
            let mut transaction = connection.begin(options).unwrap();
            assert!(
                transaction
                    .query("insert into t values (1, 1)", &[])
                    .is_err()
            );
            assert_eq!(changed(transaction.query(UPDATE, &[Value::Int(3)])), "1");
            transaction.commit().unwrap();
            assert_eq!(shown(connection.query(sql, &[])), "0,0,1,0");
            site.execute(&["update t set v = 0"]);
        }
    }
}

const UPDATE: &str = "update t set v = v + 1 where k = ?";

fn changed(answer: Result<Answer>) -> String {
    answer.unwrap().row_count.unwrap().to_string()
}

/// A session that has the second row, wants the first, and has done so much that the server rather
/// rolls another back.
fn meet_halfway(site: &super::Site) -> std::thread::JoinHandle<()> {
    let mut connection = site.connect();
    let (sender, receiver) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let many = "insert into heavy select 1 from information_schema.columns limit 500";
        transaction.query(many, &[]).unwrap();
        transaction.query(UPDATE, &[Value::Int(2)]).unwrap();
        sender.send(()).unwrap();
        transaction.query(UPDATE, &[Value::Int(1)]).unwrap();
        transaction.rollback().unwrap();
    });
    receiver.recv().unwrap();
    // The second to come closes the circle, whichever that is.
    other
}

#[test]
fn those_who_share_hear_of_it_as_well() {
    for site in sites() {
        site.execute(&[
            "create table t(k int primary key, v int not null) engine = innodb",
            "insert into t values (1, 0), (2, 0), (3, 0), (4, 0)",
            "create table heavy(k int) engine = innodb",
        ]);
        let runtime = ::tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let client = Client::connect_with(&config(&site.url()), Options::default()).await;
            let client = client.unwrap();
            let mut lock = client.lock().await.unwrap();
            let options = TransactionOptions::default();
            let transaction = lock.begin(options).await.unwrap();
            transaction.query(UPDATE, &[Value::Int(1)]).await.unwrap();
            let other = meet_halfway(&site);
            let [two, three, four] = [2, 3, 4].map(|key| [Value::Int(key)]);
            let (two, three, four) = ::tokio::join!(
                transaction.query(UPDATE, &two),
                transaction.query(UPDATE, &three),
                transaction.query(UPDATE, &four),
            );
            assert_eq!(super::shown(&two), "1213");
            assert!(three.is_err() && four.is_err());
            assert!(transaction.commit().await.is_err());
            drop(lock);
            other.join().unwrap();
            let sql = "select group_concat(v order by k) from t";
            assert_eq!(shown(client.query(sql, &[]).await), "0,0,0,0");
        });
    }
}
