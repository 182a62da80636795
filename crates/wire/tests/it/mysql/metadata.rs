//! The columns that rows are decoded with.

use std::sync::Arc;

use lookaside_wire::mysql::{
    Columns, Connection, Cursor, Event, Execute, Request, Startup, StatementId,
};
use lookaside_wire::{ErrorKind, Limits};

use super::server::{
    END, ERR, MARIADB, MYSQL, OK, answer, check, column, packet, prepared, ready, ready_with,
};

/// The capabilities of MariaDB, without extended metadata.
const CACHING: u64 = MARIADB & !(1 << 35);

fn prepare(connection: &mut Connection, number: u8, columns: &[Vec<u8>]) -> StatementId {
    connection.queue(Request::Prepare("select")).unwrap();
    connection.feed(&prepared(number, columns));
    match connection.next_event() {
        Ok(Some(Event::Prepared { prepared, .. })) => prepared.statement,
        other => panic!("{other:?}"),
    }
}

fn execute(connection: &mut Connection, statement: StatementId) {
    let execute = Execute {
        statement,
        cursor: Cursor::None,
    };
    connection.queue_execute(&execute, &[], |_| {}).unwrap();
}

/// The columns of an answer, and whether they have changed.
fn told(connection: &mut Connection, stream: &[u8]) -> (Arc<Columns>, bool) {
    connection.feed(stream);
    let mut told = None;
    while let Some(event) = connection.next_event().unwrap() {
        if let Event::Columns {
            columns,
            is_changed,
            ..
        } = event
        {
            told = Some((Arc::clone(columns), is_changed));
        }
    }
    told.unwrap()
}

#[test]
fn the_same_definitions_are_the_same_columns() {
    let mut connection = ready(MYSQL);
    let columns = [column("a", 3), column("b", 253)];
    let statement = prepare(&mut connection, 1, &columns);
    let result = answer(&[b"\x02", &columns[0], &columns[1], END]);
    execute(&mut connection, statement);
    let (first, is_changed) = told(&mut connection, &result);
    assert!(!is_changed, "they are those of the Prepare");
    execute(&mut connection, statement);
    let (second, is_changed) = told(&mut connection, &result);
    assert!(!is_changed);
    assert!(Arc::ptr_eq(&first, &second));
    // The last byte of a type, the name, the order and the number of columns.
    let (a, b, c) = (column("a", 3), column("b", 252), column("c", 3));
    for other in [
        vec![&a, &b],
        vec![&c, &b],
        vec![&b, &c],
        vec![&b],
        vec![&b, &c, &a],
    ] {
        let count = [u8::try_from(other.len()).unwrap()];
        let mut payloads = vec![&count[..]];
        payloads.extend(other.iter().map(|column| &column[..]));
        payloads.push(END);
        execute(&mut connection, statement);
        let (columns, is_changed) = told(&mut connection, &answer(&payloads));
        assert!(is_changed);
        let names: Vec<_> = columns.iter().map(|column| column.name[0]).collect();
        let expected: Vec<_> = other.iter().map(|column| column[8]).collect();
        assert_eq!(names, expected);
        execute(&mut connection, statement);
        assert!(
            !told(&mut connection, &answer(&payloads)).1,
            "now they are known"
        );
    }
}

