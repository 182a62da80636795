//! The process of a broker: it is killed, stopped, resumed and started again on the same port with
//! the same data.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::iter;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::install::as_ordinary_user;
use crate::server::new_folder;
use crate::wait::{WAIT_MAX, wait_until};

/// Below the range that Linux takes the local ports of connections from. Otherwise another
/// connection could take the port of a broker that is down, and a client that tries to reconnect
/// could be given that port and connect to itself.
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// Starts the process; kills it after a line `kill`, starts it after a line `start`, sends it the
/// signal that another line names, and ends when the pipe is closed, also by the death of the process
/// at its other end. Only that may end it, so it ignores the signals of a terminal.
///
/// There is a file `pid` while the process should run. A killed process is waited for, so that it
/// is gone only after its port is free.
const HOLDER: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
start() {
    mkdir -p "$folder/data"
    "$@" >>"$folder/log" 2>&1 &
    process=$!
    echo $process >"$folder/pid"
}
start "$@"
while read -r word; do
    case $word in
    start) start "$@" ;;
    kill)
        rm -f "$folder/pid"
        kill -9 $process
        wait $process
        process=
        ;;
    *) kill "-$word" $process ;;
    esac
done
kill -9 $process
wait
rm -rf "$folder"
"#;

/// The process of a server with a private folder, in which it is killed, stopped, resumed and started
/// again.
pub struct ServerProcess {
    folder: PathBuf,
    port: u16,
    is_ready: IsReady,
    holder: Child,
    orders: Option<ChildStdin>,
}

/// Whether the server is ready.
type IsReady = Box<dyn Fn() -> io::Result<bool> + Send + Sync>;

/// How a server is started in its folder, which has a subfolder `data`.
pub(crate) struct Launch {
    pub(crate) command: Vec<OsString>,
    /// The port for clients.
    pub(crate) port: u16,
    pub(crate) is_ready: IsReady,
}

/// Finds a program in `PATH` or among those of root; the error states the package that has it.
pub(crate) fn find_or_skip(program: &str, package: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    if found.is_none() {
        let missing = format!("no `{program}`: install Debian's `{package}`, or as it is called");
        assert!(env::var_os("CI").is_none(), "CI must have it: {missing}");
        // Bypasses the test harness, which hides the output of passing tests.
        let _ = writeln!(io::stderr(), "SKIP {missing}");
    }
    found
}

impl ServerProcess {
    /// Starts a program with one port, on which its arguments and whether it is ready depend.
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    pub(crate) fn start_program(
        program: &Path,
        arguments: impl Fn(&Path, u16) -> Vec<String>,
        is_ready: fn(u16) -> io::Result<bool>,
    ) -> Self {
        Self::start(|folder| {
            let port = free_port()?.local_addr()?.port();
            let arguments = arguments(&folder.join("data"), port).into_iter();
            let arguments = arguments.map(OsString::from);
            Ok(Launch {
                command: iter::once(program.into()).chain(arguments).collect(),
                port,
                is_ready: Box::new(move || is_ready(port)),
            })
        })
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If it does not start; the message contains its log.
    pub(crate) fn start(prepare: impl Fn(&Path) -> io::Result<Launch>) -> Self {
        // Another process may take a port before the server does.
        const ATTEMPT_COUNT: usize = 3;
        let mut log = String::new();
        for _ in 0..ATTEMPT_COUNT {
            match Self::launch(&prepare) {
                Ok(process) => return process,
                Err(failed) => log = failed,
            }
        }
        panic!("the server does not start: {log}")
    }

    fn launch(prepare: impl Fn(&Path) -> io::Result<Launch>) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let folder = new_folder();
        let Launch {
            command,
            port,
            is_ready,
        } = prepare(&folder).map_err(said)?;
        let mut holder = as_ordinary_user(Path::new("/bin/sh"))
            .args(["-c", HOLDER, "sh"])
            .arg(&folder)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said)?;
        let orders = holder.stdin.take();
        let process = Self {
            folder,
            port,
            is_ready,
            holder,
            orders,
        };
        process.wait().map(|()| process)
    }

    /// Waits until the server is ready; the error is the reason and its log.
    fn wait(&self) -> Result<(), String> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let is_ready = (self.is_ready)().unwrap_or(false);
            let reason = if self.has_ended() {
                // The port may belong to another process.
                "the process ended"
            } else if is_ready && self.pid().is_some() {
                return Ok(());
            } else if Instant::now() > deadline {
                "it is not ready in time"
            } else {
                // sleep: polls until a deadline; the error contains the log
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            return Err(format!("{reason}:\n{}", self.log()));
        }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the server by SIGKILL, as a crash would, also one that is stopped. Afterwards its port
    /// refuses connections.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid() else {
            return;
        };
        self.order("kill");
        wait_until("the process is gone", || task_states(pid).is_empty());
    }

    /// Stops the process by SIGSTOP, as a pause or a lost network would: its port accepts
    /// connections, and nothing answers.
    pub fn stop(&mut self) {
        self.order("STOP");
        self.wait_for_states("the process is stopped", |state| state == 'T');
    }

    /// Continues the process by SIGCONT after [`stop`](Self::stop).
    pub fn resume(&mut self) {
        self.order("CONT");
        self.wait_for_states("the process is resumed", |state| state != 'T');
    }

    /// Starts the server again after [`kill`](Self::kill), on the same port with the same data. A
    /// running server is killed first.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.order("start");
        self.wait()
            .unwrap_or_else(|error| panic!("it does not start again: {error}"));
    }

    fn order(&mut self, word: &str) {
        let orders = self
            .orders
            .as_mut()
            .expect("the pipe is open until the end");
        writeln!(orders, "{word}").expect("the holder reads until the end");
    }

    /// The process, unless it has not been started yet or was killed.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.folder.join("pid")).ok()?;
        // The file is empty for a moment.
        text.trim().parse().ok()
    }

    /// Whether the process ended by itself.
    fn has_ended(&self) -> bool {
        self.pid()
            .is_some_and(|pid| task_states(pid).into_iter().all(|state| state == 'Z'))
    }

    fn wait_for_states(&self, what: &str, is_meant: impl Fn(char) -> bool) {
        let pid = self.pid().expect("the process was not killed");
        wait_until(what, || {
            let states = task_states(pid);
            assert!(!states.is_empty(), "the process has ended");
            states.into_iter().all(&is_meant)
        });
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.holder.wait();
    }
}

/// Holds a port that is free at the moment.
pub(crate) fn free_port() -> io::Result<TcpListener> {
    const ATTEMPT_COUNT: usize = 1000;
    (0..ATTEMPT_COUNT)
        .find_map(|_| TcpListener::bind(("127.0.0.1", fastrand::u16(PORTS))).ok())
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// The states of a process's threads, as letters of Linux; empty if there is no such process.
fn task_states(pid: u32) -> Vec<char> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        // A thread may end in the meantime.
        .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
        // The name before it is in parentheses, and may contain some.
        .filter_map(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next())
        .collect()
}
