use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use super::*;
use crate::{Address, ErrorKind, Listen, Options, Router, Server};

/// A certificate for `localhost` and its key, in a temporary folder.
struct Files {
    folder: tempfile::TempDir,
    der: CertificateDer<'static>,
}

impl Files {
    fn new() -> Self {
        let mut files = Self {
            folder: tempfile::tempdir().unwrap(),
            der: CertificateDer::from(Vec::new()),
        };
        files.replace();
        files
    }

    fn replace(&mut self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(self.chain(), certificate.pem()).unwrap();
        fs::write(self.key(), key.serialize_pem()).unwrap();
        self.der = certificate.der().clone();
    }

    fn chain(&self) -> PathBuf {
        self.folder.path().join("server.crt")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    fn tls(&self) -> Tls {
        Tls::from_files(self.chain(), self.key()).unwrap()
    }

    fn client(&self, protocols: &[&[u8]]) -> ClientConfig {
        self.client_of(protocols, rustls::ALL_VERSIONS)
    }

    fn client_of(
        &self,
        protocols: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config
    }
}

/// A client and a session that exchange bytes in pieces.
struct Pair {
    client: ClientConnection,
    server: TlsSession,
    /// The plaintext that the server has received.
    heard: Vec<u8>,
    /// The bytes that it has to send.
    output: Vec<u8>,
}

impl Pair {
    fn new(tls: &Tls, config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        Self {
            client: ClientConnection::new(Arc::clone(config), name).unwrap(),
            server: TlsSession::new(tls).unwrap(),
            heard: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Runs until neither side has more output. The client's output is delivered in pieces of
    /// `piece_size`.
    fn run(&mut self, piece_size: usize) -> Result<Vec<u8>, String> {
        let mut answer = Vec::new();
        loop {
            let mut cipher = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut cipher).unwrap();
            }
            for piece in cipher.chunks_mut(piece_size) {
                let done = self
                    .server
                    .receive(piece, &mut self.heard, &mut self.output);
                if let Err(error) = done {
                    self.tell_client(&mut answer).unwrap_err();
                    return Err(error.to_string());
                }
            }
            if cipher.is_empty() && self.output.is_empty() {
                return Ok(answer);
            }
            self.tell_client(&mut answer)
                .map_err(|error| error.to_string())?;
        }
    }

    fn tell_client(&mut self, answer: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let output = std::mem::take(&mut self.output);
        let mut rest = &output[..];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            self.client.process_new_packets()?;
            // There is no more for now, or no more at all.
            let _ = self.client.reader().read_to_end(answer);
        }
        Ok(())
    }

    fn send(&mut self, plain: &[u8]) {
        self.server.send(plain, &mut self.output).unwrap();
    }
}

/// Counts the records.
fn records(mut cipher: &[u8]) -> usize {
    let mut count = 0;
    while let [_, _, _, high, low, rest @ ..] = cipher {
        cipher = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
        count += 1;
    }
    count
}

#[test]
fn requests_and_replies() {
    let files = Files::new();
    let tls = files.tls();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let config = Arc::new(files.client_of(&[PROTOCOL], versions));
        for piece_size in [1, 2, 3, 7, 100, usize::MAX] {
            let mut pair = Pair::new(&tls, &config);
            assert_eq!(pair.run(piece_size).unwrap(), b"");
            assert!(pair.server.is_open());
            assert_eq!(pair.client.alpn_protocol(), Some(PROTOCOL));
            let body: Vec<u8> = (0..200_000_u32).map(|index| index as u8).collect();
            pair.client
                .writer()
                .write_all(b"GET / HTTP/1.1\r\n\r\n")
                .unwrap();
            pair.run(piece_size).unwrap();
            assert_eq!(pair.heard, b"GET / HTTP/1.1\r\n\r\n");
            pair.send(&body[..16_384]);
            assert_eq!(records(&pair.output), 1);
            pair.send(&body[16_384..]);
            assert_eq!(records(&pair.output), 13);
            assert!(pair.run(piece_size).unwrap() == body);
            assert!(pair.server.incoming.capacity() == 0, "nothing is kept");

            pair.client.send_close_notify();
            pair.run(piece_size).unwrap();
            assert!(pair.server.is_end_of_input());
            // Earlier requests are still answered.
            pair.send(b"the last");
            pair.server.close(&mut pair.output).unwrap();
            assert_eq!(pair.run(piece_size).unwrap(), b"the last");
            assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        }
    }
}

#[test]
fn sessions_are_resumed() {
    let files = Files::new();
    let tls = files.tls();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let config = Arc::new(files.client_of(&[PROTOCOL], versions));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut pair = Pair::new(&tls, &config);
            pair.run(usize::MAX).unwrap();
            assert_eq!(pair.client.handshake_kind(), Some(expected));
        }
    }
}

