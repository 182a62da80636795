//! The connection state machine: which query is sent when, which answer arrives, and what an error
//! means.
//!
//! A [`MysqlDriver`] has no socket and no clock. Its owner, a connection, moves bytes between it
//! and a server and passes the time; see [`Driver`].
//!
//! # Statements
//!
//! Each statement is prepared once, for the types of its parameters, because MySQL fixes them at
//! the first execution. Its first use takes an additional round trip. MariaDB can execute the last
//! prepared statement in the same batch, which saves that round trip if the number of parameters is
//! certain. MySQL needs the statement's number, which could only be guessed, and a wrong guess may
//! be the number of another statement. Statements that begin or end a transaction or set something
//! are not prepared, nor are those that the server refuses to prepare.
//!
//! # Column definitions
//!
//! The server sends the definitions of a result's columns with each answer, or, on MariaDB, only if
//! they have changed. Received definitions are compared with the last ones byte by byte, and parsed
//! only if they differ. So a table can change between two executions, and rows are still decoded
//! correctly.
//!
//! # Streams
//!
//! A result in chunks has its own prepared statement, because a cursor ends when its statement is
//! executed again. The server stores all rows in a temporary table first, and returns fetched rows
//! from there. If a statement does not support a cursor, all rows are received and returned in
//! chunks.
//!
//! # Order
//!
//! Concurrent queries are not ordered. A caller that needs an order waits for the first answer
//! before it sends the next query.
//!
//! # What an error means
//!
//! - A prepared statement that no longer exists on the server is evicted, and the query is sent
//!   once more, unless it is part of a transaction.
//! - After `SET` and `USE` all prepared statements are evicted, because names may mean something
//!   else.
//! - An error of a query affects only its caller. If the connection is lost, the error tells
//!   whether the query was sent: see [`Error::is_retryable`].
//!
//! # Sessions that are shared
//!
//! A pool's requests come from independent callers. Statements whose first word begins a
//! transaction or changes the session are refused. If another statement does so, for example a
//! procedure, that is detected by the status in its answer: neither that answer nor later ones are
//! returned, and the connection is closed, so that the server rolls back. Errors have no status, so
//! after an error of a statement that may have changed it, the status is queried before anything
//! else is sent.

mod answer;
mod bulk;
mod cursor;
mod dispatch;
mod end;
mod in_flight;
mod options;
mod pipelined_prepare;
mod placeholders;
mod reset;
mod row_layout;
mod session;
mod statement;
mod statement_kind;
mod statements;
mod status;
mod stream;

use std::time::{Duration, Instant};

use lookaside_wire::mysql::{Capabilities, Connection, Credentials, Startup};

use super::auxiliary::AuxiliaryConnection;
use super::kill::KillConnection;
use super::login::Login;
use super::probe::Silence;
use crate::driver::{Driver, Fitness, Protocol, Sealed, Transport, Upgrade, unwanted};
use crate::error::PARAMETER_COUNT_MAX;
use crate::output::Output;
use crate::request::Goal;
use crate::types::mysql::ParamType;
use crate::{
    Error, Host, MysqlConfig, Reply, Request, Result, TargetSession, Ticket, TransactionOptions,
};

pub use options::{Definitions, Options};
use session::ServerSession;
use statement::Scratch;

/// A connection's state machine without its socket. See the [module](self).
pub struct MysqlDriver {
    connection: Connection,
    output: Output,
    session: ServerSession,
    scratch: Scratch,
    /// Memory for the types of one query's parameters.
    types: Vec<ParamType>,
    is_input_ended: bool,
    /// Whether the output ends with the quit command.
    is_closing: bool,
    is_encrypted: bool,
    query_count_max: usize,
    window: usize,
    /// How long the definitions of pinned columns are trusted.
    pinned_check_after: Option<Duration>,
    definitions: Definitions,
    /// The detection of a server that does not send a greeting.
    silence: Silence,
    /// The log-in for a second connection to the same server.
    login: Option<Login>,
}

impl MysqlDriver {
    /// Creates a driver, which begins with the log-in. The server sends first.
    ///
    /// A driver that is created this way cannot open a second connection, and so cannot cancel
    /// queries; [`Driver::begin`] creates one that can.
    ///
    /// # Errors
    ///
    /// When a name or the password contains a NUL.
    pub fn new(startup: &Startup<'_>, credentials: Credentials, options: Options) -> Result<Self> {
        let startup = match options.pinned_check_after {
            Some(_) => startup.optional_metadata(),
            None => *startup,
        };
        let startup = match options.definitions {
            Definitions::Compare => startup,
            Definitions::Read => startup.without(Capabilities::MARIADB_CACHE_METADATA),
        };
        let window = options.window.clamp(1, options.wire.request_count_max);
        let connection = Connection::new(&startup, credentials, options.wire.clone());
        Ok(Self {
            connection: connection.map_err(Error::request)?,
            output: Output::default(),
            session: ServerSession::new(&options),
            scratch: Scratch::default(),
            types: Vec::new(),
            is_input_ended: false,
            is_closing: false,
            is_encrypted: false,
            query_count_max: options.query_count_max,
            window,
            pinned_check_after: options.pinned_check_after,
            definitions: options.definitions,
            silence: Silence::default(),
            login: None,
        })
    }

    fn with_login(mut self, login: Login) -> Self {
        self.session.has_password = login.has_password();
        Self {
            login: Some(login),
            ..self
        }
    }

