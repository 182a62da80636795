//! TLS on real sockets, with third-party clients.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookaside_http::{Listen, Options, Router, Server, StaticFiles, StaticOptions, Tls};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{TIMEOUT, address};
use crate::service::single;

struct Secure {
    folder: tempfile::TempDir,
    tls: Tls,
    server: Server,
    config: Arc<ClientConfig>,
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

const LARGE_SIZE: usize = 3_000_000;

fn large() -> Vec<u8> {
    (0..LARGE_SIZE)
        .map(|index| ((index * 7) >> 2) as u8)
        .collect()
}

/// Writes a certificate for `localhost`, and returns a client that trusts it.
fn certify(folder: &tempfile::TempDir) -> Arc<ClientConfig> {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(folder.path().join("server.crt"), certificate.pem()).unwrap();
    fs::write(folder.path().join("server.key"), key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(certificate.der().to_vec()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

impl Secure {
    fn new(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = certify(&folder);
        let path = |name: &str| folder.path().join(name);
        fs::write(path("large.bin"), large()).unwrap();
        let tls = Tls::from_files(path("server.crt"), path("server.key")).unwrap();
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into()).tls(tls.clone());
        let site = folder.path().to_owned();
        let server = Server::start(options, vec![listen], move |_io| {
            let files = StaticFiles::open(&site, StaticOptions::default()).unwrap();
            let mut router = Router::new(files);
            router
                .get("/hello", |_, request, reply| {
                    assert!(request.is_tls());
                    reply.text("hello");
                })
                .get("/with/{size}", |_, request, reply| {
                    let size: usize = request.param("size").unwrap().parse().unwrap();
                    reply.body_with(|out| out.resize(out.len() + size, b'x'));
                })
                .get("/static/{*path}", |files, request, reply| {
                    files.serve(request, request.param("path").unwrap(), reply);
                })
                .post("/echo", |_, request, reply| reply.body(request.body()));
            router
        });
        Self {
            folder,
            tls,
            server: server.unwrap(),
            config,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self) -> Stream {
        self.connect_as(&self.config)
    }

    fn connect_as(&self, config: &Arc<ClientConfig>) -> Stream {
        let socket = TcpStream::connect(address(&self.server)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(config), name).unwrap();
        StreamOwned::new(client, socket)
    }
}

/// Reads until `close_notify`; an end without it is an error.
fn read_all(stream: &mut Stream) -> Vec<u8> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

fn body(received: &[u8]) -> &[u8] {
    let end = received.windows(4).position(|part| part == b"\r\n\r\n");
    &received[end.unwrap() + 4..]
}

#[test]
fn requests_and_replies() {
    let secure = Secure::new(single());
    let mut stream = secure.connect();
    let close = "Host: localhost\r\nConnection: close\r\n\r\n";
    write!(stream, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    write!(stream, "GET /hello HTTP/1.1\r\n{close}").unwrap();
    let received = String::from_utf8(read_all(&mut stream)).unwrap();
    assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 2, "{received}");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));

    for size in [0, 1, 16_384, 100_000, 5_000_000] {
        let mut stream = secure.connect();
        write!(stream, "GET /with/{size} HTTP/1.1\r\n{close}").unwrap();
        let received = read_all(&mut stream);
        assert_eq!(body(&received).len(), size);
    }
    // From a file, which has to be encrypted.
    let mut stream = secure.connect();
    write!(stream, "GET /static/large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    write!(stream, "GET /hello HTTP/1.1\r\n{close}").unwrap();
    let received = read_all(&mut stream);
    let received = body(&received);
    assert!(received[..LARGE_SIZE] == large());
    assert_eq!(body(&received[LARGE_SIZE..]), b"hello");
    // An upload.
    let mut stream = secure.connect();
    write!(
        stream,
        "POST /echo HTTP/1.1\r\nContent-Length: 500000\r\n{close}"
    )
    .unwrap();
    stream.write_all(&large()[..500_000]).unwrap();
    assert!(body(&read_all(&mut stream)) == &large()[..500_000]);
}

/// Each byte of the client in a separate packet.
#[test]
fn bytes_one_by_one() {
    let secure = Secure::new(single());
    let mut stream = secure.connect();
    stream.sock.set_nodelay(true).unwrap();
    let mut asked = false;
    let mut received = Vec::new();
    loop {
        let mut cipher = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut cipher).unwrap();
        }
        for byte in cipher {
            stream.sock.write_all(&[byte]).unwrap();
        }
        if !stream.conn.is_handshaking() && !asked {
            asked = true;
            let request = b"GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            stream.conn.writer().write_all(request).unwrap();
            continue;
        }
        if stream.conn.read_tls(&mut stream.sock).unwrap() == 0 {
            break;
        }
        stream.conn.process_new_packets().unwrap();
        let _ = stream.conn.reader().read_to_end(&mut received);
    }
    assert!(received.ends_with(b"hello"), "{}", received.escape_ascii());
}

#[test]
fn handshakes_that_do_not_come_are_given_up() {
    let options = Options {
        header_timeout: Duration::from_millis(300),
        ..single()
    };
    let secure = Secure::new(options);
    let start = Instant::now();
    // Nothing, and the begin of a handshake.
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00"] {
        let mut socket = TcpStream::connect(address(&secure.server)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut received = Vec::new();
        let _ = socket.read_to_end(&mut received);
        assert!(received.is_empty());
    }
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn what_is_no_tls_is_told_so() {
    let secure = Secure::new(single());
    let talk = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(address(&secure.server)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut received = Vec::new();
        let end = socket.read_to_end(&mut received);
        (received, end)
    };
    // Whole requests, the beginning of one, and more than one read takes.
    let long = [b"POST / HTTP/1.1\r\n".to_vec(), vec![b'x'; 300_000]].concat();
    for request in [
        &b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"[..],
        b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"G",
        &long,
    ] {
        let (received, end) = talk(request);
        let text = String::from_utf8_lossy(&received);
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(text.contains("this port requires HTTPS"), "{text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        end.unwrap();
    }
    // An alert, as before.
    for bytes in [&b"\x00\x01\x02\x03\x04\x05"[..], b"hello, world\r\n\r\n"] {
        let (received, _) = talk(bytes);
        assert_eq!(received.first(), Some(&21), "{received:x?}");
    }
    // The server still works.
    let mut stream = secure.connect();
    write!(
        stream,
        "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    assert!(read_all(&mut stream).ends_with(b"hello"));
}

/// A letter in the middle of a handshake is not a request.
#[test]
fn a_handshake_that_goes_wrong_is_no_request() {
    let options = Options {
        // Long enough for the server's part of a handshake on a busy machine.
        header_timeout: Duration::from_secs(2),
        ..single()
    };
    let secure = Secure::new(options);
    let mut stream = secure.connect();
    let mut hello = Vec::new();
    stream.conn.write_tls(&mut hello).unwrap();
    for cut in [1, 5, hello.len()] {
        let mut socket = TcpStream::connect(address(&secure.server)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.write_all(&hello[..cut]).unwrap();
        if cut == hello.len() {
            // The server's part of the handshake, so that what follows comes alone.
            let mut begin = [0; 5];
            socket.read_exact(&mut begin).unwrap();
            assert_eq!(begin[0], 22);
        }
        socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut received = Vec::new();
        let _ = socket.read_to_end(&mut received);
        assert!(!received.windows(4).any(|part| part == b"HTTP"), "{cut}");
    }
}

#[test]
fn certificates_are_replaced_while_it_runs() {
    let secure = Secure::new(single());
    let mut old = secure.connect();
    write!(old, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let fresh = certify(&secure.folder);
    secure.tls.reload().unwrap();
    let mut stream = secure.connect_as(&fresh);
    let request = "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    write!(stream, "{request}").unwrap();
    assert!(read_all(&mut stream).ends_with(b"hello"));
    // Existing connections are kept.
    write!(old, "{request}").unwrap();
    assert!(read_all(&mut old).ends_with(b"hello"));
    // A client that only trusts the old certificate, and has no session ticket, refuses the server.
    let mut config = ClientConfig::clone(&secure.config);
    config.resumption = Resumption::disabled();
    let mut stranger = secure.connect_as(&Arc::new(config));
    let read = stranger.read(&mut [0]).unwrap_err().to_string();
    assert!(read.contains("certificate"), "{read}");
}

#[test]
fn curl_and_openssl_understand_it() {
    let secure = Secure::new(single());
    let port = address(&secure.server).port();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--http1.1", "--cacert"])
        .arg(secure.path("server.crt"))
        .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
        .args(["--write-out", " %{http_version} %{num_connects}"])
        .arg(format!("https://localhost:{port}/hello"))
        .arg(format!("https://localhost:{port}/hello"));
    match curl.output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            assert_eq!(output.stdout, b"hello 1.1 1hello 1.1 0");
        }
        Err(_) => crate::skip("curl"),
    }
    for version in ["-tls1_2", "-tls1_3"] {
        let mut openssl = Command::new("openssl");
        openssl
            .args(["s_client", "-quiet", "-verify_return_error", version])
            .args(["-alpn", "h2,http/1.1", "-servername", "localhost"])
            .args(["-connect", &format!("127.0.0.1:{port}"), "-CAfile"])
            .arg(secure.path("server.crt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let Ok(mut child) = openssl.spawn() else {
            return crate::skip("openssl");
        };
        let request = b"GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        child.stdin.as_mut().unwrap().write_all(request).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.stdout.ends_with(b"hello"), "{output:?}");
    }
}

/// Issue 12: one byte of a handshake message, then a record of an unknown type. While the message
/// waits for its rest, rustls must not be called with an empty buffer.
#[test]
fn issue_12_a_handshake_that_breaks_off_in_the_middle_of_a_message() {
    let secure = Secure::new(Options {
        threads: 2,
        ..Options::default()
    });
    let bytes = [
        0x16, 0x03, 0x01, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0xde,
    ];
    // More connections than threads, so that all threads are affected; in one piece, and in two.
    for round in 0..16 {
        let mut socket = TcpStream::connect(address(&secure.server)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let cut = if round % 2 == 0 { bytes.len() } else { 6 };
        socket.write_all(&bytes[..cut]).unwrap();
        // The server may have closed the connection.
        let _ = socket.write_all(&bytes[cut..]);
        let mut received = Vec::new();
        let _ = socket.read_to_end(&mut received);
        // A fatal alert.
        assert_eq!(received.first(), Some(&21), "{received:x?}");
    }
    let mut stream = secure.connect();
    let request = "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    write!(stream, "{request}").unwrap();
    assert!(read_all(&mut stream).ends_with(b"hello"));
    assert_eq!(secure.server.counters().panics, 0);
    secure.server.stop();
    let Secure { server, .. } = secure;
    server.join().unwrap();
}
