//! Behind a pooler: nothing is kept on the server.

use lookaside_client::postgres::{Options, Route};
use lookaside_client::{Driver as _, Request, Syncs};

use super::{Pair, all_shown, echo, echoes};

fn pair() -> Pair {
    Pair::with(Options {
        route: Route::Pooler,
        ..Options::default()
    })
}

#[test]
fn each_query_brings_its_statement() {
    let mut pair = pair();
    assert_eq!(
        all_shown(&pair.ask(echoes("select $1", [1, 0, 3]))),
        "1 22012 3"
    );
    assert_eq!(all_shown(&pair.ask(Request::new("select 4", &[]))), "0");
    // Once to be described, and once each.
    assert_eq!(pair.server.parses.len(), 4 + 2);
    assert_eq!(pair.server.sync_count, 4 + 2);
    assert!(pair.server.statements.keys().all(|name| name.is_empty()));
    // In one round trip, and with the description that came first.
    assert_eq!(all_shown(&pair.ask(echo(5))), "5");
    assert_eq!(pair.server.parses.len(), 6 + 1);
    assert_eq!(pair.server.sync_count, 6 + 1);
}

#[test]
fn syncs_are_shared_as_elsewhere() {
    let mut pair = pair();
    let answers = pair.ask(echoes("select $1", [1, 2, 0, 4]).syncs(Syncs::Shared));
    assert_eq!(all_shown(&answers), "1 2 22012 4");
    // One for the description, one for all, and one for what the error took along.
    assert_eq!(pair.server.sync_count, 3);
}

#[test]
fn statements_that_go_stale_are_described_again() {
    let mut pair = pair();
    pair.ask(echo(1));
    for state in ["08P01", "42883", "42P01"] {
        pair.server.stale.insert(String::new(), (state, ""));
        assert_eq!(all_shown(&pair.ask(echo(2))), "2", "{state}");
    }
}

/// The binary form of a type that is read as text in other cases.
#[test]
fn what_comes_in_another_form_is_asked_for_again() {
    const ENUM: u32 = 99_999;
    let mut pair = pair();
    pair.ask(echo(1));
    pair.server.portal_type = Some(ENUM);
    assert_eq!(all_shown(&pair.ask(echo(2))), "2");
    assert_eq!(pair.server.executions, [1, 2, 2]);
    // What may write is not done twice.
    let insert = |number| echoes("insert select $1", [number]);
    pair.ask(insert(3));
    pair.server.portal_type = Some(ENUM);
    assert_eq!(all_shown(&pair.ask(insert(4))), "Protocol");
    assert_eq!(all_shown(&pair.ask(insert(5))), "5");
    assert_eq!(pair.server.executions, [1, 2, 2, 3, 4, 5]);
}

/// A pooler gives the session to another client once a Sync is answered, whatever came after it.
#[test]
fn nothing_follows_a_sync_that_is_not_answered() {
    let mut pair = pair();
    pair.ask(echo(1));
    let sync_count = pair.server.sync_count;
    // Of several callers, with a Sync each and with one, prepared and not, one of them refused.
    pair.driver.submit(echo(2)).unwrap();
    pair.driver
        .submit(echoes("select $1", [3, 0, 4]).syncs(Syncs::Each))
        .unwrap();
    pair.driver
        .submit(echoes("select $1", [5, 6]).syncs(Syncs::Shared))
        .unwrap();
    pair.driver.submit(Request::new("select 7", &[])).unwrap();
    let mut flight_count = 0;
    loop {
        let sent = pair.send();
        assert!(pair.server.unanswered_sync_count() <= 1);
        let answer = pair.server.answer();
        pair.receive(&answer);
        if sent == 0 && answer.is_empty() {
            break;
        }
        flight_count += 1;
    }
    let shown: Vec<_> = (pair.replies().iter())
        .map(|reply| all_shown(&reply.answers))
        .collect();
    assert_eq!(shown, ["2", "3 22012 4", "5 6", "0"]);
    assert_eq!(pair.server.sync_count - sync_count, flight_count);
    assert_eq!(flight_count, 1 + 3 + 1 + 2);
}
