//! The encoding of requests, and refused ones.

use lookaside_wire::mysql::{
    ColumnType, Connection, Credentials, Cursor, Execute, ParameterType, Request, Startup,
    StatementId,
};
use lookaside_wire::{Limits, RequestError, RequestId};

use super::server::{
    MARIADB, MYSQL, OK, answer, check, output, packet, prepared, ready, ready_with,
};

/// A connection on which statement 1 is prepared.
fn with_statement(offered: u64) -> (Connection, StatementId) {
    let mut connection = ready(offered);
    connection.queue(Request::Prepare("insert")).unwrap();
    connection.feed(&prepared(1, &[]));
    let Ok(Some(lookaside_wire::mysql::Event::Prepared { prepared, .. })) = connection.next_event()
    else {
        panic!("it is prepared");
    };
    let statement = prepared.statement;
    output(&mut connection);
    (connection, statement)
}

#[test]
fn requests_are_a_packet_each() {
    let (mut connection, statement) = with_statement(MYSQL);
    for (request, expected) in [
        (Request::Query("select 7"), &b"\x03select 7"[..]),
        (Request::Prepare("do ?"), b"\x16do ?"),
        (Request::Ping, b"\x0e"),
        (Request::ResetConnection, b"\x1f"),
        (Request::ResetStatement(statement), b"\x1a\x01\0\0\0"),
        (Request::CloseStatement(statement), b"\x19\x01\0\0\0"),
        (
            Request::Fetch {
                statement,
                row_count_max: 258,
            },
            b"\x1c\x01\0\0\0\x02\x01\0\0",
        ),
    ] {
        connection.queue(request).unwrap();
        assert_eq!(output(&mut connection), packet(0, expected), "{request:?}");
    }
    connection.terminate();
    connection.terminate();
    assert_eq!(output(&mut connection), packet(0, b"\x01"));
    assert_eq!(
        connection.queue(Request::Ping),
        Err(RequestError::Closed),
        "nothing follows the farewell"
    );
}

#[test]
fn an_execute_has_types_nulls_and_values() {
    let (mut connection, statement) = with_statement(MYSQL);
    let types: Vec<_> = (0..9)
        .map(|index| match index {
            0 => ParameterType::unsigned(ColumnType::LONGLONG),
            1 => ParameterType::new(ColumnType::DOUBLE),
            2..8 => ParameterType::new(ColumnType::NULL),
            _ => ParameterType::new(ColumnType::VAR_STRING),
        })
        .collect();
    let execute = Execute {
        statement,
        cursor: Cursor::ReadOnly,
    };
    let queued = connection.queue_execute(&execute, &types, |writer| {
        writer.number(u64::MAX.to_le_bytes());
        writer.number(1.5_f64.to_le_bytes());
        for _ in 2..8 {
            writer.null();
        }
        writer.bytes_with(|output| output.extend_from_slice(b"text"));
    });
    queued.unwrap();
    let mut expected = b"\x17\x01\0\0\0\x01\x01\0\0\0\xfc\0\x01\x08\x80\x05\0".to_vec();
    expected.extend_from_slice(&b"\x06\0".repeat(6));
    expected
        .extend_from_slice(b"\xfd\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\xf8\x3f\x04text");
    assert_eq!(output(&mut connection), packet(0, &expected));
}

#[test]
fn parameters_are_as_many_as_their_types() {
    let (mut connection, statement) = with_statement(MARIADB);
    let types = [ParameterType::new(ColumnType::TINY); 2];
    let execute = Execute {
        statement,
        cursor: Cursor::None,
    };
    for count in [0, 1, 3, 9] {
        let queued = connection.queue_execute(&execute, &types, |writer| {
            for _ in 0..count {
                writer.null();
            }
        });
        assert_eq!(queued, Err(RequestError::ParameterCount));
        let queued = connection.queue_bulk(statement, &types, |writer| {
            for _ in 0..count {
                writer.ignore();
            }
        });
        assert_eq!(queued, Err(RequestError::ParameterCount));
    }
    let types = vec![ParameterType::new(ColumnType::NULL); 65_536];
    let queued = connection.queue_execute(&execute, &types, |_| {});
    assert_eq!(queued, Err(RequestError::TooMany));
    assert_eq!(
        output(&mut connection),
        b"",
        "what is refused leaves no trace"
    );
    assert!(connection.unanswered().is_empty());
}

