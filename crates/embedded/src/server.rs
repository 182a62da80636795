//! A running server, and the small process that stops it when its owners are gone.
//!
//! A shell, in a process group of its own, starts the server and waits for it. A second shell reads
//! a pipe whose write end the owners hold; the kernel closes that end however an owner dies, and at
//! end of file the server is stopped and, if it was temporary, its folder removed. No parent-death
//! signal is used: it follows the thread that spawned, and tests run on threads that end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::{Connection, Failure};
use crate::binaries::Binaries;
use crate::endpoint::PORT_DEFAULT;
use crate::files::{DATA, ENDING, JOINED, LOG, OWNERS, PORT};
use crate::identity::Identity;
use crate::names::{ADMIN_DATABASE, USER};
use crate::process_limit;
use crate::runtime_dir::write_private;
use crate::{Error, Result};

/// The limit for the start of a server; one that replays the WAL of persistent data reports
/// progress, and has no limit.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The interval at which a start checks for the socket; the server needs some 15 ms, so this adds a
/// few percent.
const START_POLL: Duration = Duration::from_micros(500);

/// How long a server that cannot fork processes may retry before its start is aborted, and how
/// often its log is checked for that.
const FORK_TIMEOUT: Duration = Duration::from_secs(3);
const LOG_POLL: Duration = Duration::from_millis(100);

/// How long to wait after a lost connection for the end of its server.
const CRASH_TIMEOUT: Duration = Duration::from_millis(300);

/// How long processes of a killed server may hold its shared memory, and the interval of retries of
/// a start until then.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
const MEMORY_POLL: Duration = Duration::from_millis(50);

/// How long stopping a server waits for its recovery from a crash, and the polling interval.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const RECOVERY_POLL: Duration = Duration::from_millis(10);

/// The number of attempts with a free port, which may be taken between its choice and its use.
const PORT_TRIES: usize = 5;

/// The size of the part of a log that is quoted.
const LOG_QUOTE_SIZE: u64 = 2048;

/// File in the folder of a server with persistent data: the pipe that the server holds open as long
/// as it runs.
const ALIVE: &str = "alive";

/// A message for [`WATCH`]: replace the pipe by the one that the server itself holds open.
const DETACH: &[u8] = b"outlive\n";

/// The script of both shells. Arguments: the cluster's folder, the signal that ends the server,
/// what to remove then (may be empty), and the server's command. Standard input is the owners'
/// pipe.
///
/// - Standard output is the locked file, so that the lock lasts as long as either shell, and no longer:
///   `sleep` gets another one.
/// - If no process can be started for the second shell or for `sleep`, a shell ends at once, and
///   its EXIT trap stops the server first: nothing else would. If no process can be started for
///   `rm`, it replaces the shell. Messages of the shell go to the log.
/// - The signal is sent until the server ends: a shell starts background processes with INT and QUIT ignored,
///   and the server handles them only some time after its start.
/// - After half a minute QUIT is sent instead: PostgreSQL 18 that gets INT while it recovers from the crash of
///   one of its processes does not end by it. Committed data stays, and the next start recovers it.
/// - A killed server has removed neither its PID file nor its shared memory, which the file names:
///   the folder is kept, and the next start removes all of it.
/// - A file that cannot be written, because there is no space or no folder any more, does not end the shell:
///   redirections are those of `command :`, since with `:` alone, a special built-in, the shell would exit.
/// - A detached server holds the pipe `alive`, so that the second shell, and with it the lock, ends with the
///   server also where the first one was killed.
const WATCH: &str = r#"
folder=$1 signal=$2 remove=$3
shift 3
umask 077
PATH=${PATH:-/bin}:/usr/bin:/bin
exec 3<&0 </dev/null 2>>"$folder/log"
if [ -p "$folder/alive" ]; then exec 4<>"$folder/alive"; fi
"$@" 3<&- >>"$folder/log" &
server=$!
exec 4<&-
trap 'kill -s KILL "$server"' EXIT
(
    exec 2>/dev/null
    while read -r owner <&3; do
        if [ "$owner" = outlive ]; then
            # Opened for both, a pipe without another end does not wait for one.
            exec 4<>"$folder/alive" 3<"$folder/alive" 4<&-
            continue
        fi
        command : >"$folder/joined/$owner"
    done
    command : >"$folder/ending"
    trap 'while kill -s QUIT "$server"; do :; done' EXIT
    attempts_left=300
    while kill -s "$signal" "$server"; do
        sleep 0.1 >/dev/null || break
        attempts_left=$((attempts_left - 1))
        if [ "$attempts_left" -eq 0 ]; then signal=QUIT; fi
    done
) &
reader=$!
trap - EXIT
exec 3<&- 2>/dev/null
wait "$server"
code=$?
kill "$reader"
wait "$reader"
if [ -e "$folder/ending" ] && [ -n "$remove" ] && ! [ -e "$folder/data/postmaster.pid" ]; then
    trap 'exec rm -rf -- "$remove"' EXIT
    rm -rf -- "$remove"
    trap - EXIT
