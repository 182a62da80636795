//! KILL QUERY, over a second connection.

use std::ffi::CString;
use std::time::Instant;

use lookaside_wire::RequestId;
use lookaside_wire::mysql::{Connection, Event, Greeting, Request};

use super::login::Login;
use crate::driver::{Protocol, Sealed, Upgrade};
use crate::output::Output;
use crate::{Error, Result};

/// Cancels the query of another session: logs in, sends the statement, and closes.
pub struct KillConnection {
    connection: Connection,
    output: Output,
    /// The session whose query is to be cancelled.
    peer: Peer,
    is_input_ended: bool,
    is_over: bool,
}

/// The server and the id of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    server_version: CString,
    /// The server's number of the connection.
    connection_id: u32,
}

impl Peer {
    pub(super) fn of(greeting: &Greeting<'_>) -> Self {
        Self {
            server_version: greeting.server_version.to_owned(),
            connection_id: greeting.connection_id,
        }
    }

    /// Whether a server with this greeting can be the one of the session.
    ///
    /// A load balancer may lead to another one. Servers cannot be distinguished reliably, but they
    /// number their connections, so a lower number means another server.
    fn may_be_from(&self, greeting: &Greeting<'_>) -> bool {
        greeting.connection_id > self.connection_id
            && greeting.server_version == &*self.server_version
    }
}

impl KillConnection {
    pub(super) fn new(login: &Login, peer: Peer) -> Result<Self> {
        Ok(Self {
            connection: login.connection()?,
            output: Output::default(),
            peer,
            is_input_ended: false,
            is_over: false,
        })
    }

    /// Takes what came; says whether there may be more.
    fn step(&mut self) -> bool {
        let is_let_in = match self.connection.next_event() {
            // The number may be that of another client's connection.
            Ok(Some(Event::Greeting(greeting))) if !self.peer.may_be_from(&greeting) => false,
            Ok(Some(Event::Ok { id, .. })) => id == RequestId::STARTUP,
            // A query that is over cannot be killed, which is as good.
            Ok(Some(Event::Failed { .. } | Event::Fatal { .. } | Event::Closed)) | Err(_) => false,
            Ok(Some(_)) => return true,
            Ok(None) => return false,
        };
        let sql = format!("KILL QUERY {}", self.peer.connection_id);
        let is_asked = is_let_in && self.connection.queue(Request::Query(&sql)).is_ok();
        if !is_asked {
            self.connection.terminate();
            self.is_over = true;
        }
        is_asked
    }
}

impl Sealed for KillConnection {}

impl Protocol for KillConnection {
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

impl Upgrade for KillConnection {
    fn wants_tls(&self) -> bool {
        self.connection.wants_tls()
    }

    fn tls_started(&mut self, _server_end_point: Option<&[u8]>) {
        self.is_over |= self.connection.tls_started().is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Transport;
    use crate::{Config, Environment};

    /// What a server says first.
    fn greeting(version: &str, connection_id: u32) -> Vec<u8> {
        let mut payload = vec![10];
        payload.extend(version.as_bytes());
        payload.push(0);
        payload.extend(connection_id.to_le_bytes());
        payload.extend(b"abcdefgh\0\x01\xa2\x2d\x02\0\x0e\x01\x15");
        payload.extend([0; 10]);
        payload.extend(b"abcdefghijkl\0mysql_native_password\0");
        let mut packet = vec![payload.len() as u8, 0, 0, 0];
        packet.extend(payload);
        packet
    }

    #[test]
    fn another_server_is_asked_nothing() {
        let url = "mysql://amy:secret@localhost/shop?ssl-mode=disabled";
        let Config::Mysql(config) = Config::parse(url, &Environment::empty()).unwrap() else {
            unreachable!("the URL is MySQL's");
        };
        for (version, connection_id, expected) in [
            ("9.7.4", 8, true),
            ("9.7.4", 7, false),
            ("9.7.4", 3, false),
            ("9.7.5", 8, false),
        ] {
            let login = Login::new(&config, &config.hosts[0], Transport::Plain);
            let peer = Peer {
                server_version: c"9.7.4".to_owned(),
                connection_id: 7,
            };
            let mut auxiliary = KillConnection::new(&login, peer).unwrap();
            let bytes = greeting(version, connection_id);
            auxiliary.receive_space(bytes.len())[..bytes.len()].copy_from_slice(&bytes);
            auxiliary.received(bytes.len());
            auxiliary.advance(Instant::now());
            assert_eq!(!auxiliary.is_over(), expected, "{version} {connection_id}");
        }
    }
}
