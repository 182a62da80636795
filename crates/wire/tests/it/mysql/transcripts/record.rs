//! Starts a server and records all scenarios.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lookaside_wire::Limits;
use lookaside_wire::mysql::{
    ColumnType, Connection, Credentials, Cursor, Event, Execute, ParameterType, Request, Startup,
    Transport,
};
use tempfile::TempDir;

use super::scenarios::{Key, SCENARIOS, Scenario, Vendor, Way, setup};
use super::session::{Ends, Live, Session};

/// Records the dialogues with this server, into the folder of its version.
pub(super) fn all(program: &Path, folder: &Path) {
    let server = Server::start(program);
    let admin = Scenario {
        user: "root",
        way: Way::Unix,
        startup: |startup: Startup<'_>| startup,
        play: |session| {
            session.settle();
            for sql in setup(Vendor::MariaDb) {
                session.query(sql);
            }
        },
        ..SCENARIOS[0]
    };
    let admin = match server.vendor {
        Vendor::MariaDb => admin,
        Vendor::MySql => Scenario {
            play: |session| {
                session.settle();
                for sql in setup(Vendor::MySql) {
                    session.query(sql);
                }
            },
            ..admin
        },
    };
    let log = server.record(&admin);
    assert!(!log.contains("= Failed"), "{log}");
    server.check_large();
    let version: Vec<&str> = server.version.split('.').take(2).collect();
    let vendor = match server.vendor {
        Vendor::MariaDb => "mariadb",
        Vendor::MySql => "mysql",
    };
    let folder = folder.join(format!("{vendor}-{}", version.join(".")));
    fs::create_dir_all(&folder).unwrap();
    for scenario in SCENARIOS {
        if scenario.is_for(server.vendor) {
            let log = server.record(scenario);
            fs::write(folder.join(scenario.name).with_extension("txt"), log).unwrap();
        }
    }
}

/// A server that is stopped when its owner is dropped.
struct Server {
    vendor: Vendor,
    version: String,
    address: SocketAddr,
    data: PathBuf,
    process: Child,
    _place: TempDir,
}

