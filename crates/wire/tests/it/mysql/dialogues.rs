//! Unusual dialogues: messages at the wrong time, and messages that are allowed at any time.

use lookaside_wire::mysql::{Capabilities, Connection, Cursor, Event, Execute, Request, Startup};
use lookaside_wire::{Limits, RequestError};

use super::server::{
    END, END_AND_MORE, EOF, ERR, MARIADB, MYSQL, OK, answer, check, column, output, packet,
    prepared, ready, ready_with,
};

const DONE: &str = "{ affected: 0, id: 0, status: 0x0002, warnings: 0 }";

/// Checks the events of an answer to a query.
#[track_caller]
fn check_query(payloads: &[&[u8]], expected: &str) {
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    check(&mut connection, &answer(payloads), expected);
}

fn without_eof() -> Connection {
    let startup = Startup::new("amy").without(Capabilities::DEPRECATE_EOF);
    ready_with(MYSQL, startup, Limits::default())
}

#[test]
fn an_error_ends_an_answer_anywhere() {
    let (a, b) = (column("a", 3), column("b", 253));
    let failed = r#"Failed { id: #1, error: 1064 42000 "no" }"#;
    let columns = r#"Columns { id: #1, columns: ["a" LONG 0x0 63 11.0, "b" VAR_STRING 0x0 63 11.0], is_changed: true }"#;
    let row = r#"Row { id: #1, row: ["1", NULL] }"#;
    let all: [&[u8]; 4] = [b"\x02", &a, &b, b"\x011\xfb"];
    for (count, before) in ["", "", "", columns, &format!("{columns}\n{row}")]
        .iter()
        .enumerate()
    {
        let mut connection = ready(MYSQL);
        connection.queue(Request::Query("select")).unwrap();
        connection.queue(Request::Ping).unwrap();
        let mut payloads = all[..count].to_vec();
        payloads.push(ERR);
        let stream = [answer(&payloads), answer(&[OK])].concat();
        let ok = format!("Ok {{ id: #2, ok: {DONE} }}");
        check(
            &mut connection,
            &stream,
            &format!("{before}\n{failed}\n{ok}"),
        );
    }
    // Also where an EOF is expected.
    for count in 1..=3 {
        let mut connection = without_eof();
        connection.queue(Request::Query("select")).unwrap();
        let mut payloads = all[..count].to_vec();
        payloads.push(ERR);
        check(&mut connection, &answer(&payloads), failed);
        assert!(connection.unanswered().is_empty());
    }
    let ok = b"\0\x01\0\0\0\x01\0\x01\0\0\0\0";
    for count in 1..=4 {
        let mut connection = without_eof();
        connection.queue(Request::Prepare("select")).unwrap();
        let all: [&[u8]; 4] = [ok, &a, EOF, &b];
        let mut payloads = all[..count].to_vec();
        payloads.push(ERR);
        check(&mut connection, &answer(&payloads), failed);
        assert!(connection.unanswered().is_empty());
    }
}

