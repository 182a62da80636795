//! How a run ends on a signal.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Project, lookaside};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run that waits for more input.
struct Waiting {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Waiting {
    /// Starts a run on standard input and waits until it has written its first event.
    fn start(project: &Project) -> (Self, String) {
        Self::start_with(project, &[])
    }

    fn start_with(project: &Project, flags: &[&str]) -> (Self, String) {
        let mut child = lookaside()
            .args(["enrich", ".", "-"])
            .args(flags)
            .current_dir(project.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        stdin.write_all(EVENT.as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let waiting = Self {
            child,
            stdin,
            stdout,
            stderr,
        };
        (waiting, line)
    }

    /// Sends a signal as a shell would; the standard library cannot.
    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Sends an event and reads the answer.
    fn ask(&mut self) -> String {
        self.stdin.write_all(EVENT.as_bytes()).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Sends events until an answer contains `text`. The tables are reloaded concurrently; each
    /// answer is completely old or completely new.
    fn ask_until(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let line = self.ask();
            if line.contains(text) {
                return;
            }
            assert_eq!(line, FIRST);
            assert!(begun.elapsed() < PATIENCE, "no answer ever held {text}");
        }
    }

    /// The exit code, the rest of standard output, and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        drop(self.stdin);
        (code, out, err)
    }
}

const EVENT: &str = "{\"host\":\"web-1\",\"status\":200}\n";

/// So many events that processing them takes far longer than a signal.
const LONG: usize = 400_000;

const FIRST: &str = concat!(
    r#"{"host":"web-1","status":200,"class":"ok","owner":"shop","rack":7}"#,
    "\n"
);

#[test]
fn an_event_is_written_before_the_next_one_comes() {
    let (waiting, line) = Waiting::start(&Project::new());
    assert_eq!(line, FIRST);
    drop(waiting.stdin);
    let mut child = waiting.child;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_ends_a_run_with_whole_lines_and_a_summary() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let (mut waiting, _) = Waiting::start(&Project::new());
        // Half a line has been sent when the signal arrives.
        waiting
            .stdin
            .write_all(b"{\"host\":\"web-2\",\"sta")
            .unwrap();
        waiting.signal(signal);
        let (ended, out, err) = waiting.end();
        assert_eq!(ended, Some(code), "{err}");
        assert!(out.is_empty() || out.ends_with("}\n"), "{out}");
        assert!(err.contains("1 event"), "{err}");
    }
}

#[test]
fn a_hangup_reloads_the_tables() {
    let project = Project::new();
    let (mut waiting, _) = Waiting::start(&project);
    project.write("hosts/data.csv", "name,owner,rack\nweb-1,billing,1\n");
    waiting.signal("HUP");
    waiting.ask_until(r#""owner":"billing","rack":1"#);
    drop(waiting.stdin);
    assert_eq!(waiting.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hangup_with_a_broken_table_keeps_the_old_one() {
    let project = Project::new();
    let (mut waiting, _) = Waiting::start_with(&project, &["--log", "json"]);
    project.write("hosts/data.csv", "name,owner\nweb-1,\"no end\n");
    waiting.signal("HUP");
    let mut line = String::new();
    waiting.stderr.read_line(&mut line).unwrap();
    let entry: serde_json::Value = serde_json::from_str(&line).expect("a line of log is JSON");
    assert_eq!(entry["level"], "WARN");
    assert_eq!(
        entry["fields"]["message"],
        "tables not reloaded; the old ones stay in use"
    );
    assert_eq!(waiting.ask(), FIRST);
    fs::remove_file(project.file("hosts/data.csv")).unwrap();
    waiting.signal("HUP");
    waiting.stderr.read_line(&mut line).unwrap();
    assert_eq!(waiting.ask(), FIRST);
    project.write("hosts/data.csv", "name,owner,rack\nweb-1,billing,1\n");
    waiting.signal("HUP");
    waiting.ask_until(r#""owner":"billing","rack":1"#);
}

#[test]
fn a_changed_file_reloads_the_tables_if_asked_to() {
    let project = Project::new();
    let (mut waiting, _) = Waiting::start_with(&project, &["--watch"]);
    project.write("hosts/data.csv", "name,owner,rack\nweb-1,billing,1\n");
    waiting.ask_until(r#""owner":"billing","rack":1"#);
}

#[test]
fn a_second_signal_ends_a_run_that_cannot_finish() {
    let project = Project::new();
    project.write("long.json", &EVENT.repeat(LONG));
    let mut child = lookaside()
        .args(["enrich", ".", "long.json"])
        .current_dir(project.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, FIRST);
    // The batch of that line is larger than a pipe, and nothing reads it: it is never written
    // completely.
    let mut signals = 0;
    let ended = loop {
        signal(&child, "INT");
        signals += 1;
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        assert!(signals < 10_000, "no signal ended the run");
    };
    assert_eq!(ended.code(), Some(130));
    assert!(signals > 1, "the first signal lets it finish");
    drop(stdout);
}

#[test]
fn a_signal_keeps_what_was_written_of_a_finite_file() {
    let project = Project::new();
    project.write("long.json", &EVENT.repeat(LONG));
    project.write("out.json", "old\n");
    let child = lookaside()
        .args(["enrich", ".", "long.json", "-o", "out.json", "--workers=1"])
        .current_dir(project.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    let is_writing = || {
        let mut entries = fs::read_dir(project.path()).unwrap().flatten();
        entries.any(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.starts_with(".out.json.") && entry.metadata().is_ok_and(|file| file.len() > 0)
        })
    };
    while !is_writing() {
        assert!(begun.elapsed() < PATIENCE, "nothing was ever written");
        thread::yield_now();
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(
        err.contains("; stopped before the end of the input\n") && err.contains("/out.json.part\n"),
        "{err}"
    );
    assert_eq!(project.read("out.json"), "old\n");
    let part = project.read("out.json.part");
    assert!(!part.is_empty() && part.lines().all(|line| line == FIRST.trim_end()));
    assert!(part.ends_with('\n'));
}

fn signal(child: &Child, name: &str) {
    let command = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success());
}
