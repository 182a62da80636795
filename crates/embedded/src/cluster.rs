//! A running cluster and its databases.

mod janitor;
mod orphans;
mod owner_role;
mod snapshot;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::admin::{Connection, Failure, Row, identifier, literal};
use crate::binaries::Binaries;
use crate::names::{ADMIN_DATABASE, FIRST_DATABASE, TEMPLATE_DATABASE, USER};
use crate::server::Server;
use crate::{Error, Result, digest};

use self::janitor::Janitor;
use self::orphans::SWEEP_COUNT_MAX;

pub(crate) use self::janitor::JanitorJob;
pub(crate) use self::orphans::{Sweep, sweep_databases};
pub(crate) use self::owner_role::{is_owner_role, set_role};
pub(crate) use self::snapshot::snapshot_prefix;

/// The default limit of databases that are prepared in advance for one template; a request that
/// finds none doubles the number, up to this.
pub(crate) const PREWARM_COUNT_MAX: usize = 4;

/// The prefix of names of databases; the owner's number and a running number follow.
const DATABASE_PREFIX: &str = "t_";

/// The number of idle sessions that are kept; many concurrent threads may open more.
const IDLE_COUNT_MAX: usize = 4;

/// The owner's number in the name of a database, or in a name that begins with one.
pub(crate) fn owner_of(name: &str) -> Option<i64> {
    let (digits, rest) = name.strip_prefix(DATABASE_PREFIX)?.split_at_checked(14)?;
    let is_ours = rest.starts_with('_') && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_ours
        .then(|| i64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// A cluster that this process uses, alone or with others.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) binaries: Binaries,
    /// Contains the data, the log and, usually, the socket.
    pub(crate) folder: PathBuf,
    pub(crate) socket_folder: PathBuf,
    pub(crate) port: u16,
    /// The superuser's password, if the server listens on TCP.
    pub(crate) password: Option<String>,
    pub(crate) handle: Mutex<ServerHandle>,
    idle: Mutex<Vec<Connection>>,
    owner: Owner,
    /// Schema templates that are known to exist.
    pub(crate) templates: Mutex<Vec<String>>,
    pools: Mutex<Vec<PrewarmPool>>,
    janitor: Janitor,
    /// Signals that the orphans that existed when we joined have been dropped; see `orphans.rs`.
    sweep: Mutex<Option<Receiver<()>>>,
    database_count: AtomicU64,
    has_first_database: AtomicBool,
}

/// What keeps the server running while this process uses it.
#[derive(Debug)]
pub(crate) enum ServerHandle {
    /// This process started it.
    Started(Server),
    /// Another process started it; this is the write end of its owners' pipe.
    Joined { _owner: std::fs::File },
    /// Another owner keeps it running.
    Attached,
}

/// This process among those that share a cluster: a number, locked in the server by a session that
/// lasts as long as the process. Databases carry it in their names, by which orphans are
/// recognized.
#[derive(Debug)]
struct Owner {
    number: i64,
    session: Mutex<Connection>,
}

/// Takes an owner's number for a session.
fn lock_number(session: &mut Connection, number: i64) -> Result<(), Failure> {
    let sql = format!("SELECT pg_advisory_lock({number})");
    session.query(&sql).map(drop)
}

/// The template and the owner of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseKind {
    /// The database that is copied.
    pub(crate) template: String,
    pub(crate) owner: DatabaseOwner,
}

/// The owner of a temporary database and of its initial contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DatabaseOwner {
    /// The superuser of the cluster.
    #[default]
    Superuser,
    /// A separate role, which has the database's name and is dropped with it.
    Role,
}

/// The databases of one kind that were prepared in advance.
#[derive(Debug)]
struct PrewarmPool {
    kind: DatabaseKind,
    names: Vec<String>,
    wanted: usize,
}

/// The address of a cluster.
pub(crate) struct Address {
    pub(crate) folder: PathBuf,
    pub(crate) socket_folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) password: Option<String>,
}

