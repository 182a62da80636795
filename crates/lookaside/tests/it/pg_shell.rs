//! The built-in prompt of `lookaside pg shell` at a terminal.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::pg::pg;
use crate::program::Project;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// A program at a terminal of its own.
struct Terminal {
    /// The side of the person.
    keyboard: File,
    child: Child,
    /// What was shown and not yet found.
    shown: String,
}

/// Both ends of a pseudo-terminal: that of the person, and that of the program.
fn terminal() -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    (ours.into(), theirs)
}

fn shell(project: &Project) -> Command {
    let mut command = pg();
    command
        .args(["shell", "--temporary", "--format", "csv"])
        .current_dir(project.path())
        .env("TERM", "xterm")
        .env("XDG_STATE_HOME", project.path().join("state"));
    command
}

impl Terminal {
    /// A shell whose input, output and errors are the terminal, once it has asked.
    fn open(project: &Project) -> Self {
        let (keyboard, theirs) = terminal();
        let other = || Stdio::from(theirs.try_clone().unwrap());
        let mut command = shell(project);
        command.stdin(other()).stdout(other()).stderr(other());
        let child = command.spawn().unwrap();
        let mut terminal = Self {
            keyboard,
            child,
            shown: String::new(),
        };
        terminal.wait_for("=> ");
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text is shown, and forgets it and all before it.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            assert!(self.read(deadline), "no {text:?} in {:?}", self.shown);
        }
    }

    /// Presses keys, and waits for what they show and for the next prompt.
    #[track_caller]
    fn ask(&mut self, keys: &str, expected: &str) {
        self.press(keys);
        self.wait_for(expected);
        self.wait_for("=> ");
    }

    /// Adds what is shown; false at the end, or at the deadline.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&self.keyboard, PollFlags::IN)];
        poll(&mut fds, Some(&left.try_into().unwrap())).unwrap();
        let mut bytes = [0; 4096];
        // The other side of a terminal that nobody has open is an error.
        let size = match fds[0].revents() {
            events if events.is_empty() => 0,
            _ => self.keyboard.read(&mut bytes).unwrap_or(0),
        };
        self.shown += &String::from_utf8_lossy(&bytes[..size]);
        size > 0
    }

    /// Ends the shell, and returns its exit code.
    fn end(mut self) -> Option<i32> {
        self.press(CTRL_D);
        while self.read(Instant::now() + PATIENCE) {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_are_edited_and_statements_end_with_a_semicolon() {
    let project = Project::empty();
    let mut terminal = Terminal::open(&project);
    terminal.press("select 40 +\r");
    terminal.wait_for("-> ");
    terminal.ask("2 as sum;\r", "sum\r\n42\r\n");
    // Home, and what was forgotten.
    terminal.ask("lect 30 + 3 as n;\x01se\r", "n\r\n33\r\n");
    // An empty line is a part of a text.
    terminal.press("select length('a\r");
    terminal.wait_for("-> ");
    terminal.press("\r");
    terminal.wait_for("-> ");
    terminal.ask("b') as size;\r", "size\r\n4\r\n");
    terminal.ask("\\dt\r", "schema,name,kind,owner\r\n");
    terminal.ask("help\r", "statements end with ;");
    // What follows an error on the same line is answered as well.
    terminal.ask("select nope; select 5 * 11 as n;\r", "n\r\n55\r\n");
    terminal.ask("\\nope\r", "unknown command \\nope");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_gives_up_what_was_typed() {
    let project = Project::empty();
    let mut terminal = Terminal::open(&project);
    terminal.press(&format!("select nope;{CTRL_C}"));
    terminal.wait_for("=> ");
    terminal.press("select nope, 'of a text\r");
    terminal.wait_for("-> ");
    terminal.ask(&format!("more{CTRL_C}"), "more");
    terminal.ask("select 6 * 7 as n;\r", "n\r\n42\r\n");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn statements_are_remembered_for_their_owner_alone() {
    let project = Project::empty();
    let mut terminal = Terminal::open(&project);
    terminal.ask("\r", "");
    terminal.press("select 40 +\r");
    terminal.wait_for("-> ");
    terminal.ask("2 as sum;\r", "sum\r\n42\r\n");
    terminal.ask(" select 'secret' || 1 as not_kept;\r", "secret1\r\n");
    // The last one again, all of its lines.
    terminal.ask(&format!("{UP}\r"), "sum\r\n42\r\n");
    assert_eq!(terminal.end(), Some(0));
    let file = project.path().join("state/lookaside/pg_shell_history");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "#V2\nselect 40 +\\n2 as sum;\n");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&*file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);

    let mut terminal = Terminal::open(&project);
    terminal.ask(&format!("{UP}\r"), "sum\r\n42\r\n");
    assert_eq!(terminal.end(), Some(0));
}

/// Keys that arrive together, as from `tmux send-keys`, belong to several lines.
#[test]
fn lines_that_arrive_at_once_are_all_executed() {
    let project = Project::empty();
    let mut terminal = Terminal::open(&project);
    terminal.ask("create table k (n int);\r", "CREATE TABLE");
    terminal
        .press("insert into k values (1);\rinsert into k values (2);\rinsert into k values (3);\r");
    for _ in 0..3 {
        terminal.wait_for("INSERT 0 1");
        terminal.wait_for("=> ");
    }
    terminal.ask("select 'rows: ' || count(*) from k;\r", "rows: 3");
    assert_eq!(terminal.end(), Some(0));
}

/// A person whose output goes into a file has no use for what moves a cursor.
#[test]
fn output_into_a_file_has_no_control_characters() {
    let project = Project::empty();
    let (mut keyboard, theirs) = terminal();
    let mut command = shell(&project);
    command.stdin(theirs).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    keyboard
        .write_all(b"select 40 +\n2 as sum;\nselect 7 as n;\n\x04")
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        // sleep: polls, since a shell that is too late is ended.
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    let (database, _) = shown.split_once("=> ").unwrap();
    assert_eq!(
        shown.replace(database, "db"),
        "db=> db-> sum\n42\ndb=> n\n7\ndb=> \n"
    );
    assert!(!project.path().join("state").exists());
}
