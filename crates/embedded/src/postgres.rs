//! The handle of one database.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::{identifier, literal};
use crate::binaries::Binaries;
use crate::cluster::{Cluster, JanitorJob, snapshot_prefix};
use crate::cluster_manifest::ClusterManifest;
use crate::endpoint::Endpoint;
use crate::names::ADMIN_DATABASE;
use crate::{Error, Result, Version, archive, dump};

/// How long a session may take to end; after that, statements that need the database exclusively
/// fail.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

/// A PostgreSQL database that this process owns.
///
/// Dropping the value drops a temporary database, and ends the server if it was the value's own.
///
/// ```no_run
/// let db = lookaside_embedded::Postgres::temporary()?;
/// db.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")?;
/// // Give this to any client: sqlx, tokio-postgres, diesel, psql, Python, Go.
/// println!("{}", db.url());
/// # Ok::<(), lookaside_embedded::Error>(())
/// ```
pub struct Postgres {
    lease: Arc<Lease>,
    user: String,
    database: String,
    scope: Scope,
}

/// The lifetime of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It ends with its value.
    Value,
    /// It lasts as long as its folder.
    Folder,
}

/// The use of a cluster by one or more databases of this process.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) lifetime: Lifetime,
}

/// What happens to the cluster after its last database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// It is kept for the next one, until the process ends.
    Process,
    /// It is stopped.
    Databases,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Databases {
            // Errors are ignored here; `close` returns them.
            let _ = self.cluster.end();
        }
    }
}

/// An extension that the server can create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its name in `CREATE EXTENSION`.
    pub name: String,
    /// The default version.
    pub version: String,
    /// The version that is installed in this database.
    pub installed: Option<String>,
    /// Its description, in one line.
    pub comment: String,
}

impl Postgres {
    pub(crate) fn new(lease: Arc<Lease>, user: String, database: String, scope: Scope) -> Self {
        Self {
            lease,
            user,
            database,
            scope,
        }
    }

    fn cluster(&self) -> &Arc<Cluster> {
        &self.lease.cluster
    }