impl Cluster {
    /// Wraps a running cluster.
    pub(crate) fn new(
        binaries: Binaries,
        address: Address,
        handle: ServerHandle,
        mut session: Connection,
    ) -> Result<Arc<Self>, Failure> {
        let Address {
            folder,
            socket_folder,
            port,
            password,
        } = address;
        let number = i64::from_str_radix(&digest::random(7), 16).expect("seven bytes fit");
        lock_number(&mut session, number)?;
        Ok(Arc::new_cyclic(|cluster| Self {
            binaries,
            folder,
            socket_folder,
            port,
            password,
            handle: Mutex::new(handle),
            idle: Mutex::default(),
            owner: Owner {
                number,
                session: Mutex::new(session),
            },
            templates: Mutex::default(),
            pools: Mutex::default(),
            janitor: Janitor::new(cluster.clone()),
            sweep: Mutex::default(),
            database_count: AtomicU64::new(0),
            has_first_database: AtomicBool::new(false),
        }))
    }

    /// Runs statements in the database `postgres` and returns their rows.
    pub(crate) fn query(&self, doing: &str, sql: &str) -> Result<Vec<Row>> {
        // The owner's session is open already; if it is busy, another one is taken.
        if let Ok(mut session) = self.owner.session.try_lock() {
            return self.query_as_owner(&mut session, doing, sql);
        }
        let idle = lock(&self.idle).pop();
        let mut session = match idle.and_then(Connection::if_usable) {
            Some(session) => session,
            None => self.open(ADMIN_DATABASE, doing)?,
        };
        let answer = session.query(sql);
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_COUNT_MAX {
            idle.push(session);
        }
        drop(idle);
        answer.map_err(|failure| self.explain(failure, doing))
    }

    /// Runs statements in the owner's session; one that the server has closed is replaced first.
    fn query_as_owner(&self, session: &mut Connection, doing: &str, sql: &str) -> Result<Vec<Row>> {
        if !session.is_usable() {
            // The server holds the lock of our number until it notices that the session was closed.
            session.hang_up();
            let mut new = self.open(ADMIN_DATABASE, doing)?;
            lock_number(&mut new, self.owner.number)
                .map_err(|failure| self.explain(failure, doing))?;
            *session = new;
        }
        session
            .query(sql)
            .map_err(|failure| self.explain(failure, doing))
    }

    /// Opens a separate session in a database.
    pub(crate) fn open(&self, database: &str, doing: &str) -> Result<Connection> {
        Connection::open(&self.socket_folder, self.port, USER, database)
            .map_err(|failure| self.explain(failure, doing))
    }

    /// Converts a failure to an error; if the server has crashed, that is the error, with the end
    /// of its log.
    pub(crate) fn explain(&self, failure: Failure, doing: &str) -> Error {
        let crash = match (&failure, &mut *lock(&self.handle)) {
            (Failure::Lost(_), ServerHandle::Started(server)) => server.crash_error(),
            (Failure::Lost(_), _) => crate::server::crash_of_other(&self.folder),
            (Failure::Refused(_) | Failure::ZeroByte, _) => None,
        };
        crash.unwrap_or_else(|| failure.during(doing))
    }

    /// Returns a new database: one that was prepared in advance, or one created now. Afterwards, up
    /// to `prewarm_count_max` are prepared in advance.
    pub(crate) fn take_database(
        &self,
        kind: &DatabaseKind,
        prewarm_count_max: usize,
    ) -> Result<String> {
        if prewarm_count_max == 0 {
            return self.create_copy(kind);
        }
        let name = {
            let mut pools = lock(&self.pools);
            let pool = match pools.iter().position(|pool| pool.kind == *kind) {
                Some(index) => &mut pools[index],
                None => {
                    pools.push(PrewarmPool {
                        kind: kind.clone(),
                        names: Vec::new(),
                        wanted: 0,
                    });
                    pools.last_mut().expect("one was added")
                }
            };
            let name = pool.names.pop();
            if name.is_none() {
                pool.wanted = (pool.wanted * 2).clamp(1, prewarm_count_max);
            }
            name
        };
        let name = match name {
            Some(name) => name,
            None => self.create_copy(kind)?,
        };
        self.janitor
            .send(JanitorJob::Prewarm { kind: kind.clone() });
        Ok(name)
    }

