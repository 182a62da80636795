//! Statements that are executed along with their Prepare.

use std::time::Instant;

use lookaside_client::mysql::Options;
use lookaside_client::{Driver, ErrorKind, Protocol, Request, TransactionOptions};
use lookaside_value::{ParamBatch, Value};

use super::scripted::Pair;
use super::{run, shown, sites};

fn pair(window: usize) -> Pair {
    Pair::mariadb(Options {
        window,
        ..Options::default()
    })
}

fn submit(pair: &mut Pair, sql: &str, value: i64) {
    let request = Request::new(sql, &[Value::Int(value)]);
    pair.driver.submit(request).unwrap();
}

fn ask(pair: &mut Pair, sql: &str, value: i64) -> String {
    submit(pair, sql, value);
    shown(&pair.reply().into_answer())
}

/// How often the server has prepared and executed.
fn counts(pair: &Pair) -> [usize; 2] {
    [pair.script.prepare_count, pair.script.execute_count]
}

#[test]
fn the_first_use_takes_no_round_trip_more() {
    for window in [1, 16] {
        let mut pair = pair(window);
        submit(&mut pair, "select ?", 7);
        pair.exchange(usize::MAX, 0);
        assert_eq!(counts(&pair), [1, 1], "{window}");
        assert_eq!(shown(&pair.reply().into_answer()), "7");
        assert_eq!(ask(&mut pair, "select ?", 8), "8");
        assert_eq!(counts(&pair), [1, 2]);
        // Those after the first wait for the server's answer.
        let mut params = ParamBatch::new(1);
        (0..20).for_each(|value| params.push([Value::Int(value)]));
        let request = Request::many("select ?, 2", params);
        pair.driver.submit(request).unwrap();
        let answers: Vec<_> = pair.reply().answers.iter().map(shown).collect();
        let expected: Vec<_> = (0..20).map(|value| value.to_string()).collect();
        assert_eq!(answers, expected);
        assert_eq!(counts(&pair), [2, 22]);
    }
}

#[test]
fn only_where_the_server_can_and_the_parameters_are_sure() {
    let mut mysql = Pair::new(Options::default());
    submit(&mut mysql, "select ?", 7);
    mysql.exchange(usize::MAX, 0);
    assert_eq!(counts(&mysql), [1, 0]);
    let mut pair = pair(1);
    for sql in ["select 'it\\'s', ?", "select 'ü', ?"] {
        let [prepared, executed] = counts(&pair);
        submit(&mut pair, sql, 7);
        pair.exchange(usize::MAX, 0);
        assert_eq!(counts(&pair), [prepared + 1, executed]);
        assert_eq!(shown(&pair.reply().into_answer()), "7");
    }
    // Too many and too few.
    for sql in ["select 1", "select ?, ?"] {
        let [_, executed] = counts(&pair);
        submit(&mut pair, sql, 7);
        pair.exchange(usize::MAX, 0);
        assert_eq!(counts(&pair)[1], executed, "{sql}");
        drop(pair.reply());
    }
}

/// A server that refuses a Prepare because it has too many executes the one before, which here does
/// nothing; where that is not sure, nothing is executed along.
#[test]
fn a_full_server_executes_no_other_statement() {
    for window in [1, 16] {
        let mut pair = pair(window);
        assert_eq!(ask(&mut pair, "delete ?", 1), "1");
        pair.script.statement_count_max = 2;
        assert_eq!(ask(&mut pair, "select ?", 2), "2");
        pair.script.statement_count_max = 0;
        assert_eq!(ask(&mut pair, "select ?, 3", 3), "1461");
        pair.script.statement_count_max = 100;
        assert_eq!(ask(&mut pair, "delete ?, 4", 4), "4");
        // There is room for one, and not for what does nothing.
        pair.script.forget();
        pair.script.statement_count_max = 1;
        assert_eq!(ask(&mut pair, "delete ?, 5", 5), "5");
        let [prepared, executed] = counts(&pair);
        submit(&mut pair, "select ?, 6", 6);
        pair.exchange(usize::MAX, 0);
        assert_eq!(counts(&pair), [prepared + 1, executed], "{window}");
        assert_eq!(shown(&pair.reply().into_answer()), "6");
        let executed = pair.script.executed.iter();
        let deleted: Vec<_> = executed
            .map(|(sql, value)| (sql.starts_with("delete"), *value))
            .collect();
        let expected = [(true, 1), (false, 2), (true, 4), (true, 5), (false, 6)];
        assert_eq!(deleted, expected);
    }
}

