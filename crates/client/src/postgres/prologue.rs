//! The negotiation of TLS before the log-in.

use lookaside_wire::postgres::{SSL_REQUEST, SslAnswer};

use crate::config::TlsNegotiation;
use crate::driver::Transport;
use crate::{Error, Host, Result};

/// The answer is one byte; a larger buffer detects longer ones.
const ANSWER_SIZE_MAX: usize = 16;

/// The negotiation up to TLS.
#[derive(Debug)]
pub(super) struct Prologue {
    /// The request; empty if TLS begins directly.
    asked: &'static [u8],
    /// The unwritten part of it.
    question: &'static [u8],
    answer: [u8; ANSWER_SIZE_MAX],
    answer_size: usize,
    is_accepted: bool,
    transport: Transport,
    host: Box<str>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrologueStep {
    /// Wait for the answer.
    Answer,
    /// Start TLS.
    Tls,
    /// Log in without TLS.
    Plain,
}

impl Prologue {
    /// `None` for a plain connection.
    pub(super) fn new(
        host: &Host,
        transport: Transport,
        negotiation: TlsNegotiation,
    ) -> Option<Self> {
        if transport == Transport::Plain {
            return None;
        }
        let asked: &[u8] = match negotiation {
            TlsNegotiation::Postgres => &SSL_REQUEST,
            TlsNegotiation::Direct => &[],
        };
        Some(Self {
            asked,
            question: asked,
            answer: [0; ANSWER_SIZE_MAX],
            answer_size: 0,
            is_accepted: asked.is_empty(),
            transport,
            host: host.to_string().into(),
        })
    }

    pub(super) fn output(&self) -> &[u8] {
        self.question
    }

    pub(super) fn written(&mut self, size: usize) {
        self.question = &self.question[size..];
    }

    pub(super) fn receive_space(&mut self) -> &mut [u8] {
        &mut self.answer[self.answer_size..]
    }

    pub(super) fn received(&mut self, size: usize) -> Result<PrologueStep> {
        self.answer_size += size;
        let answer = SslAnswer::decode(&self.answer[..self.answer_size]);
        match answer.map_err(Error::protocol)? {
            None => Ok(PrologueStep::Answer),
            Some(SslAnswer::Accepted) => {
                self.is_accepted = true;
                Ok(PrologueStep::Tls)
            }
            Some(SslAnswer::Refused) if self.transport == Transport::TlsIfOffered => {
                Ok(PrologueStep::Plain)
            }
            Some(SslAnswer::Refused) => Err(Error::server_without_tls(&self.host)),
        }
    }

    /// The prologue for another connection with the same transport.
    pub(super) fn again(&self) -> Self {
        Self {
            question: self.asked,
            transport: Transport::Tls,
            answer_size: 0,
            is_accepted: self.asked.is_empty(),
            host: self.host.clone(),
            ..*self
        }
    }

    pub(super) fn wants_tls(&self) -> bool {
        self.is_accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, HostAddress};

    fn begun(transport: Transport) -> Option<Prologue> {
        let host = Host {
            address: HostAddress::Tcp {
                name: "db".to_owned(),
                address: None,
            },
            port: 5432,
            password: None,
        };
        Prologue::new(&host, transport, TlsNegotiation::Postgres)
    }

    fn answered(transport: Transport, answer: &[u8]) -> Result<PrologueStep> {
        let mut prologue = begun(transport).unwrap();
        prologue.written(3);
        prologue.written(5);
        assert!(prologue.output().is_empty());
        prologue.receive_space()[..answer.len()].copy_from_slice(answer);
        prologue.received(answer.len())
    }

    #[test]
    fn the_answer_decides() {
        assert!(begun(Transport::Plain).is_none());
        for transport in [Transport::TlsIfOffered, Transport::Tls] {
            assert_eq!(answered(transport, b"").unwrap(), PrologueStep::Answer);
            assert_eq!(answered(transport, b"S").unwrap(), PrologueStep::Tls);
            for bad in [&b"SR\0\0"[..], b"NR\0\0", b"E\0", b"H"] {
                let error = answered(transport, bad).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Protocol, "{bad:?}");
            }
        }
        assert_eq!(
            answered(Transport::TlsIfOffered, b"N").unwrap(),
            PrologueStep::Plain
        );
        let error = answered(Transport::Tls, b"N").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls);
        assert!(error.to_string().starts_with("db:5432 does not offer TLS"));
    }
}
