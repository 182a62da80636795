//! The body of the fuzz target for input of TLS clients.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion,
    RootCertStore, SupportedCipherSuite, SupportedProtocolVersion,
};

use super::{Failure, Tls, TlsSession};
use crate::{Error, Result};

/// A server and clients that trust it, for [`run`](Self::run).
pub struct TlsFuzz {
    tls: Tls,
    /// One for TLS 1.2, and one for TLS 1.3.
    clients: [Client; 2],
}

struct Client {
    config: Arc<ClientConfig>,
    suite: SupportedCipherSuite,
}

/// The only cipher of each version: its keys and nonces are what rustls shows of a connection, without
/// parts that each side makes up for each record.
const SUITES: [(SupportedCipherSuite, &SupportedProtocolVersion); 2] = [
    (
        ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        &rustls::version::TLS12,
    ),
    (
        ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        &rustls::version::TLS13,
    ),
];

impl TlsFuzz {
    /// From the PEM files of a certificate for `localhost`, signed by itself with an ECDSA key.
    ///
    /// # Errors
    /// When the files cannot be used.
    pub fn new(certificate: &Path, key: &Path) -> Result<Self> {
        let tls = Tls::from_files(certificate, key)?;
        let trusted = CertificateDer::from_pem_file(certificate)
            .map_err(|error| Error::unusable_certificates(certificate, error))?;
        let clients = SUITES.map(|(suite, version)| {
            let mut roots = RootCertStore::empty();
            roots.add(trusted.clone()).expect("the server takes it");
            let provider = CryptoProvider {
                cipher_suites: vec![suite],
                ..ring::default_provider()
            };
            let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[version])
                .expect("the cipher is of that version")
                .with_root_certificates(roots)
                .with_no_client_auth();
            config.enable_secret_extraction = true;
            // Each run is the same handshake, whatever came before.
            config.resumption = Resumption::disabled();
            Client {
                config: Arc::new(config),
                suite,
            }
        });
        Ok(Self { tls, clients })
    }

    /// Checks that for any input of a client, however it is cut, nothing panics, and the server
    /// only receives text that the client has sent.
    ///
    /// The first byte determines the beginning, each of the others is a step of [`Dialogue::step`]
    /// or an argument of one.
    pub fn run(&self, data: &[u8]) {
        let mut data = Bytes(data);
        let flags = data.byte();
        let client = &self.clients[usize::from(flags & 1)];
        let mut dialogue = Dialogue::new(&self.tls, client);
        if flags & 2 != 0 {
            // A handshake without disturbance.
            for _ in 0..3 {
                dialogue.deliver(usize::MAX);
                dialogue.answer();
            }
            assert!(dialogue.server.is_open());
        }
        while !data.0.is_empty() {
            dialogue.step(&mut data);
        }
        dialogue.close();
        dialogue.deliver(usize::MAX);
    }
}

/// The rest of the input, followed by zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A client, a server, and the bytes between them.
struct Dialogue {
    server: TlsSession,
    suite: SupportedCipherSuite,
    /// `None` after its keys have been extracted.
    client: Option<ClientConnection>,
    /// What seals records with those keys, and the number of the next one.
    sealer: Option<(Box<dyn MessageEncrypter>, u64)>,
    /// Bytes that the client has sent and the server has not received.
    way: Vec<u8>,
    /// The text that the client has sent, and the part that the server has received.
    said: Vec<u8>,
    heard: Vec<u8>,
    output: Vec<u8>,
    has_failed: bool,
}

impl Dialogue {
    fn new(tls: &Tls, client: &Client) -> Self {
        let name = ServerName::try_from("localhost").expect("it is a name");
        let connection = ClientConnection::new(client.config.clone(), name);
        let mut dialogue = Self {
            server: TlsSession::new(tls).expect("there is memory and randomness"),
            suite: client.suite,
            client: Some(connection.expect("there is memory and randomness")),
            sealer: None,
            way: Vec::new(),
            said: Vec::new(),
            heard: Vec::new(),
            output: Vec::new(),
            has_failed: false,
        };
        dialogue.collect();
        dialogue
    }

    fn step(&mut self, data: &mut Bytes<'_>) {
        match data.byte() % 13 {
            0 => self.deliver(data.number()),
            1 => self.deliver(usize::MAX),
            2 => self.flip(data.number()),
            3 => self.split(data.number()),
            // A record of any type, in plain.
            4 => {
                let (kind, size) = (data.byte(), data.byte() % 64);
                self.way.extend([kind, 3, 3, 0, size]);
                self.way.extend(data.take(size.into()));
            }
            5 => self.send(data.byte().into()),
            6 => self.close(),
            7 => {
                let size = data.byte().into();
                self.say(size);
            }
            8 => self.answer(),
            9 => {
                if let Some(client) = &mut self.client {
                    // It cannot before the handshake, and not in TLS 1.2.
                    let _ = client.refresh_traffic_keys();
                }
                self.collect();
            }
            10 => {
                // It is over then: what it gets is not of interest.
                if let Some(client) = &mut self.client {
                    client.send_close_notify();
                }
                self.collect();
                self.client = None;
            }
            // A record of any type, sealed as the client would.
            11 => {
                let (kind, size) = (data.byte(), data.byte() % 64);
                self.seal(kind, data.take(size.into()));
            }
            _ => {
                let size = data.byte() % 64;
                self.way.extend(data.take(size.into()));
            }
        }
    }

