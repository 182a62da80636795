//! A connection to a real server, or to the transcript of one; both write the same log.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use lookaside_wire::Limits;
use lookaside_wire::postgres::replication::{LogicalReplicationMessage, StreamMessage};
use lookaside_wire::postgres::{ChannelBinding, Connection, Credentials, Event, Request, Startup};

use super::Transcript;
use super::scenarios::{Purpose, Scenario, Transport};

/// How the log records that the server closed the connection.
pub(super) const END: &[u8] = b"(end)";

/// A running dialogue.
pub(super) struct Session {
    pub(super) connection: Connection,
    log: String,
    is_begun: bool,
    is_ended: bool,
    purpose: Purpose,
    server: Server,
}

enum Server {
    Live {
        address: SocketAddr,
        read: Box<dyn Read>,
        write: Box<dyn Write>,
        received: Vec<u8>,
    },
    Recorded(VecDeque<Vec<u8>>),
}

impl Session {
    /// Begins a dialogue with a server. `head` is the first line of its transcript.
    pub(super) fn live(
        scenario: &Scenario,
        head: &str,
        address: SocketAddr,
        (read, write): (Box<dyn Read>, Box<dyn Write>),
    ) -> Self {
        let server = Server::Live {
            address,
            read,
            write,
            received: Vec::new(),
        };
        Self::new(scenario, head, server)
    }

    /// Replays a recorded dialogue, with the server's bytes in these pieces.
    pub(super) fn replay(transcript: &Transcript, pieces: VecDeque<Vec<u8>>) -> Self {
        let head = transcript.text.lines().next().unwrap();
        Self::new(transcript.scenario(), head, Server::Recorded(pieces))
    }

    fn new(scenario: &Scenario, head: &str, server: Server) -> Self {
        let mut credentials = Credentials::new([7; 18]).password(scenario.password.as_bytes());
        if scenario.transport == Transport::Tls {
            // The last word of the first line, in hexadecimal digits.
            let hash = head.rsplit(' ').next().unwrap();
            let hash: Vec<u8> = (0..hash.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap())
                .collect();
            credentials = credentials
                .channel_binding(ChannelBinding::Require)
                .tls(Some(&hash));
        }
        let startup = Startup::new(scenario.user)
            .database("postgres")
            .parameters(&[("client_encoding", "UTF8")])
            .version(scenario.version);
        let startup = match scenario.purpose {
            Purpose::Sql => startup,
            Purpose::Replication => startup.replication(),
        };
        Self {
            connection: Connection::new(&startup, credentials, Limits::default()).unwrap(),
            log: format!("{head}\n"),
            is_begun: false,
            is_ended: false,
            purpose: scenario.purpose,
            server,
        }
    }

    pub(super) fn queue(&mut self, requests: &[Request<'_>]) {
        for request in requests {
            self.connection.queue(*request).unwrap();
        }
    }

    /// Continues until the last pending request is answered, or the connection ends.
    pub(super) fn settle(&mut self) {
        self.until(|_| false);
    }

    /// Continues until `is_last` returns true for an event, or until all requests are answered.
    pub(super) fn until(&mut self, is_last: impl Fn(&Event<'_>) -> bool) {
        loop {
            self.send();
            match self.connection.next_event() {
                Ok(Some(event)) => {
                    match event {
                        Event::CopyData { data, .. } if self.purpose == Purpose::Replication => {
                            writeln!(self.log, "= CopyData: {}", streamed(data)).unwrap();
                        }
                        _ => writeln!(self.log, "= {event:?}").unwrap(),
                    }
                    self.is_ended |= matches!(event, Event::Fatal { .. } | Event::Closed);
                    if self.is_ended || is_last(&event) {
                        break;
                    }
                }
                Ok(None) => {
                    if self.is_ended || self.connection.unanswered().is_empty() {
                        break;
                    }
                    self.receive();
                }
                Err(error) => panic!("{error}, behind\n{}", self.log),
            }
        }
        self.send();
    }

    /// Sends a cancel request on another connection.
    pub(super) fn cancel(&mut self) {
        if let Server::Live { address, .. } = self.server {
            let mut request = Vec::new();
            let key = self.connection.cancel_key().unwrap();
            key.cancel_request(&mut request);
            let mut other = TcpStream::connect(address).unwrap();
            other.write_all(&request).unwrap();
            assert_eq!(other.read(&mut [0]).unwrap(), 0, "there is no answer");
        }
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
            // The first message of a connection has no type.
            let length_start = usize::from(self.is_begun);
            self.is_begun = true;
            let (message, behind) = rest.split_at(message_size(rest, length_start).unwrap());
            writeln!(self.log, "> {}", message.escape_ascii()).unwrap();
            rest = behind;
        }
        if let Server::Live { write, .. } = &mut self.server {
            // A closed connection is detected by reading.
            let _ = write.write_all(&output).and_then(|()| write.flush());
        }
    }

    /// Receives one message at a time, so that the log does not depend on how they were split.
    fn receive(&mut self) {
        let message = match &mut self.server {
            Server::Recorded(messages) => {
                let message = messages.pop_front();
                let message = message.unwrap_or_else(|| panic!("no answer to\n{}", self.log));
                (message != END).then_some(message)
            }
            Server::Live { read, received, .. } => loop {
                if let Some(size) = message_size(received, 1)
                    && size <= received.len()
                {
                    break Some(received.drain(..size).collect());
                }
                let mut piece = [0; 4096];
                match read.read(&mut piece) {
                    Ok(0) | Err(_) => break None,
                    Ok(size) => received.extend_from_slice(&piece[..size]),
                }
            },
        };
        match message {
            Some(message) => {
                writeln!(self.log, "< {}", message.escape_ascii()).unwrap();
                self.connection.feed(&message);
            }
            None => {
                writeln!(self.log, "< {}", END.escape_ascii()).unwrap();
                self.connection.end_of_input();
            }
        }
    }
}

/// The decoded data of a CopyData.
fn streamed(data: &[u8]) -> String {
    match StreamMessage::decode(data).unwrap() {
        StreamMessage::XLogData(piece) => {
            let message = LogicalReplicationMessage::decode(piece.payload).unwrap();
            format!(
                "XLogData {}..{}, {:?}: {message:?}",
                piece.start, piece.end, piece.time
            )
        }
        message => format!("{message:?}"),
    }
}

/// The size of the first message in `bytes`, if its length was received.
fn message_size(bytes: &[u8], length_start: usize) -> Option<usize> {
    let length = bytes.get(length_start..length_start + 4)?;
    let length = u32::from_be_bytes(length.try_into().unwrap());
    Some(length_start + usize::try_from(length).unwrap())
}
