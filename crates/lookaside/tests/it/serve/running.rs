//! A server that runs for one test.

use std::fs::{self, DirEntry};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use lookaside_testing::wait_for;

use super::Client;
use crate::program::{Project, lookaside};

/// Lookups of all kinds on two small tables.
pub(super) const SERVED: &str = r#"
[lookups.net]
sql = "select owner from nets where first <= ip4_int(:ip) and last >= ip4_int(:ip)"
params.ip = "ipv4"
example.ip = "10.0.0.1"
[lookups.host]
sql = "select name, rack from hosts where name = :name"
[lookups.rack]
sql = "select name from hosts where rack = :rack order by name"
params.rack = "int"
many = true
rows_max = 3
[lookups.late]
sql = "select name from hosts where rack + 0 = :rack"
params.rack = "int"
[lookups.dice]
sql = "select random() as number"
"#;

/// A project with two tables and the lookups of [`SERVED`].
pub(super) fn project(more: &str) -> Project {
    let project = Project::with(&[
        (
            "nets/data.csv",
            "first,last,owner\n10.0.0.0,10.0.0.255,lab\n10.0.1.0,10.0.1.255,\"shop, \"\"new\"\"\"\n",
        ),
        (
            "nets/create.sql",
            "create table {table} (first integer, last integer, owner text)",
        ),
        (
            "nets/insert.sql",
            "insert into {table} values (ip4_int(?1), ip4_int(?2), ?3)",
        ),
        (
            "hosts/data.csv",
            "name,rack\nweb-1,7\nweb-2,7\nweb-3,7\nweb-4,7\ndb 1,8\n",
        ),
    ]);
    configure(&project, more);
    project
}

/// Rewrites the configuration.
pub(super) fn configure(project: &Project, more: &str) {
    let tables = "version = 2\n[[tables]]\nname = 'nets'\n[[tables]]\nname = 'hosts'\n";
    project.write("knowdb.toml", &format!("{tables}{SERVED}{more}"));
}

/// A running server; it is killed if a test fails.
pub(super) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// `127.0.0.1:PORT`, if it listens there.
    pub(super) address: String,
    pub(super) greeting: String,
}

/// Starts a server on a free port.
pub(super) fn serve(project: &Project, flags: &[&str]) -> Running {
    Running::start(project, &[&["--listen", "127.0.0.1:0"], flags].concat())
}

impl Running {
    pub(super) fn start(project: &Project, flags: &[&str]) -> Self {
        Self::of(Self::command(project, flags))
    }

    pub(super) fn command(project: &Project, flags: &[&str]) -> Command {
        let mut command = lookaside();
        command
            .args(["serve", ".", "--threads", "2"])
            .args(flags)
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(project.path());
        command
    }

    pub(super) fn of(mut command: Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut greeting = String::new();
        while !greeting.contains("try:  ") {
            let size = stderr.read_line(&mut greeting).unwrap();
            assert_ne!(size, 0, "the server did not start:\n{greeting}");
        }
        let address = greeting.lines().find_map(|line| {
            let line = line.trim();
            line.strip_prefix("http://")
                .or_else(|| line.strip_prefix("https://"))
        });
        Self {
            address: address.unwrap_or_default().to_owned(),
            child,
            stderr,
            greeting,
        }
    }

    pub(super) fn client(&self) -> Client {
        Client::tcp(&self.address)
    }

    /// The number of its I/O threads, determined once all threads have their names: until then they
    /// have that of the program.
    pub(super) fn io_thread_count(&self) -> usize {
        let threads = format!("/proc/{}/task", self.child.id());
        wait_for("all threads have a name of their own", || {
            let threads = fs::read_dir(&threads).unwrap();
            let comm = |thread: io::Result<DirEntry>| thread.unwrap().path().join("comm");
            let names: Vec<String> = (threads.map(comm))
                .filter_map(|comm| fs::read_to_string(comm).ok())
                .collect();
            let unnamed = names.iter().filter(|name| *name == "lookaside\n");
            if unnamed.count() > 1 {
                return None;
            }
            let io_threads = names.iter().filter(|name| name.starts_with("http-"));
            Some(io_threads.count())
        })
    }

    /// Its peak memory in bytes.
    pub(super) fn memory_peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        1024 * peak
            .expect("a size in kB")
            .parse::<u64>()
            .expect("a number")
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(status.expect("there is a kill").success());
    }

    /// Reads its log up to a line that contains `text`.
    pub(super) fn log_until(&mut self, text: &str) -> String {
        let mut log = String::new();
        while !log.contains(text) {
            let size = self.stderr.read_line(&mut log).unwrap();
            assert_ne!(size, 0, "the log never said {text:?}:\n{log}");
        }
        log
    }

    /// Ends it by a signal, and returns its log since.
    pub(super) fn end(mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        self.wait()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).unwrap();
        assert!(!log.contains("panicked at"), "{log}");
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; a failed test must not leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A socket in the project's folder, which has a short name.
pub(super) fn socket(project: &Project) -> (PathBuf, String) {
    let path = project.file("s");
    let listen = format!("unix:{}", path.display());
    (path, listen)
}
