//! Every message that the client sends, byte for byte, and refused requests.

use lookaside_wire::postgres::{
    Bind, Connection, Credentials, Execution, ExecutionOptions, Format, Formats, Oid, Parse,
    ProtocolVersion, Request, SSL_REQUEST, Startup,
};
use lookaside_wire::{Limits, RequestError};

use crate::server::{BIND, LOGIN, check, output, ready, ready_with};

const FORMATS: Bind<'static> = Bind {
    portal: "p",
    statement: "s",
    parameter_formats: Formats::TEXT,
    result_formats: Formats::TEXT,
};

#[test]
fn requests_are_written_as_documented() {
    let mixed = Bind {
        parameter_formats: Formats::Each(&[Format::Binary, Format::Text]),
        result_formats: Formats::BINARY,
        ..FORMATS
    };
    for (request, expected) in [
        (Request::Query("select 7"), &b"Q\0\0\0\x0dselect 7\0"[..]),
        (
            Request::Parse(Parse {
                statement: "s",
                sql: "select $1, $2",
                parameter_types: &[Oid(23), Oid::UNSPECIFIED],
            }),
            b"P\0\0\0\x1es\0select $1, $2\0\0\x02\0\0\0\x17\0\0\0\0",
        ),
        (Request::DescribeStatement("s"), b"D\0\0\0\x07Ss\0"),
        (Request::DescribePortal(""), b"D\0\0\0\x06P\0"),
        (
            Request::Bind(FORMATS, &[]),
            b"B\0\0\0\x0ep\0s\0\0\0\0\0\0\0",
        ),
        (
            Request::Bind(mixed, &[Some(b"\0\0\0\x07"), None, Some(b"")]),
            b"B\0\0\0\x24p\0s\0\0\x02\0\x01\0\0\0\x03\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\
              \0\0\0\0\0\x01\0\x01",
        ),
        (
            Request::Execute {
                portal: "p",
                row_count_max: 100,
            },
            b"E\0\0\0\x0ap\0\0\0\0\x64",
        ),
        (
            Request::Execute {
                portal: "",
                row_count_max: u32::MAX,
            },
            b"E\0\0\0\x09\0\0\0\0\0",
        ),
        (Request::CloseStatement("s"), b"C\0\0\0\x07Ss\0"),
        (Request::ClosePortal("p"), b"C\0\0\0\x07Pp\0"),
        (Request::Sync, b"S\0\0\0\x04"),
    ] {
        let mut connection = ready();
        connection.queue(request).unwrap();
        let found = output(&mut connection);
        assert_eq!(
            found,
            expected,
            "{} is not {}",
            found.escape_ascii(),
            expected.escape_ascii()
        );
    }
}

const EXECUTION: ExecutionOptions<'static> = ExecutionOptions {
    parse: None,
    portal: "p",
    statement: "s",
    parameter_count: 4,
    result_formats: Formats::BINARY,
    row_count_max: 100,
};

/// Values of all kinds.
fn write(index: usize, output: &mut Vec<u8>) -> Result<Option<Format>, RequestError> {
    match index {
        0 => output.push(b'7'),
        1 => return Ok(None),
        2 => output.extend_from_slice(&[0, 0, 0, 7]),
        _ => {}
    }
    Ok(Some(
        [Format::Text, Format::Binary][usize::from(index == 2)],
    ))
}

#[test]
fn an_execution_is_its_requests() {
    let parse = Parse {
        statement: "s",
        sql: "select $1, $2, $3, $4",
        parameter_types: &[Oid(25)],
    };
    let text = Format::Text;
    let bind = Bind {
        parameter_formats: Formats::Each(&[text, text, Format::Binary, text]),
        result_formats: Formats::BINARY,
        ..FORMATS
    };
    let parameters = [Some(&b"7"[..]), None, Some(b"\0\0\0\x07"), Some(b"")];
    let bind = Request::Bind(bind, &parameters);
    let execute = Request::Execute {
        portal: "p",
        row_count_max: 100,
    };
    let describe = Request::DescribePortal("p");
    let named = [bind, execute];
    let anew = [Request::Parse(parse), bind, describe, execute];
    for (parse, requests) in [(None, &named[..]), (Some(parse), &anew[..])] {
        let execution = Execution::new(&ExecutionOptions { parse, ..EXECUTION }).unwrap();
        let mut connection = ready();
        // Previously queued requests are unchanged.
        connection.queue(Request::Sync).unwrap();
        let id = connection.queue_execution(&execution, write).unwrap();
        let mut other = ready();
        other.queue(Request::Sync).unwrap();
        let ids = requests
            .iter()
            .map(|&request| other.queue(request).unwrap());
        assert_eq!(ids.last(), Some(id));
        assert_eq!(output(&mut connection), output(&mut other));
        assert!(connection.unanswered().eq(other.unanswered()));
    }
}

#[test]
fn an_execution_that_is_refused_leaves_nothing() {
    let execution = Execution::new(&EXECUTION).unwrap();
    let mut connection = ready_with(Limits {
        request_count_max: 2,
        ..Limits::default()
    });
    let refused = connection.queue_execution(&execution, |index, output| match index {
        2 => Err(RequestError::TooLong),
        _ => write(index, output),
    });
    assert_eq!(refused, Err(RequestError::TooLong));
    assert!(connection.unanswered().is_empty());
    connection.queue(Request::Sync).unwrap();
    let refused = connection.queue_execution(&execution, write);
    assert_eq!(refused, Err(RequestError::QueueFull));
    assert_eq!(output(&mut connection), b"S\0\0\0\x04");
    for (options, expected) in [
        (
            ExecutionOptions {
                portal: "a\0b",
                ..EXECUTION
            },
            RequestError::Nul,
        ),
        (
            ExecutionOptions {
                parameter_count: 65_536,
                ..EXECUTION
            },
            RequestError::TooMany,
        ),
    ] {
        assert_eq!(Execution::new(&options).map(drop), Err(expected));
    }
}

