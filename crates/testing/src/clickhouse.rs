//! A running ClickHouse server.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{ServerProcess, find_or_skip};

/// A private ClickHouse server without tables, whose user `default` needs no password, and whose user
/// `writer` has the password `secret`.
pub struct ClickHouseServer(ServerProcess);

impl ClickHouseServer {
    /// The server that all tests of this process share. `None`, with a SKIP message, if it is not
    /// installed; in CI that is a failure.
    ///
    /// # Panics
    ///
    /// If it is installed but does not start; the message contains its log.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<ClickHouseServer>> = OnceLock::new();
        SERVER.get_or_init(Self::start).as_ref()
    }

    /// Starts a separate server.
    ///
    /// # Panics
    ///
    /// As [`shared`](Self::shared).
    pub fn start() -> Option<Self> {
        let program = find_or_skip("clickhouse-server", "clickhouse-server")?;
        let arguments = |data: &Path, port: u16| {
            let folder = data.parent().expect("the data is in a folder");
            let config = folder.join("config.xml");
            fs::write(&config, config_of(data, port)).expect("the folder takes files");
            fs::write(folder.join("users.xml"), USERS).expect("the folder takes files");
            vec![format!("--config-file={}", config.display())]
        };
        Some(Self(ServerProcess::start_program(
            &program, arguments, is_ready,
        )))
    }

    /// The answer to a statement.
    ///
    /// # Panics
    ///
    /// If the server refuses it or does not answer.
    pub fn query(&self, statement: &str) -> String {
        let answer = request(self.port(), "POST / HTTP/1.0", statement.as_bytes());
        let answer = answer.expect("the server answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(" 200 "), "{statement}: {answer}");
        body.to_owned()
    }
}

/// A request by HTTP 1.0, so that the answer ends with the connection and has no chunks.
fn request(port: u16, line: &str, body: &[u8]) -> io::Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(socket, "{line}\r\nContent-Length: {}\r\n\r\n", body.len())?;
    socket.write_all(body)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

fn config_of(data: &Path, port: u16) -> String {
    let data = data.display();
    format!(
        "<yandex>
            <logger><level>warning</level><console>1</console></logger>
            <http_port>{port}</http_port>
            <listen_host>127.0.0.1</listen_host>
            <path>{data}/</path>
            <tmp_path>{data}/tmp/</tmp_path>
            <users_config>users.xml</users_config>
            <default_profile>default</default_profile>
            <default_database>default</default_database>
            <mark_cache_size>5368709</mark_cache_size>
        </yandex>"
    )
}

const USERS: &str = "<yandex>
    <profiles><default></default></profiles>
    <quotas><default></default></quotas>
    <users>
        <default>
            <password></password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
        </default>
        <writer>
            <password>secret</password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
        </writer>
    </users>
</yandex>";

/// Whether the server answers.
fn is_ready(port: u16) -> io::Result<bool> {
    Ok(request(port, "GET /ping HTTP/1.0", b"")?.ends_with("Ok.\n"))
}

impl Deref for ClickHouseServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}

impl DerefMut for ClickHouseServer {
    fn deref_mut(&mut self) -> &mut ServerProcess {
        &mut self.0
    }
}
