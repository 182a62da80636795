//! A transport that cuts the stream of bytes, or ends it, at every place.

use std::io;

use lookaside_client::postgres::Options;
use lookaside_client::{Driver, Protocol, Syncs};

use super::{Pair, echo, echoes, shown};

/// Two single queries, and a flight with an error in it.
fn submit(pair: &mut Pair) {
    pair.driver.submit(echo(1)).unwrap();
    pair.driver.submit(echo(2)).unwrap();
    pair.driver
        .submit(echoes("select $1", [3, 0, 5]).syncs(Syncs::Shared))
        .unwrap();
}

const EXPECTED: [&str; 5] = ["1", "2", "3", "22012", "5"];

/// Moves bytes, of which the driver gets the first `size_max` in pieces of `piece`; says how many
/// there were.
fn exchange(pair: &mut Pair, piece: usize, size_max: usize) -> usize {
    let mut size = 0;
    loop {
        let sent = pair.send();
        let answer = pair.server.answer();
        for piece in answer.chunks(piece) {
            let left = piece.len().min(size_max - size);
            pair.receive(&piece[..left]);
            size += left;
            if size == size_max {
                return size;
            }
        }
        if sent == 0 && answer.is_empty() {
            return size;
        }
    }
}

fn answers(pair: &mut Pair) -> Vec<lookaside_client::Result<lookaside_client::Answer>> {
    let replies = pair.replies();
    replies
        .into_iter()
        .flat_map(|reply| reply.answers)
        .collect()
}

#[test]
fn it_does_not_matter_where_the_stream_is_cut() {
    for piece in 1..200 {
        let mut pair = Pair::begun(Options::default());
        submit(&mut pair);
        exchange(&mut pair, piece, usize::MAX);
        let answers = answers(&mut pair);
        assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), EXPECTED);
    }
}

#[test]
fn wherever_the_server_ends_each_query_has_an_answer_or_an_error() {
    let mut whole = Pair::begun(Options::default());
    submit(&mut whole);
    let size = exchange(&mut whole, usize::MAX, usize::MAX);
    for cut in 0..size {
        let mut pair = Pair::begun(Options::default());
        submit(&mut pair);
        exchange(&mut pair, usize::MAX, cut);
        pair.driver.end_of_input();
        pair.driver.advance(pair.now);
        let answers = answers(&mut pair);
        // Those that have a result may come first.
        assert_eq!(answers.len(), EXPECTED.len(), "cut at {cut}");
        for (index, answer) in answers.iter().enumerate() {
            match answer {
                Err(error) if error.is_connection_lost() => {}
                answer => assert_eq!(shown(answer), EXPECTED[index], "cut at {cut}"),
            }
        }
        assert!(pair.driver.end().is_some());
    }
}

#[test]
fn wherever_our_side_ends_what_can_be_sent_again_was_not_done() {
    let mut pair = Pair::new();
    pair.ask(echo(9));
    for number in 1..=4 {
        pair.driver.submit(echo(number)).unwrap();
    }
    pair.driver.advance(pair.now);
    let size = pair.driver.output().len();
    for cut in 0..=size {
        let mut pair = Pair::new();
        pair.ask(echo(9));
        for number in 1..=4 {
            pair.driver.submit(echo(number)).unwrap();
        }
        pair.driver.advance(pair.now);
        let output = pair.driver.output()[..cut].to_vec();
        pair.driver.written(cut);
        pair.server.receive(&output);
        // Too late for these.
        for number in 5..=6 {
            pair.driver.submit(echo(number)).unwrap();
        }
        pair.driver.advance(pair.now);
        pair.driver
            .fail(io::Error::from(io::ErrorKind::BrokenPipe).into());
        pair.server.answer();
        let answers = answers(&mut pair);
        assert_eq!(answers.len(), 6);
        for (index, answer) in answers.into_iter().enumerate() {
            let error = answer.unwrap_err();
            let number = i32::try_from(index + 1).unwrap();
            if error.is_retryable() {
                assert!(!pair.server.executions.contains(&number), "cut at {cut}");
            }
            assert_eq!(error.is_retryable(), cut == 0 || number > 4, "cut at {cut}");
        }
    }
}

/// The messages of an answer.
fn messages(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let size = 1 + u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        messages.push(bytes[..size].to_vec());
        bytes = &bytes[size..];
    }
    messages
}

/// A server that leaves messages out, says them twice, in another order, or others instead: that is
/// an answer or an error for each query, and never a panic.
#[test]
fn a_server_that_talks_nonsense_breaks_its_connection_only() {
    const OTHERS: [&[u8]; 12] = [
        b"1\0\0\0\x04",
        b"2\0\0\0\x04",
        b"3\0\0\0\x04",
        b"n\0\0\0\x04",
        b"s\0\0\0\x04",
        b"I\0\0\0\x04",
        b"c\0\0\0\x04",
        b"Z\0\0\0\x05I",
        b"Z\0\0\0\x05E",
        b"G\0\0\0\x07\0\0\0",
        b"H\0\0\0\x07\0\0\0",
        b"E\0\0\0\x17SERROR\0CXX000\0Mno\0\0",
    ];
    let seed = fastrand::u64(..);
    for round in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let mut pair = Pair::with(Options {
            statement_count_max: 1,
            ..Options::default()
        });
        submit(&mut pair);
        for request in [
            echoes("select  $1", [1]),
            lookaside_client::Request::new("begin", &[]),
            lookaside_client::Request::script("row a; nonsense", 7),
            lookaside_client::Request::copy_in("copy t from stdin", b"data".to_vec()),
            echoes("select   $1", [2]),
            lookaside_client::Request::new("rollback", &[]),
        ] {
            pair.driver.submit(request).unwrap();
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..30 {
                pair.send();
                let answer = pair.server.answer();
                for message in messages(&answer) {
                    match random.u8(..100) {
                        0 => {}
                        1 => pair.receive(&[&message[..], &message].concat()),
                        2 => pair.receive(random.choice(OTHERS).unwrap()),
                        3 => pair.receive(&[random.choice(OTHERS).unwrap(), &message[..]].concat()),
                        _ => pair.receive(&message),
                    }
                }
            }
            pair.driver.end_of_input();
            pair.driver.advance(pair.now);
            let count = pair.replies().len();
            assert_eq!(count, 9, "each request has a reply");
        }));
        assert!(outcome.is_ok(), "seed {}", seed.wrapping_add(round));
    }
}
