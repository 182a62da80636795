//! A warm lookup allocates nothing.

use lookaside_wire::RequestError;
use lookaside_wire::postgres::{
    Connection, Event, Execution, ExecutionOptions, Format, Formats, Request,
};

use crate::server::{READY, message, ready, row};

const ROUNDS: u64 = 1_000;

/// A batch of lookups by statement name, with one Sync for all or one each, and their answers.
fn flight(
    connection: &mut Connection,
    execution: &Execution,
    output: &mut Vec<u8>,
    answer: &[u8],
    sync_each: bool,
) -> u64 {
    for key in 0..32_u64 {
        let written = connection.queue_execution(execution, |_, output| {
            output.extend_from_slice(&key.to_be_bytes());
            Ok::<_, RequestError>(Some(Format::Binary))
        });
        written.unwrap();
        if sync_each || key == 31 {
            connection.queue(Request::Sync).unwrap();
        }
    }
    output.clear();
    connection.take_output(output);
    let mut sum = 0;
    for piece in answer.chunks(700) {
        connection.feed(piece);
        while let Some(event) = connection.next_event().unwrap() {
            if let Event::DataRow { row, .. } = event {
                sum += row
                    .fields()
                    .flatten()
                    .map(|field| field.len() as u64)
                    .sum::<u64>();
            }
        }
    }
    assert!(connection.unanswered().is_empty());
    sum
}

#[test]
fn a_warm_flight_of_lookups_allocates_nothing() {
    let execution = Execution::new(&ExecutionOptions {
        parse: None,
        portal: "",
        statement: "s1",
        parameter_count: 1,
        result_formats: Formats::BINARY,
        row_count_max: 0,
    });
    let execution = execution.unwrap();
    for sync_each in [false, true] {
        let mut answer = Vec::new();
        for key in 0..32 {
            answer.extend(message(b'2', b""));
            answer.extend(row(&[Some("seven"), None, Some("the answer to a lookup")]));
            answer.extend(message(b'C', b"SELECT 1\0"));
            if sync_each || key == 31 {
                answer.extend_from_slice(READY);
            }
        }
        let mut connection = ready();
        let mut output = Vec::new();
        // Warm-up: both buffers of the output are swapped and reach their size.
        for _ in 0..4 {
            flight(&mut connection, &execution, &mut output, &answer, sync_each);
        }
        let mut sum = 0;
        let counted = allocation_counter::measure(|| {
            for _ in 0..ROUNDS {
                sum += flight(&mut connection, &execution, &mut output, &answer, sync_each);
            }
        });
        assert_eq!(sum, ROUNDS * 32 * 27);
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }
}
