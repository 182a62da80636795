//! The bytes of a feed, without the socket: TLS negotiation, and then the messages of the wire.

use std::time::Instant;

use lookaside_wire::Limits;
use lookaside_wire::postgres::Connection;

use crate::driver::{Protocol, Sealed, Upgrade};
use crate::net::Attempt;
use crate::output::Output;
use crate::postgres::driver::{ServerRole, log_in};
use crate::postgres::prologue::{Prologue, PrologueStep};
use crate::{Error, PostgresConfig, Result};

/// A session for replication, without its socket.
///
/// Its owner takes the events from the wire itself.
pub(super) struct FeedProtocol {
    /// `Some` until TLS has been negotiated.
    prologue: Option<Prologue>,
    pub(super) connection: Connection,
    output: Output,
    pub(super) is_logged_in: bool,
    is_input_ended: bool,
    /// A failure of the socket or of TLS.
    pub(super) end: Option<Error>,
    /// As reported by the server.
    pub(super) server_version: String,
    pub(super) server_role: ServerRole,
    /// As in the limits of the wire, for errors.
    pub(super) message_size_max: usize,
}

impl FeedProtocol {
    /// Begins with the log-in, whose first message is in the output.
    pub(super) fn begin(
        config: &PostgresConfig,
        attempt: &Attempt,
        message_size_max: usize,
    ) -> Result<Self> {
        let host = &attempt.host;
        let limits = Limits {
            message_size_max,
            ..Limits::default()
        };
        let connection = log_in(config, host, |startup, credentials| {
            let connection = Connection::new(&startup.replication(), credentials, limits);
            connection.map_err(Error::request)
        })?;
        Ok(Self {
            prologue: Prologue::new(host, attempt.transport, config.tls_negotiation),
            connection,
            output: Output::default(),
            is_logged_in: false,
            is_input_ended: false,
            end: None,
            server_version: String::new(),
            server_role: ServerRole::default(),
            message_size_max,
        })
    }
}

impl Sealed for FeedProtocol {}

impl Protocol for FeedProtocol {
    fn output(&mut self) -> &[u8] {
        match &self.prologue {
            Some(prologue) => prologue.output(),
            None => {
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
            Some(_) if self.end.is_some() => &mut [],
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
            Err(error) => self.fail(error),
        }
    }

    fn end_of_input(&mut self) {
        self.connection.end_of_input();
        self.is_input_ended = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_input_ended
    }

    /// Received events are still taken: a server that ends a session says so before.
    fn fail(&mut self, error: Error) {
        self.end.get_or_insert(error);
    }

    fn advance(&mut self, _now: Instant) {}

    fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

impl Upgrade for FeedProtocol {
    fn wants_tls(&self) -> bool {
        self.prologue.as_ref().is_some_and(Prologue::wants_tls)
    }

    fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        self.prologue = None;
        self.connection.tls_started(server_end_point);
    }
}
