//! The dialogue of START_REPLICATION: data in both directions, and the ways in which it ends.

use lookaside_wire::Limits;
use lookaside_wire::RequestError;
use lookaside_wire::postgres::{Connection, Credentials, Request, Startup};

use crate::server::{EXECUTE, LOGIN, READY, check, error, message, messages, output};

const COPY_BOTH: (u8, &[u8]) = (b'W', b"\0\0\0");
const COPY_DONE: (u8, &[u8]) = (b'c', b"");
const IDLE: (u8, &[u8]) = (b'Z', b"I");

/// A walsender completes the COPY, and then its own command.
const COMPLETE: [(u8, &[u8]); 3] = [
    (b'C', b"COPY 0\0"),
    (b'C', b"START_REPLICATION\0"),
    (b'Z', b"I"),
];

const COMPLETED: &str = r#"
    CommandComplete { id: #1, tag: "COPY 0" }
    CommandComplete { id: #1, tag: "START_REPLICATION" }
    Ready { id: #1, status: Idle }
"#;

/// A connection after the log-in of `startup`, with its output taken.
fn ready_of(startup: &Startup<'_>) -> Connection {
    let credentials = Credentials::new([7; 18]);
    let mut connection = Connection::new(startup, credentials, Limits::default()).unwrap();
    connection.feed(LOGIN);
    while connection.next_event().unwrap().is_some() {}
    output(&mut connection);
    connection
}

fn ready() -> Connection {
    ready_of(&Startup::new("amy").replication())
}

fn streaming() -> Connection {
    let mut connection = ready();
    let command = Request::Query("START_REPLICATION SLOT s LOGICAL 0/0");
    connection.queue(command).unwrap();
    output(&mut connection);
    check(
        &mut connection,
        &messages(&[COPY_BOTH]),
        "CopyBoth { id: #1, response: Text, 0 columns }",
    );
    connection
}

#[test]
fn the_log_in_asks_for_replication() {
    let startup = Startup::new("amy")
        .parameters(&[("client_encoding", "UTF8")])
        .replication()
        .database("shop");
    let mut connection =
        Connection::new(&startup, Credentials::new([7; 18]), Limits::default()).unwrap();
    assert_eq!(
        output(&mut connection).escape_ascii().to_string(),
        r"\x00\x00\x00J\x00\x03\x00\x00user\x00amy\x00database\x00shop\x00replication\x00database\x00client_encoding\x00UTF8\x00\x00"
    );
}

#[test]
fn data_goes_both_ways_until_we_end_it() {
    let mut connection = streaming();
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::CopyOpen));
    assert_eq!(connection.flush(), Err(RequestError::CopyOpen));
    connection.copy_data(b"r1").unwrap();
    check(
        &mut connection,
        &messages(&[(b'd', b"w1"), (b'd', b"")]),
        "CopyData { id: #1, data: [119, 49] }\nCopyData { id: #1, data: [] }",
    );
    connection.copy_data(b"r2").unwrap();
    connection.copy_done().unwrap();
    assert_eq!(connection.copy_data(b"r3"), Err(RequestError::CopyClosed));
    assert_eq!(connection.copy_done(), Err(RequestError::CopyClosed));
    // The server reads what follows once its own side has ended.
    connection.queue(Request::Query("")).unwrap();
    assert_eq!(
        output(&mut connection),
        b"d\0\0\0\x06r1d\0\0\0\x06r2c\0\0\0\x04Q\0\0\0\x05\0"
    );
    // Messages that the server had begun still come.
    check(
        &mut connection,
        &messages(&[(b'd', b"w2"), COPY_DONE]),
        "CopyData { id: #1, data: [119, 50] }\nCopyDone { id: #1 }",
    );
    check(&mut connection, &messages(&COMPLETE), COMPLETED);
    check(
        &mut connection,
        &messages(&[(b'I', b""), IDLE]),
        "EmptyQuery { id: #2 }\nReady { id: #2, status: Idle }",
    );
}

#[test]
fn the_server_may_end_first() {
    let mut connection = streaming();
    let ended = messages(&[COPY_DONE]);
    check(&mut connection, &ended, "CopyDone { id: #1 }");
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::CopyOpen));
    connection.copy_data(b"r1").unwrap();
    connection.copy_done().unwrap();
    assert_eq!(connection.copy_data(b"r2"), Err(RequestError::CopyClosed));
    assert_eq!(output(&mut connection), b"d\0\0\0\x06r1c\0\0\0\x04");
    check(&mut connection, &messages(&COMPLETE), COMPLETED);
}

