//! A running NATS server.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{HeldProcess, find_or_skip};

/// A private NATS server without data.
pub struct NatsServer(HeldProcess);

impl NatsServer {
    /// The server that all tests of this process share, or `None` as [`start`](Self::start) returns
    /// it.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<NatsServer>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// Starts a separate server with further arguments. `None`, with a SKIP message, if it is not
    /// installed; in CI that is a failure.
    ///
    /// # Panics
    ///
    /// If it is installed but does not start; the message contains its log.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let program = find_or_skip("nats-server", "nats-server")?;
        let arguments = |data: &std::path::Path, port: u16| {
            let data = data.display().to_string();
            let port = port.to_string();
            let own = ["-js", "-sd", &*data, "-a", "127.0.0.1", "-p", &port];
            let own = own.into_iter().chain(arguments.iter().copied());
            own.map(str::to_owned).collect()
        };
        Some(Self(HeldProcess::start(&program, arguments, is_ready)))
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Its address, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.0.data()
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.0.log()
    }

    /// Kills the server by SIGKILL, as a crash would, also one that is stopped. Afterwards its port
    /// refuses connections.
    pub fn kill(&mut self) {
        self.0.kill();
    }

    /// Stops the process by SIGSTOP, as a pause or a lost network would: its port accepts
    /// connections, and nothing answers.
    pub fn stop(&mut self) {
        self.0.stop();
    }

    /// Continues the process by SIGCONT after [`stop`](Self::stop).
    pub fn resume(&mut self) {
        self.0.resume();
    }

    /// Starts the server again after [`kill`](Self::kill), on the same port with the same data. A
    /// running server is killed first.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        self.0.restart();
    }
}

/// Whether the server greets, which it does when its streams are loaded.
fn is_ready(port: u16) -> io::Result<bool> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut greeting = [0; 5];
    socket.read_exact(&mut greeting)?;
    // Otherwise it would wait for a dialogue.
    socket.write_all(b"PING\r\n")?;
    Ok(&greeting == b"INFO ")
}
