//! The connection state machine: which query is sent when, which answer arrives, and what an error
//! means.
//!
//! A [`PostgresDriver`] has no socket and no clock. Its owner, a connection, moves bytes between it
//! and a server and passes the time:
//!
//! ```text
//!   submit(request) ──► ┌────────┐ ──► output(), written(size)          ──► socket
//!                       │ PostgresDriver │
//!   next_reply()    ◄── └────────┘ ◄── receive_space(), received(size)  ◄── socket
//!                           ▲
//!                       advance(now)
//! ```
//!
//! # The first use of a statement
//!
//! A statement is prepared and described first, and its queries follow one round trip later. They
//! could be pipelined with it, with parameters and results as text. But then the conversion of a
//! value would depend on whether the statement was used before: `1.0` fits an integer parameter
//! once its type is known, but fails as text. Answers must not depend on that, so each statement
//! costs one additional round trip per connection. Other queries continue meanwhile.
//!
//! # Order
//!
//! Concurrent queries are not ordered. A caller that needs an order waits for the first answer
//! before it sends the next query.
//!
//! # What an error means
//!
//! - A prepared statement that no longer exists on the server, or whose columns, parameters or
//!   names have changed their meaning, is evicted, and the query is sent again, unless it is part
//!   of a transaction: up to five times if it had not begun, otherwise once.
//! - A changed setting, in particular `search_path`, evicts all prepared statements, because names
//!   may mean something else.
//! - Queries that share a Sync with one that failed are sent again with a Sync each.
//! - An error of a query affects only its caller. If the connection is lost, the error tells
//!   whether the query was sent: see [`Error::is_retryable`].
//!
//! # Sessions that are shared
//!
//! A pool's requests come from independent callers. Statements whose first word begins a
//! transaction or changes the session are refused. If another statement does so, that is detected
//! by the status in the answer to its Sync: no answers of that Sync or later ones are returned, and
//! the connection is closed, so that the server rolls back.

mod copy;
mod deliver;
mod dispatch;
mod end;
mod hook;
mod in_flight;
mod login;
mod notices;
mod options;
mod portal;
mod server_role;
mod session;
mod statement;
mod statement_kind;
mod statements;

use std::task::{Context, Poll};
use std::time::Instant;

use lookaside_wire::postgres::{Connection, Credentials, Startup, TransactionStatus};

use super::cancel::CancelConnection;
use super::prologue::{Prologue, PrologueStep};
use crate::driver::{Driver, Fitness, Protocol, Sealed, Transport, Upgrade, unwanted};
use crate::error::PARAMETER_COUNT_MAX;
use crate::output::Output;
use crate::transaction::ROLLBACK;
use crate::{
    Error, Host, PostgresConfig, Reply, Request, Result, TargetSession, Ticket, TransactionOptions,
};

pub use hook::{Hook, Notification};
pub(super) use login::log_in;
pub use notices::Notices;
pub use options::{Options, Route};
pub(super) use server_role::ServerRole;
use session::{CopyIn, Rows, ServerSession};
use statement::{Key, QueryRange};
use statements::NONCE_SIZE;

/// The size of a CopyData message; a server accepts less than a gibibyte.
const COPY_SIZE: usize = 1 << 20;

/// Why data can be sent.
const COPY_OPEN: &str = "the server waits for data";

/// Why a request without a text can be queued.
const SMALL: &str = "the window keeps away from the limit of the queue";

/// A connection's state machine without its socket. See the [module](self).
pub struct PostgresDriver {
    /// `Some` until TLS has been negotiated.
    prologue: Option<Prologue>,
    /// The prologue for another connection like this one, if it uses TLS.
    prologue_again: Option<Prologue>,
    connection: Connection,
    output: Output,
    session: ServerSession,
    is_input_ended: bool,
    /// Whether the output ends with the terminate message.
    is_closing: bool,
    query_count_max: usize,
    window: usize,
    /// How many queries have no Sync after them yet: none but while requests are dispatched.
    flight_count: usize,
}

