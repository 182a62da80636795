//! The access log: one JSON object per request, written by a separate thread.
//!
//! A line contains no parameters, bodies or keys: those are values of events. I/O threads collect
//! lines and hand them over once per batch of requests. If the disk is slow, lines are dropped and
//! counted; requests are not delayed.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lookaside_value::write_json_text;
use tracing::warn;

/// The capacity of the channel to the writer, in batches of lines.
const BATCH_COUNT_MAX: usize = 1024;

/// A batch of this size is handed over at once, even within a batch of requests.
const BATCH_SIZE: usize = 64 << 10;

/// The `User-Agent` is truncated to this length.
const AGENT_LENGTH_MAX: usize = 200;

/// The writer thread; dropping this ends it.
pub(crate) struct AccessLog {
    sender: Option<SyncSender<String>>,
    reopen: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// The log buffer of one I/O thread.
pub(crate) struct LogWriter {
    sender: SyncSender<String>,
    dropped: Arc<AtomicU64>,
    lines: String,
    /// The second that `second_text` shows.
    second: i64,
    second_text: String,
}

/// One request.
pub(crate) struct AccessLogEntry<'a> {
    pub(crate) peer: &'a dyn std::fmt::Display,
    pub(crate) key: Option<&'a str>,
    pub(crate) method: &'a str,
    /// Without the query.
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) size: usize,
    pub(crate) elapsed: Duration,
    pub(crate) cache: Option<&'a str>,
    pub(crate) agent: Option<&'a str>,
}

enum Target {
    Stderr,
    File(PathBuf, File),
}

impl AccessLog {
    /// Opens the log; `-` is standard error.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let target = match name {
            "-" => Target::Stderr,
            path => Target::File(path.into(), open(path.as_ref())?),
        };
        let (sender, receiver) = sync_channel(BATCH_COUNT_MAX);
        let reopen = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("access-log".into());
        let thread = thread.spawn({
            let reopen = reopen.clone();
            move || write(target, &receiver, &reopen)
        })?;
        Ok(Self {
            sender: Some(sender),
            reopen,
            dropped: Arc::default(),
            thread: Some(thread),
        })
    }

    /// A buffer for one thread.
    pub(crate) fn writer(&self) -> LogWriter {
        LogWriter {
            sender: self.sender.clone().expect("it is there until the drop"),
            dropped: self.dropped.clone(),
            lines: String::new(),
            second: i64::MIN,
            second_text: String::new(),
        }
    }

    /// Reopens the file by its name before the next lines, since the old one was renamed.
    pub(crate) fn reopen(&self) {
        // Relaxed: the lines themselves go through the channel, and one more batch in the old file
        // does no harm.
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Lines that were not written because the disk was slow.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        // All writers are gone with their threads by now, so the channel ends.
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // A panic on that thread was already reported there.
            let _ = thread.join();
        }
    }
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write(mut target: Target, receiver: &Receiver<String>, reopen: &AtomicBool) {
    let mut is_failing = false;
    for lines in receiver {
        if reopen.swap(false, Ordering::Relaxed)
            && let Target::File(path, file) = &mut target
        {
            match open(path) {
                Ok(opened) => *file = opened,
                Err(error) => {
                    warn!(%error, path = %path.display(), "access log cannot be reopened")
                }
            }
        }
        let written = match &mut target {
            Target::Stderr => io::stderr().lock().write_all(lines.as_bytes()),
            Target::File(_, file) => file.write_all(lines.as_bytes()),
        };
        if let Err(error) = &written
            && !is_failing
        {
            warn!(%error, "access log cannot be written");
        }
        is_failing = written.is_err();
    }
}

impl LogWriter {
    /// Adds a line.
    pub(crate) fn log(&mut self, entry: &AccessLogEntry<'_>) {
        let now = jiff::Timestamp::now();
        if now.as_second() != self.second {
            self.second = now.as_second();
            self.second_text = now.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        }
        let millis = now.subsec_millisecond();
        let text = &mut self.lines;
        write!(
            text,
            "{{\"time\":\"{}.{millis:03}Z\",\"peer\":\"{}\"",
            self.second_text, entry.peer
        )
        .expect("a string takes any text");
        for (name, value) in [
            ("key", entry.key),
            ("method", Some(entry.method)),
            ("path", Some(entry.path)),
            ("cache", entry.cache),
            ("agent", entry.agent),
        ] {
            if let Some(value) = value {
                write!(text, ",\"{name}\":").expect("a string takes any text");
                let cut = value.floor_char_boundary(AGENT_LENGTH_MAX.max(1).min(value.len()));
                write_json_text(&value[..cut], text);
            }
        }
        writeln!(
            text,
            ",\"status\":{},\"bytes\":{},\"us\":{}}}",
            entry.status,
            entry.size,
            entry.elapsed.as_micros()
        )
        .expect("a string takes any text");
        if self.lines.len() >= BATCH_SIZE {
            self.flush();
        }
    }

    /// Hands over the collected lines.
    pub(crate) fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let count = lines.bytes().filter(|byte| *byte == b'\n').count() as u64;
        if self.sender.try_send(lines).is_err() {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_json_and_a_renamed_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = AccessLog::start(path.to_str().unwrap()).unwrap();
        let mut writer = log.writer();
        let entry = AccessLogEntry {
            peer: &"127.0.0.1",
            key: Some("ci\""),
            method: "GET",
            path: "/v1/lookup/asn",
            status: 200,
            size: 17,
            elapsed: Duration::from_micros(5),
            cache: None,
            agent: Some(&"é".repeat(300)),
        };
        writer.log(&entry);
        writer.flush();
        while fs::read_to_string(&path).unwrap().is_empty() {
            thread::yield_now();
        }
        let old = folder.path().join("access.log.1");
        fs::rename(&path, &old).unwrap();
        log.reopen();
        writer.log(&entry);
        writer.flush();
        drop(writer);
        drop(log);
        for path in [path, old] {
            let text = fs::read_to_string(path).unwrap();
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["key"], "ci\"");
            assert_eq!(json["us"], 5);
            assert_eq!(json["agent"].as_str().unwrap().len(), AGENT_LENGTH_MAX);
            assert_eq!(json.get("cache"), None);
            let time: jiff::Timestamp = json["time"].as_str().unwrap().parse().unwrap();
            assert!(time > jiff::Timestamp::UNIX_EPOCH);
        }
    }
}
