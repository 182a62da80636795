//! COPY in both directions, and the ways in which it ends early.

use lookaside_wire::RequestError;
use lookaside_wire::postgres::{Connection, Request};

use crate::server::{BIND, EXECUTE, READY, check, error, message, messages, output, ready};

const COPY_IN: (u8, &[u8]) = (b'G', b"\0\0\x01\0\0");
const COPIED: (u8, &[u8]) = (b'C', b"COPY 1\0");
const IDLE: (u8, &[u8]) = (b'Z', b"I");
const SYNC: &[u8] = b"S\0\0\0\x04";

fn failure() -> Vec<u8> {
    error("ERROR", "22P02", "no number")
}

const FAILURE: &str = r#"{'S': "ERROR", 'V': "ERROR", 'C': "22P02", 'M': "no number"}"#;

/// A connection with pending `requests`, the last of which is a COPY that waits for data.
fn copying(requests: &[Request<'_>], before: &[(u8, &[u8])]) -> Connection {
    let mut connection = ready();
    for request in requests {
        connection.queue(*request).unwrap();
    }
    output(&mut connection);
    connection.feed(&messages(before));
    while connection.next_event().unwrap().is_some() {}
    connection
}

fn query() -> Connection {
    copying(&[Request::Query("copy t from stdin")], &[COPY_IN])
}

fn statement(behind: &[Request<'_>]) -> Connection {
    let requests = [&[BIND, EXECUTE], behind].concat();
    copying(&requests, &[(b'2', b""), COPY_IN])
}

#[test]
fn data_goes_in() {
    let mut connection = query();
    connection.copy_data(b"7\tsev").unwrap();
    connection.copy_data(b"en\n").unwrap();
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::CopyOpen));
    assert_eq!(connection.flush(), Err(RequestError::CopyOpen));
    connection.copy_done().unwrap();
    assert_eq!(connection.copy_data(b"8\n"), Err(RequestError::CopyClosed));
    connection.queue(Request::Query("")).unwrap();
    assert_eq!(
        output(&mut connection),
        b"d\0\0\0\x097\tsevd\0\0\0\x07en\nc\0\0\0\x04Q\0\0\0\x05\0"
    );
    let stream = messages(&[COPIED, IDLE, (b'I', b""), IDLE]);
    check(
        &mut connection,
        &stream,
        r#"
        CommandComplete { id: #1, tag: "COPY 1" }
        Ready { id: #1, status: Idle }
        EmptyQuery { id: #2 }
        Ready { id: #2, status: Idle }
        "#,
    );
}

#[test]
fn a_query_may_copy_more_than_once() {
    let mut connection = copying(
        &[
            Request::Query("copy t from stdin; copy t from stdin"),
            Request::Sync,
        ],
        &[COPY_IN],
    );
    connection.copy_done().unwrap();
    assert_eq!(output(&mut connection), [b"c\0\0\0\x04", SYNC].concat());
    // The server ignores the second Sync as it did the first.
    check(
        &mut connection,
        &messages(&[COPIED, COPY_IN]),
        r#"
        CommandComplete { id: #1, tag: "COPY 1" }
        CopyIn { id: #1, response: Text, 1 columns }
        "#,
    );
    connection.copy_done().unwrap();
    assert_eq!(output(&mut connection), [b"c\0\0\0\x04", SYNC].concat());
    check(
        &mut connection,
        &messages(&[COPIED, IDLE, IDLE]),
        r#"
        CommandComplete { id: #1, tag: "COPY 1" }
        Ready { id: #1, status: Idle }
        Ready { id: #2, status: Idle }
        "#,
    );
}

#[test]
fn we_give_up() {
    for behind in [&[][..], &[Request::Sync]] {
        let mut connection = statement(behind);
        connection.copy_data(b"7\n").unwrap();
        connection.copy_fail("no more").unwrap();
        let resent = if behind.is_empty() { &b""[..] } else { SYNC };
        assert_eq!(
            output(&mut connection),
            [b"d\0\0\0\x067\nf\0\0\0\x0cno more\0", resent].concat()
        );
        if behind.is_empty() {
            connection.queue(Request::Sync).unwrap();
        }
        let stream = [failure(), READY.to_vec()].concat();
        check(
            &mut connection,
            &stream,
            &format!(
                "
                Failed {{ id: #2, error: {FAILURE} }}
                Ready {{ id: #3, status: Idle }}
                "
            ),
        );
    }
}

#[test]
fn a_reason_with_a_nul_is_refused_and_the_copy_goes_on() {
    let mut connection = query();
    assert_eq!(connection.copy_fail("\0"), Err(RequestError::Nul));
    assert!(output(&mut connection).is_empty());
    connection.copy_done().unwrap();
}

#[test]
fn the_server_gives_up_while_we_write() {
    let mut connection = query();
    connection.copy_data(b"x\n").unwrap();
    let failed = format!("Failed {{ id: #1, error: {FAILURE} }}");
    check(&mut connection, &failure(), &failed);
    // Further writes return an error; data that was written before is ignored by the server.
    assert_eq!(connection.copy_data(b"8\n"), Err(RequestError::CopyClosed));
    assert_eq!(connection.copy_done(), Err(RequestError::CopyClosed));
    check(&mut connection, READY, "Ready { id: #1, status: Idle }");
    connection.queue(Request::Query("")).unwrap();
}

#[test]
fn the_server_gives_up_behind_our_end() {
    let mut connection = query();
    connection.copy_data(b"x\n").unwrap();
    connection.copy_done().unwrap();
    connection.queue(Request::Query("")).unwrap();
    let stream = [failure(), messages(&[IDLE, (b'I', b""), IDLE])].concat();
    check(
        &mut connection,
        &stream,
        &format!(
            "
            Failed {{ id: #1, error: {FAILURE} }}
            Ready {{ id: #1, status: Idle }}
            EmptyQuery {{ id: #2 }}
            Ready {{ id: #2, status: Idle }}
            "
        ),
    );
}

/// The Sync that was queued after the COPY was ignored, so it is sent again.
#[test]
fn a_swallowed_sync_is_sent_again() {
    let mut connection = statement(&[Request::Sync]);
    connection.copy_data(b"7\n").unwrap();
    connection.copy_done().unwrap();
    assert_eq!(
        output(&mut connection),
        [b"d\0\0\0\x067\nc\0\0\0\x04", SYNC].concat()
    );
    check(
        &mut connection,
        &messages(&[COPIED, IDLE]),
        r#"
        CommandComplete { id: #2, tag: "COPY 1" }
        Ready { id: #3, status: Idle }
        "#,
    );
}

#[test]
fn a_swallowed_sync_is_sent_again_behind_an_error() {
    let mut connection = statement(&[Request::Sync]);
    connection.copy_data(b"x\n").unwrap();
    let failed = format!("Failed {{ id: #2, error: {FAILURE} }}");
    check(&mut connection, &failure(), &failed);
    assert_eq!(output(&mut connection), [b"d\0\0\0\x06x\n", SYNC].concat());
    check(&mut connection, READY, "Ready { id: #3, status: Idle }");
}

/// A trigger that fails before the first row does so before the server reads the Sync: then both
/// that one and the one that was sent again are answered.
#[test]
fn a_sync_that_was_not_swallowed_has_one_answer_too() {
    let next = Request::Query("");
    let answer_of_next = messages(&[(b'I', b""), IDLE]);
    for before_stray in [&[][..], &[next], &[Request::Sync, next]] {
        let mut connection = statement(&[Request::Sync]);
        check(
            &mut connection,
            &[failure(), READY.to_vec()].concat(),
            &format!(
                "
                Failed {{ id: #2, error: {FAILURE} }}
                Ready {{ id: #3, status: Idle }}
                "
            ),
        );
        assert_eq!(output(&mut connection), SYNC);
        for request in before_stray {
            connection.queue(*request).unwrap();
        }
        // The answer to the Sync that was sent twice.
        connection.feed(READY);
        // With a Sync after it, it does not matter to which one an answer belongs.
        let has_sync = before_stray.len() == 2;
        let expected = if has_sync {
            "Ready { id: #4, status: Idle }"
        } else {
            ""
        };
        check(&mut connection, b"", expected);
        if has_sync {
            check(&mut connection, READY, "");
        } else if before_stray.is_empty() {
            connection.queue(next).unwrap();
        }
        let id = 3 + before_stray.len().max(1);
        check(
            &mut connection,
            &answer_of_next,
            &format!("EmptyQuery {{ id: #{id} }}\nReady {{ id: #{id}, status: Idle }}"),
        );
        // A further one is an error.
        check(
            &mut connection,
            READY,
            "error: ReadyForQuery at byte 0: it is not allowed while no request waits",
        );
    }
}

/// A second answer is not accepted without a reason.
#[test]
fn what_is_forgiven_is_forgotten_with_the_next_answer() {
    let mut connection = statement(&[Request::Sync]);
    connection.queue(Request::Sync).unwrap_err();
    connection.feed(&[failure(), READY.to_vec()].concat());
    while connection.next_event().unwrap().is_some() {}
    connection.queue(Request::Query("")).unwrap();
    check(
        &mut connection,
        &messages(&[(b'I', b""), IDLE, IDLE]),
        "
        EmptyQuery { id: #4 }
        Ready { id: #4, status: Idle }
        error: ReadyForQuery at byte 0: it is not allowed while no request waits
        ",
    );
}

#[test]
fn data_comes_out() {
    let mut connection = ready();
    connection
        .queue(Request::Query("copy t to stdout"))
        .unwrap();
    connection.queue(BIND).unwrap();
    connection.queue(EXECUTE).unwrap();
    connection.queue(Request::Sync).unwrap();
    let out: (u8, &[u8]) = (b'H', b"\0\0\x01\0\0");
    let stream = messages(&[
        out,
        (b'd', b"7\n"),
        (b'd', b""),
        (b'c', b""),
        COPIED,
        IDLE,
        (b'2', b""),
        out,
        (b'c', b""),
        (b'C', b"COPY 0\0"),
        IDLE,
    ]);
    check(
        &mut connection,
        &stream,
        r#"
        CopyOut { id: #1, response: Text, 1 columns }
        CopyData { id: #1, data: [55, 10] }
        CopyData { id: #1, data: [] }
        CopyDone { id: #1 }
        CommandComplete { id: #1, tag: "COPY 1" }
        Ready { id: #1, status: Idle }
        BindComplete { id: #2 }
        CopyOut { id: #3, response: Text, 1 columns }
        CopyDone { id: #3 }
        CommandComplete { id: #3, tag: "COPY 0" }
        Ready { id: #4, status: Idle }
        "#,
    );
}

#[test]
fn data_that_comes_out_can_end_in_an_error() {
    let mut connection = ready();
    for request in [BIND, EXECUTE, BIND, EXECUTE, Request::Sync] {
        connection.queue(request).unwrap();
    }
    let stream = [
        messages(&[(b'2', b""), (b'H', b"\0\0\x01\0\0"), (b'd', b"7\n")]),
        failure(),
        message(b'Z', b"I"),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        &format!(
            "
            BindComplete {{ id: #1 }}
            CopyOut {{ id: #2, response: Text, 1 columns }}
            CopyData {{ id: #2, data: [55, 10] }}
            Failed {{ id: #2, error: {FAILURE} }}
            Skipped {{ ids: #3..#5, failed: #2 }}
            Ready {{ id: #5, status: Idle }}
            "
        ),
    );
}
