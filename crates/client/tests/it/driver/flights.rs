//! Many queries on one connection.

use lookaside_client::postgres::Options;
use lookaside_client::{Driver, ErrorKind, Reply, Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::{Pair, all_shown, echo, echoes, shown};

#[test]
fn callers_get_their_own_answers() {
    let mut pair = Pair::new();
    let tickets: Vec<_> = (1..=500)
        .map(|number| pair.driver.submit(echo(number)).unwrap())
        .collect();
    assert_eq!(pair.driver.query_count(), 500);
    pair.settle();
    for (index, reply) in pair.replies().into_iter().enumerate() {
        assert_eq!(reply.ticket, tickets[index]);
        assert_eq!(shown(&reply.into_answer()), (index + 1).to_string());
    }
    assert_eq!(pair.server.parses.len(), 1);
    assert_eq!(pair.driver.query_count(), 0);
    assert!(pair.driver.is_idle());
}

#[test]
fn a_sync_each_is_the_default() {
    let mut pair = Pair::new();
    let answers = pair.ask(echoes("select $1", [1, 0, 3]));
    assert_eq!(all_shown(&answers), "1 22012 3");
    // And one for what prepares the statement.
    assert_eq!(pair.server.sync_count, 4);
    assert_eq!(pair.server.executions, [1, 0, 3]);
}

#[test]
fn queries_that_only_read_can_share_a_sync() {
    let mut pair = Pair::new();
    let answers = pair.ask(echoes("select $1", 1..=16).syncs(Syncs::Shared));
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 16);
    assert_eq!(pair.server.sync_count, 2);
}

#[test]
fn an_error_in_a_shared_flight_is_its_own_callers() {
    for failing in 1..=5 {
        let mut pair = Pair::new();
        let numbers = (1..=5).map(|number| if number == failing { 0 } else { number });
        let expected: Vec<_> = numbers
            .clone()
            .map(|number| match number {
                0 => "22012".to_owned(),
                number => number.to_string(),
            })
            .collect();
        let answers = pair.ask(echoes("select $1", numbers).syncs(Syncs::Shared));
        assert_eq!(all_shown(&answers), expected.join(" "));
        // Each was executed once: what came before the error is known, what came behind was not
        // done.
        assert_eq!(pair.server.executions.len(), 5);
    }
}

#[test]
fn requests_that_wait_together_share_a_sync() {
    let mut pair = Pair::new();
    pair.ask(echo(7));
    let before = pair.server.sync_count;
    let shared = |number| echo(number).syncs(Syncs::Shared);
    for number in 1..=100 {
        pair.driver.submit(shared(number)).unwrap();
    }
    pair.settle();
    for (reply, number) in pair.replies().into_iter().zip(1..) {
        assert_eq!(shown(&reply.into_answer()), number.to_string());
    }
    assert_eq!(pair.server.sync_count, before + 7);

    // What stands between them in the line has a Sync of its own, and so have they then.
    for request in [shared(1), shared(2), echo(3), shared(4), shared(5)] {
        pair.driver.submit(request).unwrap();
    }
    pair.settle();
    assert_eq!(pair.replies().len(), 5);
    assert_eq!(pair.server.sync_count, before + 10);

    // Each caller has its own answer, whichever other query failed.
    for number in [1, 0, 3] {
        pair.driver.submit(shared(number)).unwrap();
    }
    pair.driver.submit(shared(0)).unwrap();
    pair.settle();
    let mut replies = pair.replies();
    replies.sort_by_key(|reply| reply.ticket);
    let replies = replies.into_iter().map(Reply::into_answer);
    let answers: Vec<_> = replies.collect();
    assert_eq!(all_shown(&answers), "1 22012 3 22012");
}

#[test]
fn what_writes_shares_no_sync() {
    let mut pair = Pair::new();
    pair.ask(echoes("insert $1", 1..=3).syncs(Syncs::Shared));
    assert_eq!(pair.server.sync_count, 4);
}

#[test]
fn a_transaction_shares_no_sync() {
    let mut pair = Pair::new();
    pair.ask(Request::new("begin", &[]));
    let before = pair.server.sync_count;
    pair.ask(echoes("select $1", 1..=3).syncs(Syncs::Shared));
    assert_eq!(pair.server.sync_count, before + 4);
}

