//! A connection to a real server, or to the transcript of one; both write the same log.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Write};

use lookaside_wire::Limits;
use lookaside_wire::mysql::{
    ColumnType, Connection, Credentials, Cursor, Event, Execute, ParameterType, PublicKey, Request,
    Startup, StatementId,
};

use super::Transcript;
use super::scenarios::{Key, Scenario};

/// How the log records that the server closed the connection.
pub(super) const END: &[u8] = b"(end)";

/// A running dialogue.
pub(super) struct Session {
    pub(super) connection: Connection,
    /// The prepared statements, in order.
    pub(super) statements: Vec<StatementId>,
    log: String,
    is_ended: bool,
    server: Server,
}

/// Both ends of a connection to a server, and a function that adds TLS to them.
pub(super) struct Live {
    pub(super) read: Box<dyn Read>,
    pub(super) write: Box<dyn Write>,
    pub(super) begin_tls: Option<Box<dyn FnOnce() -> Ends>>,
}

/// The ends to read from and to write to.
pub(super) type Ends = (Box<dyn Read>, Box<dyn Write>);

enum Server {
    Live { live: Live, received: Vec<u8> },
    Recorded(VecDeque<Vec<u8>>),
}

/// A value of a parameter.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Double(f64),
    Text(&'a str),
}

impl Value<'_> {
    pub(super) fn parameter_type(&self) -> ParameterType {
        ParameterType::new(match self {
            Self::Null => ColumnType::NULL,
            Self::Int(_) => ColumnType::LONGLONG,
            Self::Double(_) => ColumnType::DOUBLE,
            Self::Text(_) => ColumnType::VAR_STRING,
        })
    }
}

impl Session {
    /// Begins a dialogue with a server. `head` is the first line of its transcript.
    pub(super) fn live(scenario: &Scenario, head: &str, live: Live) -> Self {
        let received = Vec::new();
        Self::new(scenario, head, Server::Live { live, received })
    }

    /// Replays a recorded dialogue, with the server's bytes in these pieces.
    pub(super) fn replay(transcript: &Transcript, pieces: VecDeque<Vec<u8>>) -> Self {
        let head = transcript.text.lines().next().unwrap();
        Self::new(transcript.scenario(), head, Server::Recorded(pieces))
    }

    fn new(scenario: &Scenario, head: &str, server: Server) -> Self {
        let mut credentials = Credentials::new([7; 20]).password(scenario.password.as_bytes());
        match scenario.key {
            Key::Refuse => {}
            Key::Ask => credentials = credentials.ask_public_key(),
            Key::Given => {
                // The last word of the first line.
                let key = head.rsplit(' ').next().unwrap();
                let pem = format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----");
                credentials = credentials.public_key(PublicKey::from_pem(pem.as_bytes()).unwrap());
            }
        }
        let attributes = [
            ("_client_name", "lookaside"),
            ("program_name", "transcripts"),
        ];
        let startup = Startup::new(scenario.user)
            .transport(scenario.transport())
            .attributes(&attributes);
        let startup = (scenario.startup)(startup);
        Self {
            connection: Connection::new(&startup, credentials, Limits::default()).unwrap(),
            statements: Vec::new(),
            log: format!("{head}\n"),
            is_ended: false,
            server,
        }
    }

    pub(super) fn queue(&mut self, requests: &[Request<'_>]) {
        for request in requests {
            self.connection.queue(*request).unwrap();
        }
    }

    /// Queues a query, and waits for its end.
    pub(super) fn query(&mut self, sql: &str) {
        self.queue(&[Request::Query(sql)]);
        self.settle();
    }

    /// Queues a Prepare, and waits for its end.
    pub(super) fn prepare(&mut self, sql: &str) -> StatementId {
        self.queue(&[Request::Prepare(sql)]);
        self.settle();
        *self.statements.last().unwrap()
    }

    pub(super) fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) {
        self.execute_with(statement, Cursor::None, values);
    }