#[test]
fn an_error_ends_both_sides() {
    type Before = fn(&mut Connection);
    let untouched: Before = |_| {};
    let we_ended: Before = |connection| connection.copy_done().unwrap();
    let server_ended: Before = |connection| {
        let ended = messages(&[COPY_DONE]);
        check(connection, &ended, "CopyDone { id: #1 }");
    };
    let both_ended: Before = |connection| {
        connection.copy_done().unwrap();
        let ended = messages(&[COPY_DONE]);
        check(connection, &ended, "CopyDone { id: #1 }");
    };
    for before in [untouched, we_ended, server_ended, both_ended] {
        let mut connection = streaming();
        before(&mut connection);
        check(
            &mut connection,
            &error("ERROR", "42704", "gone"),
            r#"Failed { id: #1, error: {'S': "ERROR", 'V': "ERROR", 'C': "42704", 'M': "gone"} }"#,
        );
        output(&mut connection);
        assert_eq!(connection.copy_data(b"r"), Err(RequestError::CopyClosed));
        assert_eq!(connection.copy_done(), Err(RequestError::CopyClosed));
        // Nothing is sent to end it, and nothing is expected in addition.
        assert!(output(&mut connection).is_empty());
        check(&mut connection, READY, "Ready { id: #1, status: Idle }");
        connection.queue(Request::Query("")).unwrap();
        check(
            &mut connection,
            READY,
            "error: ReadyForQuery at byte 0: it is not allowed at this point of the answer to Query",
        );
    }
}

/// An earlier COPY left a Sync that was sent twice; its surplus answer is no answer of this one.
#[test]
fn a_stray_answer_to_a_sync_is_not_expected() {
    let mut connection = ready();
    for request in [Request::Query("copy t from stdin"), Request::Sync] {
        connection.queue(request).unwrap();
    }
    connection.feed(&messages(&[(b'G', b"\0\0\x01\0\0")]));
    while connection.next_event().unwrap().is_some() {}
    connection.copy_done().unwrap();
    connection
        .queue(Request::Query("START_REPLICATION"))
        .unwrap();
    connection.feed(&messages(&[(b'C', b"COPY 0\0"), IDLE, IDLE, COPY_BOTH]));
    connection.feed(&messages(&[COPY_DONE]));
    while connection.next_event().unwrap().is_some() {}
    connection.copy_done().unwrap();
    connection.feed(&[&error("ERROR", "42704", "gone"), READY].concat());
    while connection.next_event().unwrap().is_some() {}
    check(
        &mut connection,
        READY,
        "error: ReadyForQuery at byte 0: it is not allowed while no request waits",
    );
}

