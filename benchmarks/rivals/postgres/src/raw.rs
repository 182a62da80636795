//! No driver: the limit that the protocol, the kernel and the server set.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rival_common::measure::{Latencies, Measure, Seen, Stopwatch};
use rival_common::work::{Length, Pace};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::Question;

const PROTOCOL_3_0: i32 = 196_608;
const INT8: i32 = 20;
/// Window by window of the answers here fits in several times.
const RECEIVED_SIZE: usize = 64 * 1024;

pub fn run(question: &Question, one_sync: bool) -> Result<()> {
    let config: Config = question.url.parse().context("the URL")?;
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream: Box<dyn Stream> = match config.get_hosts().first() {
        Some(Host::Unix(folder)) => Box::new(UnixStream::connect(
            folder.join(format!(".s.PGSQL.{port}")),
        )?),
        Some(Host::Tcp(name)) => {
            let stream = TcpStream::connect((name.as_str(), port))?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        None => bail!("the URL names no host"),
    };
    let mut raw = Raw {
        stream,
        received: vec![0; RECEIVED_SIZE],
    };
    let user = config.get_user().context("the URL names no user")?;
    raw.begin(user, config.get_dbname().unwrap_or(user), question.sql)?;

    let mut seen = Seen::hash();
    let mut one = Flight::new(1, false);
    for key in &question.keys.drawn[..1000.min(question.keys.drawn.len())] {
        one.set(&[*key]);
        raw.ask(&one, &mut seen)?;
    }
    let mut flight = Flight::new(question.window, one_sync);
    let keys = &question.keys.drawn;
    raw.measure(&mut flight, keys, question.pace.warm_up())?;
    let measure = raw.measure(&mut flight, keys, question.pace)?;
    let syncs = if one_sync { ", one Sync" } else { "" };
    let how = format!("window {}{syncs}", question.window);
    measure.print("raw", "provider", &question.case(&how), seen.hashed());
    Ok(())
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

struct Raw {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Raw {
    /// Logs in and prepares the statement `s`.
    fn begin(&mut self, user: &str, database: &str, sql: &str) -> Result<()> {
        let mut body = PROTOCOL_3_0.to_be_bytes().to_vec();
        for word in ["user", user, "database", database, ""] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        let mut request = (body.len() as i32 + 4).to_be_bytes().to_vec();
        request.extend_from_slice(&body);
        self.stream.write_all(&request)?;
        self.read(1, &mut Seen::Nothing)?;

        request.clear();
        message(
            &mut request,
            b'P',
            &[b"s\0", sql.as_bytes(), b"\0", &[0, 1], &INT8.to_be_bytes()],
        );
        message(&mut request, b'S', &[]);
        self.stream.write_all(&request)?;
        self.read(1, &mut Seen::Nothing)
    }

    fn ask(&mut self, flight: &Flight, seen: &mut Seen) -> Result<()> {
        self.stream.write_all(&flight.request)?;
        self.read(flight.sync_count, seen)
    }

    /// Reads up to the last of so many ReadyForQuery and shows the values that come before.
    fn read(&mut self, mut ready_count: usize, seen: &mut Seen) -> Result<()> {
        let (mut start, mut end) = (0, 0);
        loop {
            let size = self.stream.read(&mut self.received[end..])?;
            ensure!(size > 0, "the server closed the connection");
            end += size;
            while let Some((kind, body)) = first_message(&self.received[start..end]) {
                match kind {
                    // A count of 1 and the value's size stand before the value.
                    b'D' => seen.see(body.get(6..).context("a short DataRow")?),
                    b'Z' => ready_count -= 1,
                    b'E' => bail!("the server says {}", String::from_utf8_lossy(body)),
                    b'R' if body != [0; 4] => bail!("the server wants a password"),
                    _ => {}
                }
                start += 5 + body.len();
            }
            if ready_count == 0 {
                return Ok(());
            }
            self.received.copy_within(start..end, 0);
            (start, end) = (0, end - start);
        }
    }

    fn measure(&mut self, flight: &mut Flight, keys: &[i64], pace: Pace) -> Result<Measure> {
        let Length::Seconds(seconds) = pace.length else {
            bail!("raw runs for seconds");
        };
        let mut latencies = Latencies::default();
        let mut seen = Seen::Nothing;
        let mut op_count = 0;
        let window = flight.key_offsets.len();
        let stopwatch = Stopwatch::start(pace.server);
        let mut before = Instant::now();
        let deadline = before + Duration::from_secs_f64(seconds);
        'run: loop {
            for keys in keys.chunks_exact(window) {
                flight.set(keys);
                self.ask(flight, &mut seen)?;
                op_count += window as u64;
                let after = Instant::now();
                // Each of them waited for the whole flight.
                (0..window).for_each(|_| latencies.add(after - before));
                before = after;
                if after >= deadline {
                    break 'run;
                }
            }
        }
        Ok(stopwatch.stop(op_count, latencies))
    }
}

/// Bind and Execute of `s` for each key, made once; only the keys' bytes change.
struct Flight {
    request: Vec<u8>,
    key_offsets: Vec<usize>,
    sync_count: usize,
}

impl Flight {
    fn new(window: usize, one_sync: bool) -> Self {
        let mut request = Vec::new();
        let mut key_offsets = Vec::new();
        for index in 0..window {
            // Portal and statement; one format, binary; one value of eight bytes; all columns binary.
            let parameters = [0, 1, 0, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
            message(&mut request, b'B', &[b"\0s\0", &parameters, &[0, 1, 0, 1]]);
            key_offsets.push(request.len() - 12);
            message(&mut request, b'E', &[b"\0", &[0; 4]]);
            if !one_sync || index + 1 == window {
                message(&mut request, b'S', &[]);
            }
        }
        Self {
            request,
            key_offsets,
            sync_count: if one_sync { 1 } else { window },
        }
    }

    fn set(&mut self, keys: &[i64]) {
        for (key, &offset) in keys.iter().zip(&self.key_offsets) {
            self.request[offset..offset + 8].copy_from_slice(&key.to_be_bytes());
        }
    }
}

fn message(request: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    request.push(kind);
    let size = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    request.extend_from_slice(&(size as i32).to_be_bytes());
    parts
        .iter()
        .for_each(|part| request.extend_from_slice(part));
}

fn first_message(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let size = u32::from_be_bytes(*bytes.get(1..)?.first_chunk()?) as usize;
    Some((bytes[0], bytes.get(5..1 + size)?))
}