    pub(super) fn execute_with(
        &mut self,
        statement: StatementId,
        cursor: Cursor,
        values: &[Value<'_>],
    ) {
        let types: Vec<_> = values.iter().map(Value::parameter_type).collect();
        let execute = Execute { statement, cursor };
        let queued = self.connection.queue_execute(&execute, &types, |writer| {
            for value in values {
                match value {
                    Value::Null => writer.null(),
                    Value::Int(number) => writer.number(number.to_le_bytes()),
                    Value::Double(number) => writer.number(number.to_le_bytes()),
                    Value::Text(text) => writer.bytes(text.as_bytes()),
                }
            }
        });
        queued.unwrap();
    }

    /// Continues until the last pending request is answered, or the connection ends.
    pub(super) fn settle(&mut self) {
        while !self.is_ended {
            self.send();
            match self.connection.next_event() {
                Ok(Some(event)) => {
                    writeln!(self.log, "= {event:?}").unwrap();
                    self.is_ended |= matches!(event, Event::Fatal { .. } | Event::Closed);
                    if let Event::Prepared { prepared, .. } = event {
                        self.statements.push(prepared.statement);
                    }
                }
                Ok(None) => {
                    if self.connection.wants_tls() {
                        self.begin_tls();
                    } else if self.connection.unanswered().is_empty() {
                        break;
                    } else {
                        self.receive();
                    }
                }
                Err(error) => {
                    writeln!(self.log, "= error: {error}").unwrap();
                    self.is_ended = true;
                }
            }
        }
        self.send();
    }

    fn begin_tls(&mut self) {
        writeln!(self.log, "# TLS").unwrap();
        if let Server::Live { live, .. } = &mut self.server {
            let begin = live.begin_tls.take().expect("TLS begins once");
            (live.read, live.write) = begin();
        }
        self.connection.tls_started().unwrap();
    }

    /// Terminates the session, unless it has ended, and returns the log.
    pub(super) fn finish(mut self) -> String {
        self.connection.terminate();
        self.send();
        self.log
    }

    fn send(&mut self) {
        let mut output = Vec::new();
        self.connection.take_output(&mut output);
        let mut rest = &output[..];
        while !rest.is_empty() {
            let (packet, behind) = rest.split_at(packet_size(rest).unwrap());
            writeln!(self.log, "> {}", packet.escape_ascii()).unwrap();
            rest = behind;
        }
        if let Server::Live { live, .. } = &mut self.server {
            // A closed connection is detected by reading.
            let _ = live
                .write
                .write_all(&output)
                .and_then(|()| live.write.flush());
        }
    }

    /// Receives one packet at a time, so that the log does not depend on how they were split.
    fn receive(&mut self) {
        let packet = match &mut self.server {
            Server::Recorded(packets) => {
                let packet = packets.pop_front();
                let packet = packet.unwrap_or_else(|| panic!("no answer to\n{}", self.log));
                (packet != END).then_some(packet)
            }
            Server::Live { live, received } => loop {
                if let Some(size) = packet_size(received)
                    && size <= received.len()
                {
                    break Some(received.drain(..size).collect());
                }
                let mut piece = [0; 4096];
                match live.read.read(&mut piece) {
                    Ok(0) | Err(_) => break None,
                    Ok(size) => received.extend_from_slice(&piece[..size]),
                }
            },
        };
        match packet {
            Some(packet) => {
                writeln!(self.log, "< {}", packet.escape_ascii()).unwrap();
                self.connection.feed(&packet);
            }
            None => {
                writeln!(self.log, "< {}", END.escape_ascii()).unwrap();
                self.connection.end_of_input();
            }
        }
    }
}

/// The size of the first packet in `bytes`, if its length was received.
pub(super) fn packet_size(bytes: &[u8]) -> Option<usize> {
    let [low, middle, high] = *bytes.first_chunk()?;
    Some(usize::from(low) + (usize::from(middle) << 8) + (usize::from(high) << 16) + 4)
}
