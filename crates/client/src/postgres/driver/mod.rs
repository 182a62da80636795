//! A connection's mind: which query goes when, whose answer comes, and what an error means.
//!
//! A [`Driver`] knows no socket and no clock. Its owner, one of the three faces, moves bytes
//! between it and a server and tells it the time:
//!
//! ```text
//!   submit(request) ──► ┌────────┐ ──► output(), written(size)          ──► socket
//!                       │ Driver │
//!   next_reply()    ◄── └────────┘ ◄── receive_space(), received(size)  ◄── socket
//!                           ▲
//!                       advance(now)
//! ```
//!
//! # The first use of a statement
//!
//! A statement is prepared and described in a flight of its own, and its queries follow one round
//! trip later. They could have come along, with parameters and results as text. But then what a
//! value is converted to would depend on whether somebody asked before: `1.0` fits an integer
//! parameter once its type is known, and fails as text. An answer must not depend on that, so the
//! round trip is paid, once for each statement and connection. Other queries go on meanwhile.
//!
//! # Order
//!
//! Queries that are under way at the same time have no order among them. Whoever needs one waits
//! for the first answer before he asks again.
//!
//! # What an error means
//!
//! - A statement that the server knows no more, or whose columns, parameters or names have changed
//!   their meaning, is forgotten, and the query is sent once more, unless it is part of a
//!   transaction.
//! - A setting that was changed, `search_path` above all, makes all statements forgotten, because
//!   names may mean something else.
//! - Queries that share a Sync with one that failed are sent again with a Sync each.
//! - What fails while it runs fails for its caller only. What is lost with the connection says
//!   whether it was sent: see [`Error::is_retryable`].

mod deliver;
mod dispatch;
mod end;
mod options;
mod output;
mod session;
mod span;
mod statement;
mod statements;
mod step;
mod verb;

use std::time::Instant;

use lookaside_wire::postgres::{CancelKey, Connection, Credentials, Startup, TransactionStatus};

use super::{Reply, Request, Ticket};
use crate::{Error, Result};

pub use options::Options;
use output::Output;
use session::Session;
use span::Span;
use statement::{Key, Scratch};

/// A connection without its socket. See the [module](self).
pub struct Driver {
    connection: Connection,
    output: Output,
    session: Session,
    scratch: Scratch,
    is_input_ended: bool,
    query_count_max: usize,
    window: usize,
}

impl Driver {
    /// Begins with the log-in, which waits in the output.
    ///
    /// # Errors
    ///
    /// When a name or the password holds a NUL.
    pub fn new(startup: &Startup<'_>, credentials: Credentials, options: Options) -> Result<Self> {
        let request_count_max = options.wire.request_count_max;
        assert!(
            request_count_max >= dispatch::REQUEST_COUNT_MAX,
            "the limit of the queue leaves room for one query"
        );
        let window_max = request_count_max / dispatch::REQUEST_COUNT_MAX;
        let window = options.window.clamp(1, window_max);
        let connection = Connection::new(startup, credentials, options.wire.clone());
        Ok(Self {
            connection: connection.map_err(Error::request)?,
            output: Output::default(),
            session: Session::new(&options),
            scratch: Scratch::default(),
            is_input_ended: false,
            query_count_max: options.query_count_max,
            window,
        })
    }

