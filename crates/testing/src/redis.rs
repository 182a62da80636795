//! A running Redis server.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{ServerProcess, find_or_skip};

/// A private Redis server without data.
pub struct RedisServer(ServerProcess);

impl RedisServer {
    /// The server that all tests of this process share, or `None` as [`start`](Self::start) returns
    /// it.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<RedisServer>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// Starts a separate server with further arguments. `None`, with a SKIP message, if it is not
    /// installed; in CI that is a failure.
    ///
    /// # Panics
    ///
    /// If it is installed but does not start; the message contains its log.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_at("--port", arguments, is_ready)
    }

    /// As [`start`](Self::start), with a port for TLS only. The certificate and the key are files
    /// that everybody may read.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_tls(certificate: &str, key: &str) -> Option<Self> {
        let tls = ["--tls-cert-file", certificate, "--tls-key-file", key];
        let other = ["--tls-auth-clients", "no", "--port", "0"];
        // The certificate was read before the port is open, and there is no data to load.
        let accepts = |port| TcpStream::connect(("127.0.0.1", port)).map(|_| true);
        Self::start_at("--tls-port", &[tls, other].concat(), accepts)
    }

    fn start_at(
        port_option: &str,
        arguments: &[&str],
        is_ready: fn(u16) -> io::Result<bool>,
    ) -> Option<Self> {
        let program = find_or_skip("redis-server", "redis-server")?;
        let arguments = |data: &Path, port: u16| {
            let data = data.display().to_string();
            let port = port.to_string();
            let own = [
                port_option,
                &*port,
                "--bind",
                "127.0.0.1",
                "--dir",
                &data,
                // What it has replied to survives a crash.
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ];
            let own = own.into_iter().chain(arguments.iter().copied());
            own.map(str::to_owned).collect()
        };
        Some(Self(ServerProcess::start_program(
            &program, arguments, is_ready,
        )))
    }
}

impl Deref for RedisServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}

impl DerefMut for RedisServer {
    fn deref_mut(&mut self) -> &mut ServerProcess {
        &mut self.0
    }
}

/// Whether the server has loaded its data. One with a password refuses to tell, which it does at once.
fn is_ready(port: u16) -> io::Result<bool> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.write_all(b"PING\r\n")?;
    let mut reply = [0; 5];
    socket.read_exact(&mut reply)?;
    Ok(matches!(&reply, b"+PONG" | b"-NOAU"))
}
