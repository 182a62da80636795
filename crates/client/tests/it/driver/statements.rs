//! What the driver stores about statements, and when it drops that.

use lookaside_client::postgres::Options;
use lookaside_client::{Driver, Request, Syncs};
use lookaside_value::Value;

use super::{Pair, all_shown, echo, echoes};

const FORGOTTEN: (&str, &str) = ("26000", "FetchPreparedStatement");
const CHANGED: (&str, &str) = ("0A000", "RevalidateCachedQuery");

fn name(pair: &Pair) -> String {
    let mut names = pair.server.statements.keys();
    let name = names.next().unwrap().clone();
    assert!(names.next().is_none(), "{:?}", pair.server.statements);
    name
}

/// The server's error for a Bind of a statement that was valid before.
fn check(refusal: (&'static str, &'static str), expected: &str) {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    let first = name(&pair);
    pair.server.stale.insert(first.clone(), refusal);
    assert_eq!(all_shown(&pair.ask(echo(2))), expected, "{refusal:?}");
    if expected == "2" {
        // The old one is closed.
        assert_ne!(name(&pair), first);
        assert_eq!(pair.server.parses.len(), 2);
    } else {
        assert_eq!(pair.server.parses.len(), 1, "{refusal:?}");
    }
}

#[test]
fn stale_statements_are_prepared_again() {
    check(FORGOTTEN, "2");
    check(CHANGED, "2");
    check(("42883", "op_error"), "2");
    check(("XX000", "cache_lookup"), "2");
    // The SQLSTATE alone means that something is not supported.
    check(("0A000", "transformStmt"), "0A000");
    check(("22P02", "pg_strtoint32"), "22P02");
}

#[test]
fn they_are_prepared_again_five_times() {
    for (stale_count, expected) in [(1, "2"), (5, "2"), (6, "0A000")] {
        let mut pair = Pair::new();
        pair.ask(echo(1));
        for number in 1..=stale_count {
            pair.server.stale.insert(format!("s{number}"), CHANGED);
        }
        let answer = all_shown(&pair.ask(echo(2)));
        assert_eq!(answer, expected, "{stale_count}");
        assert_eq!(all_shown(&pair.ask(echo(3))), "3");
    }
}

#[test]
fn a_transaction_gets_the_error_instead() {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    let first = name(&pair);
    pair.ask(Request::new("begin", &[]));
    pair.server.stale.insert(first.clone(), CHANGED);
    assert_eq!(all_shown(&pair.ask(echo(2))), "0A000");
    pair.ask(Request::new("rollback", &[]));
    // But the next one is spared it.
    assert_eq!(all_shown(&pair.ask(echo(3))), "3");
    assert!(!pair.server.statements.contains_key(&first));
}

#[test]
fn a_query_does_not_slip_into_a_transaction_behind_it() {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    let first = name(&pair);
    pair.ask(Request::new("begin", &[]));
    pair.ask(Request::new("rollback", &[]));
    pair.server.stale.insert(first, CHANGED);
    pair.driver.submit(echo(2)).unwrap();
    pair.driver.submit(Request::new("begin", &[])).unwrap();
    pair.settle();
    let replies = pair.replies();
    assert_eq!(all_shown(&replies[0].answers), "0A000");
    assert_eq!(all_shown(&replies[1].answers), "no row");
}

#[test]
fn a_whole_window_of_a_stale_statement_recovers() {
    for syncs in [Syncs::Each, Syncs::Shared] {
        let mut pair = Pair::new();
        pair.ask(echo(1));
        pair.server.statements.clear();
        let answers = pair.ask(echoes("select $1", 1..=100).syncs(syncs));
        let expected: Vec<_> = (1..=100).map(|number| number.to_string()).collect();
        assert_eq!(all_shown(&answers), expected.join(" "), "{syncs:?}");
        assert_eq!(pair.server.parses.len(), 2);
    }
}

#[test]
fn statements_are_distinguished_by_their_types_too() {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    pair.ask(echo(1).parameter_types([lookaside_client::postgres::Oid(23)]));
    pair.ask(echo(1).parameter_types([lookaside_client::postgres::Oid(23)]));
    assert_eq!(pair.server.parses.len(), 2);
}

#[test]
fn a_changed_parameter_type_is_noticed_before_the_value_is_refused() {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    pair.server.parameter_type = Some(25);
    let answers = pair.ask(Request::new("select $1", &[Value::from("abc")]));
    assert_eq!(all_shown(&answers), "22012", "it was sent, as text");
    assert_eq!(pair.server.parses.len(), 2);
}

/// The server's count of statements never passes the limit by more than what is under way.
#[test]
fn statements_are_bounded_on_the_server() {
    for count_max in [0, 1, 5] {
        let options = Options {
            statement_count_max: count_max,
            ..Options::default()
        };
        let mut pair = Pair::with(options);
        for number in 0..100 {
            pair.ask(Request::new(format!("select {}", number % 7), &[]));
            assert!(pair.server.statements.len() <= count_max + 1);
        }
    }
}