#[test]
fn the_startup_says_who_we_are() {
    let parameters = [("client_encoding", "UTF8"), ("options", "-c geqo=off")];
    for (startup, expected) in [
        (
            Startup::new("amy"),
            &b"\0\0\0\x12\0\x03\0\0user\0amy\0\0"[..],
        ),
        (
            Startup::new("amy")
                .database("shop")
                .parameters(&parameters)
                .version(ProtocolVersion::V3_2),
            b"\0\0\0\x49\0\x03\0\x02user\0amy\0database\0shop\0client_encoding\0UTF8\0\
              options\0-c geqo=off\0\0",
        ),
    ] {
        let credentials = Credentials::new([7; 18]);
        let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
        let found = output(&mut connection);
        assert_eq!(found, expected, "{}", found.escape_ascii());
    }
    assert_eq!(SSL_REQUEST, *b"\0\0\0\x08\x04\xd2\x16\x2f");
}

#[test]
fn farewell_and_flush_are_no_requests() {
    let mut connection = ready();
    connection.flush().unwrap();
    connection.queue(BIND).unwrap();
    connection.terminate();
    connection.terminate();
    let written = output(&mut connection);
    assert!(written.starts_with(b"H\0\0\0\x04B"), "{written:?}");
    assert!(written.ends_with(b"X\0\0\0\x04"), "{written:?}");
    assert_eq!(written.iter().filter(|&&byte| byte == b'X').count(), 1);
    assert_eq!(connection.unanswered().len(), 1);
    assert_eq!(connection.flush(), Err(RequestError::Closed));
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::Closed));
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let mut connection = ready();
    let many = vec![None; 65_536];
    let types = vec![Oid(0); 65_536];
    let formats = vec![Format::Text; 65_536];
    for (request, expected) in [
        (Request::Query("select '\0'"), RequestError::Nul),
        (Request::DescribeStatement("a\0b"), RequestError::Nul),
        (Request::CloseStatement("\0"), RequestError::Nul),
        (
            Request::Execute {
                portal: "\0",
                row_count_max: 0,
            },
            RequestError::Nul,
        ),
        (Request::Bind(FORMATS, &many), RequestError::TooMany),
        (
            Request::Bind(
                Bind {
                    result_formats: Formats::Each(&formats),
                    ..FORMATS
                },
                &[],
            ),
            RequestError::TooMany,
        ),
        (
            Request::Parse(Parse {
                statement: "s",
                sql: "x",
                parameter_types: &types,
            }),
            RequestError::TooMany,
        ),
    ] {
        assert_eq!(connection.queue(request), Err(expected));
        assert!(connection.unanswered().is_empty());
        assert!(output(&mut connection).is_empty());
    }
    assert_eq!(connection.copy_data(b"x"), Err(RequestError::CopyClosed));
    assert_eq!(connection.copy_done(), Err(RequestError::CopyClosed));
    assert_eq!(connection.copy_fail("x"), Err(RequestError::CopyClosed));
    assert!(output(&mut connection).is_empty());
    // 65,535 of them are allowed.
    connection
        .queue(Request::Bind(FORMATS, &many[1..]))
        .unwrap();
}

#[test]
fn nothing_can_be_asked_before_the_login_is_done() {
    let startup = Startup::new("amy");
    let credentials = Credentials::new([7; 18]);
    let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::NotReady));
    assert_eq!(connection.flush(), Err(RequestError::NotReady));
    check(&mut connection, &LOGIN[..9], "Authentication(Ok)");
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::NotReady));
    check(
        &mut connection,
        &LOGIN[9..],
        "Ready { id: #0, status: Idle }",
    );
    connection.queue(Request::Sync).unwrap();
}

#[test]
fn texts_of_the_startup_hold_no_nul() {
    let new = |startup: &Startup<'_>, password: &[u8]| {
        let credentials = Credentials::new([7; 18]).password(password);
        Connection::new(startup, credentials, Limits::default()).err()
    };
    assert_eq!(new(&Startup::new("amy"), b"secret"), None);
    for startup in [
        Startup::new("a\0my"),
        Startup::new("amy").database("\0"),
        Startup::new("amy").parameters(&[("a", "\0")]),
    ] {
        assert_eq!(new(&startup, b"secret"), Some(RequestError::Nul));
    }
    assert_eq!(
        new(&Startup::new("amy"), b"se\0cret"),
        Some(RequestError::Nul)
    );
}

#[test]
fn as_many_requests_wait_as_the_limit_says() {
    let limits = Limits {
        request_count_max: 3,
        ..Limits::default()
    };
    let mut connection = ready_with(limits);
    for _ in 0..3 {
        connection.queue(Request::Sync).unwrap();
    }
    assert_eq!(
        connection.queue(Request::Sync),
        Err(RequestError::QueueFull)
    );
    check(
        &mut connection,
        b"Z\0\0\0\x05I",
        "Ready { id: #1, status: Idle }",
    );
    connection.queue(Request::Sync).unwrap();
    assert_eq!(connection.unanswered().len(), 3);
}

#[test]
fn output_is_appended_to_what_the_caller_has() {
    let mut connection = ready();
    connection.queue(Request::Sync).unwrap();
    let mut bytes = b"before".to_vec();
    connection.take_output(&mut bytes);
    connection.take_output(&mut bytes);
    assert_eq!(bytes, b"beforeS\0\0\0\x04");
}
