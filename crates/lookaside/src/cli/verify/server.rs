//! The database under test: a server of our own, which faults may kill, or one at a URL.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::{Builder, Postgres, VersionRequirement};
use lookaside_value::Value;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Cause;
use super::demand::Cluster;
use super::registers::{CREATE, FILL, PUBLICATION, PUBLISH, SCHEMA, VIEW};
use crate::failure::Failure;
use crate::progress::download::DownloadBar;

/// What connections of writers and of faults call themselves, and what the pool of the product does.
pub(super) const WRITER_NAME: &str = "lookaside_verify_writer";
pub(super) const ADMIN_NAME: &str = "lookaside_verify_admin";
pub(super) const PRODUCT_NAME: &str = "lookaside_verify_product";

/// The settings of an own server: a change feed and prepared transactions are possible, and an
/// acknowledged commit survives `kill -9`.
const SETTINGS: [(&str, &str); 6] = [
    ("wal_level", "logical"),
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("max_prepared_transactions", "64"),
    ("max_wal_senders", "10"),
    ("max_replication_slots", "10"),
];

/// How long a statement of ours may take: a fault may leave a lock behind.
const STATEMENT_TIMEOUT_MS: u32 = 20_000;

/// How long a server may take until it accepts connections again.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the processes of a server have that was killed to end by themselves.
const ORPHAN_TIME: Duration = Duration::from_millis(500);

/// The interval at which that is tried.
const RECOVERY_POLL: Duration = Duration::from_millis(20);

/// A server, and the schema of the run in it.
pub(super) struct Server {
    /// Past all relays.
    pub(super) url: String,
    /// As the server tells it.
    pub(super) version: String,
    own: Option<OwnServer>,
}

