//! KILL QUERY, on a connection of its own.

use std::time::Instant;

use lookaside_wire::RequestId;
use lookaside_wire::mysql::{Connection, Event, Request};

use super::login::Login;
use crate::drive::{Sealed, Talk, Upgrade};
use crate::output::Output;
use crate::{Error, Result};

/// Asks a server to cancel what it does in another session: logs in, says so, and goes.
pub struct KillErrand {
    connection: Connection,
    output: Output,
    /// The session whose query is not wanted.
    connection_id: u32,
    is_input_ended: bool,
    is_over: bool,
}

impl KillErrand {
    pub(super) fn new(login: &Login, connection_id: u32) -> Result<Self> {
        Ok(Self {
            connection: login.connection()?,
            output: Output::default(),
            connection_id,
            is_input_ended: false,
            is_over: false,
        })
    }

    /// Takes what came; says whether there may be more.
    fn step(&mut self) -> bool {
        let is_let_in = match self.connection.next_event() {
            Ok(Some(Event::Ok { id, .. })) => id == RequestId::STARTUP,
            // A query that is over cannot be killed, which is as good.
            Ok(Some(Event::Failed { .. } | Event::Fatal { .. } | Event::Closed)) | Err(_) => false,
            Ok(Some(_)) => return true,
            Ok(None) => return false,
        };
        let sql = format!("KILL QUERY {}", self.connection_id);
        let is_asked = is_let_in && self.connection.queue(Request::Query(&sql)).is_ok();
        if !is_asked {
            self.connection.terminate();
            self.is_over = true;
        }
        is_asked
    }
}

impl Sealed for KillErrand {}

impl Talk for KillErrand {
    fn output(&mut self) -> &[u8] {
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
        self.connection.received(size);
    }

    fn end_of_input(&mut self) {
        self.connection.end_of_input();
        self.is_input_ended = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_input_ended
    }

    fn fail(&mut self, _error: Error) {
        self.is_over = true;
    }

    fn advance(&mut self, _now: Instant) {
        while !self.is_over && self.step() {}
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Upgrade for KillErrand {
    fn wants_tls(&self) -> bool {
        self.connection.wants_tls()
    }

    fn tls_started(&mut self, _server_end_point: Option<&[u8]>) {
        self.is_over |= self.connection.tls_started().is_err();
    }
}
