//! Encoded bodies of `lookaside serve`: the program runs as a child, and a thread of ours looks at it over
//! a connection that stays open.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Result;

/// How long the program may take until it serves answers that the feed keeps valid.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an answer, or a change in it, may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The pause between two requests.
const POLL_PAUSE: Duration = Duration::from_micros(15);

/// A key, and the version that is to be shown.
type Expected = (i64, i64);

/// The program, and the thread that looks at it.
pub(super) struct ServedBodies {
    /// `None` once it is dropped, which ends the thread.
    expected: Option<Sender<Expected>>,
    shown: Receiver<Result<Instant>>,
    thread: Option<JoinHandle<()>>,
    program: Child,
    _folder: TempDir,
}

impl ServedBodies {
    /// Starts the program with one thread, and waits until the keys 1 to `key_count` are answered by bodies.
    pub(super) fn start(program: &Path, knowdb: &str, key_count: i64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("knowdb.toml"), knowdb)?;
        let mut program = Command::new(program)
            .arg("serve")
            .arg(folder.path())
            .args(["--listen", "127.0.0.1:0", "--threads", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (out, err) = (program.stdout.take(), program.stderr.take());
        let (expected, to_look_for) = channel::<Expected>();
        let (to_show, shown) = channel();
        let mut served = Self {
            expected: Some(expected),
            shown,
            thread: None,
            program,
            _folder: folder,
        };
        let mut client = HttpClient::connect(&address(out, err)?)?;
        client.warm(key_count)?;
        let thread = thread::Builder::new().name("bodies".to_owned());
        served.thread = Some(thread.spawn(move || {
            for expected in to_look_for {
                if to_show.send(client.wait_for(expected)).is_err() {
                    return;
                }
            }
        })?);
        Ok(served)
    }

    /// Begins to look for a version.
    pub(super) fn expect(&self, key: i64, version: i64) -> Result<()> {
        let expected = self.expected.as_ref().ok_or("it has ended")?;
        Ok(expected.send((key, version))?)
    }

    /// Waits until it is shown.
    pub(super) fn shown(&self) -> Result<Instant> {
        self.shown.recv()?
    }
}

impl Drop for ServedBodies {
    fn drop(&mut self) {
        drop(self.expected.take());
        if let Some(thread) = self.thread.take() {
            // Failures were passed on.
            let _ = thread.join();
        }
        // It has nothing to finish.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The address that the program tells. What it writes afterwards is read and dropped.
fn address(
    out: Option<impl Read + Send + 'static>,
    err: Option<impl Read + Send + 'static>,
) -> Result<String> {
    let (to_tell, told) = channel();
    let outputs = [
        out.map(|it| Box::new(it) as Box<dyn Read + Send>),
        err.map(|it| Box::new(it) as Box<dyn Read + Send>),
    ];
    for output in outputs.into_iter().flatten() {
        let to_tell: Sender<String> = to_tell.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                // The receiver is dropped once the address is known.
                let _ = to_tell.send(line);
            }
        });
    }
    drop(to_tell);
    let begin = Instant::now();
    let mut lines = Vec::new();
    while let Ok(line) = told.recv_timeout(START_TIMEOUT.saturating_sub(begin.elapsed())) {
        if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
            let digits = rest.find(|it: char| !it.is_ascii_digit());
            let port = &rest[..digits.unwrap_or(rest.len())];
            return Ok(format!("127.0.0.1:{port}"));
        }
        lines.push(line);
    }
    Err(format!("the program does not serve: {}", lines.join("; ")).into())
}

/// A client with one connection.
struct HttpClient {
    address: String,
    stream: BufReader<TcpStream>,
}

/// What of a response is used.
struct HttpAnswer {
    version: i64,
    cache: String,
}

impl HttpClient {
    fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            address: address.to_owned(),
            stream: BufReader::new(stream),
        })
    }

    fn warm(&mut self, key_count: i64) -> Result<()> {
        let begin = Instant::now();
        for key in 1..=key_count {
            loop {
                let answer = self.get(key)?;
                if answer.cache.starts_with("body") && answer.cache.contains("feed=live") {
                    break;
                }
                if begin.elapsed() > START_TIMEOUT {
                    return Err(format!("no body answers: X-Cache: {}", answer.cache).into());
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Requests a key until the answer has the version; then once more, so that its body is cached.
    fn wait_for(&mut self, (key, version): Expected) -> Result<Instant> {
        let begin = Instant::now();
        loop {
            let answer = self.get(key)?;
            let now = Instant::now();
            if answer.version >= version {
                self.get(key)?;
                return Ok(now);
            }
            if begin.elapsed() > TIMEOUT {
                return Err("a change does not reach the bodies".into());
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    fn get(&mut self, key: i64) -> Result<HttpAnswer> {
        let request = format!(
            "GET /v1/lookup/register?id={key} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.address
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length, mut cache) = (String::new(), 0, String::new());
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim_end();
            match line.split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?;
                }
                Some((name, value)) if name.eq_ignore_ascii_case("x-cache") => {
                    value.clone_into(&mut cache);
                }
                _ if status.is_empty() && !line.is_empty() => line.clone_into(&mut status),
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        match body.get("version").and_then(serde_json::Value::as_i64) {
            Some(version) => Ok(HttpAnswer { version, cache }),
            None => Err(format!("the program answers {status}: {body}").into()),
        }
    }
}