    /// Creates databases of a kind until enough are prepared in advance.
    pub(crate) fn prewarm(&self, kind: &DatabaseKind) -> Result<()> {
        let missing = |pools: &Vec<PrewarmPool>| {
            let pool = pools.iter().find(|pool| pool.kind == *kind);
            pool.is_some_and(|pool| pool.names.len() < pool.wanted)
        };
        while missing(&lock(&self.pools)) {
            let name = self.create_copy(kind)?;
            // Brings its catalog into the server's memory: 1 ms less for the next connection.
            drop(self.open(&name, "making a database ready")?);
            let mut pools = lock(&self.pools);
            let pool = pools.iter_mut().find(|pool| pool.kind == *kind);
            pool.expect("kinds of databases are never forgotten")
                .names
                .push(name);
        }
        Ok(())
    }

    fn create_copy(&self, kind: &DatabaseKind) -> Result<String> {
        let name = self.new_name();
        let owner = match kind.owner {
            DatabaseOwner::Superuser => USER,
            DatabaseOwner::Role => {
                self.create_role(&name)?;
                &name
            }
        };
        match &*kind.template {
            TEMPLATE_DATABASE => self.create_empty(&name, owner)?,
            template => {
                self.copy_database(template, &name, owner)?;
                if kind.owner == DatabaseOwner::Role {
                    self.reassign_contents(template, &name)?;
                }
            }
        }
        Ok(name)
    }

    /// Creates an empty database: the one that comes with a new cluster, or a copy.
    pub(crate) fn create_empty(&self, name: &str, owner: &str) -> Result<()> {
        // The swap gives it to one caller.
        if !self.has_first_database.swap(false, Ordering::Relaxed) {
            return self.copy_database(TEMPLATE_DATABASE, name, owner);
        }
        let doing = "creating a database";
        let (name, owner) = (identifier(name), identifier(owner));
        self.query(
            doing,
            &format!("ALTER DATABASE {FIRST_DATABASE} RENAME TO {name}"),
        )?;
        if owner != identifier(USER) {
            self.query(doing, &format!("ALTER DATABASE {name} OWNER TO {owner}"))?;
        }
        Ok(())
    }

    /// Makes [`FIRST_DATABASE`] available, which only a new cluster has.
    pub(crate) fn offer_first_database(&self) {
        self.has_first_database.store(true, Ordering::Relaxed);
    }

    /// Connects to [`TEMPLATE_DATABASE`] once, so that its copies contain the server's catalog
    /// cache file, which makes their first query 4 ms faster. A starting server removes that file.
    pub(crate) fn warm_template(&self) -> Result<()> {
        self.allow_connections(TEMPLATE_DATABASE, true)?;
        drop(self.open(TEMPLATE_DATABASE, "warming the template")?);
        self.allow_connections(TEMPLATE_DATABASE, false)?;
        self.wait_until_unused(TEMPLATE_DATABASE, &mut lock(&self.owner.session))
    }

    /// A new name for a database, with the number of its owner.
    pub(crate) fn new_name(&self) -> String {
        // Relaxed: only uniqueness matters.
        let count = self.database_count.fetch_add(1, Ordering::Relaxed);
        format!("{DATABASE_PREFIX}{:014x}_{count}", self.owner.number)
    }

    /// Creates a database as a copy of another one, which must have no sessions.
    pub(crate) fn copy_database(&self, from: &str, to: &str, owner: &str) -> Result<()> {
        let (source, target, owner) = (identifier(from), identifier(to), identifier(owner));
        // Copies files instead of writing through the WAL: 12 ms instead of 32 to 39. Older
        // versions only support this.
        let strategy = if self.binaries.version().major >= 15 {
            " STRATEGY FILE_COPY"
        } else {
            ""
        };
        self.query(
            "creating a database",
            &format!("CREATE DATABASE {target} OWNER {owner} TEMPLATE {source}{strategy}"),
        )?;
        Ok(())
    }