    fn take_events(&mut self) {
        let Self {
            connection,
            session,
            output,
            definitions,
            ..
        } = self;
        while session.end.is_none() {
            match connection.next_event() {
                Ok(Some(event)) => {
                    let is_last = event.is_last();
                    session.take(event, output);
                    // Rows of a cursor have no definitions.
                    let is_needed = !session.streams.is_empty();
                    if is_last && !is_needed && *definitions == Definitions::Read {
                        connection.forget_columns();
                    }
                }
                Ok(None) => return,
                Err(error) => session.end(Error::protocol(error), output),
            }
        }
    }
}

impl Sealed for MysqlDriver {}

impl Protocol for MysqlDriver {
    fn output(&mut self) -> &[u8] {
        // Requests that wait here have been reported as unsent.
        if self.session.end.is_some() && !self.is_closing {
            return &[];
        }
        let connection = &mut self.connection;
        self.output.fill(|bytes| connection.take_output(bytes))
    }

    fn written(&mut self, size: usize) {
        self.output.written(size);
    }

    fn receive_space(&mut self, size: usize) -> &mut [u8] {
        self.connection.receive_space(size)
    }

    fn received(&mut self, size: usize) {
        self.silence.end();
        self.connection.received(size);
    }

    fn end_of_input(&mut self) {
        self.connection.end_of_input();
        self.is_input_ended = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_input_ended
    }

    fn fail(&mut self, error: Error) {
        // A server sends an error before it closes a session.
        self.take_events();
        self.session.fail(error, &self.output);
    }

    fn advance(&mut self, now: Instant) {
        self.take_events();
        self.silence.advance(now);
        while let Some(ticket) = self.session.requests.overdue(now) {
            self.session.give_up(ticket, Error::deadline);
        }
        self.session.choose_cancel(now);
        self.dispatch(now);
    }

    fn is_over(&self) -> bool {
        self.session.end.is_some()
    }
}

impl Upgrade for MysqlDriver {
    fn wants_tls(&self) -> bool {
        self.connection.wants_tls()
    }

    fn tls_started(&mut self, _server_end_point: Option<&[u8]>) {
        self.is_encrypted = true;
        if let Err(error) = self.connection.tls_started() {
            self.session.end(Error::protocol(error), &self.output);
        }
    }
}

impl Driver for MysqlDriver {
    type Config = MysqlConfig;
    type Options = Options;
    type Auxiliary = AuxiliaryConnection;

    fn begin(
        config: &MysqlConfig,
        host: &Host,
        transport: Transport,
        options: Options,
    ) -> Result<Self> {
        let login = Login::new(config, host, transport);
        let driver = Self::new(&login.startup()?, login.credentials()?, options)?;
        Ok(driver.with_login(login))
    }

    fn submit(&mut self, request: Request) -> Result<Ticket> {
        if let Some(end) = &self.session.end {
            return Err(end.of_query(crate::error::Sent::Nothing));
        }
        if let Goal::Script { .. } = request.goal {
            return Err(Error::no_scripts());
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
        if self.session.is_answering(ticket) {
            self.session.incoming.give_up();
        }
    }

    fn withdraw(&mut self, is_unwanted: impl FnMut(Ticket) -> bool) {
        if self.session.backlog.is_empty() {
            return;
        }
        // Answers make room in the window.
        self.take_events();
        let room = self.window.saturating_sub(self.session.in_flight.len());
        let tickets = self.session.backlog.iter().map(|range| range.ticket);
        // Others were abandoned.
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
        let deadlines = [
            self.session.requests.deadline(),
            self.session.cancel.deadline(),
            self.silence.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn is_ready(&self) -> bool {
        self.session.is_ready
    }

    /// A MySQL URL has no required session attributes.
    fn fitness(&self, _wanted: TargetSession) -> Fitness {
        Fitness::Fit
    }

    fn is_idle(&self) -> bool {
        self.session.requests.is_empty() && self.session.in_flight.is_empty()
    }

    fn query_count(&self) -> usize {
        self.session.requests.query_count()
    }

    fn end(&self) -> Option<&Error> {
        self.session.end.as_ref()
    }

    fn is_in_transaction(&self) -> bool {
        self.session.status.may_be_in_transaction()
    }

    fn reset_request() -> Request {
        Request::reset()
    }

    fn restoring_statement(&self) -> Option<&'static str> {
        self.session.status.restoring_statement()
    }

    fn begin_statements(options: &TransactionOptions) -> Vec<String> {
        let isolation = options.isolation.map(|isolation| {
            // It applies to the next transaction only.
            format!("set transaction isolation level {}", isolation.name())
        });
        let begin = if options.is_read_only {
            "start transaction read only"
        } else {
            "start transaction"
        };
        isolation.into_iter().chain([begin.to_owned()]).collect()
    }

    fn take_auxiliary(&mut self) -> Option<AuxiliaryConnection> {
        if let Some(probe) = self.silence.take_probe() {
            return Some(AuxiliaryConnection::Probe(probe));
        }
        if !self.session.cancel.take() {
            return None;
        }
        // The end of a probe would be taken for that of the KILL.
        let login = self.login.as_ref().filter(|_| !self.silence.is_probing());
        let kill = login.and_then(|login| {
            let login = login.again(self.is_encrypted);
            KillConnection::new(&login, self.session.peer.clone()).ok()
        });
        if kill.is_none() {
            // The answer is awaited instead.
            self.session.cancel_done();
        }
        kill.map(|kill| AuxiliaryConnection::Kill(Box::new(kill)))
    }

    fn auxiliary_done(&mut self) {
        if let Some(is_postgres) = self.silence.probed() {
            if is_postgres {
                self.session.end(Error::server_is_postgres(), &self.output);
            }
            return;
        }
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