#[test]
fn the_least_recently_used_goes_first() {
    let options = Options {
        statement_count_max: 2,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    for sql in ["select 1", "select 2", "select 1", "select 3", "select 1"] {
        pair.ask(Request::new(sql, &[]));
    }
    assert_eq!(pair.server.parses, ["select 1", "select 2", "select 3"]);
    pair.ask(Request::new("select 2", &[]));
    assert_eq!(pair.server.parses.len(), 4);
}

#[test]
fn a_changed_setting_makes_all_statements_forgotten() {
    let sqls = ["set search_path to a", "select set_config('a', 'b', false)"];
    for sql in sqls {
        let mut pair = Pair::new();
        pair.ask(echo(1));
        pair.ask(Request::new(sql, &[]));
        pair.ask(echo(2));
        pair.ask(echo(3));
        assert_eq!(pair.server.parses, ["select $1", sql, "select $1"]);
    }
    // As another statement did, a function say.
    let mut pair = Pair::new();
    pair.ask(echo(1));
    pair.server.say(b'S', b"TimeZone\0UTC\0");
    pair.ask(echo(1));
    assert_eq!(pair.server.parses.len(), 1);
    pair.server.say(b'S', b"search_path\0b\0");
    pair.ask(echo(1));
    pair.ask(echo(1));
    assert_eq!(pair.server.parses.len(), 2);
}

/// What a transaction changed is taken back with it.
#[test]
fn the_end_of_a_transaction_with_a_setting_counts_too() {
    let mut pair = Pair::new();
    for sql in ["begin", "set search_path to a", "select 1", "rollback"] {
        pair.ask(Request::new(sql, &[]));
    }
    let before = pair.server.parses.len();
    pair.ask(Request::new("select 1", &[]));
    assert_eq!(pair.server.parses.len(), before + 1);
}

#[test]
fn bad_sql_is_an_error_for_all_who_wait_for_it() {
    let mut pair = Pair::new();
    for _ in 0..3 {
        pair.driver.submit(Request::new("nonsense", &[])).unwrap();
    }
    pair.driver.submit(echo(1)).unwrap();
    pair.settle();
    let replies = pair.replies();
    for reply in &replies[..3] {
        let error = reply.answers[0].as_ref().unwrap_err();
        assert_eq!(error.sqlstate().unwrap().to_string(), "42601");
        assert_eq!(error.position(), Some(7));
        assert!(!error.is_retryable());
    }
    assert_eq!(all_shown(&replies[3].answers), "1");
    assert_eq!(pair.server.parses.len(), 2);
    let nul = pair.ask(Request::new("select '\0'", &[]));
    assert_eq!(all_shown(&nul), "Misuse");
    assert_eq!(all_shown(&pair.ask(echo(2))), "2");
}

#[test]
fn a_description_runs_nothing() {
    let mut pair = Pair::new();
    for _ in 0..2 {
        pair.driver.submit(Request::describe("select $1")).unwrap();
    }
    pair.settle();
    for reply in pair.replies() {
        let answer = reply.answers[0].as_ref().unwrap();
        let description = answer.description.as_ref().unwrap();
        assert_eq!(description.columns[..], ["n"]);
        assert_eq!(description.column_types[..], ["int4"]);
        assert_eq!(description.parameter_types[..], ["int4"]);
        assert!(answer.rows.is_empty());
    }
    let refused = pair.ask(Request::describe("nonsense"));
    assert_eq!(all_shown(&refused), "42601");
    assert_eq!(all_shown(&pair.ask(echo(3))), "3");
    assert_eq!(pair.server.parses, ["select $1", "nonsense"]);
    assert_eq!(pair.server.executions, [3]);
    assert!(pair.driver.is_idle());
}

#[test]
fn what_cannot_be_closed_costs_nobody_an_answer() {
    let mut pair = Pair::with(Options {
        statement_count_max: 1,
        ..Options::default()
    });
    pair.ask(echo(1));
    pair.ask(echoes("select $1 ", [1]));
    // The next one that is prepared has the first one closed.
    pair.server.close_fails = true;
    assert_eq!(all_shown(&pair.ask(echoes("select  $1", [2]))), "2");
    assert!(!pair.server.close_fails);
    assert_eq!(all_shown(&pair.ask(echo(3))), "3");
}

#[test]
fn what_begins_and_ends_transactions_is_not_kept() {
    let mut pair = Pair::new();
    for _ in 0..2 {
        for sql in ["begin", "rollback"] {
            let sync_count = pair.server.sync_count;
            pair.ask(Request::new(sql, &[]));
            assert_eq!(pair.server.sync_count, sync_count + 1, "{sql}");
        }
    }
    assert!(pair.server.statements.keys().all(|name| name.is_empty()));
    let answers = pair.ask(Request::new("rollback", &[Value::Int(1)]));
    assert_eq!(all_shown(&answers), "Misuse");
}