    /// Waits until a database has no sessions: a closed session takes a moment to end, and
    /// statements that need the database exclusively poll only every 100 ms.
    pub(crate) fn wait_until_unused(&self, database: &str, session: &mut Connection) -> Result<()> {
        let sql = format!(
            "SELECT 1 FROM pg_stat_activity WHERE datname = {} LIMIT 1",
            literal(database)
        );
        for _ in 0..2000 {
            let used = session
                .query(&sql)
                .map_err(|failure| self.explain(failure, "waiting for sessions to end"))?;
            if used.is_empty() {
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }
    /// Sets whether a database accepts connections.
    pub(crate) fn allow_connections(&self, name: &str, allowed: bool) -> Result<()> {
        let name = identifier(name);
        let doing = match allowed {
            true => "allowing connections to a database",
            false => "forbidding connections to a database",
        };
        self.query(
            doing,
            &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}"),
        )?;
        Ok(())
    }

    pub(crate) fn has_role(&self, name: &str) -> Result<bool> {
        let sql = format!("SELECT 1 FROM pg_roles WHERE rolname = {}", literal(name));
        Ok(!self.query("looking for the user", &sql)?.is_empty())
    }

    /// Drops a database, and terminates its sessions.
    pub(crate) fn drop_database(&self, name: &str) -> Result<()> {
        let doing = "dropping a database";
        self.query(
            doing,
            &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", identifier(name)),
        )?;
        Ok(())
    }

    /// The number in the names of this process's databases.
    pub(crate) fn owner(&self) -> i64 {
        self.owner.number
    }

    /// Begins to drop orphans of ended processes in a shared server; with
    /// [`wait_for_sweep`](Self::wait_for_sweep), it overlaps with the creation of a database.
    pub(crate) fn start_sweep(&self) {
        let (done, swept) = mpsc::channel();
        *lock(&self.sweep) = Some(swept);
        self.janitor.send(JanitorJob::DropOrphans {
            kept: Vec::new(),
            count_max: SWEEP_COUNT_MAX,
            done: Some(done),
        });
    }

    /// Waits until the sweep of a joining process is done. Otherwise, processes that are shorter
    /// than a sweep would drop nothing, and would fill the memory with databases.
    pub(crate) fn wait_for_sweep(&self) {
        let sweep = lock(&self.sweep).take();
        if let Some(swept) = sweep {
            // An error means that the job ended without a message, or never began.
            let _ = swept.recv();
        }
    }

    /// Queues a background job.
    pub(crate) fn queue_job(&self, job: JanitorJob) {
        self.janitor.send(job);
    }

    /// Whether the server has not ended by itself.
    pub(crate) fn is_running(&self) -> bool {
        match &mut *lock(&self.handle) {
            ServerHandle::Started(server) => server.is_running(),
            _ => crate::pidfile::server_pid(&self.data()).is_some(),
        }
    }

    /// Whether other processes may have databases in it.
    pub(crate) fn is_shared(&self) -> bool {
        match &*lock(&self.handle) {
            ServerHandle::Started(server) => server.is_shared(),
            ServerHandle::Joined { .. } => true,
            ServerHandle::Attached => false,
        }
    }

    /// Stops a server that only this process uses; waits for one with persistent data.
    pub(crate) fn end(&self) -> Result<()> {
        match &mut *lock(&self.handle) {
            ServerHandle::Started(server) => server.end(),
            _ => Ok(()),
        }
    }

    /// As [`end`](Self::end), and waits until it is completely gone.
    pub(crate) fn end_and_wait(&self) -> Result<()> {
        match &mut *lock(&self.handle) {
            ServerHandle::Started(server) => server.end_and_wait(),
            _ => Ok(()),
        }
    }

    /// Leaves a server that we started running after this process.
    pub(crate) fn detach(&self) -> Result<()> {
        match &mut *lock(&self.handle) {
            ServerHandle::Started(server) => server.detach(),
            _ => Ok(()),
        }
    }

    /// The folder of the server's data.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join(crate::files::DATA)
    }
}

/// The data under these locks is consistent between any two statements, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