#[test]
fn an_error_is_that_of_the_prepare() {
    for window in [1, 16] {
        let mut pair = pair(window);
        assert_eq!(ask(&mut pair, "nonsense ?", 1), "1064");
        assert_eq!(counts(&pair), [1, 1]);
        assert_eq!(ask(&mut pair, "select refused ?", 1), "1690");
        assert_eq!(ask(&mut pair, "select ?", 2), "2");
        // A server that executes all the same is found out.
        pair.script.executes_unprepared = true;
        assert_eq!(ask(&mut pair, "insert ?", 3), "3");
        pair.script.forget_nothing();
        submit(&mut pair, "nonsense ?", 1);
        let error = pair.reply().into_answer().unwrap_err();
        assert_eq!(error.mysql().map(|refused| refused.code()), None);
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }
}

#[test]
fn the_limit_of_the_server_is_met() {
    for window in [1, 4] {
        let mut pair = pair(window);
        pair.script.statement_count_max = 3;
        for value in 0..20 {
            let sql = format!("select ?, {value}");
            assert_eq!(ask(&mut pair, &sql, value), value.to_string());
        }
        pair.script.forget();
        pair.script.statement_count_max = 0;
        assert_eq!(ask(&mut pair, "select ?, 'x'", 1), "1461");
    }
}

/// The connection ends between the two answers.
#[test]
fn a_lost_connection_says_what_is_known() {
    for (sql, size, expected) in [("nonsense ?", 20, "1064"), ("select ?", 0, "Connection")] {
        let mut pair = pair(1);
        submit(&mut pair, sql, 1);
        pair.exchange(usize::MAX, 0);
        pair.exchange(0, size);
        pair.driver.end_of_input();
        pair.driver.advance(Instant::now());
        let reply = pair.driver.next_reply().unwrap().into_answer();
        assert_eq!(shown(&reply), expected, "{sql}");
    }
}

#[test]
fn servers_do_it() {
    for site in sites() {
        site.execute(&[
            "create table t(k int primary key, v varchar(20)) engine = innodb",
            "create procedure p(k int) begin select k; select 2; end",
        ]);
        for window in [1, 16] {
            let mut connection = site.connect_wide(window);
            for round in 0..3 {
                let key = [Value::Int(round)];
                let params = [key[0].clone(), Value::from("it's ?")];
                let insert = "insert into t values (?, ?) -- ?";
                assert_eq!(shown(&connection.query(insert, &params)), "");
                assert_eq!(shown(&connection.query(insert, &params)), "1062");
                let select = "select v, '?', k from t where k = ? # ?";
                let answer = connection.query(select, &key);
                assert_eq!(shown(&answer), format!("it's ?,?,{round}"));
                assert_eq!(
                    shown(&connection.query("call p(?)", &key)),
                    round.to_string()
                );
                assert_eq!(shown(&connection.query("selec ?", &key)), "1064");
                assert_eq!(
                    shown(&connection.query("select k from t where ?", &[])),
                    "Misuse"
                );
                assert_eq!(shown(&connection.query("select 1", &key)), "Misuse");
                // What cannot be prepared.
                run(&mut connection, "xa recover");
                let long = Value::from("x".repeat(30));
                let answer = connection.query("insert into t values (77, ?)", &[long]);
                assert_eq!(shown(&answer), "1406");
            }
            let answer = run(&mut connection, "select count(*) from t");
            assert_eq!(shown(&Ok(answer)), "3");
            // A statement each, so that each is executed along with its Prepare.
            let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
            for number in 10..30 {
                let sql = format!("update t set k = k + ? where k % {number} = 99");
                transaction.query(sql, &[Value::Int(1)]).unwrap();
                let sql = format!("select ? + {number} as x");
                let answer = transaction.query(sql, &[Value::Int(1)]);
                assert_eq!(shown(&answer), (number + 1).to_string());
            }
            transaction.commit().unwrap();
            run(&mut connection, "truncate table t");
        }
    }
}