impl Server {
    fn start(program: &Path) -> Self {
        let vendor = match program.file_name().unwrap().to_str().unwrap() {
            "mariadbd" => Vendor::MariaDb,
            _ => Vendor::MySql,
        };
        let place = TempDir::with_prefix("wire").unwrap();
        let data = place.path().join("data");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let base = program.parent().unwrap().parent().unwrap();
        let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let mut common = vec!["--no-defaults".to_owned(), option("datadir", &data)];
        match vendor {
            Vendor::MariaDb => {
                let install = unprivileged(&base.join("bin/mariadb-install-db"))
                    .args(&common)
                    .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
                    .output()
                    .unwrap();
                assert!(install.status.success(), "{install:?}");
                let (key, certificate) = certificate(&data);
                common.push(option("ssl-key", &key));
                common.push(option("ssl-cert", &certificate));
                common.push("--plugin-load-add=auth_ed25519".to_owned());
            }
            Vendor::MySql => {
                common.push(option("basedir", base));
                common.push(option("lc-messages-dir", &base.join("share/mysql")));
                let install = unprivileged(program)
                    .args(&common)
                    .arg("--initialize-insecure")
                    .output()
                    .unwrap();
                assert!(install.status.success(), "{install:?}");
                common.push(option("plugin-dir", &base.join("lib/mysql/plugin")));
                common.push("--mysqlx=OFF".to_owned());
                common.push("--secure-file-priv=NULL".to_owned());
            }
        }
        let mut process = unprivileged(program)
            .args(&common)
            .arg(option("socket", &data.join("socket")))
            .arg(option("pid-file", &data.join("pid")))
            .arg(format!("--port={}", address.port()))
            .args(["--bind-address=127.0.0.1", "--max-allowed-packet=64M"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("ready for connections") {
            let size = log.read_line(&mut text).unwrap();
            assert_ne!(size, 0, "the server did not start:\n{text}");
        }
        // It writes to the log as long as it runs.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let version = Command::new(program).arg("--version").output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        let version = version.split_once("Ver ").unwrap().1;
        let end = version.find(|c: char| c != '.' && !c.is_ascii_digit());
        Self {
            vendor,
            version: version[..end.unwrap()].to_owned(),
            address,
            data,
            process,
            _place: place,
        }
    }

    fn record(&self, scenario: &Scenario) -> String {
        let name = match self.vendor {
            Vendor::MariaDb => "MariaDB",
            Vendor::MySql => "MySQL",
        };
        let mut head = format!("# {name} {}: {}", self.version, scenario.name);
        if scenario.key == Key::Given {
            let pem = fs::read_to_string(self.data.join("public_key.pem")).unwrap();
            // The server's file ends with a NUL.
            let lines = pem.lines().filter(|line| !line.starts_with(['-', '\0']));
            head = format!("{head}, key {}", lines.collect::<String>());
        }
        let live = match scenario.way {
            Way::Unix => {
                let stream = UnixStream::connect(self.data.join("socket")).unwrap();
                Live {
                    read: Box::new(stream.try_clone().unwrap()),
                    write: Box::new(stream),
                    begin_tls: None,
                }
            }
            Way::Tcp | Way::Tls => {
                let stream = TcpStream::connect(self.address).unwrap();
                let other = stream.try_clone().unwrap();
                Live {
                    read: Box::new(stream.try_clone().unwrap()),
                    write: Box::new(stream),
                    begin_tls: Some(Box::new(move || tls(other))),
                }
            }
        };
        let mut session = Session::live(scenario, &head, live);
        (scenario.play)(&mut session);
        session.finish()
    }
}

impl Server {
    /// Sends values of more than 16 MiB, and receives them back; a transcript would be too long.
    fn check_large(&self) {
        let stream = UnixStream::connect(self.data.join("socket")).unwrap();
        let startup = Startup::new("root").transport(Transport::Protected);
        let credentials = Credentials::new([7; 20]);
        let mut connection = Connection::new(&startup, credentials, Limits::default()).unwrap();
        exchange(&mut connection, &stream, |_| {});
        let statement = std::cell::Cell::new(None);
        connection.queue(Request::Prepare("select ?")).unwrap();
        exchange(&mut connection, &stream, |event| {
            if let Event::Prepared { prepared, .. } = event {
                statement.set(Some(prepared.statement));
            }
        });
        let execute = Execute {
            statement: statement.get().unwrap(),
            cursor: Cursor::None,
        };
        let types = [ParameterType::new(ColumnType::BLOB)];
        // The bytes before the value of the parameter are 18 more than those before the column's.
        for size in [
            0xff_ffff - 13,
            0xff_ffff,
            2 * 0xff_ffff - 31,
            2 * 0xff_ffff - 13,
        ] {
            let value: Vec<u8> = (0..size).map(|index: usize| (index % 251) as u8).collect();
            let queued = connection.queue_execute(&execute, &types, |writer| writer.bytes(&value));
            queued.unwrap();
            connection.queue(Request::Ping).unwrap();
            let mut is_same = false;
            exchange(&mut connection, &stream, |event| match event {
                Event::Row { row, .. } => is_same = row.cells().next() == Some(Some(&value)),
                Event::Failed { error, .. } => panic!("{size} bytes: {error}"),
                _ => {}
            });
            assert!(is_same, "{size} bytes");
        }
    }
}

/// Writes and reads concurrently, until all requests are answered.
fn exchange(connection: &mut Connection, stream: &UnixStream, mut seen: impl FnMut(&Event<'_>)) {
    let (mut read, write) = (stream, stream);
    std::thread::scope(|scope| {
        loop {
            while let Some(event) = connection.next_event().unwrap() {
                seen(&event);
            }
            let mut output = Vec::new();
            connection.take_output(&mut output);
            scope.spawn(move || (&*write).write_all(&output).unwrap());
            if connection.unanswered().is_empty() {
                break;
            }
            let space = connection.receive_space(1 << 16);
            let size = read.read(space).unwrap();
            assert_ne!(size, 0, "the server ended the session");
            connection.received(size);
        }
    });
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        self.process.wait().unwrap();
    }
}

/// Adds TLS to a connection: OpenSSL's client connects to a port that forwards to it.
fn tls(server: TcpStream) -> Ends {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut process = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect"])
        .arg(listener.local_addr().unwrap().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (client, _) = listener.accept().unwrap();
    for (mut from, mut to) in [
        (client.try_clone().unwrap(), server.try_clone().unwrap()),
        (server, client),
    ] {
        std::thread::spawn(move || {
            let copied = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
            copied
        });
    }
    let read = process.stdout.take().unwrap();
    let write = process.stdin.take().unwrap();
    // It ends with the connection.
    std::thread::spawn(move || process.wait());
    (Box::new(read), Box::new(write))
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

/// Writes a key and its certificate to the server's data folder.
fn certificate(data: &Path) -> (PathBuf, PathBuf) {
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    (key, certificate)
}
