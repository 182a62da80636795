//! Scripts against the server in memory.

use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::{Answer, Driver, Error, ErrorKind, Protocol, Request, Result};

use super::{Pair, echo, shown, state};

/// All that an answer holds.
fn all(answers: &[Result<Answer>]) -> String {
    let one = |answer: &Result<Answer>| match answer {
        Ok(answer) => {
            let part = answer.script.as_deref().expect("it was a script");
            let rows = answer.rows.iter();
            let rows: Vec<_> = rows.map(|row| row[0].to_text().to_string()).collect();
            let copied = String::from_utf8_lossy(&part.copied);
            format!("{}+{}{copied}", rows.join(","), part.left_out_count)
        }
        Err(error) => state(error),
    };
    answers.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn script(sql: &str) -> Request {
    Request::script(sql, 2)
}

#[test]
fn each_statement_has_its_answer() {
    for (sql, expected) in [
        ("row a", "a+0"),
        ("row a b c d; copy e; row f", "a,b+2 +0e f+0"),
        ("row a; nonsense; row b", "a+0 42601"),
        ("nonsense", "42601"),
        ("", ""),
    ] {
        let mut pair = Pair::new();
        assert_eq!(all(&pair.ask(script(sql))), expected, "{sql}");
        // And the connection goes on.
        assert_eq!(shown(&pair.ask(echo(1))[0]), "1", "{sql}");
        assert!(pair.driver.is_idle());
    }
}

#[test]
fn a_script_is_alone_on_the_wire() {
    let mut pair = Pair::new();
    pair.ask(echo(9));
    pair.driver.submit(echo(1)).unwrap();
    pair.driver.submit(script("row a")).unwrap();
    pair.driver.submit(echo(2)).unwrap();
    pair.driver.submit(script("row b")).unwrap();
    // A server that gets them one by one has nothing to answer ahead.
    for (executions, scripts) in [(2, 0), (2, 1), (3, 1), (3, 2)] {
        pair.send();
        let answer = pair.server.answer();
        assert_eq!(pair.server.executions.len(), executions);
        assert_eq!(pair.server.scripts.len(), scripts);
        // It is prepared again after the script, which may have changed what names mean.
        pair.receive(&answer);
        if executions == 2 && scripts == 1 {
            pair.send();
            let answer = pair.server.answer();
            pair.receive(&answer);
        }
    }
    assert_eq!(pair.replies().len(), 4);
    assert_eq!(pair.server.parses.len(), 2);
}

#[test]
fn what_was_answered_before_a_deadline_stays() {
    let mut pair = Pair::new();
    let deadline = pair.now + Duration::from_secs(1);
    pair.driver
        .submit(script("row a; row b; stuck").deadline(deadline))
        .unwrap();
    pair.settle();
    pair.pass(Duration::from_secs(1));
    let reply = pair.replies().remove(0);
    assert_eq!(all(&reply.answers), "a+0 b+0 Deadline");
    assert!(pair.driver.take_auxiliary().is_some());
    pair.driver.auxiliary_done();
    // Its answers belong to no caller now.
    pair.receive(b"T\0\0\0\x06\0\0D\0\0\0\x06\0\0C\0\0\0\x0bSELECT\0Z\0\0\0\x05I");
    assert!(pair.replies().is_empty());
    assert!(pair.driver.is_idle());
}

#[test]
fn what_was_answered_before_the_end_stays() {
    let sql = "row a; row b";
    let mut whole = Pair::new();
    whole.driver.submit(script(sql)).unwrap();
    whole.send();
    let answer = whole.server.answer();
    for size in 0..answer.len() {
        let mut pair = Pair::new();
        pair.driver.submit(script(sql)).unwrap();
        pair.send();
        pair.receive(&answer[..size]);
        pair.driver.fail(Error::from(std::io::Error::from(
            std::io::ErrorKind::BrokenPipe,
        )));
        let answers = pair.replies().remove(0).answers;
        let lost = answers.last().unwrap().as_ref().unwrap_err();
        assert!(lost.is_connection_lost() && !lost.is_retryable(), "{size}");
        assert!(matches!(
            all(&answers).as_str(),
            "Connection" | "a+0 Connection" | "a+0 b+0 Connection"
        ));
    }
    let mut pair = Pair::new();
    pair.driver.submit(script(sql)).unwrap();
    pair.driver.fail(Error::from(std::io::Error::from(
        std::io::ErrorKind::BrokenPipe,
    )));
    let answers = pair.replies().remove(0).answers;
    assert!(answers[0].as_ref().unwrap_err().is_retryable());
}

#[test]
fn a_script_that_is_too_large_costs_its_answer_only() {
    let mut pair = Pair::with(Options {
        result_size_max: 13,
        ..Options::default()
    });
    let answers = pair.ask(script("row a; row bb cc; remark n; copy dd"));
    assert_eq!(all(&answers), "a+0 Limit +0 Limit");
    assert_eq!(shown(&pair.ask(echo(1))[0]), "Limit");
}

#[test]
fn remarks_are_kept_up_to_a_limit() {
    let mut pair = Pair::new();
    let remarks: Vec<_> = (0..1_003)
        .map(|number| format!("remark {number}"))
        .collect();
    pair.ask(script(&remarks.join("; ")));
    let notices = pair.driver.take_notices();
    assert_eq!(notices.iter().len(), 1_000);
    assert_eq!(notices.lost_count(), 3);
    let first = notices.iter().next().unwrap().message();
    assert_eq!(first.as_deref(), Some("3"));
    let long = format!("remark {}; remark b", "a".repeat(2 << 20));
    pair.ask(script(&long));
    let notices = pair.driver.take_notices();
    assert_eq!((notices.iter().len(), notices.lost_count()), (1, 1));
    assert_eq!(pair.driver.take_notices().iter().len(), 0);
}

#[test]
fn text_that_cannot_be_sent_breaks_nothing() {
    let mut pair = Pair::new();
    let answers = pair.ask(script("row \0"));
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(all(&pair.ask(script("row a"))), "a+0");
}