#[test]
fn protocols() {
    let files = Files::new();
    let tls = files.tls();
    for protocols in [&[][..], &[b"h2", PROTOCOL]] {
        let mut pair = Pair::new(&tls, &Arc::new(files.client(protocols)));
        pair.run(usize::MAX).unwrap();
        assert!(pair.server.is_open());
    }
    let mut pair = Pair::new(&tls, &Arc::new(files.client(&[b"h2"])));
    let error = pair.run(usize::MAX).unwrap_err();
    assert!(error.contains("any known protocol"), "{error}");
}

#[test]
fn certificates_are_read_anew() {
    let mut files = Files::new();
    let tls = files.tls();
    let old = Arc::new(files.client(&[]));
    files.replace();
    Pair::new(&tls, &old).run(usize::MAX).unwrap();
    tls.clone().reload().unwrap();
    let config = Arc::new(files.client(&[]));
    Pair::new(&tls, &config).run(usize::MAX).unwrap();
    fs::write(files.key(), "no key").unwrap();
    tls.reload().unwrap_err();
    Pair::new(&tls, &config).run(usize::MAX).unwrap();
}

#[test]
fn clients_that_speak_something_else() {
    let files = Files::new();
    let tls = files.tls();
    let mut output = Vec::new();
    let mut server = TlsSession::new(&tls).unwrap();
    let mut request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    let mut heard = Vec::new();
    assert!(
        server
            .receive(&mut request, &mut heard, &mut output)
            .is_err()
    );
    assert!(heard.is_empty());
    // A fatal alert, and no more than that.
    assert_eq!(output[0], 21, "{output:x?}");
    assert_eq!(records(&output), 1);
    server.close(&mut output).unwrap();
    assert_eq!(records(&output), 1);
}

/// No byte of a session can be changed without being noticed, and none makes it panic.
#[test]
fn changed_bytes() {
    let files = Files::new();
    let tls = files.tls();
    let config = Arc::new(files.client(&[PROTOCOL]));
    let mut random = fastrand::Rng::with_seed(13);
    for _ in 0..200 {
        let mut pair = Pair::new(&tls, &config);
        let mut cipher = Vec::new();
        pair.client.write_tls(&mut cipher).unwrap();
        let index = random.usize(..cipher.len());
        cipher[index] ^= 1 << random.u8(..8);
        let first = pair
            .server
            .receive(&mut cipher, &mut pair.heard, &mut pair.output);
        if first.is_ok() {
            let _ = pair.run(usize::MAX);
        }
        assert!(!pair.server.is_open(), "byte {index}");
    }
    let mut pair = Pair::new(&tls, &config);
    pair.run(usize::MAX).unwrap();
    pair.client.writer().write_all(b"GET /").unwrap();
    let mut cipher = Vec::new();
    pair.client.write_tls(&mut cipher).unwrap();
    *cipher.last_mut().unwrap() ^= 1;
    let done = pair
        .server
        .receive(&mut cipher, &mut pair.heard, &mut pair.output);
    assert!(done.is_err() && pair.heard.is_empty());
    assert_eq!(records(&pair.output), 1, "an alert");
}

#[track_caller]
fn check_files(chain: PathBuf, key: PathBuf, kind: ErrorKind, expected: &str) {
    let error = Tls::from_files(chain, key).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(expected), "{error}");
    assert!(error.to_string().contains("server."), "{error}");
}

