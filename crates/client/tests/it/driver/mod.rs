//! The driver against a server in memory, with no socket and no clock but ours.

mod allocation;
mod cancel;
mod errors;
mod faults;
mod flights;
mod pooler;
mod random;
mod scripts;
pub(crate) mod server;
mod statements;

use std::time::{Duration, Instant};

use lookaside_client::postgres::{Options, PostgresDriver};
use lookaside_client::{Answer, Driver, Error, Protocol, Reply, Request, Result};
use lookaside_value::{ParamBatch, Value};
use lookaside_wire::postgres::{Credentials, Startup};

use server::Server;

/// A driver, its server and the time.
pub(crate) struct Pair {
    pub(crate) driver: PostgresDriver,
    pub(crate) server: Server,
    pub(crate) now: Instant,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let mut pair = Self::begun(options);
        pair.settle();
        assert!(pair.driver.is_ready());
        pair
    }

    /// Before a byte has moved.
    pub(crate) fn begun(options: Options) -> Self {
        let startup = Startup::new("amy");
        let credentials = Credentials::new([7; 18]);
        Self {
            driver: PostgresDriver::new(&startup, credentials, options).unwrap(),
            server: Server::default(),
            now: Instant::now(),
        }
    }

    /// Hands the driver's output to the server, which does not answer yet.
    pub(crate) fn send(&mut self) -> usize {
        self.driver.advance(self.now);
        let output = self.driver.output();
        let size = output.len();
        self.server.receive(output);
        self.driver.written(size);
        size
    }

    /// Hands `bytes` of the server to the driver.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let space = self.driver.receive_space(bytes.len());
        if !space.is_empty() {
            space[..bytes.len()].copy_from_slice(bytes);
            self.driver.received(bytes.len());
        }
        self.driver.advance(self.now);
    }

    /// Moves bytes until neither side has any.
    pub(crate) fn settle(&mut self) {
        loop {
            let sent = self.send();
            let answer = self.server.answer();
            self.receive(&answer);
            if sent == 0 && answer.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.driver.advance(self.now);
    }

    /// Asks, waits for the only reply, and takes it.
    pub(crate) fn ask(&mut self, request: Request) -> Vec<Result<Answer>> {
        let ticket = self.driver.submit(request).unwrap();
        self.settle();
        let reply = self.driver.next_reply().expect("an answer");
        assert_eq!(reply.ticket, ticket);
        reply.answers.into_vec()
    }

    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.driver.next_reply()).collect()
    }
}

/// A query that the server in memory answers with its parameter.
pub(crate) fn echo(number: i64) -> Request {
    Request::new("select $1", &[Value::Int(number)])
}

/// One such query for each number.
pub(crate) fn echoes(sql: &str, numbers: impl IntoIterator<Item = i64>) -> Request {
    let mut params = ParamBatch::new(1);
    for number in numbers {
        params.push([Value::Int(number)]);
    }
    Request::many(sql, params)
}

/// The one value of an answer, or the state of its error.
pub(crate) fn shown(answer: &Result<Answer>) -> String {
    match answer {
        Ok(answer) => match answer.rows.iter().next() {
            Some(row) => row[0].to_text().to_string(),
            None => "no row".to_owned(),
        },
        Err(error) => state(error),
    }
}

pub(crate) fn all_shown(answers: &[Result<Answer>]) -> String {
    let shown: Vec<_> = answers.iter().map(shown).collect();
    shown.join(" ")
}

pub(crate) fn state(error: &Error) -> String {
    match error.sqlstate() {
        Some(state) if !error.is_connection_lost() => state.to_string(),
        _ => format!("{:?}", error.kind()),
    }
}