#[test]
fn statements_do_not_share_columns() {
    let mut connection = ready(CACHING);
    let one = prepare(&mut connection, 1, &[column("a", 3)]);
    let two = prepare(&mut connection, 2, &[column("b", 8)]);
    for statement in [one, two, one] {
        execute(&mut connection, statement);
    }
    check(
        &mut connection,
        &[
            answer(&[b"\x01\0", b"\0\0\x07\0\0\0", END]),
            answer(&[b"\x01\0", b"\0\0\x08\0\0\0\0\0\0\0", END]),
            answer(&[b"\x01\x01", &column("a", 1), b"\0\0\x09", END]),
        ]
        .concat(),
        r#"Columns { id: #3, columns: ["a" LONG 0x0 63 11.0], is_changed: false }
           Row { id: #3, row: ["\x07\x00\x00\x00"] }
           RowsEnd { id: #3, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }
           Columns { id: #4, columns: ["b" LONGLONG 0x0 63 11.0], is_changed: false }
           Row { id: #4, row: ["\x08\x00\x00\x00\x00\x00\x00\x00"] }
           RowsEnd { id: #4, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }
           Columns { id: #5, columns: ["a" TINY 0x0 63 11.0], is_changed: true }
           Row { id: #5, row: ["\t"] }
           RowsEnd { id: #5, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }"#,
    );
}

#[test]
fn definitions_that_were_never_sent_cannot_be_left_out() {
    let missing = "error: column count at byte 0: \
                   the server omitted column definitions that it had not sent before";
    let leaves_out = answer(&[b"\x01\0"]);
    // A query has no known columns, even if the last one had as many.
    let mut connection = ready(CACHING);
    connection.queue(Request::Query("select")).unwrap();
    told(
        &mut connection,
        &answer(&[b"\x01\x01", &column("a", 3), END]),
    );
    connection.queue(Request::Query("select")).unwrap();
    check(&mut connection, &leaves_out, missing);
    // Another number of columns.
    let mut connection = ready(CACHING);
    let statement = prepare(&mut connection, 1, &[column("a", 3)]);
    execute(&mut connection, statement);
    check(&mut connection, &answer(&[b"\x02\0"]), missing);
    // A statement that was closed, and one that a reset has dropped.
    for request in [Request::CloseStatement(statement), Request::ResetConnection] {
        let mut connection = ready(CACHING);
        prepare(&mut connection, 1, &[column("a", 3)]);
        connection.queue(request).unwrap();
        if matches!(request, Request::ResetConnection) {
            connection.feed(&answer(&[OK]));
            connection.next_event().unwrap();
        }
        execute(&mut connection, statement);
        check(&mut connection, &leaves_out, missing);
    }
    // A second result, independent of the first one.
    let mut connection = ready(CACHING);
    let statement = prepare(&mut connection, 1, &[column("a", 3)]);
    execute(&mut connection, statement);
    connection.feed(&answer(&[b"\x01\0", b"\xfe\0\0\x0a\0\0\0", b"\x01\0"]));
    let error = loop {
        match connection.next_event() {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unexpected);
}

#[test]
fn a_statement_is_known_until_what_came_before_its_close_is_answered() {
    let mut connection = ready(CACHING);
    let statement = prepare(&mut connection, 1, &[column("a", 3)]);
    execute(&mut connection, statement);
    connection
        .queue(Request::CloseStatement(statement))
        .unwrap();
    execute(&mut connection, statement);
    check(
        &mut connection,
        &[answer(&[b"\x01\0", b"\0\0\x07\0\0\0", END]), answer(&[ERR])].concat(),
        r#"Columns { id: #2, columns: ["a" LONG 0x0 63 11.0], is_changed: false }
           Row { id: #2, row: ["\x07\x00\x00\x00"] }
           RowsEnd { id: #2, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }
           Failed { id: #4, error: 1064 42000 "no" }"#,
    );
}

#[test]
fn the_last_statement_is_the_one_of_the_last_answer() {
    let mut connection = ready(CACHING);
    prepare(&mut connection, 1, &[column("a", 3)]);
    connection.queue(Request::Prepare("select")).unwrap();
    execute(&mut connection, StatementId::LAST);
    connection.queue(Request::Prepare("selekt")).unwrap();
    execute(&mut connection, StatementId::LAST);
    let mut stream = prepared(2, &[column("b", 8)]);
    stream.extend(answer(&[b"\x01\0", b"\0\0\x08\0\0\0\0\0\0\0", END]));
    stream.extend(answer(&[ERR]));
    // The server cannot have executed anything.
    stream.extend(answer(&[b"\x01\0"]));
    check(
        &mut connection,
        &stream,
        r#"Prepared { id: #2, prepared: Prepared { statement: statement 2, parameter_count: 0, column_count: 1, warning_count: 0, parameters: None, columns: Some(["b" LONGLONG 0x0 63 11.0]) } }
           Columns { id: #3, columns: ["b" LONGLONG 0x0 63 11.0], is_changed: false }
           Row { id: #3, row: ["\x08\x00\x00\x00\x00\x00\x00\x00"] }
           RowsEnd { id: #3, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }
           Failed { id: #4, error: 1064 42000 "no" }
           error: column count at byte 0: the server omitted column definitions that it had not sent before"#,
    );
}

/// A connection on which definitions may be left out, and a statement with two columns.
fn optional() -> (Connection, StatementId) {
    let startup = Startup::new("amy").optional_metadata();
    let mut connection = ready_with(MYSQL, startup, Limits::default());
    connection.queue(Request::Prepare("select")).unwrap();
    let ok = b"\0\x01\0\0\0\x02\0\0\0\0\0\0\x01";
    connection.feed(&answer(&[ok, &column("a", 3), &column("b", 3)]));
    match connection.next_event() {
        Ok(Some(Event::Prepared { prepared, .. })) => {
            let statement = prepared.statement;
            (connection, statement)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_that_do_not_fit_are_skipped() {
    let columns = r#"Columns { id: #2, columns: ["a" LONG 0x0 63 11.0, "b" LONG 0x0 63 11.0], is_changed: false }"#;
    let fits = b"\0\0\x01\0\0\0\x02\0\0\0";
    let row = r#"Row { id: #2, row: ["\x01\x00\x00\x00", "\x02\x00\x00\x00"] }"#;
    for (name, rows, readable_count) in [
        (
            "a byte too many",
            &[&fits[..], b"\0\0\x01\0\0\0\x02\0\0\0\0", fits][..],
            1,
        ),
        ("a byte too few", &[&b"\0\0\x01\0\0\0\x02\0\0"[..], fits], 0),
        ("no row", &[&b"\x01"[..]], 0),
        ("empty", &[&b""[..]], 0),
    ] {
        let (mut connection, statement) = optional();
        execute(&mut connection, statement);
        execute(&mut connection, statement);
        let mut payloads = vec![&b"\x02\0"[..]];
        payloads.extend(rows);
        payloads.push(END);
        let stream = answer(&payloads);
        let rows = [row].repeat(readable_count).join("\n");
        let end = "Unreadable { id: #2, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }";
        check(
            &mut connection,
            &stream,
            &format!("{columns}\n{rows}\n{end}"),
        );
        // The known columns were dropped, so even matching rows are not decoded.
        let stream = answer(&[b"\x02\0", fits, END]);
        check(&mut connection, &stream, &end.replace("#2", "#3"));
        // Until the columns are described again.
        execute(&mut connection, statement);
        let described = answer(&[b"\x02\x01", &column("a", 3), &column("b", 3), fits, END]);
        assert!(told(&mut connection, &described).1, "{name}");
    }
}

#[test]
fn a_change_that_is_told_is_believed() {
    let (mut connection, statement) = optional();
    execute(&mut connection, statement);
    // SERVER_STATUS_METADATA_CHANGED.
    let stream = answer(&[b"\x02\0", b"\xfe\0\0\x02\x04\0\0"]);
    check(
        &mut connection,
        &stream,
        r#"Columns { id: #2, columns: ["a" LONG 0x0 63 11.0, "b" LONG 0x0 63 11.0], is_changed: false }
           Unreadable { id: #2, ok: { affected: 0, id: 0, status: 0x0402, warnings: 0 } }"#,
    );
}

#[test]
fn an_error_ends_rows_that_nobody_can_read() {
    let (mut connection, statement) = optional();
    execute(&mut connection, statement);
    connection.queue(Request::Ping).unwrap();
    let stream = [answer(&[b"\x03\0", b"\0\0", ERR]), packet(1, OK)].concat();
    check(
        &mut connection,
        &stream,
        r#"Failed { id: #2, error: 1064 42000 "no" }
           Ok { id: #3, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }"#,
    );
}

#[test]
fn rows_of_described_columns_have_to_fit() {
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    check(
        &mut connection,
        &answer(&[
            b"\x02",
            &column("a", 3),
            &column("b", 3),
            b"\x011\x012\x013",
        ]),
        r#"Columns { id: #1, columns: ["a" LONG 0x0 63 11.0, "b" LONG 0x0 63 11.0], is_changed: true }
           error: row at byte 4: bytes remain after the last field"#,
    );
}

/// Known definitions are processed all at once, wherever the bytes are split, and however often the
/// packet numbers wrap around.
#[test]
fn many_definitions_are_compared_whole() {
    let count = 600_u16;
    let columns: Vec<_> = (0..count)
        .map(|index| column(&format!("c{index}"), 3))
        .collect();
    let header = [&b"\xfc"[..], &count.to_le_bytes()].concat();
    let result = |columns: &[Vec<u8>]| {
        let payloads = [&header].into_iter().chain(columns).map(|one| &one[..]);
        let payloads = payloads.chain([END]);
        // The number of a packet is one byte.
        let numbered = (1_u32..).map(|sequence| sequence as u8).zip(payloads);
        let packets = numbered.map(|(sequence, payload)| packet(sequence, payload));
        packets.collect::<Vec<_>>().concat()
    };
    let same = result(&columns);
    let mut last_differs = columns.clone();
    *last_differs.last_mut().unwrap() = column("c599", 8);
    let mut connection = ready(MYSQL);
    // A query, and a statement that was not described when it was prepared.
    let statement = prepare(&mut connection, 1, &columns[..1]);
    for is_query in [true, false] {
        let mut ask = |stream: &[u8]| {
            if is_query {
                connection.queue(Request::Query("select")).unwrap();
            } else {
                execute(&mut connection, statement);
            }
            told(&mut connection, stream)
        };
        let (first, is_changed) = ask(&same);
        assert!(is_changed && first.len() == usize::from(count));
        let (second, is_changed) = ask(&same);
        assert!(!is_changed && Arc::ptr_eq(&first, &second));
        let (third, is_changed) = ask(&result(&last_differs));
        assert!(is_changed);
        let types = [&second, &third].map(|columns| columns.get(599).unwrap().column_type.0);
        assert_eq!(types, [3, 8]);
        assert_eq!(third.get(598), first.get(598));
        assert_eq!(ask(&same).0, first);
    }
    for cut in (0..same.len()).step_by(7) {
        execute(&mut connection, statement);
        let mut tellings = Vec::new();
        for part in [&same[..cut], &same[cut..]] {
            connection.feed(part);
            while let Some(event) = connection.next_event().unwrap() {
                if let Event::Columns { is_changed, .. } = event {
                    tellings.push(is_changed);
                }
            }
        }
        assert_eq!(tellings, [false], "{cut}");
    }
}
