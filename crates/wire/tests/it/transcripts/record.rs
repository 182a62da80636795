//! Starts a server and records all scenarios.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lookaside_wire::postgres::Request;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::scenarios::{Purpose, SCENARIOS, SETUP, Scenario, Transport};
use super::session::Session;

const HBA: &str = "
    host all trusted,postgres 127.0.0.1/32 trust
    host all plain 127.0.0.1/32 password
    host all hashed 127.0.0.1/32 md5
    host all salted 127.0.0.1/32 scram-sha-256
";

/// Records the dialogues with the server of these programs, into the folder of its version.
pub(super) fn all(programs: &Path, folder: &Path) {
    let server = Server::start(programs);
    let admin = Scenario {
        name: "setup",
        user: "postgres",
        password: "",
        version: Default::default(),
        transport: Transport::Plain,
        purpose: Purpose::Sql,
        play: |session| {
            session.settle();
            session.queue(&[Request::Query(SETUP)]);
            session.settle();
        },
    };
    let log = server.record(&admin);
    assert!(!log.contains("Failed"), "{log}");
    let major = server.version.split('.').next().unwrap();
    let folder = folder.join(major);
    fs::create_dir_all(&folder).unwrap();
    for scenario in SCENARIOS {
        let log = server.record(scenario);
        fs::write(folder.join(scenario.name).with_extension("txt"), log).unwrap();
    }
}

/// A server that is stopped when its owner is dropped.
struct Server {
    version: String,
    address: SocketAddr,
    /// The channel binding `tls-server-end-point` of its certificate.
    end_point: String,
    process: Child,
    _place: TempDir,
}

impl Server {
    fn start(programs: &Path) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() {
            TempDir::with_prefix_in("wire", memory).unwrap()
        } else {
            TempDir::with_prefix("wire").unwrap()
        };
        let data = place.path().join("data");
        let initdb = unprivileged(&programs.join("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--locale=C",
            ])
            .args(["--encoding=UTF8", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{initdb:?}");
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        let end_point = certificate(&data);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut process = unprivileged(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &address.port().to_string()])
            .args(["-h", "127.0.0.1", "-k", "", "-F", "-c", "ssl=on"])
            .args(["-c", "timezone=UTC", "-c", "wal_level=logical"])
            .args(["-c", "max_prepared_transactions=1"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready to accept connections") {
            line.clear();
            assert_ne!(
                log.read_line(&mut line).unwrap(),
                0,
                "the server did not start"
            );
        }
        // It writes to the log as long as it runs.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));

        let version = Command::new(programs.join("postgres"))
            .arg("--version")
            .output()
            .unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        Self {
            version: version.split_whitespace().nth(2).unwrap().to_owned(),
            address,
            end_point,
            process,
            _place: place,
        }
    }

    fn record(&self, scenario: &Scenario) -> String {
        let mut head = format!("# PostgreSQL {}: {}", self.version, scenario.name);
        let mut tls = None;
        let stream: (Box<dyn Read>, Box<dyn Write>) = match scenario.transport {
            Transport::Plain => {
                let stream = TcpStream::connect(self.address).unwrap();
                (Box::new(stream.try_clone().unwrap()), Box::new(stream))
            }
            Transport::Tls => {
                head = format!("{head}, certificate {}", self.end_point);
                let mut process = Command::new("openssl")
                    .args(["s_client", "-starttls", "postgres", "-quiet", "-connect"])
                    .arg(self.address.to_string())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let read = process.stdout.take().unwrap();
                let write = process.stdin.take().unwrap();
                tls = Some(process);
                (Box::new(read), Box::new(write))
            }
        };
        let mut session = Session::live(scenario, &head, self.address, stream);
        (scenario.play)(&mut session);
        let log = session.finish();
        if let Some(mut process) = tls {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        self.process.wait().unwrap();
    }
}

/// Runs a program that refuses to run as root as another user, in a separate namespace.
fn unprivileged(program: &Path) -> Command {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-user=1000", "--map-group=1000", "--"])
        .arg(program);
    command
}

/// Writes a certificate to the server's data folder, and returns its hash.
fn certificate(data: &Path) -> String {
    let file = |name: &str| -> PathBuf { data.join(name) };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(file("server.key"))
        .arg("-out")
        .arg(file("server.crt"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let der = Command::new("openssl")
        .args(["x509", "-outform", "DER", "-in"])
        .arg(file("server.crt"))
        .output()
        .unwrap();
    assert!(der.status.success(), "{der:?}");
    let hash = Sha256::digest(&der.stdout);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
