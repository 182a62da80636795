//! One TLS connection: ciphertext on the side of the socket, the protocol on the other.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::Peer;
use super::end_point::server_end_point;
use crate::driver::Upgrade;
use crate::net::READ_SIZE;
use crate::{Error, HostAddress, Result};

/// The amount of waiting ciphertext above which no more plaintext is taken.
const OUTPUT_SIZE: usize = 64 * 1024;

/// TLS between a protocol and its socket.
pub(in crate::net) struct Channel {
    peer: Peer,
    tls: ClientConnection,
    is_open: bool,
    /// Ciphertext for the socket, of which `written` bytes are written.
    output: Vec<u8>,
    written: usize,
    /// Where ciphertext is read to.
    space: Vec<u8>,
}

impl Channel {
    /// Begins the handshake, whose first message waits in the output.
    pub(in crate::net) fn begin(peer: Peer) -> Result<Self> {
        let config = Arc::clone(&peer.context.config);
        let tls = ClientConnection::new(config, server_name(&peer)?);
        let mut tls = tls.map_err(|error| Error::tls(&peer.host, error))?;
        // The protocol limits its output itself.
        tls.set_buffer_limit(None);
        Ok(Self {
            peer,
            tls,
            is_open: false,
            output: Vec::new(),
            written: 0,
            space: Vec::new(),
        })
    }

    pub(in crate::net) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(in crate::net) fn output(&mut self, protocol: &mut impl Upgrade) -> &[u8] {
        if self.written == self.output.len() {
            self.output.clear();
            self.output.shrink_to(OUTPUT_SIZE);
            self.written = 0;
            while self.is_open && self.output.len() < OUTPUT_SIZE {
                let plain = protocol.output();
                let plain = &plain[..plain.len().min(OUTPUT_SIZE)];
                if plain.is_empty() {
                    break;
                }
                let size = self.tls.writer().write(plain).expect(IN_MEMORY);
                protocol.written(size);
                self.take_output();
            }
            self.take_output();
        }
        &self.output[self.written..]
    }

    fn take_output(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.output).expect(IN_MEMORY);
        }
    }

    pub(in crate::net) fn written(&mut self, size: usize) {
        assert!(
            size <= self.output.len() - self.written,
            "more written than there was"
        );
        self.written += size;
    }

    pub(in crate::net) fn receive_space(&mut self, size: usize) -> &mut [u8] {
        self.space.resize(size.max(READ_SIZE), 0);
        &mut self.space
    }

    /// Decrypts received bytes, and passes them on.
    pub(in crate::net) fn received(&mut self, protocol: &mut impl Upgrade, size: usize) {
        let space = std::mem::take(&mut self.space);
        let mut received = &space[..size];
        while !received.is_empty() {
            match self.tls.read_tls(&mut received) {
                // The server has sent `close_notify`.
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    protocol.fail(Error::socket(error));
                    break;
                }
            }
            if let Err(error) = self.tls.process_new_packets() {
                protocol.fail(Error::tls(&self.peer.host, error));
                break;
            }
            if !self.is_open && !self.tls.is_handshaking() {
                self.open(protocol);
            }
            self.hand_on(protocol);
        }
        self.space = space;
    }

    /// Called when the handshake is done.
    fn open(&mut self, protocol: &mut impl Upgrade) {
        if self.peer.context.confirms_protocol && self.tls.alpn_protocol().is_none() {
            return protocol.fail(Error::protocol_unconfirmed(&self.peer.host));
        }
        self.is_open = true;
        let certificates = self.tls.peer_certificates().unwrap_or_default();
        let end_point = certificates.first();
        let end_point = end_point.and_then(|certificate| server_end_point(certificate));
        protocol.tls_started(end_point.as_deref());
    }

    fn hand_on(&mut self, protocol: &mut impl Upgrade) {
        loop {
            let space = protocol.receive_space(READ_SIZE);
            if space.is_empty() {
                return;
            }
            match self.tls.reader().read(space) {
                Ok(0) => return protocol.end_of_input(),
                Ok(size) => protocol.received(size),
                // There is no more for now.
                Err(_) => return,
            }
        }
    }

    pub(in crate::net) fn end_of_input(&mut self, protocol: &mut impl Upgrade) {
        if self.is_open {
            protocol.end_of_input();
        } else {
            // A server that does not support direct TLS closes the connection, and will do so
            // again.
            let is_direct = self.peer.context.confirms_protocol;
            protocol.fail(Error::tls_interrupted(&self.peer.host, is_direct));
        }
    }

    /// Sends `close_notify` after the output.
    pub(in crate::net) fn close(&mut self, protocol: &mut impl Upgrade) {
        while self.is_open {
            let plain = protocol.output();
            if plain.is_empty() {
                break;
            }
            let size = self.tls.writer().write(plain).expect(IN_MEMORY);
            protocol.written(size);
        }
        self.tls.send_close_notify();
    }
}

/// Why reading and writing TLS bytes cannot fail.
const IN_MEMORY: &str = "the bytes stay in memory";

/// The name that is sent and that the certificate must have.
fn server_name(peer: &Peer) -> Result<ServerName<'static>> {
    // A placeholder for no name: an address is not sent to the server.
    let unnamed = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let HostAddress::Tcp { name, .. } = &peer.host.address else {
        return Ok(unnamed);
    };
    match ServerName::try_from(name.as_str()) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) if !peer.context.checks_name => Ok(unnamed),
        Err(_) => Err(Error::name_unverifiable(&peer.host)),
    }
}
