//! The phases of the log-in: greeting, TLS, authentication.

use crate::error::{ProtocolError, Reason};
use crate::mysql::auth::Login;
use crate::mysql::commands::{HandshakeResponse, StartupOwned, TlsMode};
use crate::mysql::frame::{PAYLOAD_SIZE_MAX, write_packets};
use crate::mysql::packets::{EOF, Handshake};
use crate::mysql::{Authentication, Capabilities, Credentials, Greeting, Transport};
use crate::read::Reader;

/// The phase of the log-in.
pub(super) enum LoginPhase {
    /// The greeting was not received yet.
    Fresh(StartupOwned, Credentials),
    /// The owner has to begin TLS.
    WantsTls(Box<Begun>),
    /// The proof was sent.
    Proving(Login),
    /// The log-in failed.
    Failed,
}

/// The state after the greeting.
pub(super) struct Begun {
    startup: StartupOwned,
    credentials: Credentials,
    capabilities: Capabilities,
    collation: u8,
    plugin: Vec<u8>,
    challenge: Vec<u8>,
}

/// The result of the greeting.
pub(super) struct Greeted<'a> {
    pub(super) greeting: Greeting<'a>,
    /// The capabilities that both sides have.
    pub(super) capabilities: Capabilities,
}

impl LoginPhase {
    pub(super) fn new(startup: StartupOwned, credentials: Credentials) -> Self {
        Self::Fresh(startup, credentials)
    }

    pub(super) fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(..))
    }

    pub(super) fn wants_tls(&self) -> bool {
        matches!(self, Self::WantsTls(_))
    }

    /// Processes the greeting, and requests TLS or logs in.
    pub(super) fn greeting<'a>(
        &mut self,
        payload: &'a [u8],
        output: &mut Vec<u8>,
        sequence: &mut Option<u8>,
    ) -> Result<Greeted<'a>, ProtocolError> {
        let handshake = Handshake::decode(Reader::new("greeting", payload))?;
        let Self::Fresh(startup, credentials) = std::mem::replace(self, Self::Failed) else {
            unreachable!("a server greets once");
        };
        let offered = handshake.greeting.capabilities;
        let collation = handshake.greeting.collation;
        let can_tls = offered.contains(Capabilities::SSL);
        let tls = match startup.tls {
            TlsMode::Disable => false,
            TlsMode::Prefer => can_tls,
            TlsMode::Require if can_tls => true,
            TlsMode::Require => {
                return Err(ProtocolError::new("greeting", 0, Reason::TlsMissing));
            }
        };
        let capabilities = startup.negotiate(offered).and(Capabilities::SSL, tls);
        let begun = Begun {
            startup,
            credentials,
            capabilities,
            collation,
            plugin: handshake.plugin.to_vec(),
            challenge: handshake.challenge.concat(),
        };
        if tls {
            send(output, sequence, |output| {
                HandshakeResponse::encode_head(capabilities, collation, output);
            });
            *self = Self::WantsTls(Box::new(begun));
        } else {
            let transport = begun.startup.transport;
            *self = Self::Proving(begun.log_in(transport, output, sequence)?);
        }
        Ok(Greeted {
            greeting: handshake.greeting,
            capabilities,
        })
    }

    /// Continues within TLS.
    pub(super) fn tls_started(
        &mut self,
        output: &mut Vec<u8>,
        sequence: &mut Option<u8>,
    ) -> Result<(), ProtocolError> {
        match std::mem::replace(self, Self::Failed) {
            Self::WantsTls(begun) => {
                *self = Self::Proving(begun.log_in(Transport::Protected, output, sequence)?);
            }
            other => *self = other,
        }
        Ok(())
    }

    /// The server accepts the log-in.
    pub(super) fn accept(&self) -> Result<(), ProtocolError> {
        match self {
            Self::Proving(_) => Ok(()),
            _ => {
                let reason = Reason::Unexpected("before the log-in");
                Err(ProtocolError::new("OK", 0, reason))
            }
        }
    }

    /// Processes a step that the server requests, and answers.
    pub(super) fn step(
        &mut self,
        payload: &[u8],
        output: &mut Vec<u8>,
        sequence: &mut Option<u8>,
    ) -> Result<Authentication, ProtocolError> {
        let Self::Proving(login) = self else {
            let reason = Reason::Unexpected("before the log-in");
            return Err(ProtocolError::new("packet", 0, reason));
        };
        let (step, answer) = if payload.first() == Some(&EOF) {
            let (step, answer) = login.switch(Reader::new("AuthSwitchRequest", payload))?;
            (step, Some(answer))
        } else {
            login.more_data(Reader::new("AuthMoreData", payload))?
        };
        if let Some(answer) = answer {
            send(output, sequence, |output| output.extend_from_slice(&answer));
        }
        Ok(step)
    }
}

impl Begun {
    fn log_in(
        self,
        transport: Transport,
        output: &mut Vec<u8>,
        sequence: &mut Option<u8>,
    ) -> Result<Login, ProtocolError> {
        let Self {
            startup,
            credentials,
            capabilities,
            collation,
            plugin,
            challenge,
        } = self;
        let (login, plugin, proof) = Login::begin(credentials, transport, &plugin, challenge)?;
        send(output, sequence, |output| {
            let response = HandshakeResponse {
                startup: &startup,
                capabilities,
                collation,
                plugin: plugin.name(),
                proof: &proof,
            };
            response.encode(output);
        });
        Ok(login)
    }
}

/// Writes a packet with the next number, and expects the answer with the number after it.
fn send(output: &mut Vec<u8>, sequence: &mut Option<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let number = sequence.expect("the server speaks first");
    let written = write_packets(output, number, PAYLOAD_SIZE_MAX, |output| {
        write(output);
        Ok(())
    });
    written.expect("names, a proof and 64 KiB of attributes fit into a packet");
    *sequence = Some(number.wrapping_add(1));
}
