//! A warm lookup allocates nothing.

use lookaside_wire::mysql::{
    ColumnType, Connection, Cursor, Event, Execute, ParameterType, Request, StatementId,
};

use super::server::{END, MARIADB, MYSQL, answer, column, prepared, ready};

const ROUNDS: u64 = 1_000;

/// A batch of lookups, and their answers.
fn flight(
    connection: &mut Connection,
    statement: StatementId,
    output: &mut Vec<u8>,
    answer: &[u8],
) -> u64 {
    let types = [ParameterType::new(ColumnType::LONGLONG)];
    let cursor = Cursor::None;
    let execute = Execute { statement, cursor };
    for key in 0..32_u64 {
        let queued = connection.queue_execute(&execute, &types, |parameters| {
            parameters.number(key.to_le_bytes());
        });
        queued.unwrap();
    }
    output.clear();
    connection.take_output(output);
    let mut sum = 0;
    for piece in answer.chunks(700) {
        connection.feed(piece);
        while let Some(event) = connection.next_event().unwrap() {
            match event {
                Event::Row { row, .. } => {
                    let cells = row.cells().flatten();
                    sum += cells.map(|cell| cell.len() as u64).sum::<u64>();
                }
                Event::Columns { is_changed, .. } => assert!(!is_changed),
                _ => {}
            }
        }
    }
    assert!(connection.unanswered().is_empty());
    sum
}

#[test]
fn a_warm_flight_of_lookups_allocates_nothing() {
    let columns = [column("id", 8), column("nothing", 253), column("name", 253)];
    let row = b"\0\x08\x07\0\0\0\0\0\0\0\x16the answer to a lookup";
    let described = answer(&[b"\x03", &columns[0], &columns[1], &columns[2], row, END]);
    let left_out = answer(&[b"\x03\0", row, END]);
    for (offered, one) in [(MYSQL, described), (MARIADB, left_out)] {
        let mut connection = ready(offered & !(1 << 35));
        connection.queue(Request::Prepare("select")).unwrap();
        connection.feed(&prepared(1, &columns));
        let statement = match connection.next_event() {
            Ok(Some(Event::Prepared { prepared, .. })) => prepared.statement,
            other => panic!("{other:?}"),
        };
        let answer = one.repeat(32);
        let mut output = Vec::new();
        // Warm-up: both buffers of the output are swapped and reach their size.
        for _ in 0..4 {
            flight(&mut connection, statement, &mut output, &answer);
        }
        let mut sum = 0;
        let counted = allocation_counter::measure(|| {
            for _ in 0..ROUNDS {
                sum += flight(&mut connection, statement, &mut output, &answer);
            }
        });
        assert_eq!(sum, ROUNDS * 32 * 30);
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }
}
