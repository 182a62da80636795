//! Transcripts split at each byte, ended at each byte, and with each byte changed.

use std::collections::VecDeque;

use lookaside_wire::postgres::fuzz_postgres;

use super::Transcript;
use super::session::{END, Session};

/// The transcripts of one server: the others only differ in line numbers.
fn transcripts() -> impl Iterator<Item = Transcript> {
    let all = Transcript::all().into_iter();
    all.filter(|transcript| transcript.name.starts_with("18/"))
}

/// The client's bytes and events, independent of how the server's bytes were split.
fn heard(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('<'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[track_caller]
fn check_pieces(transcript: &Transcript, pieces: VecDeque<Vec<u8>>) {
    let mut session = Session::replay(transcript, pieces);
    (transcript.scenario().play)(&mut session);
    let (found, recorded) = (session.finish(), &transcript.text);
    assert!(
        heard(&found) == heard(recorded),
        "{}:\n{found}",
        transcript.name
    );
}

/// No piece extends past the end of a message, because the next bytes may be an answer to a request
/// that is not sent yet. The fuzz target also splits across messages.
#[test]
fn it_does_not_matter_where_a_message_is_cut() {
    for transcript in transcripts() {
        let messages: VecDeque<Vec<u8>> = transcript.lines("< ").collect();
        for (index, message) in messages.iter().enumerate() {
            if message == END {
                continue;
            }
            for cut in 1..message.len() {
                let mut pieces = messages.clone();
                pieces[index].truncate(cut);
                pieces.insert(index + 1, message[cut..].to_vec());
                check_pieces(&transcript, pieces);
            }
        }
    }
}

#[test]
fn messages_may_come_byte_by_byte() {
    for transcript in transcripts() {
        let messages = transcript.lines("< ");
        let pieces = messages.flat_map(|message| match &message[..] {
            END => vec![message],
            _ => message.iter().map(|&byte| vec![byte]).collect(),
        });
        check_pieces(&transcript, pieces.collect());
    }
}

#[test]
fn a_stream_may_end_anywhere() {
    for transcript in transcripts() {
        let input = transcript.fuzz_input(0x7f);
        for size in 0..=input.len() {
            fuzz_postgres(&input[..size]);
        }
    }
}

#[test]
fn any_byte_may_be_another_one() {
    for transcript in transcripts() {
        let mut input = transcript.fuzz_input(0x7f);
        for index in 0..input.len() {
            for change in [0x01, 0x80] {
                input[index] ^= change;
                fuzz_postgres(&input);
                input[index] ^= change;
            }
        }
    }
}
