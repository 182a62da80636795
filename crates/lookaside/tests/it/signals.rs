//! How a run ends when it is asked to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::program::{Project, lookaside};

/// A run that waits for more input.
struct Waiting {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Waiting {
    /// Starts a run on standard input and waits until it has written its first event.
    fn start(project: &Project) -> (Self, String) {
        let mut child = lookaside()
            .args(["enrich", ".", "-"])
            .current_dir(project.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        stdin
            .write_all(b"{\"host\":\"web-1\",\"status\":200}\n")
            .unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let waiting = Self {
            child,
            stdin,
            stdout,
        };
        (waiting, line)
    }

    /// Sends a signal as a shell would; the standard library cannot.
    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(status.success());
    }

    /// The exit code, the rest of standard output, and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        let mut stderr = self.child.stderr.take().expect("it is a pipe");
        stderr.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        drop(self.stdin);
        (code, out, err)
    }
}

const FIRST: &str = concat!(
    r#"{"host":"web-1","class":"ok","owner":"shop","rack":7,"status":200}"#,
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
        // Half a line is under way when the signal comes.
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
    // The reload runs beside the events; it is visible soon, but nobody says when. Each answer is
    // either old or new as a whole.
    let mut answers = 0;
    loop {
        waiting
            .stdin
            .write_all(b"{\"host\":\"web-1\",\"status\":200}\n")
            .unwrap();
        let mut line = String::new();
        waiting.stdout.read_line(&mut line).unwrap();
        if line.contains(r#""owner":"billing","rack":1"#) {
            break;
        }
        assert_eq!(line, FIRST);
        answers += 1;
        assert!(answers < 1_000_000, "the tables were never reloaded");
    }
    drop(waiting.stdin);
    assert_eq!(waiting.child.wait().unwrap().code(), Some(0));
}
