//! Everything at once: random requests, failures, deadlines and cut streams, each answer checked
//! against its question.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use fastrand::Rng;
use lookaside_client::postgres::{Options, Route};
use lookaside_client::{Driver, ErrorKind, Protocol, Reply, Syncs, Ticket};

use super::{Pair, echoes, shown};
use crate::generate::rng;

const STEP_COUNT: usize = 400;
const SESSION_COUNT: usize = 300;

/// The requests without an answer so far: the numbers of each request.
type Asked = HashMap<Ticket, Vec<i64>>;

#[test]
fn answers_fit_their_questions_whatever_happens() {
    let mut random = rng("the driver");
    for _ in 0..SESSION_COUNT {
        session(&mut random);
    }
}

fn session(random: &mut Rng) {
    let mut pair = Pair::with(Options {
        statement_count_max: random.usize(0..4),
        window: random.usize(1..40),
        route: [Route::Direct, Route::Pooler][random.usize(0..2)],
        ..Options::default()
    });
    let mut asked = Asked::new();
    let mut number = 0;
    let mut arriving = Vec::new();
    for _ in 0..STEP_COUNT {
        match random.u32(0..100) {
            0..30 => submit(random, &mut pair, &mut asked, &mut number),
            30..34 => {
                if let Some(&ticket) = asked.keys().next() {
                    asked.remove(&ticket);
                    pair.driver.abandon(ticket);
                }
            }
            34..36 => {
                if let Some(&ticket) = asked.keys().next() {
                    pair.driver.cancel(ticket);
                }
            }
            36..40 => make_stale(random, &mut pair),
            40..42 => pair.server.say(b'S', b"search_path\0elsewhere\0"),
            42..46 => pair.pass(Duration::from_millis(random.u64(0..50))),
            46..50 => {
                if pair.driver.take_auxiliary().is_some() {
                    // It hits whatever is next.
                    pair.server.canceled.insert(i32::try_from(number).unwrap());
                    pair.driver.auxiliary_done();
                }
            }
            50..70 => {
                pair.driver.advance(pair.now);
                let output = pair.driver.output();
                let size = random.usize(0..=output.len());
                pair.server.receive(&output[..size]);
                pair.driver.written(size);
            }
            _ => {
                arriving.extend(pair.server.answer());
                let size = random.usize(0..=arriving.len());
                let bytes: Vec<u8> = arriving.drain(..size).collect();
                pair.receive(&bytes);
            }
        }
        check(pair.replies(), &mut asked);
    }
    pair.receive(&arriving);
    if random.bool() {
        pair.driver
            .fail(io::Error::from(io::ErrorKind::ConnectionReset).into());
    }
    pair.settle();
    check(pair.replies(), &mut asked);
    assert!(asked.is_empty(), "{asked:?} have no answer");
    assert_eq!(pair.driver.query_count(), 0);
}

fn submit(random: &mut Rng, pair: &mut Pair, asked: &mut Asked, number: &mut i64) {
    let numbers: Vec<i64> = (0..random.usize(1..20))
        .map(|_| {
            *number += 1;
            if random.u32(0..15) == 0 { 0 } else { *number }
        })
        .collect();
    let sql = ["select $1", "select $1 ", "insert select $1"][random.usize(0..3)];
    let mut request = echoes(sql, numbers.iter().copied());
    if random.bool() {
        request = request.syncs(Syncs::Shared);
    }
    if random.u32(0..10) == 0 {
        request = request.deadline(pair.now + Duration::from_millis(random.u64(0..100)));
    }
    let ticket = pair.driver.submit(request).unwrap();
    asked.insert(ticket, numbers);
}

/// Far more statements than stay prepared, and queries that are sent again because others that shared
/// their Sync failed: none is sent to be run that the server was told to forget.
#[test]
fn statements_are_used_before_they_are_closed() {
    let mut random = rng("the statements");
    for _ in 0..SESSION_COUNT {
        let mut pair = Pair::with(Options {
            statement_count_max: random.usize(0..9),
            window: random.usize(1..40),
            ..Options::default()
        });
        let mut asked = Asked::new();
        for number in 1..i64::try_from(STEP_COUNT).unwrap() {
            if random.bool() {
                let number = if random.u32(0..6) == 0 { 0 } else { number };
                let sql = format!("select $1{}", " ".repeat(random.usize(0..20)));
                let request = echoes(&sql, [number]).syncs(Syncs::Shared);
                let ticket = pair.driver.submit(request).unwrap();
                asked.insert(ticket, vec![number]);
            } else if random.bool() {
                pair.send();
            } else {
                let answer = pair.server.answer();
                pair.receive(&answer);
            }
            check(pair.replies(), &mut asked);
        }
        pair.settle();
        check(pair.replies(), &mut asked);
        assert!(asked.is_empty(), "{asked:?} have no answer");
        assert_eq!(pair.server.unknown_count, 0);
    }
}

fn make_stale(random: &mut Rng, pair: &mut Pair) {
    let names: Vec<_> = pair.server.statements.keys().cloned().collect();
    if let Some(name) = random.choice(names) {
        if random.bool() {
            pair.server.statements.remove(&name);
        } else {
            let changed = ("0A000", "RevalidateCachedQuery");
            pair.server.stale.insert(name, changed);
        }
    }
}

fn check(replies: Vec<Reply>, asked: &mut Asked) {
    for Reply { ticket, answers } in replies {
        let numbers = asked.remove(&ticket).expect("an answer to a question");
        assert_eq!(answers.len(), numbers.len());
        for (answer, number) in answers.iter().zip(numbers) {
            let kind = answer.as_ref().err().map(lookaside_client::Error::kind);
            match (kind, shown(answer).as_str(), number) {
                (Some(ErrorKind::Connection | ErrorKind::Deadline | ErrorKind::Canceled), ..)
                | (Some(ErrorKind::Refused), "22012", 0)
                // Made stale once more, or hit by a cancellation that was not requested.
                | (Some(ErrorKind::Refused), "26000" | "0A000" | "57014", _) => {}
                (None, found, number) if found == number.to_string() => {}
                (_, found, number) => panic!("{number} was answered with {found}"),
            }
        }
    }
}