/// A server that this process started, in a folder that goes with it.
struct OwnServer {
    builder: Builder,
    /// `None` only while it is started again, or could not be.
    running: Mutex<Option<Postgres>>,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl Server {
    /// Starts a server of this version.
    pub(super) fn start(requirement: VersionRequirement) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::new("cannot create a folder").because(&error))?;
        let builder = Postgres::builder()
            .version(requirement)
            .path(folder.path().join("pg"))
            .tcp()
            .progress(Arc::new(DownloadBar::new()));
        let builder =
            (SETTINGS.iter()).fold(builder, |it, (name, value)| it.setting(*name, *value));
        let running = (builder.clone().start()).map_err(|error| Failure::from_error(&error))?;
        let url = running.tcp_url().expect("it listens on TCP");
        let own = OwnServer {
            builder,
            running: Mutex::new(Some(running)),
            _folder: folder,
        };
        Self::new(url, Some(own))
    }

    /// Uses the server at a URL.
    pub(super) fn at(url: &str) -> Result<Self, Failure> {
        Self::new(url.to_owned(), None)
    }

    fn new(url: String, own: Option<OwnServer>) -> Result<Self, Failure> {
        let refused = |cause: Cause| Failure::new("cannot use the server").because(cause.as_ref());
        let mut connection = connect(&url, ADMIN_NAME).map_err(refused)?;
        let version = connection.query_one("show server_version", &[]);
        let version = version.map_err(|error| refused(error.into()))?;
        Ok(Self {
            version: version.as_ref().get::<&str>(0).unwrap_or("?").to_owned(),
            url,
            own,
        })
    }

    /// Whether faults may stop and kill its processes.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The port of an own server on 127.0.0.1.
    pub(super) fn port(&self) -> Option<u16> {
        let own = self.own.as_ref()?;
        let running = own.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(Postgres::port)
    }

    /// A connection for faults.
    pub(super) fn connect(&self) -> Result<Connection, Cause> {
        connect(&self.url, ADMIN_NAME)
    }

    /// Creates the tables with their first rows.
    pub(super) fn create_tables(&self, key_count: u32) -> Result<(), Failure> {
        let refused = |error: &dyn std::error::Error| {
            let failure = Failure::new("cannot create the tables of the run").because(error);
            failure.with_help(format!(
                "the role needs the right to create schemas; if an earlier run left its schema \
                 behind, remove it: drop schema {SCHEMA} cascade"
            ))
        };
        let mut connection = self.connect().map_err(|cause| refused(cause.as_ref()))?;
        let create = format!("begin; {CREATE} create {VIEW}; commit;");
        (connection.batch_execute(create.as_str())).map_err(|error| refused(&error))?;
        for sql in FILL {
            let key_count = [Value::Int(key_count.into())];
            (connection.execute(sql, &key_count)).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Publishes the changes of the tables, for the change feed of the product.
    pub(super) fn publish_tables(&self) -> Result<(), Failure> {
        let refused = |error: &dyn std::error::Error| {
            let failure = Failure::new("cannot publish the tables of the run").because(error);
            failure.with_help(format!(
                "the role needs the right to create publications in this database; if an earlier run \
                 left its publication behind, remove it: drop publication {PUBLICATION}; or use \
                 --feed off"
            ))
        };
        let mut connection = self.connect().map_err(|cause| refused(cause.as_ref()))?;
        (connection.batch_execute(PUBLISH)).map_err(|error| refused(&error))
    }

    /// The cluster, for positions of its log.
    pub(super) fn cluster(&self) -> Result<Cluster, Cause> {
        // The names of files of the log begin with the timeline.
        let sql = "select system_identifier, \
                   ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint \
                   from pg_control_system()";
        let answer = self.connect()?.query(sql, &[])?;
        match answer.rows.first().as_deref() {
            Some([Value::Int(system_id), Value::Int(timeline)]) => Ok(Cluster {
                system_id: system_id.cast_unsigned(),
                timeline: u32::try_from(*timeline)?,
            }),
            _ => Err("the server does not tell its system identifier".into()),
        }
    }

    /// Removes the tables. An own server is removed as a whole.
    pub(super) fn drop_tables(&self) -> Result<(), Cause> {
        if self.is_own() {
            return Ok(());
        }
        let drop = format!(
            "drop publication if exists {PUBLICATION}; drop schema if exists {SCHEMA} cascade"
        );
        self.connect()?.batch_execute(drop.as_str())?;
        Ok(())
    }

    /// Kills the postmaster of an own server, and starts it again.
    pub(super) fn kill_and_restart(&self) -> Result<(), Cause> {
        let own = self.own.as_ref().ok_or("the server is not ours")?;
        let mut slot = own.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = slot.take() {
            let sql = "select pid::bigint from pg_stat_activity";
            let processes = self.connect()?.query(sql, &[])?.rows;
            let file = running.folder().join("data/postmaster.pid");
            let text = fs::read_to_string(file)?;
            let pid = text
                .lines()
                .next()
                .and_then(|line| line.trim().parse().ok());
            let pid = pid.and_then(Pid::from_raw).ok_or("no process number")?;
            kill_process(pid, Signal::KILL)?;
            // They end by themselves, but one that waits for a lock of another may wait for ever, and keeps
            // the folder.
            thread::sleep(ORPHAN_TIME);
            for row in processes.iter() {
                let pid = int(row, 0).and_then(|pid| i32::try_from(pid).ok());
                if let Some(pid) = pid.and_then(Pid::from_raw) {
                    // Most have ended.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            // It has ended, and what watches it is waited for.
            drop(running);
        }
        let running = own.builder.clone().start()?;
        let url = running.tcp_url();
        *slot = Some(running);
        match url.as_deref() == Some(&self.url) {
            true => Ok(()),
            false => Err("the server got another address".into()),
        }
    }

    /// Waits until the server accepts a connection.
    pub(super) fn wait_until_ready(&self) -> Result<Connection, Cause> {
        wait_until_ready(&self.url)
    }
}

/// The integer in a column; versions, keys and process numbers have 32 bits.
pub(super) fn int(row: &[Value], column: usize) -> Option<i64> {
    match row.get(column) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }
}

/// Connects as soon as the server accepts that.
pub(super) fn wait_until_ready(url: &str) -> Result<Connection, Cause> {
    let begin = Instant::now();
    loop {
        match connect(url, ADMIN_NAME) {
            Ok(connection) => return Ok(connection),
            Err(error) if begin.elapsed() > RECOVERY_TIMEOUT => return Err(error),
            Err(_) => thread::sleep(RECOVERY_POLL),
        }
    }
}

/// Opens a connection that has a name and does not wait for ever.
pub(super) fn connect(url: &str, name: &str) -> Result<Connection, Cause> {
    let mut connection = Connection::connect(url)?;
    connection.batch_execute(format!(
        "set application_name = '{name}'; set statement_timeout = {STATEMENT_TIMEOUT_MS}"
    ))?;
    Ok(connection)
}
