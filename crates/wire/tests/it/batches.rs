//! Errors in a pipeline: which requests they affect, and which they do not.

use lookaside_wire::RequestId;
use lookaside_wire::postgres::{Connection, Event, Request, TransactionStatus};

use crate::server::{BIND, EXECUTE, READY, check, error, message, output, parse, ready};

fn queue(connection: &mut Connection, requests: &[Request<'_>]) {
    for request in requests {
        connection.queue(*request).unwrap();
    }
}

fn bound() -> Vec<u8> {
    message(b'2', b"")
}

fn complete() -> Vec<u8> {
    message(b'C', b"SELECT 0\0")
}

fn failure() -> Vec<u8> {
    error("ERROR", "22012", "division by zero")
}

const FAILURE: &str = r#"{'S': "ERROR", 'V': "ERROR", 'C': "22012", 'M': "division by zero"}"#;

#[test]
fn an_error_takes_along_what_comes_before_its_sync() {
    let mut connection = ready();
    let one = [BIND, EXECUTE];
    queue(&mut connection, &one);
    queue(&mut connection, &one);
    queue(&mut connection, &one);
    queue(&mut connection, &[Request::Sync]);
    queue(&mut connection, &one);
    queue(&mut connection, &[Request::Sync]);
    let stream = [
        bound(),
        complete(),
        bound(),
        failure(),
        READY.to_vec(),
        bound(),
        complete(),
        READY.to_vec(),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        &format!(
            r#"
            BindComplete {{ id: #1 }}
            CommandComplete {{ id: #2, tag: "SELECT 0" }}
            BindComplete {{ id: #3 }}
            Failed {{ id: #4, error: {FAILURE} }}
            Skipped {{ ids: #5..#7, failed: #4 }}
            Ready {{ id: #7, status: Idle }}
            BindComplete {{ id: #8 }}
            CommandComplete {{ id: #9, tag: "SELECT 0" }}
            Ready {{ id: #10, status: Idle }}
            "#
        ),
    );
}

#[test]
fn with_a_sync_each_an_error_is_alone() {
    let mut connection = ready();
    for _ in 0..3 {
        queue(&mut connection, &[BIND, EXECUTE, Request::Sync]);
    }
    let stream = [
        bound(),
        complete(),
        READY.to_vec(),
        failure(),
        READY.to_vec(),
        bound(),
        complete(),
        READY.to_vec(),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        &format!(
            r#"
            BindComplete {{ id: #1 }}
            CommandComplete {{ id: #2, tag: "SELECT 0" }}
            Ready {{ id: #3, status: Idle }}
            Failed {{ id: #4, error: {FAILURE} }}
            Skipped {{ ids: #5..#6, failed: #4 }}
            Ready {{ id: #6, status: Idle }}
            BindComplete {{ id: #7 }}
            CommandComplete {{ id: #8, tag: "SELECT 0" }}
            Ready {{ id: #9, status: Idle }}
            "#
        ),
    );
}

/// A skipping server also reads requests that were queued long after the error.
#[test]
fn requests_queued_behind_an_error_are_skipped_up_to_a_sync() {
    let mut connection = ready();
    queue(&mut connection, &[parse("selec 7")]);
    connection.flush().unwrap();
    let failed = format!("Failed {{ id: #1, error: {FAILURE} }}");
    check(&mut connection, &failure(), &failed);
    queue(&mut connection, &[BIND, EXECUTE]);
    check(&mut connection, b"", "Skipped { ids: #2..#4, failed: #1 }");
    // A simple query is skipped as well, and gets no ReadyForQuery.
    queue(&mut connection, &[Request::Query("select 7")]);
    check(&mut connection, b"", "Skipped { ids: #4..#5, failed: #1 }");
    check(&mut connection, b"", "");
    queue(
        &mut connection,
        &[EXECUTE, Request::Sync, Request::Query("")],
    );
    check(&mut connection, b"", "Skipped { ids: #5..#6, failed: #1 }");
    let stream = [READY.to_vec(), message(b'I', b""), READY.to_vec()].concat();
    check(
        &mut connection,
        &stream,
        "
        Ready { id: #6, status: Idle }
        EmptyQuery { id: #7 }
        Ready { id: #7, status: Idle }
        ",
    );
}

#[test]
fn skipped_requests_can_be_queued_again() {
    let mut connection = ready();
    let batch = [BIND, EXECUTE, BIND, EXECUTE, Request::Sync];
    queue(&mut connection, &batch);
    output(&mut connection);
    connection.feed(&[bound(), failure(), READY.to_vec()].concat());
    let mut skipped = Vec::new();
    while let Some(event) = connection.next_event().unwrap() {
        if let Event::Skipped { ids, failed } = event {
            assert_eq!(failed.as_u64(), 2);
            skipped.extend(ids.map(RequestId::as_u64));
        }
    }
    assert_eq!(skipped, [3, 4]);
    for number in skipped {
        queue(
            &mut connection,
            &[batch[usize::try_from(number).unwrap() - 1]],
        );
    }
    queue(&mut connection, &[Request::Sync]);
    let mut expected = ready();
    queue(&mut expected, &[BIND, EXECUTE, Request::Sync]);
    assert_eq!(output(&mut connection), output(&mut expected));
}

#[test]
fn an_error_in_a_query_takes_nothing_along() {
    let mut connection = ready();
    queue(
        &mut connection,
        &[Request::Query("select 1/0"), Request::Query("")],
    );
    let stream = [
        failure(),
        message(b'Z', b"E"),
        message(b'I', b""),
        message(b'Z', b"E"),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        &format!(
            "
            Failed {{ id: #1, error: {FAILURE} }}
            Ready {{ id: #1, status: Failed }}
            EmptyQuery {{ id: #2 }}
            Ready {{ id: #2, status: Failed }}
            "
        ),
    );
    assert_eq!(connection.transaction_status(), TransactionStatus::Failed);
}

/// A deferred constraint fails at the end of the transaction.
#[test]
fn a_sync_can_fail_too() {
    let mut connection = ready();
    queue(
        &mut connection,
        &[BIND, EXECUTE, Request::Sync, Request::Sync],
    );
    let stream = [
        bound(),
        complete(),
        failure(),
        READY.to_vec(),
        READY.to_vec(),
    ]
    .concat();
    check(
        &mut connection,
        &stream,
        &format!(
            r#"
            BindComplete {{ id: #1 }}
            CommandComplete {{ id: #2, tag: "SELECT 0" }}
            Failed {{ id: #3, error: {FAILURE} }}
            Ready {{ id: #3, status: Idle }}
            Ready {{ id: #4, status: Idle }}
            "#
        ),
    );
}

#[test]
fn half_of_a_description_can_be_followed_by_an_error() {
    let mut connection = ready();
    queue(
        &mut connection,
        &[Request::DescribeStatement("s"), Request::Sync],
    );
    let stream = [message(b't', b"\0\0"), failure(), READY.to_vec()].concat();
    check(
        &mut connection,
        &stream,
        &format!(
            "
            ParameterDescription {{ id: #1, description: [] }}
            Failed {{ id: #1, error: {FAILURE} }}
            Ready {{ id: #2, status: Idle }}
            "
        ),
    );
}

#[test]
fn an_error_for_nobody_breaks_the_connection() {
    let mut connection = ready();
    check(
        &mut connection,
        &failure(),
        "error: ErrorResponse at byte 0: it is not allowed while no request waits",
    );
    let mut connection = ready();
    check(
        &mut connection,
        READY,
        "error: ReadyForQuery at byte 0: it is not allowed while no request waits",
    );
}

/// Every batch of up to four requests and a Sync, with the error at each position.
#[test]
fn each_request_is_answered_or_skipped_exactly_once() {
    let answers: [(Request<'_>, Vec<u8>); 4] = [
        (parse("select 7"), message(b'1', b"")),
        (BIND, bound()),
        (EXECUTE, complete()),
        (Request::ClosePortal(""), message(b'3', b"")),
    ];
    for code in 0..4_usize.pow(4) {
        let kinds: Vec<usize> = (0..4).map(|place| code / 4_usize.pow(place) % 4).collect();
        for failed in 0..5 {
            let mut connection = ready();
            let mut stream = Vec::new();
            for (place, &kind) in kinds.iter().enumerate() {
                queue(&mut connection, &[answers[kind].0]);
                if place < failed {
                    stream.extend_from_slice(&answers[kind].1);
                } else if place == failed {
                    stream.extend(failure());
                }
            }
            queue(&mut connection, &[Request::Sync]);
            stream.extend_from_slice(READY);
            connection.feed(&stream);
            let mut seen = Vec::new();
            while let Some(event) = connection.next_event().unwrap() {
                match event {
                    Event::Skipped { ids, .. } => seen.extend(ids.map(RequestId::as_u64)),
                    event => seen.push(event.request_id().unwrap().as_u64()),
                }
            }
            assert_eq!(seen, [1, 2, 3, 4, 5], "batch {kinds:?}, failed at {failed}");
            assert!(connection.unanswered().is_empty());
        }
    }
}
