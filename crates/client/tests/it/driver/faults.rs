//! A transport that cuts the stream of bytes, or ends it, at every place.

use std::io;

use lookaside_client::postgres::Options;
use lookaside_client::{Drive, Syncs, Talk};

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
