//! Many parameter sets with one command.

use std::time::{Duration, Instant};

use lookaside_client::mysql::blocking::Connection;
use lookaside_client::{Answer, ErrorKind, Request, Result, TransactionOptions};
use lookaside_value::{ParamBatch, Value};

use super::{run, shown, sites};

const INSERT: &str = "insert into t(k, v, f) values (?, ?, ?)";

fn batch(sets: impl IntoIterator<Item = [Value; 3]>) -> ParamBatch {
    let mut params = ParamBatch::new(3);
    sets.into_iter().for_each(|set| params.push(set));
    params
}

/// Some values of each column are NULL, the first of some among them.
fn row(key: i64) -> [Value; 3] {
    let text = match key % 3 {
        0 => Value::Null,
        _ => Value::from(format!("text {key}")),
    };
    let float = match key % 5 {
        0 | 1 => Value::Null,
        _ => Value::Float(key as f64 / 4.0),
    };
    [Value::Int(key), text, float]
}

fn ask(connection: &mut Connection, sql: &str, params: ParamBatch) -> Vec<Result<Answer>> {
    connection
        .request(Request::many(sql, params).in_bulk())
        .unwrap()
}

fn sum(answers: &[Result<Answer>]) -> u64 {
    let counts = answers
        .iter()
        .map(|answer| answer.as_ref().unwrap().row_count);
    counts.flatten().sum()
}

/// The number of commands that the session has sent so far.
fn questions(connection: &mut Connection) -> i64 {
    let answer = run(connection, "show session status like 'Questions'");
    answer.rows.row(0)[1].to_text().parse().unwrap()
}

#[test]
fn rows_arrive_as_they_were_given() {
    for site in sites() {
        for window in [1, 16] {
            site.execute(&[
                "drop table if exists t",
                "create table t(k int primary key, v varchar(20), f double) engine = innodb",
            ]);
            let mut connection = site.connect_wide(window);
            let before = questions(&mut connection);
            // More than one command takes.
            let count = 30_000;
            let answers = ask(&mut connection, INSERT, batch((0..count).map(row)));
            let taken = questions(&mut connection) - before;
            assert_eq!(answers.len(), count as usize);
            assert_eq!(sum(&answers), count as u64);
            assert_eq!(taken < 100, site.is_mariadb(), "{taken}");
            let answer = run(&mut connection, "select k, v, f from t order by k");
            for (key, found) in (0..count).zip(answer.rows.iter()) {
                assert_eq!(found, row(key));
            }
            let keys = batch((0..100).map(|key| [Value::Int(key), Value::Int(9), Value::Int(7)]));
            let update = "update t set v = 'x' where k between ? and ? + ?";
            let changed = sum(&ask(&mut connection, update, keys.clone()));
            assert_eq!(changed, 17, "those that were another");
            let delete = "delete from t where k = ? and ? + ?";
            assert_eq!(sum(&ask(&mut connection, delete, keys)), 100);
        }
    }
}

#[test]
fn an_error_is_everybodys() {
    for site in sites() {
        site.execute(&[
            "create table t(k int primary key, v varchar(20), f double) engine = innodb",
        ]);
        let mut connection = site.connect_wide(8);
        let count = "select count(*) from t";
        let twice = || batch([1, 2, 1, 3].map(row));
        let answers = ask(&mut connection, INSERT, twice());
        let found: Vec<_> = answers.iter().map(shown).collect();
        let left = shown(&connection.query(count, &[]));
        if site.is_mariadb() {
            assert_eq!(found, ["1062"; 4]);
            assert_eq!(left, "0");
        } else {
            assert_eq!(found, ["", "", "1062", ""]);
            assert_eq!(left, "3");
        }
        run(&mut connection, "truncate table t");
        // In a transaction a savepoint says what is left.
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        transaction.query(INSERT, &row(7)).unwrap();
        let mut savepoint = transaction.savepoint().unwrap();
        let request = Request::many(INSERT, twice()).in_bulk();
        let answers = savepoint.request(request).unwrap();
        assert_eq!(shown(&answers[2]), "1062");
        savepoint.rollback().unwrap();
        transaction.commit().unwrap();
        assert_eq!(shown(&connection.query(count, &[])), "1");
    }
}

#[test]
fn what_does_not_go_together_goes_alone() {
    for site in sites() {
        site.execute(&[
            "create table t(k int primary key, v varchar(20), f double) engine = innodb",
        ]);
        let mut connection = site.connect_wide(4);
        // A value that no server takes, and one of another type.
        let mut sets: Vec<_> = (0..10).map(row).collect();
        sets[4][2] = Value::Float(f64::NAN);
        sets[6][1] = Value::Int(5);
        sets[0][2] = Value::Float(f64::INFINITY);
        let answers = ask(&mut connection, INSERT, batch(sets));
        for (index, answer) in answers.iter().enumerate() {
            match answer {
                Ok(_) => assert!(index != 4 && index != 0),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Misuse, "{index} {error}"),
            }
        }
        let answer = connection.query("select group_concat(k order by k) from t", &[]);
        assert_eq!(shown(&answer), "1,2,3,5,6,7,8,9");
        // Statements that give rows, and those that change none.
        let mut params = ParamBatch::new(1);
        for value in [Value::Null, Value::Int(1), Value::Int(2)] {
            params.push([value]);
        }
        let answers = connection.request(Request::many("select ?", params.clone()).in_bulk());
        let found: Vec<_> = answers.unwrap().iter().map(shown).collect();
        assert_eq!(found, ["", "1", "2"]);
        if site.is_mariadb() {
            let sql = "insert into t(k) values (100 + ?) returning k";
            let answers = connection.request(Request::many(sql, params.clone()).in_bulk());
            let found: Vec<_> = answers.unwrap().iter().map(shown).collect();
            assert_eq!(found, ["1048", "101", "102"]);
        }
        let answers = connection.request(Request::many("insert nonsense ?", params).in_bulk());
        let found: Vec<_> = answers.unwrap().iter().map(shown).collect();
        assert_eq!(found, ["1064"; 3]);
    }
}

#[test]
fn a_deadline_stops_it() {
    for site in sites() {
        site.execute(&["create table s(k int) engine = innodb"]);
        let mut connection = site.connect();
        let mut params = ParamBatch::new(1);
        (0..3).for_each(|_| params.push([Value::Int(600)]));
        let begin = Instant::now();
        let sql = "insert into s select sleep(?) from s a right join (select 1) b on true";
        let request = Request::many(sql, params).in_bulk();
        let request = request.deadline(begin + Duration::from_millis(300));
        for answer in connection.request(request).unwrap() {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
        }
        assert_eq!(shown(&connection.query("select 7", &[])), "7");
        assert!(begin.elapsed() < Duration::from_secs(120));
    }
}
