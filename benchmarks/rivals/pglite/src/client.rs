//! The thinnest client that can measure a server: one blocking socket, text parameters, and bytes
//! that are copied once. It does what `lookaside-bench pg` does, and costs less than any driver, so
//! that what is left is the server's.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const PROTOCOL_3_0: i32 = 196_608;
const INT4: u32 = 23;
const TEXT: u32 = 25;

pub struct Client {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    /// What of `received` was read and not yet looked at.
    unread: std::ops::Range<usize>,
    request: Vec<u8>,
    backend_pid: u32,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// What came before the server was ready again.
#[derive(Default)]
pub struct Answer {
    pub row_count: u64,
    /// The last row's columns as they came.
    last_row: Vec<u8>,
}

impl Answer {
    /// The first column of the last row.
    pub fn text(&self) -> Result<String> {
        let column = self.last_row.get(2..).context("no row came")?;
        let (size, value) = column
            .split_first_chunk()
            .context("a row without columns came")?;
        let size = usize::try_from(i32::from_be_bytes(*size)).context("NULL came")?;
        Ok(String::from_utf8(value[..size].to_vec())?)
    }
}

#[derive(Clone, Copy)]
pub enum Parameter<'a> {
    Integer(i32),
    Text(&'a str),
}

impl Client {
    pub fn connect(url: &str) -> Result<Self> {
        let config: Config = url.parse().context("the URL")?;
        let host = config
            .get_hosts()
            .first()
            .context("the URL names no host")?;
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let stream: Box<dyn Stream> = match host {
            Host::Unix(folder) => {
                let path: PathBuf = folder.join(format!(".s.PGSQL.{port}"));
                Box::new(UnixStream::connect(&path).with_context(|| path.display().to_string())?)
            }
            Host::Tcp(name) => {
                let stream = TcpStream::connect((name.as_str(), port))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let mut client = Self {
            stream,
            received: vec![0; 64 * 1024],
            unread: 0..0,
            request: Vec::new(),
            backend_pid: 0,
        };
        let user = config.get_user().context("the URL names no user")?;
        client.begin(user, config.get_dbname().unwrap_or(user))?;
        Ok(client)
    }

    pub fn backend_pid(&self) -> u32 {
        self.backend_pid
    }

    fn begin(&mut self, user: &str, database: &str) -> Result<()> {
        let mut body = PROTOCOL_3_0.to_be_bytes().to_vec();
        for word in ["user", user, "database", database] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        body.push(0);
        self.request
            .extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        self.request.extend_from_slice(&body);
        self.send()?;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'Z' => return Ok(()),
                b'E' => bail!("{}", error_text(body)),
                b'R' if body != [0; 4] => bail!("the server wants a password; it must trust us"),
                b'K' => {
                    let pid = body.first_chunk().context("short key data")?;
                    let pid = u32::from_be_bytes(*pid);
                    self.backend_pid = pid;
                }
                _ => {}
            }
        }
    }

    /// A simple query: one message, as many statements as it has.
    pub fn ask(&mut self, sql: &str) -> Result<Answer> {
        message(&mut self.request, b'Q', |body| text(body, sql));
        self.send()?;
        self.complete()
    }

    pub fn prepare(&mut self, name: &str, sql: &str, types: &[Parameter<'_>]) -> Result<()> {
        message(&mut self.request, b'P', |body| {
            text(body, name);
            text(body, sql);
            body.extend_from_slice(&(types.len() as i16).to_be_bytes());
            for kind in types {
                let oid = match kind {
                    Parameter::Integer(_) => INT4,
                    Parameter::Text(_) => TEXT,
                };
                body.extend_from_slice(&oid.to_be_bytes());
            }
        });
        message(&mut self.request, b'S', |_| {});
        self.send()?;
        self.complete().map(drop)
    }

    /// A round trip of Bind, Execute and Sync.
    pub fn execute(&mut self, name: &str, parameters: &[Parameter<'_>]) -> Result<Answer> {
        self.push_execute(name, parameters);
        self.send()?;
        self.complete()
    }

    /// Bind, Execute and Sync for later: `send` them, then `complete` each.
    pub fn push_execute(&mut self, name: &str, parameters: &[Parameter<'_>]) {
        message(&mut self.request, b'B', |body| {
            text(body, "");
            text(body, name);
            // Integers in binary as drivers send them, results in text.
            body.extend_from_slice(&(parameters.len() as i16).to_be_bytes());
            for parameter in parameters {
                let binary = matches!(parameter, Parameter::Integer(_));
                body.extend_from_slice(&i16::from(binary).to_be_bytes());
            }
            body.extend_from_slice(&(parameters.len() as i16).to_be_bytes());
            for parameter in parameters {
                let integer;
                let value: &[u8] = match parameter {
                    Parameter::Integer(number) => {
                        integer = number.to_be_bytes();
                        &integer
                    }
                    Parameter::Text(text) => text.as_bytes(),
                };
                body.extend_from_slice(&(value.len() as i32).to_be_bytes());
                body.extend_from_slice(value);
            }
            body.extend_from_slice(&0_i16.to_be_bytes());
        });
        message(&mut self.request, b'E', |body| {
            text(body, "");
            body.extend_from_slice(&0_i32.to_be_bytes());
        });
        message(&mut self.request, b'S', |_| {});
    }

    pub fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.request)?;
        self.request.clear();
        Ok(())
    }

    /// Reads up to the next ReadyForQuery.
    pub fn complete(&mut self) -> Result<Answer> {
        let mut answer = Answer::default();
        let mut error = None;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'D' => {
                    answer.row_count += 1;
                    answer.last_row.clear();
                    answer.last_row.extend_from_slice(body);
                }
                b'E' => error = Some(error_text(body)),
                b'Z' => match error {
                    None => return Ok(answer),
                    Some(error) => bail!("{error}"),
                },
                _ => {}
            }
        }
    }

    fn receive(&mut self) -> Result<(u8, &[u8])> {
        let size = loop {
            let unread = &self.received[self.unread.clone()];
            if let [_, size @ ..] = unread
                && let Some(size) = size.first_chunk()
            {
                let size = 1 + u32::from_be_bytes(*size) as usize;
                if unread.len() >= size {
                    break size;
                }
                if self.received.len() < size {
                    self.received.resize(size, 0);
                }
            }
            self.fill()?;
        };
        let start = self.unread.start;
        self.unread.start += size;
        Ok((
            self.received[start],
            &self.received[start + 5..start + size],
        ))
    }

    fn fill(&mut self) -> Result<()> {
        self.received.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let size = loop {
            match self.stream.read(&mut self.received[self.unread.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if size == 0 {
            bail!("the server closed the connection");
        }
        self.unread.end += size;
        Ok(())
    }
}

impl Drop for Client {
    /// Says goodbye, so that a server of one connection is free for the next.
    fn drop(&mut self) {
        let goodbye = [b'X', 0, 0, 0, 4];
        let _ = self.stream.write_all(&goodbye);
    }
}

fn message(request: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    request.push(kind);
    let start = request.len();
    request.extend_from_slice(&[0; 4]);
    fill(request);
    let size = (request.len() - start) as i32;
    request[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}

/// The message field of an ErrorResponse.
fn error_text(body: &[u8]) -> String {
    body.split(|&byte| byte == 0)
        .find(|field| field.first() == Some(&b'M'))
        .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
        .unwrap_or_else(|| "an error without a message".into())
}
