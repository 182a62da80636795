//! A running NATS server.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{ServerProcess, find_or_skip};

/// A private NATS server without data.
pub struct NatsServer(ServerProcess);

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
        let arguments = |data: &Path, port: u16| {
            let data = data.display().to_string();
            let port = port.to_string();
            let own = ["-js", "-sd", &*data, "-a", "127.0.0.1", "-p", &port];
            let own = own.into_iter().chain(arguments.iter().copied());
            own.map(str::to_owned).collect()
        };
        Some(Self(ServerProcess::start_program(
            &program, arguments, is_ready,
        )))
    }
}

impl Deref for NatsServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}

impl DerefMut for NatsServer {
    fn deref_mut(&mut self) -> &mut ServerProcess {
        &mut self.0
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
