//! Sessions that are to be of a certain kind, on a primary and a real standby.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lookaside_client::ErrorKind;
use lookaside_embedded::Postgres;

use super::api::Api;
use super::{config, connect, database, shown};

/// Where Debian has the programs of the version that the test runs with.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const VERSION: &str = "15";

const HBA: &str = "\
local all all trust
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
";

/// The user `nobody`, and a group of the same number.
const NOBODY: u32 = 65_534;

const AS_PRIMARY: [&str; 5] = [
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
];

/// How long a standby may take until it can be asked.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the session is one of a standby.
const IN_RECOVERY: &str = "select pg_is_in_recovery()";

/// A server that follows another; killed when it is dropped.
struct Standby {
    server: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Standby {
    /// What it has written.
    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A copy of the primary.
    fn of(primary: &Postgres, programs: &Path) -> Self {
        let data: PathBuf = shown(&connect(primary).query("show data_directory", &[])).into();
        let owner = fs::metadata(&data).unwrap();
        let hba = data.join("pg_hba.conf");
        fs::write(&hba, HBA).unwrap();
        chown(&hba, Some(owner.uid()), Some(owner.gid())).unwrap();
        primary.execute("select pg_reload_conf()").unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("data");
        fs::create_dir(&copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
        let user = shown(&connect(primary).query("select current_user", &[]));
        let port = primary.port().to_string();
        let copied = Command::new(programs.join("pg_basebackup"))
            .arg("-D")
            .arg(&copy)
            .args(["-h", "127.0.0.1", "-p", &port, "-U", &user])
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
            .output()
            .unwrap();
        assert!(copied.status.success(), "{copied:?}");
        let mut server = Command::new(programs.join("postgres"));
        if rustix::process::geteuid().is_root() {
            // A server refuses root.
            let owner = format!("{NOBODY}:{NOBODY}");
            let given = Command::new("chown")
                .args(["-R", &owner])
                .arg(&copy)
                .status();
            assert!(given.unwrap().success());
            server.uid(NOBODY).gid(NOBODY);
        }
        // A standby has room for as much as its primary, which was told so where it was started.
        for name in AS_PRIMARY {
            let value = shown(&connect(primary).query(format!("show {name}"), &[]));
            server.args(["-c", &format!("{name}={value}")]);
        }
        let port = free_port();
        let server = server
            .current_dir("/")
            .arg("-D")
            .arg(&copy)
            .args(["-c", &format!("port={port}")])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "hot_standby=on"])
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Self {
            server,
            port,
            folder,
        }
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn sessions_are_of_the_kind_that_is_wanted() {
    let programs = Path::new(PROGRAMS);
    if !programs.join("pg_basebackup").exists() {
        assert!(env::var_os("CI").is_none(), "CI must have a pg_basebackup");
        crate::skip(&format!(
            "no standby to test with: no {PROGRAMS}/pg_basebackup"
        ));
        return;
    }
    let Some(primary) = database(VERSION, true) else {
        return;
    };
    let standby = Standby::of(&primary, programs);
    let user = shown(&connect(&primary).query("select current_user", &[]));
    let url = |ports: [u16; 2], wanted: &str| {
        let [first, second] = ports;
        let database = primary.database();
        let hosts = format!("127.0.0.1:{first},127.0.0.1:{second}");
        config(&format!(
            "postgres://{user}@{hosts}/{database}?target_session_attrs={wanted}&sslmode=disable"
        ))
    };
    let (one, two) = (primary.port(), standby.port);
    let orders = [[one, two], [two, one]];
    let started = Instant::now();
    while let Err(error) = Api::Blocking.query(&url([two, two], "standby"), IN_RECOVERY) {
        let is_early = started.elapsed() < TIMEOUT;
        assert!(is_early, "{error:?}\n{}", standby.log());
    }
    for api in [Api::Blocking, Api::Tokio] {
        for ports in orders {
            let ask = |wanted: &str| shown(&api.query(&url(ports, wanted), IN_RECOVERY));
            for wanted in ["primary", "read-write"] {
                assert_eq!(ask(wanted), "false", "{api:?} {wanted} {ports:?}");
            }
            for wanted in ["standby", "read-only", "prefer-standby"] {
                assert_eq!(ask(wanted), "true", "{api:?} {wanted} {ports:?}");
            }
            let first = (ports[0] == two).to_string();
            assert_eq!(ask("any"), first, "{api:?}");
        }
    }
    // What becomes a primary is one.
    let promoted = Api::Blocking.query(&url([two, two], "any"), "select pg_promote()");
    assert_eq!(shown(&promoted), "true");
    let answer = Api::Blocking.query(&url([two, two], "read-write"), IN_RECOVERY);
    assert_eq!(shown(&answer), "false");
    for api in [Api::Blocking, Api::Tokio] {
        let error = api
            .query(&url([one, two], "standby"), IN_RECOVERY)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection, "{error:?}");
        let preferred = api.query(&url([one, two], "prefer-standby"), IN_RECOVERY);
        assert_eq!(shown(&preferred), "false");
    }
}
