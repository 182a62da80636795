//! A client of the arena: as simple as its load generators.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any step takes on a busy machine; it ends a test that would hang.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn get(&mut self, target: &str) -> Received {
        self.get_with(target, "")
    }

    pub(crate) fn get_with(&mut self, target: &str, lines: &str) -> Received {
        self.send(format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
        ));
        self.receive()
    }

    pub(crate) fn put(&mut self, target: &str, body: &str) -> Received {
        self.request("PUT", target, body.as_bytes())
    }

    pub(crate) fn post(&mut self, target: &str, body: impl AsRef<[u8]>) -> Received {
        self.request("POST", target, body.as_ref())
    }

    fn request(&mut self, method: &str, target: &str, body: &[u8]) -> Received {
        let size = body.len();
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        ));
        self.send(body);
        self.receive()
    }

    /// Posts a body in chunks of `size` bytes.
    pub(crate) fn post_chunks(&mut self, target: &str, body: &[u8], size: usize) -> Received {
        self.send(format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        for chunk in body.chunks(size) {
            self.send(format!("{:x}\r\n", chunk.len()));
            self.send(chunk);
            self.send("\r\n");
        }
        self.send("0\r\n\r\n");
        self.receive()
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Received {
        let end = loop {
            let end = self.buffer.windows(4).position(|part| part == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => self.fill(),
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let mut received = Received {
            status: head["HTTP/1.1 ".len()..][..3].parse().unwrap(),
            head,
            body: Vec::new(),
        };
        let size = received
            .header("content-length")
            .map_or(0, |size| size.parse().unwrap());
        while self.buffer.len() < size {
            self.fill();
        }
        received.body = self.buffer.drain(..size).collect();
        received
    }

    fn fill(&mut self) {
        let mut bytes = [0; 16 << 10];
        let size = self.stream.read(&mut bytes).unwrap();
        assert_ne!(size, 0, "the server has closed the connection");
        self.buffer.extend_from_slice(&bytes[..size]);
    }

    /// Whether the server closes the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.stream.read(&mut [0]), Ok(0))
    }
}