    fn endpoint(&self) -> Endpoint<'_> {
        Endpoint {
            socket_folder: self.socket_folder(),
            port: self.port(),
            user: &self.user,
            password: self.password(),
            database: &self.database,
        }
    }

    /// The URL for the server's Unix socket, such as
    /// `postgresql:///t_1?host=/dev/shm/lookaside-1000/c-1/s&user=postgres`.
    pub fn url(&self) -> String {
        self.endpoint().url()
    }

    /// The URL for 127.0.0.1, including the password, if the database was built with
    /// [`tcp`](crate::Builder::tcp): `postgresql://postgres:…@127.0.0.1:40123/t_1?sslmode=disable`.
    pub fn tcp_url(&self) -> Option<String> {
        self.endpoint().tcp_url()
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The user to connect as: a superuser, or with [`owner_role`](crate::Builder::owner_role) the
    /// owner of the database.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The user's password for TCP; the socket needs none.
    pub fn password(&self) -> Option<&str> {
        self.cluster().password.as_deref()
    }

    /// The folder of the server's Unix socket, which clients accept as a host.
    pub fn socket_folder(&self) -> &Path {
        &self.cluster().socket_folder
    }

    /// The port of 127.0.0.1, and in the name of the socket.
    pub fn port(&self) -> u16 {
        self.cluster().port
    }

    /// The server's version.
    pub fn version(&self) -> Version {
        self.cluster().binaries.version()
    }

    /// The server's programs.
    pub fn binaries(&self) -> &Binaries {
        &self.cluster().binaries
    }

    /// The folder of the cluster: its data, its log, its lock.
    pub fn folder(&self) -> &Path {
        &self.cluster().folder
    }

    /// Whether other processes of this user may have databases in the same server.
    pub fn is_shared(&self) -> bool {
        self.lease.lifetime == Lifetime::Process
    }

    /// Runs SQL, one statement or several, and discards the rows. For setup; queries need a client.
    ///
    /// # Errors
    ///
    /// If the server refuses; [`Error::sqlstate`] has its code.
    pub fn execute(&self, sql: &str) -> Result<()> {
        let doing = "executing SQL";
        let cluster = self.cluster();
        let mut session = cluster.open_as(&self.user, &self.database, doing)?;
        session
            .execute(sql)
            .map_err(|failure| self.cluster().explain(failure, doing))
    }

    /// As [`execute`](Self::execute), for a server that may not respond.
    pub(crate) fn execute_within(&self, sql: &str, timeout: Duration) -> Result<()> {
        let doing = "executing SQL";
        let cluster = self.cluster();
        let mut session = cluster.open_as(&self.user, &self.database, doing)?;
        session
            .execute_within(sql, timeout)
            .map_err(|failure| cluster.explain(failure, doing))
    }

    /// The extensions that can be created.
    ///
    /// # Errors
    ///
    /// If the query fails.
    pub fn extensions(&self) -> Result<Vec<Extension>> {
        let doing = "listing extensions";
        let mut session = self.cluster().open(&self.database, doing)?;
        let sql = "SELECT name, default_version, installed_version, comment FROM pg_available_extensions ORDER BY name";
        let rows = session
            .query(sql)
            .map_err(|failure| self.cluster().explain(failure, doing))?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [name, version, installed, comment] = <[_; 4]>::try_from(row).ok()?;
                Some(Extension {
                    name: name?,
                    version: version.unwrap_or_default(),
                    installed,
                    comment: comment.unwrap_or_default(),
                })
            })
            .collect())
    }

    /// Takes a snapshot: a copy of the current database under a name, for
    /// [`reset_to`](Self::reset_to).
    ///
    /// A database can only be copied without sessions: existing ones are terminated (SQLSTATE
    /// 57P01), and new ones are refused meanwhile (55000); a pool reconnects by itself.
    ///
    /// # Errors
    ///
    /// If there is a snapshot of that name already.
    pub fn snapshot(&self, name: &str) -> Result<()> {
        if self.find_snapshot(name)?.is_some() {
            return Err(Error::snapshot_exists(name));
        }
        let cluster = self.cluster();
        let copy = cluster.new_name();
        self.alone(|| self.copy_database(&self.database, &copy))?;
        let comment = literal(&format!("{}{name}", self.snapshot_prefix()));
        let comment = format!("COMMENT ON DATABASE {} IS {comment}", identifier(&copy));
        cluster.allow_connections(&copy, false)?;
        cluster.query("keeping a snapshot", &comment)?;
        Ok(())
    }

    /// Resets the database to a snapshot, which is kept. Sessions on the database are terminated.
    ///
    /// The copy is made first and takes the database's name at the end, so a failure leaves the
    /// database unchanged.
    ///
    /// # Errors
    ///
    /// If there is no snapshot of that name.
    pub fn reset_to(&self, name: &str) -> Result<()> {
        let Some(snapshot) = self.find_snapshot(name)? else {
            return Err(Error::no_snapshot(name, &self.snapshots()?));
        };
        let cluster = self.cluster();
        let (fresh, old) = (cluster.new_name(), cluster.new_name());
        self.copy_database(&snapshot, &fresh)?;
        let rename = |from: &str, to: &str| {
            let (from, to) = (identifier(from), identifier(to));
            format!("ALTER DATABASE {from} RENAME TO {to};")
        };
        // One query, and so one transaction: if the process dies in between, there is still one
        // database of that name.
        let renames = rename(&self.database, &old) + &rename(&fresh, &self.database);
        match self.alone(|| cluster.query("resetting the database", &renames)) {
            Ok(_) => cluster.drop_database(&old),
            Err(error) => {
                let _ = cluster.drop_database(&fresh);
                Err(error)
            }
        }
    }

    /// The names of this database's snapshots, sorted.
    ///
    /// # Errors
    ///
    /// If the query fails.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        let snapshots = self.cluster().commented(&self.snapshot_prefix())?;
        Ok(snapshots.into_iter().map(|(_, name)| name).collect())
    }

    /// Drops a snapshot.
    ///
    /// # Errors
    ///
    /// If there is no snapshot of that name.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        match self.find_snapshot(name)? {
            Some(snapshot) => self.cluster().drop_database(&snapshot),
            None => Err(Error::no_snapshot(name, &self.snapshots()?)),
        }
    }

    /// Creates a copy that belongs to the same user.
    fn copy_database(&self, from: &str, to: &str) -> Result<()> {
        self.cluster().copy_database(from, to, &self.user)
    }

    fn find_snapshot(&self, name: &str) -> Result<Option<String>> {
        let snapshots = self.cluster().commented(&self.snapshot_prefix())?;
        Ok(snapshots
            .into_iter()
            .find(|(_, found)| found == name)
            .map(|(database, _)| database))
    }

    fn snapshot_prefix(&self) -> String {
        snapshot_prefix(&self.database)
    }

    /// Creates a new database with the same contents, which is dropped with its own value. Sessions
    /// on this one are terminated, as for a [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    ///
    /// If the server cannot copy it.
    pub fn try_clone(&self) -> Result<Self> {
        let copy = self.cluster().new_name();
        self.alone(|| self.copy_database(&self.database, &copy))?;
        Ok(Self::new(
            Arc::clone(&self.lease),
            self.user.clone(),
            copy,
            Scope::Value,
        ))
    }

    /// Writes the whole cluster into a `.tar.zst` file, from which
    /// [`Builder::restore`](crate::Builder::restore) restores it with any minor version of the same
    /// major one. The server and its sessions continue to run. It must be a separate server, not
    /// the shared one.
    ///
    /// # Errors
    ///
    /// If the server is shared, has tablespaces, or the file cannot be written; an existing file is
    /// kept then.
    pub fn archive(&self, file: impl AsRef<Path>) -> Result<()> {
        if self.is_shared() {
            return Err(Error::archive_of_shared());
        }
        let manifest = ClusterManifest {
            major: self.version().major,
            user: self.user.clone(),
            database: self.database.clone(),
            is_complete: true,
        };
        archive::write(self.cluster(), &manifest, file.as_ref())
    }

    /// Writes the database as SQL, with the `pg_dump` of the same major version.
    ///
    /// # Errors
    ///
    /// If there is no such `pg_dump`, or it fails.
    pub fn dump_sql(&self, file: impl AsRef<Path>) -> Result<()> {
        dump::write(self.cluster(), &self.user, &self.database, file.as_ref())
    }

    /// Writes the format that the file's name implies: SQL for `.sql`, otherwise an archive.
    pub(crate) fn dump(&self, file: &Path) -> Result<()> {
        match file.extension() {
            Some(extension) if extension == "sql" => self.dump_sql(file),
            _ => self.archive(file),
        }
    }

    /// Runs `work` while the database has no sessions.
    fn alone<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.database == ADMIN_DATABASE {
            return Err(Error::never_alone(&self.database));
        }
        let doing = "ending the sessions on the database";
        let cluster = self.cluster();
        cluster.allow_connections(&self.database, false)?;
        // A client that is connecting now may have been admitted: it holds a lock until it is
        // listed.
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_locks \
             WHERE locktype = 'object' AND classid = 'pg_database'::regclass \
             AND mode = 'RowExclusiveLock' \
             AND objid = (SELECT oid FROM pg_database WHERE datname = {name}) \
             UNION ALL \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {name}",
            name = literal(&self.database)
        );
        let end_sessions = || {
            let mut session = cluster.open(ADMIN_DATABASE, doing)?;
            let mut is_used = || match session.query(&sql) {
                Ok(ended) => Ok(!ended.is_empty()),
                Err(failure) => Err(cluster.explain(failure, doing)),
            };
            let begin = Instant::now();
            while is_used()? && begin.elapsed() < SESSION_TIMEOUT {
                thread::sleep(Duration::from_micros(500));
            }
            Ok(())
        };
        let result = end_sessions().and_then(|()| work());
        let allowed = cluster.allow_connections(&self.database, true);
        let result = result?;
        allowed?;
        Ok(result)
    }

    /// Drops the value, waits until its database is dropped or its server has ended, and returns
    /// errors of that. A server with other values, such as clones of this one, continues to run for
    /// them.
    ///
    /// # Errors
    ///
    /// If the server refuses to drop the database, or waiting for its end fails. If the database's
    /// [`owner_role`](crate::Builder::owner_role) owns something in another database or has a
    /// privilege there: then the database is dropped and the role remains.
    pub fn close(mut self) -> Result<()> {
        if !self.is_shared() && Arc::strong_count(&self.lease) == 1 {
            return self.cluster().end_and_wait();
        }
        if self.scope == Scope::Value {
            self.scope = Scope::Folder;
            return self
                .cluster()
                .drop_with_snapshots(&self.database, &self.user);
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let goes_with_cluster = !self.is_shared() && Arc::strong_count(&self.lease) == 1;
        if self.scope == Scope::Value && !goes_with_cluster {
            self.cluster().queue_job(JanitorJob::Drop {
                database: self.database.clone(),
                user: self.user.clone(),
            });
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("url", &self.url())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