#[test]
fn what_only_mariadb_can_is_refused_elsewhere() {
    let (mut connection, statement) = with_statement(MYSQL);
    assert!(!connection.can_execute_last());
    let execute = Execute {
        statement: StatementId::LAST,
        cursor: Cursor::None,
    };
    let queued = connection.queue_execute(&execute, &[], |_| {});
    assert_eq!(queued, Err(RequestError::Unsupported));
    let types = [ParameterType::new(ColumnType::NULL)];
    let queued = connection.queue_bulk(statement, &types, |writer| writer.null());
    assert_eq!(queued, Err(RequestError::Unsupported));
    let close = Request::CloseStatement(StatementId::LAST);
    assert_eq!(connection.queue(close), Err(RequestError::Unsupported));
    assert_eq!(output(&mut connection), b"");
}

#[test]
fn requests_wait_for_the_log_in() {
    let startup = Startup::new("amy");
    let credentials = Credentials::new([7; 20]);
    let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
    assert_eq!(connection.queue(Request::Ping), Err(RequestError::NotReady));
    connection.terminate();
    assert_eq!(output(&mut connection), b"", "a farewell needs a greeting");
}

#[test]
fn names_with_a_nul_are_refused() {
    let new = |startup: Startup<'_>, credentials| {
        Connection::new(&startup, credentials, Limits::default()).err()
    };
    let credentials = Credentials::new([7; 20]);
    let nul = Some(RequestError::Nul);
    assert_eq!(new(Startup::new("a\0b"), credentials.clone()), nul);
    let startup = Startup::new("amy").database("a\0b");
    assert_eq!(new(startup, credentials.clone()), nul);
    let startup = Startup::new("amy");
    assert_eq!(new(startup, credentials.clone().password(b"a\0b")), nul);
    let long = "x".repeat(70_000);
    let attributes = [("name", &long[..])];
    let startup = Startup::new("amy").attributes(&attributes);
    assert_eq!(new(startup, credentials), Some(RequestError::TooLong));
}

#[test]
fn limits_refuse_one_more() {
    let limits = Limits {
        request_count_max: 2,
        request_size_max: 9,
        ..Limits::default()
    };
    let mut connection = ready_with(MYSQL, Startup::new("amy"), limits);
    let too_long = connection.queue(Request::Query("select 77"));
    assert_eq!(too_long, Err(RequestError::TooLong));
    connection.queue(Request::Query("select 7")).unwrap();
    connection.queue(Request::Ping).unwrap();
    assert_eq!(
        connection.queue(Request::Ping),
        Err(RequestError::QueueFull)
    );
    check(
        &mut connection,
        &answer(&[OK]),
        "Ok { id: #1, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }",
    );
    connection.queue(Request::Ping).unwrap();
}

#[test]
fn what_has_no_answer_waits_for_none() {
    let (mut connection, statement) = with_statement(MYSQL);
    let close = Request::CloseStatement(statement);
    connection.queue(close).unwrap();
    assert!(connection.unanswered().is_empty());
    connection.queue(Request::Ping).unwrap();
    connection.queue(close).unwrap();
    connection.queue(close).unwrap();
    let last = connection.queue(Request::Ping).unwrap();
    check(
        &mut connection,
        &[answer(&[OK]), answer(&[OK])].concat(),
        "Ok { id: #3, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }
         Ok { id: #6, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }",
    );
    assert_eq!(last.as_u64(), RequestId::STARTUP.as_u64() + 6);
}
