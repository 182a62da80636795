//! `enrich` with events that arrive by HTTP: the program itself, over real sockets.

mod bodies;
mod delivery;
mod ending;
#[cfg(feature = "kafka")]
mod kafka;
mod limits;
mod lookups;
mod refusals;
mod setup;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use lookaside_testing::{wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Project, lookaside};
use crate::serve::client::Client;

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A project without tables whose model passes events on as they are.
fn project(config: &str) -> Project {
    Project::with(&[
        (
            "knowdb.toml",
            &format!("version = 2\n[enrich]\nmodel = 'copy'\n{config}"),
        ),
        ("models/copy.oml", "name : copy\n---\n* = take() ;\n"),
    ])
}

/// A run that listens on a port of the system's choice.
struct Run {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Run {
    /// Starts a run with options of the URL, behind its question mark, and flags.
    fn start(project: &Project, options: &str, flags: &[&str]) -> Self {
        Self::start_to(Stdio::null(), project, options, flags)
    }

    /// Starts a run with a standard output.
    fn start_to(stdout: Stdio, project: &Project, options: &str, flags: &[&str]) -> Self {
        let mut child = lookaside()
            .args([
                "enrich",
                ".",
                "--input",
                &format!("http://127.0.0.1:0/events?{options}"),
            ])
            .args(["--log", "json", "--log-level", "info"])
            .args(flags)
            .current_dir(project.path())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let log = Arc::<Mutex<Vec<String>>>::default();
        let reader = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in stderr.lines() {
                    log.lock().unwrap().push(line.unwrap());
                }
            }
        });
        Self {
            child,
            log,
            reader: Some(reader),
        }
    }

    /// The address of the log entry with `message`, when it is there.
    fn address_of(&self, message: &str) -> String {
        wait_for(message, || {
            let log = self.log.lock().unwrap();
            log.iter().find_map(|line| {
                let entry: serde_json::Value = serde_json::from_str(line).ok()?;
                let fields = &entry["fields"];
                (fields["message"] == message)
                    .then(|| fields["address"].as_str().unwrap().to_owned())
            })
        })
    }

    fn address(&self) -> String {
        self.address_of("listens")
    }

    fn client(&self) -> Client {
        Client::tcp(&self.address())
    }

    /// Waits until the program has processed all that was sent to it.
    fn wait_received(&self) {
        let address = self.address();
        let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
        wait_until("all bytes are received", || {
            let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let end = format!("0100007F:{port:04X}");
            connections.lines().all(|line| {
                // The numbers of bytes that are not sent, and not read.
                !line.contains(&end)
                    || line.contains(" 0A ")
                    || line.contains(" 00000000:00000000 ")
            })
        });
        // A thread that answers another connection has processed what it had read before. The kernel
        // distributes connections over the threads by a hash.
        for _ in 0..32 {
            Client::tcp(&address).get("/").is(404);
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The resident memory of the process in bytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let size = line.unwrap().split_whitespace().nth(1).unwrap();
        size.parse::<u64>().unwrap() << 10
    }

    /// Waits for its end; returns the exit code and what it wrote to standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log.lock().unwrap().join("\n");
        assert!(!log.contains("panicked at"), "the program panicked:\n{log}");
        (status.code(), log)
    }

    /// Ends it by SIGTERM.
    #[track_caller]
    fn terminate(self) -> String {
        self.signal(Signal::TERM);
        let (code, log) = self.ended();
        assert_eq!(code, Some(143), "{log}");
        log
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended already; a failed test must not leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A named pipe that a run writes to. It blocks the run until it is read, since it takes 64 KiB.
struct Pipe {
    path: PathBuf,
    reader: File,
}

impl Pipe {
    fn new(project: &Project) -> Self {
        let path = make_pipe(project);
        // For writing too, so that opening it does not wait, and that it never ends.
        let reader = OpenOptions::new().read(true).write(true).open(&path);
        Self {
            reader: reader.unwrap(),
            path,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Reads lines on a thread until `count` are there, and returns them.
    fn read(&self, count: usize) -> JoinHandle<Vec<String>> {
        let reader = BufReader::new(self.reader.try_clone().unwrap());
        thread::spawn(move || reader.lines().take(count).map(Result::unwrap).collect())
    }
}

fn make_pipe(project: &Project) -> PathBuf {
    let path = project.file("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// `count` lines with the numbers from `first` on, each of `size` bytes and its line end.
fn lines(first: usize, count: usize, size: usize) -> String {
    let mut text = String::new();
    for n in first..first + count {
        let start = format!("{{\"n\":{n},\"pad\":\"");
        let pad = "x".repeat(size - start.len() - 2);
        text.push_str(&format!("{start}{pad}\"}}\n"));
    }
    text
}

/// The numbers of the events in a text of lines.
fn numbers(text: &str) -> Vec<usize> {
    text.lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            usize::try_from(event["n"].as_u64().expect("a number")).unwrap()
        })
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A request in the chunked transfer coding.
fn chunked(head: &str, body: &[u8]) -> Vec<u8> {
    let mut request =
        format!("POST /events HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n{head}\r\n")
            .into_bytes();
    for piece in body.chunks(1000) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}
