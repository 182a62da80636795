//! The end of a connection, and what the waiting requests receive.

use std::io;

use lookaside_client::postgres::Options;
use lookaside_client::{Driver, ErrorKind, Protocol};

use super::{Pair, echo};

#[test]
fn a_lost_connection_says_what_was_sent() {
    let options = Options {
        window: 1,
        ..Options::default()
    };
    let mut pair = Pair::with(options);
    pair.ask(echo(9));
    for number in [1, 2] {
        pair.driver.submit(echo(number)).unwrap();
    }
    pair.send();
    assert_eq!(pair.driver.output(), b"", "nothing more can be sent");
    pair.driver.end_of_input();
    pair.driver.advance(pair.now);
    let errors: Vec<_> = pair
        .replies()
        .into_iter()
        .map(|reply| reply.into_answer().unwrap_err())
        .collect();
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|error| error.is_connection_lost()));
    assert!(!errors[0].is_retryable());
    assert!(errors[1].is_retryable());
    let refused = pair.driver.submit(echo(3)).unwrap_err();
    assert!(refused.is_connection_lost());
    assert!(refused.is_retryable());
}

#[test]
fn the_last_words_of_a_server_are_kept() {
    let mut pair = Pair::new();
    pair.driver.submit(echo(1)).unwrap();
    pair.send();
    pair.server
        .say(b'E', b"SFATAL\0VFATAL\0C57P01\0Mshutting down\0\0");
    let bytes = pair.server.answer();
    let space = pair.driver.receive_space(bytes.len());
    space[..bytes.len()].copy_from_slice(&bytes);
    pair.driver.received(bytes.len());
    // Before they are read, the socket breaks.
    pair.driver
        .fail(io::Error::from(io::ErrorKind::ConnectionReset).into());
    let error = pair.replies().remove(0).into_answer().unwrap_err();
    assert!(error.is_connection_lost());
    assert_eq!(error.sqlstate().unwrap().to_string(), "57P01");
    let end = pair.driver.end().unwrap();
    assert_eq!(end.to_string(), "the server ended the session");
}

#[test]
fn nonsense_ends_the_connection() {
    let mut pair = Pair::new();
    pair.driver.submit(echo(1)).unwrap();
    pair.send();
    pair.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let error = pair.replies().remove(0).into_answer().unwrap_err();
    assert!(error.is_connection_lost());
    assert_eq!(pair.driver.end().unwrap().kind(), ErrorKind::Protocol);
}

#[test]
fn a_refused_log_in_ends_the_connection() {
    for (state, is_retryable) in [("28P01", false), ("57P03", true)] {
        let mut pair = Pair::begun(Options::default());
        pair.driver.submit(echo(1)).unwrap();
        let body = format!("SFATAL\0VFATAL\0C{state}\0Mno\0\0");
        pair.server.say(b'E', body.as_bytes());
        let bytes = pair.server.answer();
        pair.receive(&bytes);
        let end = pair.driver.end().unwrap();
        assert_eq!(end.kind(), ErrorKind::Refused);
        assert_eq!(end.is_retryable(), is_retryable);
        let error = pair.replies().remove(0).into_answer().unwrap_err();
        assert!(error.is_retryable(), "nothing of it was sent");
    }
}

#[test]
fn closing_says_farewell() {
    let mut pair = Pair::new();
    pair.driver.close();
    assert_eq!(pair.driver.output(), b"X\0\0\0\x04");
    assert_eq!(
        pair.driver.submit(echo(1)).unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_password_with_a_nul_is_refused() {
    use lookaside_wire::postgres::{Credentials, Startup};
    let credentials = Credentials::new([7; 18]).password(b"a\0b");
    let driver = lookaside_client::postgres::PostgresDriver::new(
        &Startup::new("amy"),
        credentials,
        Options::default(),
    );
    assert_eq!(driver.err().unwrap().kind(), ErrorKind::Misuse);
}
