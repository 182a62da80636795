//! A PgBouncer in front of a PostgreSQL.

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::install::as_ordinary_user;
use crate::wait::wait_until;

/// The port in the name of the socket; poolers are distinguished by their folders.
const PORT: u16 = 6432;

/// A pooler with two sessions per database, which switches between them with each transaction.
pub struct Pooler {
    process: Child,
    folder: TempDir,
}

impl Pooler {
    /// Starts a pooler in front of the server at `postgresql://USER:PASSWORD@HOST:PORT/…`. `None`,
    /// with a SKIP message, if PgBouncer is not installed; in CI that is a failure.
    ///
    /// # Panics
    ///
    /// If the URL is not of that form, or the pooler does not start.
    pub fn start(url: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(Path::new);
        let Some(program) = program.into_iter().find(|program| program.exists()) else {
            assert!(env::var_os("CI").is_none(), "CI must have a pgbouncer");
            let _ = writeln!(io::stderr(), "SKIP no pgbouncer to test with");
            return None;
        };
        let (user, password, host, port) = parts(url).expect("a URL with user, password and port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("our folder");
        let settings = format!(
            "[databases]\n* = host={host} port={port} password={password} user={user}\n\
             [pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {}\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n\
             min_pool_size = 2\nserver_round_robin = 1\nserver_reset_query =\n",
            folder.path().display(),
        );
        let path = folder.path().join("pgbouncer.ini");
        fs::write(&path, settings).expect("our folder");
        let process = as_ordinary_user(program)
            .arg(&path)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is there");
        let pooler = Self { process, folder };
        let socket = pooler.folder.path().join(format!(".s.PGSQL.{PORT}"));
        wait_until("pgbouncer starts", || UnixStream::connect(&socket).is_ok());
        Some(pooler)
    }

    /// The URL of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.path().display();
        format!("postgres:///{database}?host={folder}&port={PORT}&user=postgres")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn parts(url: &str) -> Option<(&str, &str, &str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (user, rest) = rest.split_once(':')?;
    let (password, rest) = rest.split_once('@')?;
    let (host, rest) = rest.split_once(':')?;
    let port = rest.split(['/', '?']).next()?;
    Some((user, password, host, port))
}