    /// Takes a request. Its queries go out with the next [`advance`](Self::advance), or when there
    /// is room in the window.
    ///
    /// # Errors
    ///
    /// When too many wait already, or the connection has ended: then nothing of it was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        if let Some(end) = &self.session.end {
            return Err(end.of_query(crate::error::Sent::Nothing));
        }
        let count = request.params.len();
        if self.session.query_count + count > self.query_count_max {
            return Err(Error::too_many_queries(self.query_count_max));
        }
        Ok(self.session.add(request))
    }

    /// Takes a request back that nobody waits for any more. What was not sent is not sent, and
    /// what was is discarded when it comes; there is no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.session.remove(ticket);
    }

    /// Takes a request back as if its deadline had passed: its reply says so, and what the server
    /// does for it is cancelled.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.session.give_up(ticket, Error::canceled);
    }

    /// What is to be written to the socket.
    pub fn output(&mut self) -> &[u8] {
        self.output.fill(&mut self.connection)
    }

    /// Says that the first `size` bytes of the output were written.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    pub fn written(&mut self, size: usize) {
        self.output.written(size);
    }

    /// Where at least `size` bytes can be read to; [`received`](Self::received) says how many
    /// came. It is empty once the connection has ended.
    pub fn receive_space(&mut self, size: usize) -> &mut [u8] {
        self.connection.receive_space(size)
    }

    /// Says that the server sent `size` bytes, which are in the [`receive_space`](Self::receive_space).
    ///
    /// # Panics
    ///
    /// When there was no room for so many.
    pub fn received(&mut self, size: usize) {
        self.connection.received(size);
    }

    /// Says that the socket is at its end. What came before is still answered.
    pub fn end_of_input(&mut self) {
        self.connection.end_of_input();
        self.is_input_ended = true;
    }

    /// Whether the socket is at its end.
    pub fn is_input_ended(&self) -> bool {
        self.is_input_ended
    }

    /// Says that the socket failed.
    pub fn fail(&mut self, error: std::io::Error) {
        // A server that ends a session says so before.
        self.take_events();
        self.session.end(Error::socket(error), &self.output);
    }

    /// Takes in what came, gives up what is too late, and prepares what can go out.
    pub fn advance(&mut self, now: Instant) {
        self.take_events();
        while let Some(ticket) = self.session.overdue(now) {
            self.session.give_up(ticket, Error::deadline);
        }
        self.session.choose_cancel(now);
        self.dispatch();
    }

    fn take_events(&mut self) {
        let Self {
            connection,
            session,
            output,
            ..
        } = self;
        while session.end.is_none() {
            let copies = match connection.next_event() {
                Ok(Some(event)) => session.take(event, output),
                Ok(None) => return,
                Err(error) => return session.end(Error::protocol(error), output),
            };
            if copies {
                // The server waits for data that nobody has.
                let refused = connection.copy_fail("a COPY is no query");
                refused.expect("the server has just said that it waits");
            }
        }
    }

    /// The next answers, in the order in which they came.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.session.replies.pop_front()
    }

    /// Whether [`next_reply`](Self::next_reply) has something.
    pub fn has_reply(&self) -> bool {
        !self.session.replies.is_empty()
    }

    /// When [`advance`](Self::advance) has to be called even if nothing comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    /// Whether the log-in is done.
    pub fn is_ready(&self) -> bool {
        self.session.is_ready
    }

    /// Whether nothing waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    /// How many queries wait for their answers.
    pub fn query_count(&self) -> usize {
        self.session.query_count
    }

    /// Why the connection has ended, if it has.
    pub fn end(&self) -> Option<&Error> {
        self.session.end.as_ref()
    }

    /// Where the last query left the transaction.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.connection.transaction_status()
    }

    /// Whom to cancel. The owner opens a connection to the same server, writes
    /// [`CancelKey::cancel_request`], reads to the end and calls [`cancel_done`](Self::cancel_done);
    /// until then nothing more is sent here.
    ///
    /// A server cancels whatever it is doing, so it is asked only while the query is the first in
    /// the line. Should it be done in that very moment and the next one be hit, then that is sent
    /// again.
    pub fn take_cancel(&mut self) -> Option<CancelKey> {
        let key = self.connection.cancel_key()?;
        self.session.take_cancel().then(|| key.clone())
    }

    /// Says that the server has dealt with a request to cancel, or that it could not be reached.
    pub fn cancel_done(&mut self) {
        self.session.cancel_done();
    }

    /// Ends the connection. What has no answer gets an error; what was sent may be done all the
    /// same. The output holds the farewell.
    pub fn close(&mut self) {
        if self.session.end.is_none() {
            self.connection.terminate();
            self.session.end(Error::closed(), &self.output);
        }
    }
}