#[test]
fn files_that_do_not_do() {
    let files = Files::new();
    let other = Files::new();
    let (chain, key) = (files.chain(), files.key());
    let missing = || files.folder.path().join("server.missing");
    check_files(
        missing(),
        key.clone(),
        ErrorKind::Environment,
        "certificates",
    );
    check_files(
        chain.clone(),
        missing(),
        ErrorKind::Environment,
        "private key",
    );
    check_files(
        key.clone(),
        key.clone(),
        ErrorKind::Misuse,
        "no `BEGIN CERTIFICATE`",
    );
    check_files(
        chain.clone(),
        chain.clone(),
        ErrorKind::Misuse,
        "openssl pkey",
    );
    check_files(
        chain.clone(),
        other.key(),
        ErrorKind::Misuse,
        "is not that of",
    );
    fs::write(
        &key,
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    check_files(chain, key, ErrorKind::Misuse, "cannot use the certificate");
}

/// One byte of a handshake message, then a record of an unknown type.
const BREAKS_OFF: [u8; 11] = [
    0x16, 0x03, 0x01, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0xde,
];

#[test]
fn issue_12_a_record_of_unknown_type_within_a_handshake_message() {
    let files = Files::new();
    let tls = files.tls();
    for cut in 1..=BREAKS_OFF.len() {
        let (mut heard, mut output) = (Vec::new(), Vec::new());
        let mut server = TlsSession::new(&tls).unwrap();
        let mut pieces = BREAKS_OFF;
        let mut failures = 0;
        for piece in pieces.chunks_mut(cut) {
            let done = server.receive(piece, &mut heard, &mut output);
            failures += usize::from(matches!(done, Err(Failure::Protocol(_))));
        }
        assert_eq!((failures, records(&output)), (1, 1), "in pieces of {cut}");
        // Further input is ignored, and nothing more is sent.
        for piece in [&mut [0x16][..], &mut BREAKS_OFF.clone()] {
            server.receive(piece, &mut heard, &mut output).unwrap();
        }
        server.close(&mut output).unwrap();
        assert_eq!((heard.len(), records(&output)), (0, 1));
    }
}

/// While a part of a message is here, the server can still send and close.
#[test]
fn issue_12_sends_and_closes_within_a_message_after_the_handshake() {
    let files = Files::new();
    let fuzz = TlsFuzz::new(&files.chain(), &files.key()).unwrap();
    // TLS 1.2 and 1.3; the first bytes of a message in one record, or in two; then it sends and
    // closes, and the rest comes or does not.
    for version in [2, 3] {
        for kind in 0..=25 {
            for rest in [&[][..], &[11, 22, 3, 0, 1, 0, 1], &[11, 22, 1, 0, 1]] {
                let start = [version, 11, 22, 1, kind, 1, 5, 9, 1, 5, 200, 6, 5, 9];
                fuzz.run(&[&start[..], rest, &[1]].concat());
            }
        }
    }
}

#[test]
fn a_handshake_in_tiny_records_is_bounded() {
    let files = Files::new();
    let tls = files.tls();
    let mut server = TlsSession::new(&tls).unwrap();
    let (mut heard, mut output) = (Vec::new(), Vec::new());
    // A ClientHello with a length of 60,000 bytes, one byte per record.
    let hello = [1, 0, 0xea, 0x60].into_iter().chain(std::iter::repeat(0));
    let mut size_max = 0;
    let mut failure = None;
    for byte in hello.take(60_000) {
        let done = server.receive(&mut [22, 3, 3, 0, 1, byte], &mut heard, &mut output);
        size_max = size_max.max(server.incoming.len());
        if let Err(error) = done {
            failure = Some(error.to_string());
            break;
        }
    }
    assert!(failure.unwrap().contains("PayloadTooLarge"));
    assert!(size_max <= 128 << 10, "{size_max}");
}

/// A resolver of certificates that panics in the middle of a handshake, on the stack of rustls.
#[derive(Debug)]
struct Panics;

impl rustls::server::ResolvesServerCert for Panics {
    fn resolve(
        &self,
        _: rustls::server::ClientHello<'_>,
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        panic!("a test wants it")
    }
}

static TOLD: AtomicU64 = AtomicU64::new(0);

fn tell(caught: &crate::CaughtPanic<'_>) {
    assert_eq!(caught.stage, crate::PanicStage::Tls);
    assert_eq!(caught.message, "a test wants it");
    TOLD.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_panic_within_tls_costs_one_connection() {
    let files = Files::new();
    let mut tls = files.tls();
    let mut config = ServerConfig::clone(&tls.config);
    config.cert_resolver = Arc::new(Panics);
    tls.config = Arc::new(config);
    let options = Options {
        threads: 1,
        on_panic: Some(tell),
        ..Options::default()
    };
    let local = || Listen::tcp(([127, 0, 0, 1], 0).into());
    let listens = vec![local().tls(tls), local()];
    let server = Server::start(options, listens, |_io| {
        let mut router = Router::new(());
        router.get("/", |(), _, reply| reply.text("well"));
        router
    });
    let server = server.unwrap();
    let connect = |index: usize| match &server.addresses()[index] {
        Address::Tcp(address) => std::net::TcpStream::connect(address).unwrap(),
        other => panic!("{other}"),
    };
    let client = Arc::new(files.client(&[PROTOCOL]));
    for count in 1..=3 {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut socket = connect(0);
        client.write_tls(&mut socket).unwrap();
        // Closed without a response.
        assert_eq!(socket.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
        let mut plain = connect(1);
        let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        plain.write_all(request).unwrap();
        let mut reply = String::new();
        plain.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("\r\n\r\nwell"), "{reply}");
        assert_eq!(server.counters().panics, count);
        assert_eq!(TOLD.load(Ordering::Relaxed), count);
    }
    server.stop();
    server.join().unwrap();
}
