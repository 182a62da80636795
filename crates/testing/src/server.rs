//! A running server.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Brand;
use crate::install::{Programs, as_ordinary_user, ordinary_user};
use crate::wait::wait_until;

/// How long a start may take on a machine that is busy with other tests.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Initializes the data folder by a command with one argument per line, and starts the server;
/// restarts it after a line `start`, kills it after a line `kill`, and ends when the pipe is
/// closed, also by the death of the process at its other end.
const HOLDER: &str = r#"
folder=$1
install=$2
shift 2
(
    IFS='
'
    set -f
    exec $install
) >>"$folder/log" 2>&1 || set -- echo 'Aborting: there is no data folder'
"$@" >>"$folder/log" 2>&1 &
server=$!
while read -r word; do
    kill -9 $server 2>/dev/null
    wait $server 2>/dev/null
    if [ "$word" = start ]; then
        "$@" >>"$folder/log" 2>&1 &
        server=$!
    fi
done
kill -9 $server 2>/dev/null
wait
rm -rf "$folder"
"#;

/// A server with an empty database folder. Its user `root` has no password.
pub struct Server {
    brand: Brand,
    folder: PathBuf,
    port: u16,
    holder: Child,
    orders: Option<ChildStdin>,
}

impl Server {
    /// The server that all tests of this process share, or `None`, with a SKIP message, if it is
    /// not installed; in CI a MariaDB is required.
    pub fn shared(brand: Brand) -> Option<&'static Self> {
        static MARIADB: OnceLock<Option<Server>> = OnceLock::new();
        static MYSQL: OnceLock<Option<Server>> = OnceLock::new();
        let server = match brand {
            Brand::MariaDb => &MARIADB,
            Brand::MySql => &MYSQL,
        };
        server.get_or_init(|| Self::start(brand, &[])).as_ref()
    }

    /// Starts a separate server with further arguments, or returns `None` as
    /// [`shared`](Self::shared) does.
    ///
    /// # Panics
    ///
    /// If the server is installed but does not start; the message contains its log.
    pub fn start(brand: Brand, arguments: &[&str]) -> Option<Self> {
        let programs = match Programs::find(brand) {
            Ok(programs) => programs,
            Err(missing) => {
                let must_be_there = brand == Brand::MariaDb && env::var_os("CI").is_some();
                assert!(!must_be_there, "CI must have a MariaDB: {missing}");
                // Bypasses the test harness, which hides the output of passing tests.
                let _ = writeln!(io::stderr(), "SKIP no {brand:?} to test with: {missing}");
                return None;
            }
        };
        // Another process may take the port before the server does.
        const ATTEMPT_COUNT: usize = 3;
        let mut log = String::new();
        for _ in 0..ATTEMPT_COUNT {
            match Self::launch(brand, &programs, arguments) {
                Ok(server) => return Some(server),
                Err(failed) => log = failed,
            }
        }
        panic!("{brand:?} does not start:\n{log}")
    }

    /// Starts the server in a new folder; the error is its log.
    fn launch(brand: Brand, programs: &Programs, arguments: &[&str]) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let folder = new_folder();
        let data = folder.join("data");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(said)?;
        let port = listener.local_addr().map_err(said)?.port();
        drop(listener);
        let (program, fixed) = programs.server();
        let mut holder = as_ordinary_user(Path::new("/bin/sh"))
            .args(["-c", HOLDER, "sh"])
            .arg(&folder)
            .arg(programs.install(&data).join("\n"))
            .arg(program)
            .args(fixed)
            .arg(format!("--datadir={}", data.display()))
            // A starting server removes files of others in their folders.
            .arg(format!("--tmpdir={}", folder.display()))
            .arg(format!("--socket={}", folder.join("sock").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg(format!("--port={port}"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said)?;
        let orders = holder.stdin.take();
        let server = Self {
            brand,
            folder,
            port,
            holder,
            orders,
        };
        match server.wait() {
            Ok(()) => Ok(server),
            Err(_) => Err(server.log()),
        }
    }

    /// Waits until the server sends its greeting.
    fn wait(&self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.greets().is_ok() {
                return Ok(());
            }
            if self.log().contains("Aborting") || Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // sleep: polls until a deadline; the caller shows the log of a server that does not start
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn greets(&self) -> io::Result<()> {
        let mut socket = UnixStream::connect(self.socket())?;
        socket.set_read_timeout(Some(START_TIMEOUT))?;
        socket.read_exact(&mut [0])
    }

    /// The kind of server.
    pub fn brand(&self) -> Brand {
        self.brand
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data folder, where MySQL keeps the certificates that it makes.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A URL of its user `root` through its Unix socket.
    pub fn url(&self, database: &str) -> String {
        format!(
            "mysql://root@localhost/{database}?socket={}",
            self.socket().display()
        )
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        self.order("kill");
        wait_until("the server is gone", || {
            UnixStream::connect(self.socket()).is_err()
        });
    }

    /// Starts the server again after [`kill`](Self::kill), in the same place with the same data.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_again(&mut self) {
        self.order("start");
        self.wait()
            .unwrap_or_else(|error| panic!("{error}:\n{}", self.log()));
    }

    fn order(&mut self, word: &str) {
        let orders = self
            .orders
            .as_mut()
            .expect("the pipe is open until the end");
        writeln!(orders, "{word}").expect("the holder reads until the end");
    }
}

/// A folder that the server's user owns; the caller removes it.
pub(crate) fn new_folder() -> PathBuf {
    let folder = TempDir::with_prefix("lookaside-server-")
        .expect("a folder for temporary files")
        .keep();
    if let Some((user, group)) = ordinary_user() {
        chown(&folder, Some(user), Some(group)).expect("root gives folders away");
    }
    File::create(folder.join("log")).expect("a new folder takes a file");
    if let Some((user, group)) = ordinary_user() {
        chown(folder.join("log"), Some(user), Some(group)).expect("root gives files away");
    }
    folder
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.holder.wait();
    }
}
