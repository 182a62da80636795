//! Requests to the product's HTTP service, one at a time on a connection that stays open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lookaside_verify::history::{Key, Source, Version};
use serde_json::Value as Json;

use super::Cause;
use super::registers::{LOOKUPS, lookup_index};

/// How long the service may take: longer than any query of the product.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest body that is read: a version, or a problem.
const BODY_SIZE_MAX: usize = 64 << 10;

/// A client with one connection.
pub(super) struct HttpClient {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer of the service.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) version: Option<Version>,
    pub(super) source: Source,
    /// How old it is at most, as `Lookaside-Fresh-As-Of` says.
    pub(super) age: Option<Duration>,
}

/// What of a response is used.
#[derive(Debug, Default)]
struct Response {
    status: u16,
    cache: Option<String>,
    fresh_as_of: Option<String>,
    body: Vec<u8>,
}

impl HttpClient {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
        }
    }

    /// One lookup, whose encoded answer the service keeps.
    pub(super) fn get(&mut self, key: Key, header: &str) -> Result<HttpAnswer, Cause> {
        let (name, _) = LOOKUPS[lookup_index(key)];
        let request = format!(
            "GET /v1/lookup/{name}?id={} HTTP/1.1\r\nHost: {}\r\n{header}\r\n",
            key.0, self.address
        );
        let response = self.send(&request)?;
        let version = match response.status {
            200 => version(&serde_json::from_slice(&response.body)?)?,
            404 => None,
            status => return Err(refusal(status, &response.body)),
        };
        let (source, age) = response.cache();
        Ok(HttpAnswer {
            version,
            source,
            age,
        })
    }

    /// A batch of one lookup.
    pub(super) fn post(&mut self, key: Key, header: &str) -> Result<HttpAnswer, Cause> {
        let (name, _) = LOOKUPS[lookup_index(key)];
        let body = format!("[{}]", key.0);
        let request = format!(
            "POST /v1/lookup/{name} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{header}\r\n{body}",
            self.address,
            body.len()
        );
        let response = self.send(&request)?;
        let answers: Json = match response.status {
            200 => serde_json::from_slice(&response.body)?,
            status => return Err(refusal(status, &response.body)),
        };
        let row = answers.get(0).ok_or("a batch of one has no answer")?;
        let (source, age) = response.cache();
        Ok(HttpAnswer {
            version: version(row)?,
            source,
            age,
        })
    }

    /// A failure closes the connection; the next request opens another.
    fn send(&mut self, request: &str) -> Result<Response, Cause> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                BufReader::new(stream)
            }
        };
        stream.get_mut().write_all(request.as_bytes())?;
        let response = receive(&mut stream)?;
        self.stream = Some(stream);
        Ok(response)
    }
}

impl Response {
    /// What answered, and the age. A batch does not tell, and counts as one of the database.
    fn cache(&self) -> (Source, Option<Duration>) {
        let text = self.cache.as_deref().unwrap_or_default();
        let layer = text.split(';').next().unwrap_or_default();
        let source = match layer.trim() {
            "body" | "native" | "l0" | "l1" => Source::Memory,
            _ => Source::Database,
        };
        let within = self.fresh_as_of.as_deref().unwrap_or_default();
        let within = within.rsplit("within=").next().unwrap_or_default();
        let age = within.parse().ok().map(Duration::from_millis);
        (source, age)
    }
}

fn receive(stream: &mut BufReader<TcpStream>) -> Result<Response, Cause> {
    let mut response = Response::default();
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err("the service closed the connection".into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        if response.status == 0 {
            let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
            response.status = status.ok_or("no status")?;
            continue;
        }
        let (name, value) = text.split_once(':').ok_or("not a header")?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        } else if name.eq_ignore_ascii_case("x-cache") {
            response.cache = Some(value.trim().to_owned());
        } else if name.eq_ignore_ascii_case("lookaside-fresh-as-of") {
            response.fresh_as_of = Some(value.trim().to_owned());
        }
    }
    if length > BODY_SIZE_MAX {
        return Err(format!("a body of {length} bytes").into());
    }
    response.body = vec![0; length];
    stream.read_exact(&mut response.body)?;
    Ok(response)
}

/// The version of a row; `null` without a row.
fn version(row: &Json) -> Result<Option<Version>, Cause> {
    if row.is_null() {
        return Ok(None);
    }
    let version = row.get("version").and_then(Json::as_u64);
    let version = version.ok_or_else(|| format!("the answer is not a version: {row}"))?;
    Ok(Some(Version(u32::try_from(version)?)))
}

fn refusal(status: u16, body: &[u8]) -> Cause {
    format!("status {status}: {}", String::from_utf8_lossy(body).trim()).into()
}
