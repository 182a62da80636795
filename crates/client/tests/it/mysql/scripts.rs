//! The driver with a server that forgets, refuses and breaks off.

use std::collections::BTreeMap;
use std::time::Duration;

use lookaside_client::mysql::Options;
use lookaside_client::{Driver, Protocol, Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::scripted::Pair;
use super::shown;
use crate::generate::rng;

const SQL: &str = "select ?";

fn pair(window: usize) -> Pair {
    Pair::new(Options {
        window,
        ..Options::default()
    })
}

fn ask(pair: &mut Pair, sql: &str, value: i64) -> String {
    pair.driver
        .submit(Request::new(sql, &[Value::Int(value)]))
        .unwrap();
    shown(&pair.reply().into_answer())
}

fn say(pair: &mut Pair, sql: &str) {
    pair.driver.submit(Request::new(sql, &[])).unwrap();
    pair.reply().into_answer().unwrap();
}

#[test]
fn a_statement_that_was_forgotten_is_prepared_again() {
    let mut pair = pair(1);
    assert_eq!(ask(&mut pair, SQL, 1), "1");
    pair.script.forget();
    assert_eq!(ask(&mut pair, SQL, 2), "2");
    assert_eq!(
        (pair.script.prepare_count, pair.script.execute_count),
        (2, 3)
    );
    // ER_NEED_REPREPARE once is met in the same way, and not again and again.
    pair.script.refusals = vec![1615];
    assert_eq!(ask(&mut pair, SQL, 3), "3");
    pair.script.refusals = vec![1615, 1615];
    assert_eq!(ask(&mut pair, SQL, 4), "1615");
    assert_eq!(ask(&mut pair, SQL, 5), "5");
}

#[test]
fn in_a_transaction_the_caller_decides() {
    let mut pair = pair(1);
    assert_eq!(ask(&mut pair, SQL, 1), "1");
    say(&mut pair, "begin");
    assert!(pair.driver.is_in_transaction());
    pair.script.forget();
    assert_eq!(ask(&mut pair, SQL, 2), "1243");
    assert_eq!(ask(&mut pair, SQL, 3), "3");
    say(&mut pair, "commit");
    assert!(!pair.driver.is_in_transaction());
}

/// A whole flight meets a server that has forgotten.
#[test]
fn a_flight_is_repeated() {
    let mut pair = pair(16);
    assert_eq!(ask(&mut pair, SQL, 1), "1");
    pair.script.forget();
    let mut params = ParamBatch::new(1);
    (0..100).for_each(|value| params.push([Value::Int(value)]));
    let request = Request::many(SQL, params).syncs(Syncs::Shared);
    pair.driver.submit(request).unwrap();
    let answers: Vec<_> = pair.reply().answers.iter().map(shown).collect();
    let expected: Vec<_> = (0..100).map(|value| value.to_string()).collect();
    assert_eq!(answers, expected);
    assert_eq!(pair.script.prepare_count, 2, "all of them need it once");
}

#[test]
fn the_limit_of_the_server_is_met() {
    let mut pair = pair(4);
    pair.script.statement_count_max = 3;
    for value in 0..20 {
        let sql = format!("select ?, {value}");
        assert_eq!(ask(&mut pair, &sql, value), value.to_string());
    }
    // Where others have them all, nothing can be done.
    pair.script.forget();
    pair.script.statement_count_max = 0;
    let answer = ask(&mut pair, "select ?, 'x'", 1);
    assert_eq!(answer, "1461");
}

#[test]
fn statements_beyond_the_limit_are_closed() {
    for count_max in [0, 1, 5] {
        let mut pair = Pair::new(Options {
            statement_count_max: count_max,
            window: 3,
            ..Options::default()
        });
        for value in 0..50 {
            let sql = format!("select ?, {}", value % 7);
            assert_eq!(ask(&mut pair, &sql, value), value.to_string());
        }
        while pair.exchange(usize::MAX, usize::MAX) {}
        assert!(pair.script.statement_count() <= count_max);
    }
}

/// Requests of all kinds, given up at random, on a server that forgets and refuses at random, with
/// bytes that come in pieces, until the connection is cut: every answer reaches its own caller.
#[test]
fn no_answer_reaches_the_wrong_caller() {
    let mut rng = rng("no_answer_reaches_the_wrong_caller");
    for _ in 0..300 {
        let options = Options {
            window: 1 << rng.u32(..6),
            statement_count_max: rng.usize(..5),
            ..Options::default()
        };
        let mut pair = match rng.bool() {
            true => Pair::mariadb(options),
            false => Pair::new(options),
        };
        let mut open = BTreeMap::new();
        let mut asked = BTreeMap::new();
        let (mut tag, mut answered_count) = (0, 0);
        for _ in 0..rng.usize(..400) {
            match rng.u32(..20) {
                0..4 => {
                    let sql = match rng.u32(..8) {
                        0 => "nonsense ?",
                        1 => "select refused ?",
                        2 => "select ?, 2",
                        3 => "insert ?",
                        _ => SQL,
                    };
                    let count = rng.i64(1..6);
                    let mut params = ParamBatch::new(1);
                    (0..count).for_each(|index| params.push([Value::Int(tag + index)]));
                    asked.extend((0..count).map(|index| (tag + index, sql)));
                    let request = Request::many(sql, params);
                    let ticket = pair.driver.submit(request).unwrap();
                    open.insert(ticket, (tag, count));
                    tag += count;
                }
                4 => {
                    let sql = if rng.bool() { "set a" } else { "use b" };
                    let ticket = pair.driver.submit(Request::new(sql, &[])).unwrap();
                    open.insert(ticket, (-1, 1));
                }
                5 if !open.is_empty() => {
                    let index = rng.usize(..open.len());
                    let ticket = *open.keys().nth(index).unwrap();
                    if rng.bool() {
                        open.remove(&ticket);
                        pair.driver.abandon(ticket);
                    } else {
                        pair.driver.cancel(ticket);
                    }
                }
                6 if rng.u32(..4) == 0 => pair.script.forget(),
                8 if rng.u32(..4) == 0 => pair.script.statement_count_max = rng.usize(..9),
                7 if rng.u32(..4) == 0 => pair.script.refusals.push([1615, 1213][rng.usize(..2)]),
                _ => {
                    pair.exchange(rng.usize(..60), rng.usize(..60));
                }
            }
            answered_count += take(&mut pair, &mut open);
        }
        match rng.u32(..3) {
            0 => pair.driver.end_of_input(),
            1 => pair
                .driver
                .fail(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            _ => while pair.exchange(usize::MAX, usize::MAX) {},
        }
        pair.driver.advance(std::time::Instant::now());
        answered_count += take(&mut pair, &mut open);
        assert!(
            open.is_empty(),
            "{answered_count} answers, and none for {open:?}"
        );
        assert_eq!(pair.driver.query_count(), 0);
        for (sql, value) in &pair.script.executed {
            assert_eq!(sql, asked[value], "with the values of its own");
        }
    }
}

/// Checks the replies that are there.
fn take(pair: &mut Pair, open: &mut BTreeMap<lookaside_client::Ticket, (i64, i64)>) -> usize {
    let mut count = 0;
    while let Some(reply) = pair.driver.next_reply() {
        let (tag, tag_count) = open
            .remove(&reply.ticket)
            .expect("it was asked, and not given up");
        assert_eq!(reply.answers.len() as i64, tag_count);
        for (index, answer) in reply.answers.iter().enumerate() {
            if let Ok(answer) = answer
                && tag >= 0
            {
                assert_eq!(answer.rows.row(0), [Value::Int(tag + index as i64)]);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn rows_for_what_gives_none_are_left_out() {
    let mut pair = Pair::new(Options {
        pinned_check_after: Some(Duration::from_secs(3600)),
        ..Options::default()
    });
    pair.script.is_odd = true;
    for number in 1..4 {
        let request = Request::new("select ?", &[Value::Int(number)]).pinned_columns();
        pair.driver.submit(request).unwrap();
        let answer = pair.reply().into_answer();
        assert_eq!(shown(&answer), number.to_string());
    }
}
