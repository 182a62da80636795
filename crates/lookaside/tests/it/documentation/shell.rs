//! A folder in which the commands of a page run.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::root;
use crate::pg::pg;
use crate::program::lookaside;

/// Longer than any command takes on a busy machine, also with the download of a PostgreSQL.
const PATIENCE: Duration = Duration::from_secs(300);

/// Cargo, as far as the pages need it: the program is built, and `cargo test` is that of a reader's
/// project, which finds a database.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
"run --release -- "*) shift 3 && exec lookaside "$@" ;;
"install --path "*) exec test -f "$3/Cargo.toml" ;;
test) exec lookaside pg shell --builtin --url "$DATABASE_URL" -c "select 1" ;;
*) echo "cargo $*: unknown to this test" >&2; exit 64 ;;
esac
"#;

/// A test runner or a migrator of a reader's project, which finds a database.
const READERS_TOOL: &str = r#"#!/bin/sh
exec lookaside pg shell --builtin --url "$DATABASE_URL" -c "select 1"
"#;

/// Settings of curl: an answer that is an error is a failure, and no progress is shown.
const CURL: &str = "fail\nsilent\nshow-error\n";

/// What a command printed, and how it ended.
pub(super) struct Printed {
    pub(super) status: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, out, err } = self;
        write!(f, "{out}{err}(exit status {status})")
    }
}

/// A shell whose working folder has `examples` and `crates` as the repository does, and in whose
/// path the built program is the first.
pub(super) struct Shell {
    /// `bin`, `run` and the working folder `project`.
    folder: TempDir,
    server: Option<Server>,
    /// Folders on which `pg start` was run.
    data: Vec<PathBuf>,
}

/// A running `lookaside serve`.
struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    address: String,
}

impl Shell {
    pub(super) fn new() -> Self {
        let shell = Self {
            folder: tempfile::tempdir().expect("there is room for temporary files"),
            server: None,
            data: Vec::new(),
        };
        let folder = shell.folder.path();
        for name in ["bin", "run", "project"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_lookaside");
        symlink(program, folder.join("bin/lookaside")).unwrap();
        let tools = ["pytest", "python", "alembic"].map(|name| (name, READERS_TOOL));
        for (name, script) in [("cargo", CARGO)].into_iter().chain(tools) {
            let path = folder.join("bin").join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.join(".curlrc"), CURL).unwrap();
        symlink(root().join("crates"), folder.join("project/crates")).unwrap();
        let listed = Command::new("git")
            .args(["ls-files", "-z", "examples"])
            .current_dir(root())
            .output()
            .expect("git is at hand where the tests run");
        let names = String::from_utf8(listed.stdout).expect("tracked names are text");
        for name in names.split_terminator('\0') {
            let copy = shell.path().join(name);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(root().join(name), copy).unwrap();
        }
        shell
    }

    /// The working folder.
    fn path(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn socket_folder(&self) -> String {
        self.folder.path().join("run").display().to_string()
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a command to its end, or until it serves. `None` if this machine lacks a program.
    pub(super) fn run(&mut self, command: &str, place: &str) -> Option<Printed> {
        assert!(!command.starts_with("cd "), "{place}: folders are not kept");
        let is_whole = !command.ends_with(['&', '\\']);
        assert!(
            is_whole,
            "{place}: neither jobs nor continued lines are known"
        );
        let words: Vec<&str> = command.split_whitespace().collect();
        match *words {
            ["lookaside", "serve", ..] => return Some(self.serve(command, place)),
            ["lookaside", "pg", "start", folder, ..] => self.data.push(self.path().join(folder)),
            ["curl", ..] if !has_curl() => {
                skip(&format!("{place}: no curl"));
                return None;
            }
            _ => {}
        }
        let mut command = command.replace("/run/user/1000", &self.socket_folder());
        if let Some(server) = &self.server {
            command = command.replace("127.0.0.1:8300", &server.address);
        }
        let mut child = self.spawn(&command);
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                kill(&child, "-KILL");
                let _ = child.wait();
                panic!("{place}: does not end\n{}", self.printed(0));
            }
            // sleep: polls, since the failure shows the output.
            thread::sleep(Duration::from_millis(5));
        };
        let code = status
            .code()
            .unwrap_or_else(|| panic!("{place}: {status}\n{}", self.printed(0)));
        Some(self.printed(code))
    }

    fn serve(&mut self, command: &str, place: &str) -> Printed {
        let socket_folder = self.socket_folder();
        let listen = format!("--listen 127.0.0.1:0 --listen unix:{socket_folder}/lookaside.sock");
        self.server = None;
        let child = self.spawn(&format!("exec {command} {listen}"));
        // It is killed from here on, whatever happens.
        let server = self.server.insert(Server {
            child,
            address: String::new(),
        });
        let begun = Instant::now();
        let err = self.folder.path().join("err");
        let greeting = loop {
            let greeting = fs::read_to_string(&err).unwrap();
            // The last line, once it is complete.
            if greeting.contains("\ntry:  ") && greeting.ends_with('\n') {
                break greeting;
            }
            let status = server.child.try_wait().unwrap();
            assert_eq!(status, None, "{place}: ended\n{greeting}");
            assert!(
                begun.elapsed() < PATIENCE,
                "{place}: does not serve\n{greeting}"
            );
            // sleep: polls, since the failure shows the output.
            thread::sleep(Duration::from_millis(5));
        };
        let address = greeting
            .lines()
            .find_map(|line| line.trim().strip_prefix("http://"));
        server.address = address.expect("it says where it listens").to_owned();
        let mut printed = self.printed(0);
        printed.err = (printed.err.replace(&socket_folder, "/run/user/1000"))
            .replace(&self.server.as_ref().unwrap().address, "127.0.0.1:8300");
        printed
    }

    /// Starts a command in a process group, with files for its output.
    fn spawn(&self, command: &str) -> Child {
        let folder = self.folder.path();
        for name in ["out", "err"] {
            // A server goes on to write into the files that it has open.
            let _ = fs::remove_file(folder.join(name));
        }
        let path = std::env::var("PATH").unwrap_or_default();
        // `lookaside` and `pg` know which variables of a developer's shell a test must not see.
        let (program, database) = (lookaside(), pg());
        let removed = (program.get_envs().chain(database.get_envs()))
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name);
        let mut shell = Command::new("sh");
        for name in removed {
            shell.env_remove(name);
        }
        shell
            .args(["-c", command])
            .env("PATH", format!("{}/bin:{path}", folder.display()))
            .env("CURL_HOME", folder)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("out")).unwrap())
            .stderr(File::create(folder.join("err")).unwrap())
            .process_group(0)
            .spawn()
            .expect("there is a shell")
    }

    /// What the last command printed.
    fn printed(&self, status: i32) -> Printed {
        let [out, err] = ["out", "err"].map(|name| {
            let bytes = fs::read(self.folder.path().join(name)).unwrap();
            String::from_utf8(bytes).expect("commands print text")
        });
        Printed { status, out, err }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for folder in &self.data {
            let _ = pg().arg("stop").arg(folder).output();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to the process group of a command.
fn kill(child: &Child, signal: &str) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args([signal, "--", &group]).status();
}

fn has_curl() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join("curl").is_file())
}

#[expect(clippy::print_stderr, reason = "the test harness shows it")]
fn skip(reason: &str) {
    eprintln!("SKIP {reason}");
}