fi
exit "$code"
"#;

/// The parameters of a start.
pub(crate) struct Spec<'a> {
    pub(crate) binaries: &'a Binaries,
    pub(crate) identity: &'a Identity,
    /// The cluster's folder, which contains [`DATA`].
    pub(crate) folder: &'a Path,
    pub(crate) socket_folder: &'a Path,
    pub(crate) listen: Listen,
    /// Settings of the server, in addition to those of its folder.
    pub(crate) settings: &'a [(String, String)],
    pub(crate) on_owner_exit: OnOwnerExit,
    /// The lock on [`LOCK`](crate::files::LOCK), which the watching process holds.
    pub(crate) lock: &'a File,
}

/// Where the server listens in addition to its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Only on the socket.
    Socket,
    /// On a free port of 127.0.0.1.
    Tcp,
}

/// What happens to a server when its owners are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnOwnerExit {
    /// The server is stopped immediately, and its folder is removed.
    Remove,
    /// As `Remove`; further owners may join through [`OWNERS`].
    RemoveShared,
    /// The server writes its data to disk and stops.
    Stop,
}

/// A running server that this process owns or started.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None` after it has been reaped.
    watch: Option<Child>,
    /// The write end of the owners' pipe.
    owner: Option<OwnedFd>,
    /// The lock of the watching shells, held here as well, so that the log of a crashed server is
    /// not swept before it is read.
    lock: Option<File>,
    folder: PathBuf,
    socket_folder: PathBuf,
    port: u16,
    on_owner_exit: OnOwnerExit,
}