impl PostgresDriver {
    /// Creates a driver, which begins with the log-in; its first message is in the output.
    ///
    /// # Errors
    ///
    /// When a name or the password contains a NUL.
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
            prologue: None,
            prologue_again: None,
            connection: connection.map_err(Error::request)?,
            output: Output::default(),
            session: ServerSession::new(&options),
            is_input_ended: false,
            is_closing: false,
            query_count_max: options.query_count_max,
            window,
            flight_count: 0,
        })
    }

    /// The log-in comes after a prologue.
    fn with_prologue(self, prologue: Option<Prologue>) -> Self {
        Self { prologue, ..self }
    }

    /// Its statements have names that no other connection has.
    fn with_unique_prefix(mut self, nonce: [u8; NONCE_SIZE]) -> Self {
        self.session.statements.set_unique_prefix(nonce);
        self
    }

    /// The transaction status after the last query.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.connection.transaction_status()
    }

    /// The version that the server reports, such as `18.6`; empty before the log-in.
    pub fn server_version(&self) -> &str {
        &self.session.server_version
    }

    /// The notices of the server since the last call.
    pub fn take_notices(&mut self) -> Notices {
        std::mem::take(&mut self.session.notices)
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
            // The server has just said that it waits.
            match copies {
                Some(CopyIn::Data(data)) => {
                    for part in data.chunks(COPY_SIZE) {
                        connection.copy_data(part).expect(COPY_OPEN);
                    }
                    connection.copy_done().expect(COPY_OPEN);
                }
                Some(CopyIn::Refused) => connection
                    .copy_fail("the client has no data")
                    .expect(COPY_OPEN),
                None => {}
            }
        }
    }
}

impl Sealed for PostgresDriver {}

impl Protocol for PostgresDriver {
    fn output(&mut self) -> &[u8] {
        match &self.prologue {
            Some(prologue) => prologue.output(),
            // Those whose requests wait here have been told that nothing was sent.
            None if self.session.end.is_some() && !self.is_closing => &[],
            None => {
                if self.output.is_drained() {
                    self.session.send_copy(&mut self.connection);
                }
                let connection = &mut self.connection;
                self.output.fill(|bytes| connection.take_output(bytes))
            }
        }
    }

    fn written(&mut self, size: usize) {
        match &mut self.prologue {
            Some(prologue) => prologue.written(size),
            None => self.output.written(size),
        }
    }

    fn receive_space(&mut self, size: usize) -> &mut [u8] {
        match &mut self.prologue {
            Some(_) if self.session.end.is_some() => &mut [],
            Some(prologue) => prologue.receive_space(),
            None => self.connection.receive_space(size),
        }
    }

    fn received(&mut self, size: usize) {
        let Some(prologue) = &mut self.prologue else {
            return self.connection.received(size);
        };
        match prologue.received(size) {
            Ok(PrologueStep::Answer | PrologueStep::Tls) => {}
            Ok(PrologueStep::Plain) => self.prologue = None,
            Err(error) => self.session.end(error, &self.output),
        }
    }

    fn end_of_input(&mut self) {
        self.connection.end_of_input();
        self.is_input_ended = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_input_ended
    }

    fn fail(&mut self, error: Error) {
        // A server that ends a session says so before.
        self.take_events();
        self.session.end(error, &self.output);
    }

    fn advance(&mut self, now: Instant) {
        self.take_events();
        while let Some(ticket) = self.session.requests.overdue(now) {
            self.session.give_up(ticket, Error::deadline);
        }
        self.session.choose_cancel(now);
        self.dispatch();
    }

    fn is_over(&self) -> bool {
        self.session.end.is_some()
    }
}

impl Upgrade for PostgresDriver {
    fn wants_tls(&self) -> bool {
        self.prologue.as_ref().is_some_and(Prologue::wants_tls)
    }

    fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        let prologue = self.prologue.take();
        self.prologue_again = prologue.map(|prologue| prologue.again());
        self.connection.tls_started(server_end_point);
    }
}

impl Driver for PostgresDriver {
    type Config = PostgresConfig;
    type Options = Options;
    type Auxiliary = CancelConnection;

    fn begin(
        config: &PostgresConfig,
        host: &Host,
        transport: Transport,
        options: Options,
    ) -> Result<Self> {
        login::begin(config, host, transport, options)
    }

    fn submit(&mut self, request: Request) -> Result<Ticket> {
        if let Some(end) = &self.session.end {
            return Err(end.of_query(crate::error::Sent::Nothing));
        }
        if request.params.width() > PARAMETER_COUNT_MAX {
            return Err(Error::too_many_parameters(request.params.width()));
        }
        let count = request.params.len();
        if self.session.requests.query_count() + count > self.query_count_max {
            return Err(Error::too_many_queries(self.query_count_max));
        }
        Ok(self.session.add(request))
    }

    fn abandon(&mut self, ticket: Ticket) {
        self.session.requests.remove(ticket);
        self.session.discard_rows(ticket, || Rows::Discarded);
    }

    fn withdraw(&mut self, is_unwanted: impl FnMut(Ticket) -> bool) {
        if self.session.backlog.is_empty() {
            return;
        }
        // An answer makes room.
        self.take_events();
        let room = self.window.saturating_sub(self.session.in_flight_count);
        let tickets = self.session.backlog.iter().map(|range| range.ticket);
        // Others were given up.
        let open = tickets.filter(|&ticket| self.session.requests.contains(ticket));
        for ticket in unwanted(open, room, is_unwanted) {
            self.abandon(ticket);
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.session.give_up(ticket, Error::canceled);
    }

    fn collecting(&self) -> Option<Ticket> {
        self.session.collecting()
    }

    fn discard(&mut self, ticket: Ticket) {
        self.session.discard(ticket);
    }

    fn next_reply(&mut self) -> Option<Reply> {
        self.session.requests.replies.pop_front()
    }

    fn has_reply(&self) -> bool {
        !self.session.requests.replies.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    fn is_ready(&self) -> bool {
        self.session.is_ready
    }

    fn fitness(&self, wanted: TargetSession) -> Fitness {
        self.session.server_role.fitness(wanted)
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    fn query_count(&self) -> usize {
        self.session.requests.query_count()
    }

    fn end(&self) -> Option<&Error> {
        self.session.end.as_ref()
    }

    fn is_in_transaction(&self) -> bool {
        self.connection.transaction_status() != TransactionStatus::Idle
    }

    fn reset_request() -> Request {
        Request::new("discard all", &[])
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.session.copy {
            Some(copy) => copy.poll_receive(cx),
            None => Poll::Ready(()),
        }
    }

    fn restoring_statement(&self) -> Option<&'static str> {
        self.is_in_transaction().then_some(ROLLBACK)
    }

    fn begin_statements(options: &TransactionOptions) -> Vec<String> {
        let mut sql = "begin".to_owned();
        if let Some(isolation) = options.isolation {
            sql.push_str(" isolation level ");
            sql.push_str(isolation.name());
        }
        if options.is_read_only {
            sql.push_str(" read only");
        }
        vec![sql]
    }

    fn take_auxiliary(&mut self) -> Option<CancelConnection> {
        if !self.session.cancel.take() {
            return None;
        }
        let Some(key) = self.connection.cancel_key() else {
            // The server has sent no key, so the answer is awaited instead.
            self.session.cancel_done();
            return None;
        };
        let prologue = self.prologue_again.as_ref();
        Some(CancelConnection::new(key, prologue.map(Prologue::again)))
    }

    fn auxiliary_done(&mut self) {
        self.session.cancel_done();
    }

    fn close(&mut self) {
        if self.session.end.is_none() {
            self.connection.terminate();
            self.is_closing = true;
            self.session.end(Error::closed(), &self.output);
        }
    }
}