#[test]
fn results_follow_one_another() {
    let a = column("a", 3);
    check_query(
        &[
            b"\x01",
            &a,
            b"\x011",
            END_AND_MORE,            // rows,
            b"\0\x05\x07\x0a\0\0\0", // no rows,
            b"\x01",
            &a,
            END, // and none at last.
        ],
        r#"Columns { id: #1, columns: ["a" LONG 0x0 63 11.0], is_changed: true }
           Row { id: #1, row: ["1"] }
           RowsEnd { id: #1, ok: { affected: 0, id: 0, status: 0x000a, warnings: 0 } }
           Ok { id: #1, ok: { affected: 5, id: 7, status: 0x000a, warnings: 0 } }
           Columns { id: #1, columns: ["a" LONG 0x0 63 11.0], is_changed: true }
           RowsEnd { id: #1, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }"#,
    );
    check_query(
        &[b"\0\0\0\x0a\0\0\0", ERR],
        r#"Ok { id: #1, ok: { affected: 0, id: 0, status: 0x000a, warnings: 0 } }
           Failed { id: #1, error: 1064 42000 "no" }"#,
    );
}

#[test]
fn a_server_gets_no_file() {
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("load")).unwrap();
    connection.queue(Request::Ping).unwrap();
    output(&mut connection);
    check(
        &mut connection,
        &answer(&[b"\xfb/etc/passwd"]),
        "LocalInfile { id: #1, file_name: [47, 101, 116, 99, 47, 112, 97, 115, 115, 119, 100] }",
    );
    assert_eq!(output(&mut connection), packet(2, b""));
    check(
        &mut connection,
        &[packet(3, OK), answer(&[OK])].concat(),
        &format!("Ok {{ id: #1, ok: {DONE} }}\nOk {{ id: #2, ok: {DONE} }}"),
    );
    // It may also refuse, but not request again.
    for (reply, expected) in [
        (ERR, r#"Failed { id: #1, error: 1064 42000 "no" }"#),
        (
            b"\xfbagain",
            "error: packet at byte 0: it is not allowed at this point of the answer to COM_QUERY",
        ),
    ] {
        let mut connection = ready(MYSQL);
        connection.queue(Request::Query("load")).unwrap();
        connection.feed(&answer(&[b"\xfbfile"]));
        connection.next_event().unwrap();
        check(&mut connection, &packet(3, reply), expected);
    }
}

#[test]
fn counts_are_believed_only_so_far() {
    for (payload, expected) in [
        (&b"\xfc\0\0"[..], "0 is not a valid number of columns"),
        (b"\xfd\0\0\x01", "65536 is not a valid number of columns"),
        (
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
            "18446744073709551615 is not a valid number of columns",
        ),
        (b"\xfe\0\0", "the message ends in the middle of a field"),
        (b"\xfe", "the message ends in the middle of a field"),
    ] {
        let mut connection = ready(MYSQL);
        connection.queue(Request::Query("select")).unwrap();
        connection.feed(&answer(&[payload]));
        let error = connection.next_event().unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    }
    check_query(
        &[b"\x01\x01"],
        "error: column count at byte 1: bytes remain after the last field",
    );
    // 65,535 columns reserve nothing before they are received.
    check_query(&[b"\xfd\xff\xff\0"], "");
}

#[test]
fn packets_that_fit_nowhere_are_errors() {
    for (payloads, expected) in [
        (
            &[&b""[..]][..],
            "error: empty packet at byte 0: it is not allowed at this point of the answer to COM_QUERY",
        ),
        (
            &[b"\x01", b"\x03def"],
            "error: column definition at byte 4: the message ends in the middle of a field",
        ),
        (
            &[b"\0\xff"],
            "error: OK at byte 1: 255 is not a valid length",
        ),
        (
            &[b"\xff\x01"],
            "error: ERR at byte 1: the message ends in the middle of a field",
        ),
    ] {
        check_query(payloads, expected);
    }
    for request in [Request::Ping, Request::ResetConnection] {
        let mut connection = ready(MYSQL);
        connection.queue(request).unwrap();
        check(
            &mut connection,
            &answer(&[b"\x01"]),
            "error: packet at byte 0: it is not allowed as the answer to this command",
        );
        assert_eq!(connection.queue(Request::Ping), Err(RequestError::Closed));
    }
    let mut connection = ready(MYSQL);
    connection.queue(Request::Prepare("select")).unwrap();
    check(
        &mut connection,
        &answer(&[b"\x01"]),
        "error: packet at byte 0: it is not allowed at this point of the answer to COM_STMT_PREPARE",
    );
    let mut connection = ready(MYSQL);
    connection.queue(Request::Prepare("select")).unwrap();
    check(
        &mut connection,
        &answer(&[b"\0\xff\xff\xff\xff\0\0\0\0\0\0\0"]),
        "error: COM_STMT_PREPARE_OK at byte 1: -1 is not a valid number of a statement",
    );
    // Where an EOF is expected, anything else is an error.
    let mut connection = without_eof();
    connection.queue(Request::Query("select")).unwrap();
    check(
        &mut connection,
        &answer(&[b"\x01", &column("a", 3), b"\x011"]),
        "error: column definition at byte 0: it is not allowed where the list ends",
    );
}

#[test]
fn packets_are_numbered() {
    let wrong = "error: packet at byte 3: packet number 3 was received instead of 2";
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    connection.feed(&answer(&[b"\x01"]));
    check(&mut connection, &packet(3, &column("a", 3)), wrong);
    check(&mut connection, b"", wrong);
    // 255 is followed by 0.
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    connection.feed(&answer(&[b"\x01", &column("a", 3)]));
    for sequence in (0..=255).cycle().skip(3).take(600) {
        connection.feed(&packet(sequence, b"\x011"));
    }
    connection.feed(&packet(((3 + 600) % 256) as u8, END));
    let mut row_count = 0;
    while let Some(event) = connection.next_event().unwrap() {
        row_count += usize::from(matches!(event, Event::Row { .. }));
    }
    assert_eq!(row_count, 600);
    assert!(connection.unanswered().is_empty());
}

#[test]
fn a_server_may_end_the_session_at_any_time() {
    let fatal = r#"Fatal { error: 1064 42000 "no" }"#;
    // Unsolicited.
    let mut connection = ready(MYSQL);
    check(&mut connection, &packet(0, ERR), fatal);
    check(&mut connection, b"", "");
    // The server had not read the request.
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    check(&mut connection, &packet(0, ERR), fatal);
    assert_eq!(connection.unanswered().len(), 1);
    // Nothing else may be sent unsolicited.
    let mut connection = ready(MYSQL);
    check(
        &mut connection,
        &packet(1, OK),
        "error: packet at byte 0: it is not allowed while no request waits",
    );
    // The socket ends in the middle of a row.
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    let mut stream = answer(&[b"\x01", &column("a", 3), b"\x011"]);
    stream.pop();
    connection.feed(&stream);
    connection.end_of_input();
    check(
        &mut connection,
        b"ignored",
        r#"Columns { id: #1, columns: ["a" LONG 0x0 63 11.0], is_changed: true }
           Closed"#,
    );
    assert!(connection.receive_space(1).is_empty());
}

#[test]
fn what_waits_unread_has_a_limit() {
    let limits = Limits {
        message_size_max: 1000,
        ..Limits::default()
    };
    let mut connection = ready_with(MYSQL, Startup::new("amy"), limits);
    connection.queue(Request::Query("select")).unwrap();
    for _ in 0..200 {
        connection.feed(&packet(1, &[1; 20]));
    }
    let error = connection.next_event().unwrap_err();
    assert_eq!(
        error.to_string(),
        "input at byte 0: more than 1000 bytes wait unread; take the events between two feeds"
    );
    // Definitions are stored, and count together.
    let limits = Limits {
        message_size_max: 100,
        ..Limits::default()
    };
    let mut connection = ready_with(MYSQL, Startup::new("amy"), limits);
    connection.queue(Request::Query("select")).unwrap();
    connection.feed(&answer(&[b"\x14"]));
    assert!(connection.next_event().unwrap().is_none());
    connection.feed(&packet(2, &column("a column", 3)));
    assert!(connection.next_event().unwrap().is_none());
    connection.feed(&packet(3, &column("a column", 3)));
    assert!(connection.next_event().unwrap().is_none());
    connection.feed(&packet(4, &column("a column", 3)));
    assert!(connection.next_event().unwrap().is_none());
    connection.feed(&packet(5, &column("a column", 3)));
    check(
        &mut connection,
        b"",
        "error: column definition at byte 0: \
         120 bytes are more than the limit of 100; raise `message_size_max`",
    );
}

#[test]
fn session_changes_are_read_whole() {
    for (changes, expected) in [
        (&b"\0\x06\x04name\x00"[..], "name="),
        (b"\0\x0c\x01a\x01b\x01c\x05value", "a=b, c=value"),
        (b"\x01\x05\x04shop", "schema shop"),
        (b"\x02\x02\x011", "state true"),
        (b"\x02\x011", "state true"),
        (b"\x03\x02\x00x", "change 3 \"\\x00x\""),
        (
            b"\x05\x09\x08I___Ws__\x04\x01\x00",
            "transaction I___Ws__, \"\"",
        ),
        (b"\xee\0", "change 238 \"\""),
    ] {
        let size = u8::try_from(changes.len()).unwrap();
        let ok = [b"\0\0\0\x02\x40\0\0\0", &[size][..], changes].concat();
        check_query(
            &[&ok],
            &format!(
                "Ok {{ id: #1, ok: {{ affected: 0, id: 0, status: 0x4002, warnings: 0, {expected} }} }}"
            ),
        );
    }
    for changes in [
        &b"\0\x05\x04name"[..],
        b"\x01\x05\x05shop",
        b"\x01\x06\x04shop!",
        b"\x01",
        b"\x05\x02\x08I",
    ] {
        let size = u8::try_from(changes.len()).unwrap();
        let ok = [b"\0\0\0\x02\x40\0\0\0", &[size][..], changes].concat();
        let mut connection = ready(MYSQL);
        connection.queue(Request::Query("use")).unwrap();
        connection.feed(&answer(&[&ok]));
        assert!(connection.next_event().is_err(), "{}", ok.escape_ascii());
    }
}

#[test]
fn a_fetch_needs_the_columns_of_its_statement() {
    let mut connection = ready(MARIADB & !(1 << 35));
    connection.queue(Request::Prepare("select")).unwrap();
    connection.feed(&prepared(1, &[column("a", 1)]));
    let Ok(Some(Event::Prepared { prepared, .. })) = connection.next_event() else {
        panic!("it is prepared");
    };
    let statement = prepared.statement;
    let execute = Execute {
        statement,
        cursor: Cursor::ReadOnly,
    };
    let fetch = Request::Fetch {
        statement,
        row_count_max: 1,
    };
    connection.queue_execute(&execute, &[], |_| {}).unwrap();
    connection.queue(fetch).unwrap();
    let open = b"\xfe\0\0\x42\0";
    let stream = [
        answer(&[b"\x01\x00", open]),
        answer(&[b"\0\0\x07", b"\xfe\0\0\x82\0\0\0"]),
    ];
    check(
        &mut connection,
        &stream.concat(),
        r#"Columns { id: #2, columns: ["a" TINY 0x0 63 11.0], is_changed: false }
           RowsEnd { id: #2, ok: { affected: 0, id: 0, status: 0x0042, warnings: 0 } }
           Row { id: #3, row: ["\x07"] }
           RowsEnd { id: #3, ok: { affected: 0, id: 0, status: 0x0082, warnings: 0 } }"#,
    );
    connection
        .queue(Request::CloseStatement(statement))
        .unwrap();
    connection.queue(fetch).unwrap();
    check(
        &mut connection,
        &answer(&[b"\0\0\x07"]),
        "error: row at byte 0: the server omitted column definitions that it had not sent before",
    );
}