impl Server {
    /// Starts a server and waits until it answers; returns the first session.
    pub(crate) fn start(spec: &Spec<'_>) -> Result<(Self, Connection)> {
        let log_start = fs::metadata(spec.folder.join(LOG)).map_or(0, |metadata| metadata.len());
        let mut remembered = remembered_port(spec);
        let begin = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let port = match (spec.listen, remembered.take()) {
                (Listen::Socket, _) => PORT_DEFAULT,
                (Listen::Tcp, Some(port)) => port,
                (Listen::Tcp, None) => free_port()?,
            };
            let mut server = Self::spawn(spec, port)?;
            match server.wait_until_ready(spec, log_start) {
                Ok(session) => {
                    remember_port(spec, port)?;
                    return Ok((server, session));
                }
                Err(error) => {
                    server.abandon();
                    let log = log_end(spec.folder, log_start);
                    let port_taken =
                        spec.listen == Listen::Tcp && log.contains("Address already in use");
                    // A process of a killed server has not ended yet.
                    let memory_taken = log.contains("pre-existing shared memory block")
                        && begin.elapsed() < MEMORY_TIMEOUT;
                    if !memory_taken && (!port_taken || attempt >= PORT_TRIES) {
                        return Err(error);
                    }
                    if memory_taken {
                        remembered = remembered_port(spec);
                        thread::sleep(MEMORY_POLL);
                    }
                }
            }
        }
    }

    fn spawn(spec: &Spec<'_>, port: u16) -> Result<Self> {
        let mut command = spec.identity.command(Path::new("/bin/sh"));
        let (signal, remove) = match spec.on_owner_exit {
            OnOwnerExit::Remove | OnOwnerExit::RemoveShared => ("QUIT", spec.folder.as_os_str()),
            OnOwnerExit::Stop => ("INT", "".as_ref()),
        };
        command
            .args(["-c", WATCH, "lookaside-watch"])
            .arg(spec.folder)
            .arg(signal)
            .arg(remove);
        add_server(&mut command, spec, port);
        let _ = fs::remove_file(spec.folder.join(ENDING));
        let (input, owner) = match spec.on_owner_exit {
            OnOwnerExit::RemoveShared => {
                let (input, owner) = shared_pipe(spec.folder, spec.identity)?;
                (Stdio::from(input), Some(OwnedFd::from(owner)))
            }
            OnOwnerExit::Remove | OnOwnerExit::Stop => {
                if spec.on_owner_exit == OnOwnerExit::Stop {
                    make_pipe(spec.folder, ALIVE, spec.identity)?;
                }
                let (input, owner) = io::pipe().map_err(Error::no_pipe)?;
                (Stdio::from(input), Some(OwnedFd::from(owner)))
            }
        };
        let share_lock = || {
            let shared = spec.lock.try_clone();
            shared.map_err(|error| Error::file("share the lock", spec.folder, error))
        };
        let watch = command
            .stdin(input)
            .stdout(share_lock()?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::cannot_spawn)?;
        Ok(Self {
            watch: Some(watch),
            owner,
            lock: Some(share_lock()?),
            folder: spec.folder.to_owned(),
            socket_folder: spec.socket_folder.to_owned(),
            port,
            on_owner_exit: spec.on_owner_exit,
        })
    }

    fn wait_until_ready(&mut self, spec: &Spec<'_>, log_start: u64) -> Result<Connection> {
        let socket = spec.socket_folder.join(format!(".s.PGSQL.{}", self.port));
        let mut begin = Instant::now();
        let mut look_at_log = begin + FORK_TIMEOUT;
        loop {
            if socket.exists() {
                match Connection::open(spec.socket_folder, self.port, USER, ADMIN_DATABASE) {
                    Ok(session) => return Ok(session),
                    Err(failure) if failure.is_starting_up() => {
                        if spec.on_owner_exit == OnOwnerExit::Stop {
                            begin = Instant::now();
                        }
                    }
                    // The socket file of a killed server exists until the new one creates its own.
                    Err(Failure::Lost(_)) => {}
                    Err(failure) => return Err(failure.during("starting the server")),
                }
            }
            let watch = self
                .watch
                .as_mut()
                .expect("a server that starts is watched");
            if let Ok(Some(_)) = watch.try_wait() {
                return Err(Error::start_failed(
                    spec.folder,
                    &log_end(spec.folder, log_start),
                ));
            }
            if Instant::now() > look_at_log {
                let log = log_end(spec.folder, log_start);
                // The server logs this again with each retry, unless one succeeds.
                if log.lines().last().is_some_and(process_limit::is_reported) {
                    return Err(Error::start_failed(spec.folder, &log));
                }
                look_at_log = Instant::now() + LOG_POLL;
            }
            if begin.elapsed() > START_TIMEOUT {
                return Err(Error::start_too_slow(
                    spec.folder,
                    START_TIMEOUT,
                    &log_end(spec.folder, log_start),
                ));
            }
            thread::sleep(START_POLL);
        }
    }

    /// The port of its socket and, with [`Listen::Tcp`], of 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether further owners may join.
    pub(crate) fn is_shared(&self) -> bool {
        self.on_owner_exit == OnOwnerExit::RemoveShared
    }

    /// Whether the server has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        let watch = self.watch.as_mut();
        watch.is_some_and(|watch| matches!(watch.try_wait(), Ok(None)))
    }

    /// An error with the end of the log if the server has ended by itself, or does within a moment:
    /// a connection breaks some time before its server has ended.
    pub(crate) fn crash_error(&mut self) -> Option<Error> {
        let watch = self.watch.as_mut()?;
        let begin = Instant::now();
        while begin.elapsed() < CRASH_TIMEOUT {
            if let Ok(Some(_)) = watch.try_wait() {
                return Some(Error::crashed(&self.folder, &log_end(&self.folder, 0)));
            }
            thread::sleep(START_POLL);
        }
        None
    }

    /// Stops the server. Waits for one with persistent data, so that its folder can be opened
    /// again, but not for a temporary one.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.on_owner_exit == OnOwnerExit::Stop {
            return self.end_and_wait();
        }
        self.release();
        Ok(())
    }

    /// Leaves the server running after its owner, until it is stopped.
    pub(crate) fn detach(&mut self) -> Result<()> {
        let mut owner = File::from(
            self.owner
                .take()
                .expect("a server that is left has an owner"),
        );
        owner
            .write_all(DETACH)
            .map_err(|error| Error::file("tell the watch of", &self.folder, error))?;
        self.release();
        Ok(())
    }

    fn release(&mut self) {
        self.owner = None;
        self.lock = None;
        if let Some(mut watch) = self.watch.take() {
            // Reaps the process; if the thread cannot be started, that happens when this process
            // ends, which is harmless.
            let thread = thread::Builder::new().name("lookaside-pg-end".to_owned());
            let _ = thread.spawn(move || watch.wait());
        }
    }

    /// As [`end`](Self::end), but also waits for a temporary server, until its folder is gone.
    pub(crate) fn end_and_wait(&mut self) -> Result<()> {
        if self.on_owner_exit == OnOwnerExit::Stop {
            self.wait_for_recovery();
        }
        self.owner = None;
        self.lock = None;
        if let Some(mut watch) = self.watch.take() {
            watch.wait().map_err(Error::cannot_wait)?;
        }
        Ok(())
    }

    /// Waits while the server recovers from the crash of one of its processes: PostgreSQL 18 would
    /// stop only after the half minute of [`WATCH`] meanwhile.
    fn wait_for_recovery(&mut self) {
        let begin = Instant::now();
        while self.is_running() && begin.elapsed() < RECOVERY_TIMEOUT && self.is_recovering() {
            thread::sleep(RECOVERY_POLL);
        }
    }

    /// Whether the server temporarily accepts no sessions.
    fn is_recovering(&self) -> bool {
        let session = Connection::open(&self.socket_folder, self.port, USER, ADMIN_DATABASE);
        session.is_err_and(|failure| failure.is_starting_up())
    }

    /// Stops a server whose start failed, and keeps its log. One with persistent data may be
    /// writing to disk.
    fn abandon(&mut self) {
        if self.on_owner_exit == OnOwnerExit::Stop {
            let _ = self.end_and_wait();
        }
        if let Some(mut watch) = self.watch.take() {
            // The process group contains both shells and the server. After its leader has been
            // reaped, the number may be reused; the others have ended before the leader.
            if let Ok(None) = watch.try_wait() {
                let group = rustix::process::Pid::from_child(&watch);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                let _ = watch.wait();
            }
        }
        self.owner = None;
        self.lock = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are ignored here; callers that need them call `end` before.
        let _ = self.end();
    }
}

