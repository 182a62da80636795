//! Every message that a server sends: its decoding, and the errors of invalid ones.

use lookaside_wire::postgres::{
    Connection, Credentials, Event, Format, Oid, ProtocolVersion, Request, SqlState, Startup,
};
use lookaside_wire::{ErrorKind, Limits};

use crate::server::{BIND, EXECUTE, check, message, messages, parse, ready};

/// A connection that has processed `stream`, and waits, for example, for the second part of a
/// description.
fn waiting(requests: &[Request<'_>], stream: &[u8]) -> Connection {
    let mut connection = ready();
    for request in requests {
        connection.queue(*request).unwrap();
    }
    connection.feed(stream);
    while connection.next_event().unwrap().is_some() {}
    connection
}

const DESCRIBE: &[Request<'static>] = &[Request::DescribeStatement("s")];
const PARAMETERS: &[u8] = b"t\0\0\0\x06\0\0";
const QUERY: &[Request<'static>] = &[Request::Query("select 7")];

#[test]
fn each_message_becomes_its_event() {
    let column: &[u8] = b"\0\x01id\0\0\0\x40\x01\0\x02\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01";
    let copy: &[Request<'static>] = &[Request::Query("copy t to stdout")];
    for (requests, before, tag, body, expected) in [
        (
            &[][..],
            &b""[..],
            b'S',
            &b"TimeZone\0UTC\0"[..],
            r#"ParameterStatus(ParameterStatus { name: "TimeZone", value: "UTC" })"#,
        ),
        (
            &[],
            b"",
            b'N',
            b"SNOTICE\0C00000\0Mcareful\0\0",
            r#"Notice({'S': "NOTICE", 'C': "00000", 'M': "careful"})"#,
        ),
        (&[], b"", b'N', b"\0", "Notice({})"),
        (
            &[],
            b"",
            b'A',
            b"\0\0\0\x2ajobs\0done\0",
            r#"Notification(NotificationResponse { process_id: 42, channel: "jobs", payload: "done" })"#,
        ),
        (
            &[parse("select 7")],
            b"",
            b'1',
            b"",
            "ParseComplete { id: #1 }",
        ),
        (&[BIND], b"", b'2', b"", "BindComplete { id: #1 }"),
        (
            &[Request::ClosePortal("p")],
            b"",
            b'3',
            b"",
            "CloseComplete { id: #1 }",
        ),
        (
            DESCRIBE,
            b"",
            b't',
            b"\0\x02\0\0\0\x17\0\0\0\x19",
            "ParameterDescription { id: #1, description: [23, 25] }",
        ),
        (
            DESCRIBE,
            PARAMETERS,
            b'T',
            column,
            r#"RowDescription { id: #1, description: ["id" 23 Binary] }"#,
        ),
        (DESCRIBE, PARAMETERS, b'n', b"", "NoData { id: #1 }"),
        (
            &[EXECUTE],
            b"",
            b'D',
            b"\0\0",
            "DataRow { id: #1, row: [] }",
        ),
        (
            &[EXECUTE],
            b"",
            b'D',
            b"\0\x03\0\0\0\x02a\xff\xff\xff\xff\xff\0\0\0\0",
            r#"DataRow { id: #1, row: ["a\xff", NULL, ""] }"#,
        ),
        (
            &[EXECUTE],
            b"",
            b'C',
            b"SELECT 1\0",
            r#"CommandComplete { id: #1, tag: "SELECT 1" }"#,
        ),
        (&[EXECUTE], b"", b'I', b"", "EmptyQuery { id: #1 }"),
        (&[EXECUTE], b"", b's', b"", "PortalSuspended { id: #1 }"),
        (
            copy,
            b"",
            b'G',
            b"\0\0\x01\0\0",
            "CopyIn { id: #1, response: Text, 1 columns }",
        ),
        (
            copy,
            b"",
            b'H',
            b"\x01\0\x02\0\x01\0\x01",
            "CopyOut { id: #1, response: Binary, 2 columns }",
        ),
        (
            copy,
            b"H\0\0\0\x07\0\0\0",
            b'd',
            b"\x07\n",
            r"CopyData { id: #1, data: [7, 10] }",
        ),
        (copy, b"H\0\0\0\x07\0\0\0", b'c', b"", "CopyDone { id: #1 }"),
        (
            QUERY,
            b"",
            b'E',
            b"SERROR\0C42601\0Msyntax error\0P8\0\0",
            r#"Failed { id: #1, error: {'S': "ERROR", 'C': "42601", 'M': "syntax error", 'P': "8"} }"#,
        ),
        (
            &[Request::Sync],
            b"",
            b'Z',
            b"I",
            "Ready { id: #1, status: Idle }",
        ),
        (
            &[Request::Sync],
            b"",
            b'Z',
            b"T",
            "Ready { id: #1, status: Open }",
        ),
        (
            &[Request::Sync],
            b"",
            b'Z',
            b"E",
            "Ready { id: #1, status: Failed }",
        ),
    ] {
        let stream = message(tag, body);
        check(&mut waiting(requests, before), &stream, expected);

        // With a byte less or more, it is another message, or invalid.
        for cut in 0..stream.len() {
            check(&mut waiting(requests, before), &stream[..cut], "");
        }
        let shorter = body
            .len()
            .checked_sub(1)
            .map(|size| message(tag, &body[..size]));
        let longer = message(tag, &[body, b"\0"].concat());
        for stream in shorter.into_iter().chain([longer]) {
            let mut connection = waiting(requests, before);
            connection.feed(&stream);
            match connection.next_event() {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed, "{error}"),
                // Data is data, whatever its length.
                Ok(event) => assert!(matches!(event, Some(Event::CopyData { .. })), "{event:?}"),
            }
        }
    }
}

#[test]
fn a_wrong_message_is_named_with_the_place() {
    for (requests, before, stream, expected) in [
        (
            &[EXECUTE][..],
            &b""[..],
            message(b'D', b"\xff\xff"),
            "DataRow at byte 0: a count of -1",
        ),
        (
            &[EXECUTE],
            b"",
            message(b'D', b"\0\x01\xff\xff\xff\xfe"),
            "DataRow at byte 2: a length of -2",
        ),
        (
            &[EXECUTE],
            b"",
            message(b'D', b"\0\x01\x7f\xff\xff\xffabc"),
            "DataRow at byte 6: the message ends in the middle of a field",
        ),
        (
            &[EXECUTE],
            b"",
            message(b'D', b"\x7f\xff\0\0\0\0"),
            "DataRow at byte 6: the message ends in the middle of a field",
        ),
        (
            &[EXECUTE],
            b"",
            message(b'D', b"\0\x01\0\0\0\0x"),
            "DataRow at byte 6: bytes remain after the last field",
        ),
        (
            &[EXECUTE],
            b"",
            message(b'C', b"SELECT 1"),
            "CommandComplete at byte 0: a text is not terminated",
        ),
        (
            DESCRIBE,
            b"",
            message(b't', b"\xff\xff\0\0\0\x17"),
            "ParameterDescription at byte 2: the message ends in the middle of a field",
        ),
        (
            DESCRIBE,
            PARAMETERS,
            message(b'T', b"\xff\xff"),
            "RowDescription at byte 0: a count of -1",
        ),
        (
            DESCRIBE,
            PARAMETERS,
            message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02"),
            "RowDescription at byte 20: 2 is not a valid format code",
        ),
        (
            QUERY,
            b"",
            message(b'H', b"\x02\0\0"),
            "CopyOutResponse at byte 0: 2 is not a valid format of COPY",
        ),
        (
            QUERY,
            b"",
            message(b'G', b"\0\x80\0"),
            "CopyInResponse at byte 1: a count of -32768",
        ),
        (
            QUERY,
            b"",
            message(b'E', b"SERROR\0"),
            "ErrorResponse at byte 7: the message ends in the middle of a field",
        ),
        (
            QUERY,
            b"",
            message(b'E', b"SERROR\0Mx"),
            "ErrorResponse at byte 8: a text is not terminated",
        ),
        (
            &[Request::Sync],
            b"",
            message(b'Z', b"X"),
            "ReadyForQuery at byte 0: 88 is not a valid transaction status",
        ),
        (
            &[],
            b"",
            message(b'S', b"name\0value"),
            "ParameterStatus at byte 5: a text is not terminated",
        ),
        (
            &[],
            b"",
            message(b'A', b"\0\0\0"),
            "NotificationResponse at byte 0: the message ends in the middle of a field",
        ),
        (
            &[],
            b"",
            b"S\0\0\0\x03".to_vec(),
            "ParameterStatus at byte 0: a length of 3",
        ),
        (
            &[],
            b"",
            b"S\x80\0\0\0".to_vec(),
            "ParameterStatus at byte 0: a length of -2147483648",
        ),
        (
            &[],
            b"",
            b"?\0\0\0\x04".to_vec(),
            "message at byte 0: unknown message type `?`",
        ),
        (
            &[],
            b"",
            b"\xff\0\0\0\x04".to_vec(),
            r"message at byte 0: unknown message type `\xff`",
        ),
    ] {
        let mut connection = waiting(requests, before);
        check(&mut connection, &stream, &format!("error: {expected}"));
        // The error persists.
        check(
            &mut connection,
            b"Z\0\0\0\x05I",
            &format!("error: {expected}"),
        );
    }
}

/// Each message in each state: it is accepted where the protocol allows it, and named in an error
/// elsewhere.
#[test]
fn a_message_comes_only_where_it_is_asked_for() {
    let description = b"\0\0".as_slice();
    let all: &[(u8, &[u8])] = &[
        (b'1', b""),
        (b'2', b""),
        (b'3', b""),
        (b'C', b"SELECT 1\0"),
        (b'D', b"\0\0"),
        (b'G', b"\0\0\0"),
        (b'H', b"\0\0\0"),
        (b'I', b""),
        (b'K', b"\0\0\0\x01\0\0\0\x02"),
        (b'R', b"\0\0\0\0"),
        (b'T', description),
        (b'V', b"\0\0\0\0"),
        (b'W', b"\0\0\0"),
        (b'Z', b"I"),
        (b'c', b""),
        (b'd', b""),
        (b'n', b""),
        (b's', b""),
        (b't', b"\0\0"),
        (b'v', b"\0\x03\0\0\0\0\0\0"),
    ];
    let row = b"T\0\0\0\x06\0\0".as_slice();
    let complete = b"C\0\0\0\x0dSELECT 1\0".as_slice();
    let copy_in = b"G\0\0\0\x07\0\0\0".as_slice();
    let copy_out = b"H\0\0\0\x07\0\0\0".as_slice();
    let copied_out = b"H\0\0\0\x07\0\0\0c\0\0\0\x04".as_slice();
    let empty = b"I\0\0\0\x04".as_slice();
    for (requests, before, taken) in [
        (&[][..], &b""[..], ""),
        (&[parse("x")], b"", "1"),
        (&[BIND], b"", "2"),
        (&[Request::CloseStatement("s")], b"", "3"),
        (&[Request::Sync], b"", "Z"),
        (DESCRIBE, b"", "t"),
        (DESCRIBE, PARAMETERS, "Tn"),
        (&[Request::DescribePortal("")], b"", "Tn"),
        (&[EXECUTE], b"", "CDGHIs"),
        (&[EXECUTE], copy_in, ""),
        (&[EXECUTE], copy_out, "cd"),
        (&[EXECUTE], copied_out, "C"),
        (QUERY, b"", "CGHIT"),
        (QUERY, row, "CD"),
        (QUERY, complete, "CGHTZ"),
        (QUERY, empty, "Z"),
        (QUERY, copy_in, ""),
        (QUERY, copy_out, "cd"),
        (QUERY, copied_out, "C"),
    ] {
        let found: String = all
            .iter()
            .filter(|(tag, body)| {
                let mut connection = waiting(requests, before);
                connection.feed(&message(*tag, body));
                match connection.next_event() {
                    Ok(_) => true,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
                        assert!(error.to_string().contains("it is not allowed"), "{error}");
                        false
                    }
                }
            })
            .map(|&(tag, _)| char::from(tag))
            .collect();
        assert_eq!(found, taken, "behind {}", before.escape_ascii());
    }
}

#[test]
fn fields_of_an_error_have_names() {
    let fields = b"SFEHLER\0VERROR\0C23505\0Mdouble\0DKey (id)=(7)\0Hthink\0P17\0p3\0qselect\0\
                   Wline 1\0sshop\0torder\0cid\0dint4\0norder_pkey\0Fnbtinsert.c\0L673\0\
                   R_bt_check_unique\0\0";
    let mut connection = waiting(QUERY, b"");
    connection.feed(&message(b'E', fields));
    let Ok(Some(Event::Failed { error, .. })) = connection.next_event() else {
        panic!("an error is a failure");
    };
    let error = error.into_owned();
    drop(connection);
    assert_eq!(error.severity().as_deref(), Some("ERROR"));
    assert_eq!(error.sqlstate(), Some(SqlState::new(b"23505")));
    assert_eq!(error.sqlstate().unwrap().class(), *b"23");
    assert_eq!(error.message().as_deref(), Some("double"));
    assert_eq!(error.detail().as_deref(), Some("Key (id)=(7)"));
    assert_eq!(error.hint().as_deref(), Some("think"));
    assert_eq!(error.position(), Some(17));
    assert_eq!(error.internal_position(), Some(3));
    assert_eq!(error.internal_query().as_deref(), Some("select"));
    assert_eq!(error.context().as_deref(), Some("line 1"));
    assert_eq!(error.schema().as_deref(), Some("shop"));
    assert_eq!(error.table().as_deref(), Some("order"));
    assert_eq!(error.column().as_deref(), Some("id"));
    assert_eq!(error.data_type().as_deref(), Some("int4"));
    assert_eq!(error.constraint().as_deref(), Some("order_pkey"));
    assert_eq!(error.file().as_deref(), Some("nbtinsert.c"));
    assert_eq!(error.line(), Some(673));
    assert_eq!(error.routine().as_deref(), Some("_bt_check_unique"));
    assert_eq!(error.field(b'?'), None);
    assert_eq!(error.fields().count(), 18);
    assert_eq!(error.to_string(), "double (SQLSTATE 23505)");
    assert!(!error.is_fatal());
}

#[test]
fn a_stale_statement_is_known_by_state_and_routine() {
    for (fields, expected) in [
        (&b"VERROR\0C26000\0Mgone\0\0"[..], true),
        (
            b"VERROR\0C0A000\0Mcached plan\0RRevalidateCachedQuery\0\0",
            true,
        ),
        (b"VERROR\0C0A000\0Mcached plan\0Rtransform\0\0", false),
        (b"VERROR\0C0A000\0\0", false),
        (b"VERROR\0C42P01\0RRevalidateCachedQuery\0\0", false),
        (b"\0", false),
    ] {
        let mut connection = waiting(QUERY, b"");
        connection.feed(&message(b'E', fields));
        let Ok(Some(Event::Failed { error, .. })) = connection.next_event() else {
            panic!("an error is a failure");
        };
        assert_eq!(error.is_stale_statement(), expected, "{error:?}");
    }
}

#[test]
fn columns_are_read_whole() {
    let mut connection = waiting(DESCRIBE, PARAMETERS);
    let body = b"\0\x02id\0\0\0\x40\x01\0\x02\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0\
                 name\0\0\0\0\0\0\0\0\0\x04\x13\xff\xff\0\0\0\x18\0\x01";
    connection.feed(&message(b'T', body));
    let Ok(Some(Event::RowDescription { description, .. })) = connection.next_event() else {
        panic!("columns are a description");
    };
    assert_eq!(description.len(), 2);
    assert_eq!(description.as_bytes(), &body[2..]);
    let columns: Vec<_> = description.columns().collect();
    assert_eq!(columns[0].name, c"id");
    assert_eq!(columns[0].table, Some(Oid(0x4001)));
    assert_eq!(columns[0].table_column, 2);
    assert_eq!(columns[0].type_oid, Oid(23));
    assert_eq!(columns[0].type_size, 4);
    assert_eq!(columns[0].type_modifier, -1);
    assert_eq!(columns[0].format, Format::Text);
    assert_eq!(columns[1].name, c"name");
    assert_eq!(columns[1].table, None);
    assert_eq!(columns[1].type_oid, Oid(1043));
    assert_eq!(columns[1].type_size, -1);
    assert_eq!(columns[1].type_modifier, 24);
    assert_eq!(columns[1].format, Format::Binary);
}

#[test]
fn a_statement_may_have_65535_parameters() {
    let mut connection = waiting(DESCRIBE, b"");
    let body = [b"\xff\xff".as_slice(), &[0; 4 * 65_535]].concat();
    connection.feed(&message(b't', &body));
    let Ok(Some(Event::ParameterDescription { description, .. })) = connection.next_event() else {
        panic!("parameters are a description");
    };
    assert_eq!(description.types().len(), 65_535);
}

#[test]
fn an_older_server_lowers_the_version() {
    for (asked, body, expected) in [
        (
            ProtocolVersion::V3_2,
            &b"\0\x03\0\0\0\0\0\0"[..],
            "NegotiateProtocolVersion(V3_0, unknown options [])",
        ),
        (
            ProtocolVersion::V3_2,
            b"\0\x03\0\0\0\0\0\x02_pq_.a\0_pq_.b\0",
            r#"NegotiateProtocolVersion(V3_0, unknown options ["_pq_.a", "_pq_.b"])"#,
        ),
        (
            ProtocolVersion::V3_0,
            b"\0\x03\0\x02\0\0\0\0",
            "error: NegotiateProtocolVersion at byte 0: \
             196610 is not a valid answer to our protocol version",
        ),
        (
            ProtocolVersion::V3_2,
            b"\0\x03\0\x01\0\0\0\0",
            "error: NegotiateProtocolVersion at byte 0: \
             196609 is not a valid answer to our protocol version",
        ),
        (
            ProtocolVersion::V3_2,
            b"\0\x03\0\0\xff\xff\xff\xff",
            "error: NegotiateProtocolVersion at byte 4: a count of -1",
        ),
        (
            ProtocolVersion::V3_2,
            b"\0\x03\0\0\x7f\xff\xff\xff_pq_.a\0",
            "error: NegotiateProtocolVersion at byte 15: a text is not terminated",
        ),
    ] {
        let startup = Startup::new("amy").version(asked);
        let credentials = Credentials::new([7; 18]);
        let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
        check(&mut connection, &message(b'v', body), expected);
    }
}

#[test]
fn secrets_to_cancel_with_are_as_long_as_the_version_says() {
    let key = |size: usize| [b"\0\0\0\x2a".as_slice(), &vec![7; size]].concat();
    for (asked, negotiated, size, is_taken) in [
        (ProtocolVersion::V3_0, false, 3, false),
        (ProtocolVersion::V3_0, false, 4, true),
        (ProtocolVersion::V3_0, false, 5, false),
        (ProtocolVersion::V3_2, false, 4, true),
        (ProtocolVersion::V3_2, false, 256, true),
        (ProtocolVersion::V3_2, false, 257, false),
        (ProtocolVersion::V3_2, true, 4, true),
        (ProtocolVersion::V3_2, true, 32, false),
    ] {
        let startup = Startup::new("amy").version(asked);
        let credentials = Credentials::new([7; 18]);
        let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
        if negotiated {
            connection.feed(&message(b'v', b"\0\x03\0\0\0\0\0\0"));
        }
        connection.feed(&messages(&[(b'R', b"\0\0\0\0"), (b'K', &key(size))]));
        let mut error = None;
        while error.is_none() {
            match connection.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(found) => error = Some(found),
            }
        }
        assert_eq!(error.is_none(), is_taken, "{asked:?}, {size}: {error:?}");
        if is_taken {
            let key = connection.cancel_key().unwrap();
            assert_eq!(key.process_id(), 42);
            assert_eq!(format!("{key:?}"), "CancelKey { process_id: 42, .. }");
            let mut request = b"before".to_vec();
            key.cancel_request(&mut request);
            let length = u8::try_from((12 + size) % 256).unwrap();
            let high = u8::from(12 + size > 255);
            let head = [0, 0, high, length, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 42];
            assert_eq!(request, [b"before", &head[..], &vec![7; size]].concat());
        }
    }
}