/// A constraint that is checked at the end of a transaction.
#[test]
fn a_sync_that_fails_fails_its_query() {
    let mut pair = Pair::new();
    pair.ask(echo(1));
    pair.server.sync_fails = true;
    assert_eq!(all_shown(&pair.ask(echo(2))), "23503");
    assert_eq!(all_shown(&pair.ask(echo(3))), "3");
    // Where the Sync is shared, it is not known which query failed.
    pair.server.sync_fails = true;
    let answers = pair.ask(echoes("select $1", [4, 5]).syncs(Syncs::Shared));
    assert_eq!(all_shown(&answers), "4 5");
}

#[test]
fn the_window_bounds_what_is_under_way() {
    let options = Options {
        window: 10,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    pair.ask(echo(1));
    pair.driver.submit(echoes("select $1", 1..=100)).unwrap();
    pair.send();
    pair.server.answer();
    assert_eq!(pair.server.executions.len(), 11);

    let mut pair = Pair::with(Options {
        window: 10,
        ..Options::default()
    });
    let answers = pair.ask(echoes("select $1", 1..=100).syncs(Syncs::Shared));
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(pair.server.sync_count, 11);
}

#[test]
fn too_many_queries_are_refused_before_they_are_sent() {
    let options = Options {
        query_count_max: 3,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    pair.driver.submit(echoes("select $1", [1, 2])).unwrap();
    let error = pair.driver.submit(echoes("select $1", [3, 4])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.is_retryable());
    pair.settle();
    pair.driver.submit(echoes("select $1", [3, 4])).unwrap();
}

#[test]
fn no_parameter_sets_need_no_server() {
    let mut pair = Pair::new();
    let request = Request::many("select $1", ParamBatch::new(1));
    assert_eq!(pair.ask(request).len(), 0);
    assert!(pair.server.parses.is_empty());
}

#[test]
fn what_was_asked_before_the_log_in_waits_for_it() {
    let mut pair = Pair::begun(Options::default());
    pair.driver.submit(echo(7)).unwrap();
    assert!(!pair.driver.is_ready());
    pair.settle();
    assert_eq!(shown(&pair.replies().remove(0).into_answer()), "7");
}

#[test]
fn abandoned_queries_are_discarded_or_never_sent() {
    let options = Options {
        window: 2,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    pair.ask(echo(9));
    let tickets: Vec<_> = (1..=6)
        .map(|number| pair.driver.submit(echo(number)).unwrap())
        .collect();
    pair.send();
    for &index in &[0, 1, 3, 4] {
        pair.driver.abandon(tickets[index]);
    }
    pair.settle();
    assert_eq!(pair.server.executions, [9, 1, 2, 3, 6]);
    let replies = pair.replies().into_iter();
    let shown: Vec<_> = replies.map(|reply| shown(&reply.into_answer())).collect();
    assert_eq!(shown, ["3", "6"]);
    assert!(pair.driver.is_idle());
}

#[test]
fn large_results_are_discarded() {
    let options = Options {
        result_size_max: 13,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    assert_eq!(all_shown(&pair.ask(echo(1))), "Limit");
    assert!(pair.driver.is_idle());
}

#[test]
fn nothing_copies() {
    let mut pair = Pair::new();
    let answers = pair.ask(Request::new("/**/ copy t from stdin", &[]));
    assert_eq!(all_shown(&answers), "Misuse");
    assert!(pair.server.parses.is_empty());
}

#[test]
fn values_that_do_not_fit_are_their_own_callers_error() {
    let mut pair = Pair::new();
    let mut params = ParamBatch::new(1);
    for value in [Value::Int(1), Value::from("one"), Value::from("2")] {
        params.push([value]);
    }
    let answers = pair.ask(Request::many("select $1", params));
    assert_eq!(all_shown(&answers), "1 Misuse 2");
    let error = answers[1].as_ref().unwrap_err();
    let source = std::error::Error::source(error).unwrap();
    assert_eq!(
        source.to_string(),
        "parameter `$1`: this text is not a valid int4"
    );
    let answers = pair.ask(Request::new("select $1", &[]));
    assert_eq!(
        answers[0].as_ref().unwrap_err().to_string(),
        "0 values were given for 1 parameters"
    );
}
