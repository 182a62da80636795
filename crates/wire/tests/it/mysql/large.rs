//! Messages of more than 16 MiB, which take several packets, in both directions.

use lookaside_wire::mysql::{Connection, Event, Request, Startup};
use lookaside_wire::{ErrorKind, Limits};

use super::server::{END, MYSQL, OK, answer, check, column, output, packet, ready, ready_with};

const PACKET: usize = 0xff_ffff;

/// A message in as many packets as it needs.
fn packets(mut sequence: u8, mut payload: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while payload.len() >= PACKET {
        let (piece, rest) = payload.split_at(PACKET);
        stream.extend(packet(sequence, piece));
        sequence = sequence.wrapping_add(1);
        payload = rest;
    }
    stream.extend(packet(sequence, payload));
    stream
}

/// A result with one text of `size` bytes.
fn row(size: usize) -> Vec<u8> {
    let mut payload = vec![0xfe];
    payload.extend_from_slice(&(size as u64).to_le_bytes());
    payload.extend((0..size).map(|index| (index % 251) as u8));
    payload
}

/// The first cell of the only row.
fn cell(connection: &mut Connection) -> Vec<u8> {
    let mut cell = None;
    while let Some(event) = connection.next_event().unwrap() {
        if let Event::Row { row, .. } = event {
            assert!(cell.is_none(), "one row");
            cell = row.cells().next().unwrap().map(<[u8]>::to_vec);
        }
    }
    cell.unwrap()
}

#[test]
fn rows_are_put_together() {
    for size in [PACKET - 9, PACKET, 2 * PACKET - 9, 2 * PACKET + 77] {
        let mut connection = ready(MYSQL);
        connection.queue(Request::Query("select")).unwrap();
        connection.feed(&answer(&[b"\x01", &column("text", 252)]));
        let row = row(size);
        let stream = packets(3, &row);
        let (head, tail) = stream.split_at(stream.len() - 3);
        connection.feed(head);
        assert!(matches!(
            connection.next_event(),
            Ok(Some(Event::Columns { .. }))
        ));
        assert!(
            matches!(connection.next_event(), Ok(None)),
            "it is not here"
        );
        connection.feed(tail);
        let sequence = 3 + u8::try_from(row.len() / PACKET + 1).unwrap();
        connection.feed(&packet(sequence, END));
        assert!(cell(&mut connection) == row[9..], "{size} bytes");
        assert!(connection.unanswered().is_empty());
    }
}

#[test]
fn requests_are_taken_apart() {
    for size in [PACKET - 1, PACKET, 2 * PACKET + 77] {
        let mut connection = ready(MYSQL);
        let sql = "x".repeat(size - 1);
        connection.queue(Request::Query(&sql)).unwrap();
        let command = [b"\x03", sql.as_bytes()].concat();
        assert!(
            output(&mut connection) == packets(0, &command),
            "{size} bytes"
        );
        // The numbers of the answer continue.
        let sequence = u8::try_from(size / PACKET + 1).unwrap();
        check(
            &mut connection,
            &packet(sequence, OK),
            "Ok { id: #1, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }",
        );
    }
}

#[test]
fn a_message_beyond_the_limit_is_not_waited_for() {
    let limits = Limits {
        message_size_max: PACKET + 10,
        ..Limits::default()
    };
    let mut connection = ready_with(MYSQL, Startup::new("amy"), limits);
    connection.queue(Request::Query("select")).unwrap();
    connection.feed(&answer(&[b"\x01", &column("text", 252)]));
    connection.feed(&packet(3, &vec![0; PACKET]));
    while let Ok(Some(_)) = connection.next_event() {}
    connection.feed(b"\x0b\0\0\x04");
    let error = connection.next_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn the_packets_of_a_message_follow_one_another() {
    let mut connection = ready(MYSQL);
    connection.queue(Request::Query("select")).unwrap();
    connection.feed(&packet(1, &vec![0; PACKET]));
    check(
        &mut connection,
        &packet(3, b""),
        "error: packet at byte 3: packet number 3 was received instead of 2",
    );
}
