//! Transcripts split at each byte, ended at each byte, and with each byte changed.

use std::collections::VecDeque;

use lookaside_wire::mysql::fuzz_mysql;

use super::Transcript;
use super::session::{END, Session};

/// The transcripts of one server, and those of features that only the other one has.
fn transcripts() -> impl Iterator<Item = Transcript> {
    let all = Transcript::all().into_iter();
    all.filter(|transcript| {
        let name = &transcript.name;
        name.starts_with("mariadb-") || name.contains("sha2") || name.contains("optional")
    })
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
        let input = transcript.fuzz_input();
        for size in 0..=input.len() {
            fuzz_mysql(&input[..size]);
        }
    }
}

#[test]
fn any_byte_may_be_another_one() {
    for transcript in transcripts() {
        let mut input = transcript.fuzz_input();
        for index in 0..input.len() {
            let change = if index % 2 == 0 { 0x01 } else { 0x80 };
            input[index] ^= change;
            fuzz_mysql(&input);
            input[index] ^= change;
        }
    }
}