/// A second stream in a session ends like this, with PostgreSQL 15 and 18.
#[test]
fn the_command_may_end_without_an_end_of_the_data() {
    let mut connection = streaming();
    let complete = messages(&COMPLETE[..1]);
    let expected = r#"CommandComplete { id: #1, tag: "COPY 0" }"#;
    check(&mut connection, &complete, expected);
    assert_eq!(connection.copy_data(b"r"), Err(RequestError::CopyClosed));
    assert_eq!(connection.copy_done(), Err(RequestError::CopyClosed));
    let expected = r#"
        CommandComplete { id: #1, tag: "START_REPLICATION" }
        Ready { id: #1, status: Idle }
    "#;
    check(&mut connection, &messages(&COMPLETE[1..]), expected);
}

#[test]
fn the_command_may_end_so_after_the_client_has_ended_its_side() {
    let mut connection = streaming();
    connection.copy_done().unwrap();
    check(&mut connection, &messages(&COMPLETE), COMPLETED);
}

#[test]
fn a_fatal_error_ends_the_connection() {
    let mut connection = streaming();
    check(
        &mut connection,
        &error("FATAL", "57P01", "terminated"),
        r#"Fatal { error: {'S': "FATAL", 'V': "FATAL", 'C': "57P01", 'M': "terminated"} }"#,
    );
    assert_eq!(connection.copy_data(b"r"), Err(RequestError::Closed));
}

#[test]
fn notices_and_settings_come_in_between() {
    let mut connection = streaming();
    let stream = messages(&[(b'N', b"Mcareful\0\0"), (b'S', b"a\0b\0"), (b'd', b"w")]);
    check(
        &mut connection,
        &stream,
        r#"
        Notice({'M': "careful"})
        ParameterStatus(ParameterStatus { name: "a", value: "b" })
        CopyData { id: #1, data: [119] }
        "#,
    );
}

#[test]
fn it_cannot_be_aborted() {
    let mut connection = streaming();
    let refused = connection.copy_fail("no more");
    assert_eq!(refused, Err(RequestError::Unsupported));
    connection.feed(&messages(&[COPY_DONE]));
    while connection.next_event().unwrap().is_some() {}
    let refused = connection.copy_fail("no more");
    assert_eq!(refused, Err(RequestError::Unsupported));
    assert!(output(&mut connection).is_empty());
    connection.copy_done().unwrap();
}

#[test]
fn the_session_may_be_terminated_in_the_middle() {
    let mut connection = streaming();
    connection.terminate();
    assert_eq!(output(&mut connection), b"X\0\0\0\x04");
    assert_eq!(connection.copy_data(b"r"), Err(RequestError::CopyClosed));
    connection.end_of_input();
    check(&mut connection, b"", "Closed");
}

#[test]
fn what_may_not_come_is_an_error_that_names_it() {
    let in_query = "it is not allowed at this point of the answer to Query";
    for (tag, body, name) in [
        (b'W', &b"\0\0\0"[..], "CopyBothResponse"),
        (b'G', b"\0\0\0", "CopyInResponse"),
        (b'D', b"\0\0", "DataRow"),
        (b'Z', b"I", "ReadyForQuery"),
    ] {
        let expected = format!("error: {name} at byte 0: {in_query}");
        check(&mut streaming(), &message(tag, body), &expected);
    }
    // Data after its end.
    let stream = messages(&[COPY_DONE, (b'd', b"w")]);
    let expected = format!("CopyDone {{ id: #1 }}\nerror: CopyData at byte 0: {in_query}");
    check(&mut streaming(), &stream, &expected);
    // The end before ours.
    let stream = messages(&[COPY_DONE, (b'C', b"COPY 0\0")]);
    let expected = format!("CopyDone {{ id: #1 }}\nerror: CommandComplete at byte 0: {in_query}");
    check(&mut streaming(), &stream, &expected);
    // A session for SQL has none.
    let mut connection = ready_of(&Startup::new("amy"));
    connection
        .queue(Request::Query("START_REPLICATION"))
        .unwrap();
    let expected = format!("error: CopyBothResponse at byte 0: {in_query}");
    check(&mut connection, &messages(&[COPY_BOTH]), &expected);
    // It is not an answer to a statement, nor to the rest of a query.
    let mut connection = ready();
    connection.queue(EXECUTE).unwrap();
    check(
        &mut connection,
        &messages(&[COPY_BOTH]),
        "error: CopyBothResponse at byte 0: it is not allowed at this point of the answer to Execute",
    );
    let mut connection = ready();
    connection.queue(Request::Query("select 7")).unwrap();
    let stream = messages(&[(b'C', b"SELECT 0\0"), COPY_BOTH]);
    connection.feed(&stream);
    connection.next_event().unwrap();
    check(&mut connection, b"", &expected);
    for (tag, body, expected) in [
        (b'W', &b"\0\0"[..], "CopyBothResponse at byte 1"),
        (b'W', b"\x02\0\0", "CopyBothResponse at byte 0"),
        (b'W', b"\0\0\0\0", "CopyBothResponse at byte 3"),
        (b'c', b"\0", "CopyDone at byte 0"),
    ] {
        let mut connection = match tag {
            b'W' => {
                let mut connection = ready();
                connection.queue(Request::Query("")).unwrap();
                connection
            }
            _ => streaming(),
        };
        connection.feed(&message(tag, body));
        let error = connection.next_event().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