fn add_server(command: &mut Command, spec: &Spec<'_>, port: u16) {
    command
        .arg(spec.binaries.postgres())
        .arg("-D")
        .arg(spec.folder.join(DATA));
    let folder = spec.socket_folder.to_string_lossy();
    let addresses = match spec.listen {
        Listen::Socket => "",
        Listen::Tcp => "127.0.0.1",
    };
    for (name, value) in [
        ("unix_socket_directories", &*quote_list_item(&folder)),
        ("unix_socket_permissions", "0700"),
        ("listen_addresses", addresses),
        ("port", &port.to_string()),
        ("logging_collector", "off"),
        ("log_destination", "stderr"),
    ] {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    for (name, value) in spec.settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
}

/// `unix_socket_directories` is a list, in which a name with spaces or commas stands in quotes.
fn quote_list_item(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The named pipe through which other processes become owners, too.
fn shared_pipe(folder: &Path, identity: &Identity) -> Result<(File, File)> {
    let path = make_pipe(folder, OWNERS, identity)?;
    let open = |options: &mut OpenOptions| {
        options
            .open(&path)
            .map_err(|error| Error::file("open", &path, error))
    };
    // Linux opens a named pipe for both at once without waiting for the other side.
    let both = open(OpenOptions::new().read(true).write(true))?;
    let input = open(OpenOptions::new().read(true))?;
    let owner = open(OpenOptions::new().write(true))?;
    drop(both);
    Ok((input, owner))
}

fn make_pipe(folder: &Path, name: &str, identity: &Identity) -> Result<PathBuf> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let path = folder.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::folder_access("remove", &path, folder, error));
        }
        _ => {}
    }
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|error| Error::file("make the pipe", &path, error.into()))?;
    identity.chown(&path)?;
    Ok(path)
}

