//! Dialogues without an error: simple queries, statements, portals, and asynchronous messages.

use lookaside_wire::postgres::{Request, TransactionStatus};

use crate::server::{BIND, EXECUTE, READY, check, message, messages, parse, ready, row};

/// RowDescription of one column `n`, an int4 as text.
const COLUMN: &[u8] = b"\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";

#[test]
fn a_query_has_any_number_of_results() {
    let mut connection = ready();
    connection
        .queue(Request::Query("begin; select 7; update t set n = 7"))
        .unwrap();
    connection.queue(Request::Query("")).unwrap();
    assert_eq!(connection.unanswered().len(), 2);
    let stream = [
        message(b'C', b"BEGIN\0"),
        message(b'T', COLUMN),
        row(&[Some("7")]),
        row(&[None]),
        message(b'C', b"SELECT 2\0"),
        message(b'C', b"UPDATE 3\0"),
        message(b'Z', b"T"),
        message(b'I', b""),
        message(b'Z', b"T"),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        r#"
        CommandComplete { id: #1, tag: "BEGIN" }
        RowDescription { id: #1, description: ["n" 23 Text] }
        DataRow { id: #1, row: ["7"] }
        DataRow { id: #1, row: [NULL] }
        CommandComplete { id: #1, tag: "SELECT 2" }
        CommandComplete { id: #1, tag: "UPDATE 3" }
        Ready { id: #1, status: Open }
        EmptyQuery { id: #2 }
        Ready { id: #2, status: Open }
        "#,
    );
    assert_eq!(connection.transaction_status(), TransactionStatus::Open);
    assert!(connection.unanswered().is_empty());
}

#[test]
fn a_statement_is_prepared_described_and_run() {
    let mut connection = ready();
    for request in [
        parse("select $1::int4"),
        Request::DescribeStatement("s"),
        BIND,
        Request::DescribePortal(""),
        EXECUTE,
        Request::CloseStatement("s"),
        Request::Sync,
    ] {
        connection.queue(request).unwrap();
    }
    let stream = [
        message(b'1', b""),
        message(b't', b"\0\x01\0\0\0\x17"),
        message(b'T', COLUMN),
        message(b'2', b""),
        message(b'T', COLUMN),
        row(&[Some("7")]),
        message(b'C', b"SELECT 1\0"),
        message(b'3', b""),
        READY.to_vec(),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        r#"
        ParseComplete { id: #1 }
        ParameterDescription { id: #2, description: [23] }
        RowDescription { id: #2, description: ["n" 23 Text] }
        BindComplete { id: #3 }
        RowDescription { id: #4, description: ["n" 23 Text] }
        DataRow { id: #5, row: ["7"] }
        CommandComplete { id: #5, tag: "SELECT 1" }
        CloseComplete { id: #6 }
        Ready { id: #7, status: Idle }
        "#,
    );
}

#[test]
fn a_portal_goes_on_where_it_stopped() {
    let mut connection = ready();
    let some = Request::Execute {
        portal: "",
        row_count_max: 2,
    };
    for request in [BIND, some, some, Request::ClosePortal(""), Request::Sync] {
        connection.queue(request).unwrap();
    }
    let stream = [
        message(b'2', b""),
        row(&[Some("1")]),
        row(&[Some("2")]),
        message(b's', b""),
        row(&[Some("3")]),
        message(b'C', b"SELECT 1\0"),
        message(b'3', b""),
        READY.to_vec(),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        r#"
        BindComplete { id: #1 }
        DataRow { id: #2, row: ["1"] }
        DataRow { id: #2, row: ["2"] }
        PortalSuspended { id: #2 }
        DataRow { id: #3, row: ["3"] }
        CommandComplete { id: #3, tag: "SELECT 1" }
        CloseComplete { id: #4 }
        Ready { id: #5, status: Idle }
        "#,
    );
}

/// Between any two messages of an answer, and while no request is pending.
#[test]
fn what_nobody_asked_for_may_come_at_any_time() {
    let unasked = messages(&[
        (b'S', b"TimeZone\0UTC\0"),
        (b'N', b"VNOTICE\0Mhello\0\0"),
        (b'A', b"\0\0\0\x2ajobs\0\0"),
    ]);
    let unasked_events = r#"
        ParameterStatus(ParameterStatus { name: "TimeZone", value: "UTC" })
        Notice({'V': "NOTICE", 'M': "hello"})
        Notification(NotificationResponse { process_id: 42, channel: "jobs", payload: "" })
    "#;
    let mut connection = ready();
    check(&mut connection, &unasked, unasked_events);
    for request in [BIND, EXECUTE, Request::Sync] {
        connection.queue(request).unwrap();
    }
    for (stream, expected) in [
        (message(b'2', b""), "BindComplete { id: #1 }"),
        (row(&[Some("7")]), r#"DataRow { id: #2, row: ["7"] }"#),
        (
            message(b'C', b"SELECT 1\0"),
            r#"CommandComplete { id: #2, tag: "SELECT 1" }"#,
        ),
        (READY.to_vec(), "Ready { id: #3, status: Idle }"),
    ] {
        check(&mut connection, &unasked, unasked_events);
        check(&mut connection, &stream, expected);
    }
    check(&mut connection, &unasked, unasked_events);
}
