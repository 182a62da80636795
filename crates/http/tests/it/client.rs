//! A client that sends given bytes unchanged, and parses replies strictly.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lookaside_http::{Address, Server};

/// Longer than any step takes on a busy machine; it ends a test that would hang.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A reply with its decoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| &**value);
        assert!(found.next().is_none(), "{name} stands twice in {self:?}");
        first
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    match server.addresses()[0] {
        Address::Tcp(address) => address,
        ref other => panic!("the first address is {other}"),
    }
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(address(server)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes that the server may not read completely.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub(crate) fn get(&mut self, target: &str) -> Received {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        self.receive()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The next reply to anything but a HEAD.
    pub(crate) fn receive(&mut self) -> Received {
        self.try_receive(false).expect("a reply comes")
    }

    pub(crate) fn receive_head(&mut self) -> Received {
        self.try_receive(true).expect("a reply comes")
    }

    /// Reads the next reply; `None` if the connection ends before it begins.
    pub(crate) fn try_receive(&mut self, is_head: bool) -> Option<Received> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill() {
                assert!(
                    self.buffer.is_empty(),
                    "a reply is cut: {}",
                    self.buffer.escape_ascii()
                );
                return None;
            }
        };
        let head = String::from_utf8(self.take(end)).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status_line = lines.next().unwrap();
        let rest = status_line.strip_prefix("HTTP/1.1 ").expect(status_line);
        let mut reply = Received {
            status: rest[..3].parse().unwrap(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        for line in lines {
            let (name, value) = line.split_once(": ").expect(line);
            assert_eq!(value.trim(), value, "no blanks are sent that mean nothing");
            reply.headers.push((name.into(), value.into()));
        }
        let has_no_body = is_head || matches!(reply.status, 100..200 | 204 | 304);
        if has_no_body {
            return Some(reply);
        }
        match (
            reply.header("content-length"),
            reply.header("transfer-encoding"),
        ) {
            (Some(length), None) => reply.body = self.take_all(length.parse().unwrap()),
            (None, Some("chunked")) => reply.body = self.chunks(),
            (None, None) => {
                while self.fill() {}
                reply.body = std::mem::take(&mut self.buffer);
            }
            other => panic!("a reply is framed by {other:?}"),
        }
        Some(reply)
    }

    /// Whether the server closes the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill() && self.buffer.is_empty()
    }

    /// Reads and discards bytes; `false` at the end.
    pub(crate) fn try_receive_some(&mut self) -> bool {
        let is_more = self.fill();
        self.buffer.clear();
        is_more
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(&self.buffer, b"\r\n") {
                    break self.take(at + 2);
                }
                assert!(self.fill(), "the chunks are cut");
            };
            let digits = std::str::from_utf8(&line[..line.len() - 2]).unwrap();
            let size = usize::from_str_radix(digits, 16).unwrap();
            let chunk = self.take_all(size + 2);
            assert!(chunk.ends_with(b"\r\n"));
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return body;
            }
        }
    }

    fn take_all(&mut self, size: usize) -> Vec<u8> {
        while self.buffer.len() < size {
            assert!(self.fill(), "a body is cut");
        }
        self.take(size)
    }

    fn take(&mut self, size: usize) -> Vec<u8> {
        self.buffer.drain(..size).collect()
    }

    /// Reads bytes; `false` at the end.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(size) => {
                self.buffer.extend_from_slice(&bytes[..size]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the server says nothing: {error}"),
        }
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
}
