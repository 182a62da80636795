//! Deadlines and cancellation hit only their own query.

use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::{Driver, ErrorKind, Protocol};

use super::{Pair, all_shown, echo};

const SECOND: Duration = Duration::from_secs(1);

fn begun() -> Pair {
    let mut pair = Pair::new();
    pair.ask(echo(9));
    pair
}

/// For process 1 with secret 2, which the server in memory sends.
const CANCEL_REQUEST: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";

#[test]
fn what_is_at_the_head_is_cancelled() {
    let mut pair = begun();
    pair.server.stuck_at = Some(1);
    let deadline = pair.now + SECOND;
    pair.driver.submit(echo(1).deadline(deadline)).unwrap();
    pair.settle();
    assert_eq!(pair.driver.deadline(), Some(deadline));
    assert!(pair.driver.take_auxiliary().is_none());
    pair.pass(SECOND);
    let error = pair.replies().remove(0).into_answer().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(!error.is_retryable());
    assert!(!error.is_connection_lost());

    let mut auxiliary = pair.driver.take_auxiliary().unwrap();
    assert_eq!(auxiliary.output(), CANCEL_REQUEST);
    // What is asked now waits until it is known what the cancellation hits.
    pair.driver.submit(echo(2)).unwrap();
    assert_eq!(pair.send(), 0);
    pair.server.canceled.insert(1);
    pair.driver.auxiliary_done();
    pair.settle();
    assert_eq!(all_shown(&pair.replies()[0].answers), "2");
    assert!(pair.driver.take_auxiliary().is_none());
    assert!(pair.driver.is_idle());
    assert_eq!(pair.driver.deadline(), None);
}

#[test]
fn what_is_not_at_the_head_is_not_cancelled() {
    let mut pair = begun();
    pair.server.stuck_at = Some(1);
    pair.driver.submit(echo(1)).unwrap();
    let late = echo(2).deadline(pair.now + SECOND);
    pair.driver.submit(late).unwrap();
    pair.driver.submit(echo(3)).unwrap();
    pair.settle();
    pair.pass(SECOND);
    assert_eq!(all_shown(&pair.replies()[0].answers), "Deadline");
    assert!(pair.driver.take_auxiliary().is_none());
    pair.server.stuck_at = None;
    pair.settle();
    let replies = pair.replies();
    assert_eq!(all_shown(&replies[0].answers), "1");
    assert_eq!(all_shown(&replies[1].answers), "3");
}

#[test]
fn a_query_that_was_hit_by_mistake_is_sent_again() {
    let mut pair = begun();
    pair.server.stuck_at = Some(1);
    pair.driver
        .submit(echo(1).deadline(pair.now + SECOND))
        .unwrap();
    pair.driver.submit(echo(2)).unwrap();
    pair.settle();
    pair.pass(SECOND);
    pair.replies();
    assert!(pair.driver.take_auxiliary().is_some());
    // The first is done in this very moment.
    pair.server.stuck_at = None;
    pair.server.canceled.insert(2);
    pair.settle();
    pair.driver.auxiliary_done();
    pair.settle();
    assert_eq!(all_shown(&pair.replies()[0].answers), "2");
    assert_eq!(pair.server.executions, [9, 1, 2]);
    // But not what the server cancels by itself.
    pair.server.canceled.insert(3);
    assert_eq!(all_shown(&pair.ask(echo(3))), "57014");
}

#[test]
fn without_a_key_the_answer_is_awaited_and_the_deadline_is_ahead() {
    let mut pair = Pair::begun(Options::default());
    pair.server.has_no_cancel_key = true;
    pair.settle();
    pair.server.stuck_at = Some(1);
    let ticket = pair.driver.submit(echo(1)).unwrap();
    pair.settle();
    pair.driver.cancel(ticket);
    for _ in 0..3 {
        // A pass of the connection's owner: a deadline that stays in the past is a busy loop.
        pair.pass(Duration::ZERO);
        assert!(pair.driver.take_auxiliary().is_none());
        pair.pass(Duration::ZERO);
        let deadline = pair.driver.deadline().expect("it is tried again");
        assert!(deadline > pair.now);
        pair.now = deadline;
    }
    pair.server.stuck_at = None;
    pair.settle();
    assert_eq!(all_shown(&pair.replies()[0].answers), "Canceled");
    assert!(pair.driver.is_idle());
    assert_eq!(all_shown(&pair.ask(echo(2))), "2");
}

#[test]
fn a_cancellation_that_came_too_early_is_repeated() {
    let mut pair = begun();
    pair.server.stuck_at = Some(1);
    let ticket = pair.driver.submit(echo(1)).unwrap();
    pair.settle();
    pair.driver.cancel(ticket);
    pair.pass(Duration::ZERO);
    assert_eq!(all_shown(&pair.replies()[0].answers), "Canceled");
    assert!(pair.driver.take_auxiliary().is_some());
    pair.driver.auxiliary_done();
    pair.pass(Duration::ZERO);
    // The pauses double, from 10 ms to a second.
    for pause in [10, 20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis) {
        assert!(pair.driver.take_auxiliary().is_none());
        assert_eq!(pair.driver.deadline(), Some(pair.now + pause));
        pair.pass(pause);
        assert!(pair.driver.take_auxiliary().is_some());
        pair.driver.auxiliary_done();
        pair.pass(Duration::ZERO);
    }
}

#[test]
fn what_was_not_sent_by_its_deadline_never_is() {
    let options = Options {
        window: 1,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    pair.ask(echo(9));
    pair.server.stuck_at = Some(1);
    pair.driver.submit(echo(1)).unwrap();
    pair.driver
        .submit(echo(2).deadline(pair.now + SECOND))
        .unwrap();
    pair.settle();
    pair.pass(SECOND);
    let error = pair.replies().remove(0).into_answer().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(error.is_retryable());
    pair.server.stuck_at = None;
    pair.settle();
    assert_eq!(pair.server.executions, [9, 1]);
}