    /// Delivers `size` bytes to the server.
    fn deliver(&mut self, size: usize) {
        let rest = self.way.split_off(size.min(self.way.len()));
        let mut piece = std::mem::replace(&mut self.way, rest);
        let heard = self.heard.len();
        let done = self
            .server
            .receive(&mut piece, &mut self.heard, &mut self.output);
        assert!(
            !self.has_failed || heard == self.heard.len(),
            "a session that has failed is over"
        );
        self.check(done);
        assert!(
            self.said.starts_with(&self.heard),
            "what was heard was not said"
        );
    }

    fn check(&mut self, done: Result<(), Failure>) {
        match done {
            Ok(()) => {}
            Err(Failure::Panic(caught)) => panic!("the TLS stage panicked: {}", caught.message),
            Err(Failure::Protocol(_)) => {
                assert!(!self.has_failed, "a session fails once");
                self.has_failed = true;
            }
        }
        assert!(!(self.has_failed && self.server.is_open()));
    }

    fn flip(&mut self, at: usize) {
        let size = self.way.len();
        if size > 0 {
            self.way[at / 8 % size] ^= 1 << (at % 8);
        }
    }

    /// Makes two records of the first one.
    fn split(&mut self, at: usize) {
        let [kind, major, minor, high, low, ..] = self.way[..] else {
            return;
        };
        let size = usize::from(high) << 8 | usize::from(low);
        if size < 2 || self.way.len() < 5 + size {
            return;
        }
        let first = 1 + at % (size - 1);
        let head = |size: usize| [kind, major, minor, (size >> 8) as u8, size as u8];
        let (first_head, second_head) = (head(first), head(size - first));
        self.way.splice(5 + first..5 + first, second_head);
        self.way[..5].copy_from_slice(&first_head);
    }

    fn send(&mut self, size: usize) {
        if self.server.is_open() {
            let done = self.server.send(&vec![b's'; size], &mut self.output);
            self.check(done);
        }
    }

    fn close(&mut self) {
        let done = self.server.close(&mut self.output);
        self.check(done);
    }

    fn say(&mut self, size: usize) {
        if let Some(client) = &mut self.client {
            let text = vec![b'c'; size];
            // What is written after an end is not sent.
            let written = client.writer().write(&text).unwrap_or(0);
            self.said.extend(&text[..written]);
        }
        self.collect();
    }

    /// Delivers the server's output to the client.
    fn answer(&mut self) {
        let output = std::mem::take(&mut self.output);
        if let Some(client) = &mut self.client {
            let mut rest = &output[..];
            while !rest.is_empty() && matches!(client.read_tls(&mut rest), Ok(1..)) {
                if client.process_new_packets().is_err() {
                    self.collect();
                    self.client = None;
                    return;
                }
                // There is no more for now, or no more at all.
                let _ = client.reader().read_to_end(&mut Vec::new());
            }
        }
        self.collect();
    }

    /// Takes what the client sends.
    fn collect(&mut self) {
        if let Some(client) = &mut self.client {
            while client.wants_write() {
                client
                    .write_tls(&mut self.way)
                    .expect("there is room in memory");
            }
        }
    }

    /// Seals a record with the client's keys, which ends the client itself.
    fn seal(&mut self, kind: u8, payload: &[u8]) {
        if let Some(client) = self.client.take_if(|client| !client.is_handshaking()) {
            self.sealer = sealer(client, self.suite);
        }
        let Some((sealer, number)) = &mut self.sealer else {
            return;
        };
        let kind = ContentType::from(kind);
        let record = OutboundPlainMessage {
            typ: kind,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        if let Ok(record) = sealer.encrypt(record, *number) {
            *number += 1;
            self.way.extend(record.encode());
            if kind == ContentType::ApplicationData {
                self.said.extend(payload);
            }
        }
    }
}

/// What seals as a client would go on, and with which number it begins.
fn sealer(
    client: ClientConnection,
    suite: SupportedCipherSuite,
) -> Option<(Box<dyn MessageEncrypter>, u64)> {
    let (number, secrets) = client.dangerous_extract_secrets().ok()?.tx;
    let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else {
        return None;
    };
    let sealer = match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => suite.aead_alg.encrypter(key, iv.as_ref(), &[]),
    };
    Some((sealer, number))
}
