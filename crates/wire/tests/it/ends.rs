//! How a connection ends, and the limits that keep it from growing.

use lookaside_wire::postgres::{Event, Request};
use lookaside_wire::{ErrorKind, Limits, RequestError};

use crate::server::{
    BIND, EXECUTE, READY, check, error, events, message, output, ready, ready_with, row,
};

const SHUTDOWN: &str = r#"Fatal { error: {'S': "FATAL", 'V': "FATAL", 'C': "57P01", 'M': "bye"} }"#;

#[test]
fn a_fatal_error_ends_everything() {
    for requests in [
        &[][..],
        &[BIND, EXECUTE, Request::Sync],
        &[Request::Query("")],
    ] {
        let mut connection = ready();
        for request in requests {
            connection.queue(*request).unwrap();
        }
        let stream = [error("FATAL", "57P01", "bye"), READY.to_vec()].concat();
        check(&mut connection, &stream, SHUTDOWN);
        assert_eq!(connection.unanswered().len(), requests.len());
        assert_eq!(connection.queue(Request::Sync), Err(RequestError::Closed));
        connection.end_of_input();
        check(&mut connection, READY, "");
    }
}

#[test]
fn the_end_of_the_stream_comes_behind_what_it_holds() {
    let mut connection = ready();
    for request in [BIND, EXECUTE, Request::Sync] {
        connection.queue(request).unwrap();
    }
    connection.feed(&[message(b'2', b""), row(&[Some("7")])].concat());
    // In the middle of a message.
    connection.feed(b"C\0\0\0\x0dSEL");
    connection.end_of_input();
    connection.feed(b"ECT 1\0");
    assert_eq!(connection.queue(Request::Sync), Err(RequestError::Closed));
    check(
        &mut connection,
        b"",
        r#"
        BindComplete { id: #1 }
        DataRow { id: #2, row: ["7"] }
        Closed
        "#,
    );
    assert_eq!(connection.unanswered().first().unwrap().as_u64(), 2);
    assert_eq!(connection.unanswered().len(), 2);
    check(&mut connection, b"", "");
    connection.terminate();
    assert!(!output(&mut connection).ends_with(b"X\0\0\0\x04"));
}

#[test]
fn a_message_past_the_limit_is_refused_by_its_header() {
    let limits = Limits {
        message_size_max: 1000,
        ..Limits::default()
    };
    let mut connection = ready_with(limits.clone());
    connection.queue(EXECUTE).unwrap();
    connection.feed(&row(&[Some(&"x".repeat(994))]));
    assert!(matches!(
        connection.next_event(),
        Ok(Some(Event::DataRow { .. }))
    ));
    connection.feed(b"D\0\0\x03\xed");
    let error = connection.next_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(
        error.to_string(),
        "DataRow at byte 0: 1001 bytes are more than the limit of 1000; raise `message_size_max`"
    );

    // An owner that feeds without ever taking an event.
    let mut connection = ready_with(limits);
    for _ in 0..1000 {
        connection.feed(&[b'x'; 100]);
    }
    assert!(connection.receive_space(1).is_empty());
    let error = connection.next_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn bytes_can_be_read_straight_into_the_buffer() {
    let mut connection = ready();
    connection.queue(EXECUTE).unwrap();
    for byte in row(&[Some("seven")]) {
        let space = connection.receive_space(1);
        space[0] = byte;
        connection.received(1);
    }
    assert_eq!(
        events(&mut connection),
        "DataRow { id: #1, row: [\"seven\"] }\n"
    );
}

/// Whatever the lengths and counts, memory is only allocated for received bytes.
#[test]
fn numbers_reserve_no_memory() {
    let counted = allocation_counter::measure(|| {
        for (tag, body) in [
            (b'D', &b"\x7f\xff\x7f\xff\xff\xff"[..]),
            (b'T', b"\x7f\xff"),
            (b't', b"\xff\xff"),
            (b'G', b"\0\x7f\xff"),
        ] {
            let mut connection = ready();
            let requests = [
                Request::Query("x"),
                EXECUTE,
                Request::DescribeStatement("s"),
            ];
            for request in requests {
                connection.queue(request).unwrap();
            }
            connection.feed(&message(tag, body));
            assert!(connection.next_event().is_err());
        }
        let mut connection = ready();
        connection.queue(EXECUTE).unwrap();
        connection.feed(b"D\x0f\xff\xff\xff\x7f");
        assert!(connection.next_event().unwrap().is_none());
    });
    assert!(counted.bytes_max < 64 * 1024, "{counted:?}");
}
