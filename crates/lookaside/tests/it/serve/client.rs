//! A client of HTTP/1.1 for tests: requests as text, responses with their head.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::PATIENCE;

/// One connection, kept alive.
pub(crate) struct Client {
    sender: Sender,
    receiver: Receiver,
}

/// The sending half.
pub(crate) struct Sender {
    out: Box<dyn Write + Send>,
    host: String,
}

/// The receiving half.
pub(crate) struct Receiver(BufReader<Box<dyn Read + Send>>);

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    /// The lines after the last chunk.
    trailers: String,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// A trailer's value.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }
}

impl Client {
    pub(crate) fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::new(stream.try_clone().unwrap(), stream, address)
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::new(stream.try_clone().unwrap(), stream, "anything")
    }

    fn new(
        out: impl Write + Send + 'static,
        input: impl Read + Send + 'static,
        host: &str,
    ) -> Self {
        Self {
            sender: Sender {
                out: Box::new(out),
                host: host.to_owned(),
            },
            receiver: Receiver(BufReader::new(Box::new(input))),
        }
    }

    /// Both halves, for two threads.
    pub(crate) fn split(&mut self) -> (&mut Receiver, &mut Sender) {
        (&mut self.receiver, &mut self.sender)
    }

    /// Sends a request and reads the answer.
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    pub(crate) fn get_with(&mut self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", target, headers, b"")
    }

    pub(crate) fn post(&mut self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.ask("POST", target, &[], body.as_ref())
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(method, target, headers, body);
        self.receive(method)
    }

    /// Sends a request whose answer is read later.
    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) {
        self.sender.send(method, target, headers, body);
    }

    pub(crate) fn receive(&mut self, method: &str) -> Answer {
        self.receiver.receive(method)
    }
}

impl Sender {
    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) {
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        self.raw(request.as_bytes());
        self.raw(body);
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.write_all(bytes).unwrap();
    }
}

impl Receiver {
    pub(crate) fn receive(&mut self, method: &str) -> Answer {
        let mut answer = self.head(method);
        let status = answer.status;
        if method == "HEAD" || status == 304 || status == 204 {
            return answer;
        }
        if answer.header("Transfer-Encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    answer.trailers = self.trailers();
                    return answer;
                }
                answer.body.extend_from_slice(&chunk);
            }
        }
        let size = answer.header("Content-Length").expect("a length");
        answer.body = vec![0; size.parse().expect("a number")];
        self.0
            .read_exact(&mut answer.body)
            .expect("the body is whole");
        answer
    }

    /// Reads as far as the empty line.
    pub(crate) fn head(&mut self, method: &str) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let size = self.0.read_line(&mut head).expect("an answer comes");
            assert_ne!(
                size, 0,
                "{method}: the server closed the connection after: {head}"
            );
        }
        Answer {
            status: head[9..12].parse().expect("a status"),
            head,
            body: Vec::new(),
            trailers: String::new(),
        }
    }

    /// Reads as far as the empty line after the last chunk.
    pub(crate) fn trailers(&mut self) -> String {
        let mut trailers = String::new();
        while trailers != "\r\n" && !trailers.ends_with("\r\n\r\n") {
            let size = self.0.read_line(&mut trailers).expect("a line comes");
            assert_ne!(size, 0, "the trailers are cut: {trailers}");
        }
        trailers
    }

    /// Reads one piece of a chunked body; the last one is empty, and trailers follow it.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a chunk comes");
        let size = usize::from_str_radix(line.trim(), 16).expect("a chunk's size");
        if size == 0 {
            return Vec::new();
        }
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).expect("a chunk is whole");
        chunk.truncate(size);
        chunk
    }
}