/// Becomes a further owner of a running shared server; returns the pipe's write end, once the join
/// was acknowledged. `None` if the server has ended or is about to.
pub(crate) fn join(folder: &Path) -> Option<File> {
    let mut owner = OpenOptions::new()
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(folder.join(OWNERS))
        .ok()?;
    let name = crate::digest::random(8);
    // Lines that were written before the end of file are read before it: for an acknowledged owner,
    // the server keeps running.
    owner.write_all(format!("{name}\n").as_bytes()).ok()?;
    let heard = folder.join(JOINED).join(name);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        if fs::remove_file(&heard).is_ok() {
            return Some(owner);
        }
        if folder.join(ENDING).exists() || !folder.exists() {
            return None;
        }
        thread::sleep(Duration::from_micros(200));
    }
    None
}

/// As [`Server::crash_error`] for a server that another process started.
pub(crate) fn crash_of_other(folder: &Path) -> Option<Error> {
    let is_running = crate::pidfile::server_pid(&folder.join(DATA)).is_some();
    (!is_running).then(|| Error::crashed(folder, &log_end(folder, 0)))
}

/// The last port of the folder's server, if it is free.
fn remembered_port(spec: &Spec<'_>) -> Option<u16> {
    if spec.listen == Listen::Socket {
        return None;
    }
    let port = fs::read_to_string(spec.folder.join(PORT))
        .ok()?
        .parse()
        .ok()?;
    TcpListener::bind(("127.0.0.1", port))
        .is_ok()
        .then_some(port)
}

fn remember_port(spec: &Spec<'_>, port: u16) -> Result<()> {
    match spec.listen {
        Listen::Socket => Ok(()),
        Listen::Tcp => write_private(&spec.folder.join(PORT), &port.to_string(), spec.identity),
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::no_port)?;
    Ok(listener.local_addr().map_err(Error::no_port)?.port())
}

/// The end of the server's log since `start`.
pub(crate) fn log_end(folder: &Path, start: u64) -> String {
    let read = || -> io::Result<String> {
        let mut log = File::open(folder.join(LOG))?;
        let size = log.metadata()?.len();
        log.seek(SeekFrom::Start(
            start.max(size.saturating_sub(LOG_QUOTE_SIZE)),
        ))?;
        let mut text = Vec::new();
        log.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    };
    read().unwrap_or_default()
}
