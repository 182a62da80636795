//! A persistent folder whose server outlives the command that started it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::admin::Connection;
use crate::cache::Cache;
use crate::cluster::{Address, Cluster, ServerHandle};
use crate::cluster_manifest::ClusterManifest;
use crate::endpoint::Endpoint;
use crate::file_lock::{is_free, take_lock};
use crate::files::PASSWORD;
use crate::names::USER;
use crate::persistent::{
    self, OpenMode, ServerRecord, is_owned, is_starting, lock_text_of, owner_of, server_of,
};
use crate::postgres::{Lease, Lifetime, Scope};
use crate::process::{is_alive, number};
use crate::server::log_end;
use crate::{
    Binaries, Builder, Error, ErrorKind, Postgres, Result, Version, VersionRequirement, digest,
};

/// Folder of the cache with a file for each folder that was started.
const REGISTRY: &str = "instances";

/// How long a start waits for a concurrent start of the same folder.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a start or a stop waits for a process that has locked the folder without its number in the
/// lock: an owner writes it there at once.
const UNNAMED_TIMEOUT: Duration = Duration::from_secs(2);

/// The polling interval of that.
const BUSY_POLL: Duration = Duration::from_millis(20);

/// How long a server may take to write its data to disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// When it is stopped immediately: committed data is kept, and the next start recovers it.
/// PostgreSQL 18 would never end if it is told to stop while it recovers from a crash.
const KILL_DELAY: Duration = Duration::from_secs(30);

/// The interval at which a stop checks whether the server has ended.
const STOP_POLL: Duration = Duration::from_millis(2);

/// A folder for [`Builder::path`] whose server is started and stopped by separate commands.
///
/// ```no_run
/// use lookaside_embedded::{Instance, Postgres};
///
/// let instance = Instance::at("data")?;
/// let running = instance.start(Postgres::builder())?;
/// println!("{}", running.url);
/// instance.stop()?;
/// # Ok::<(), lookaside_embedded::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    folder: PathBuf,
}

/// The state of a folder's server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// There is no cluster in the folder.
    Absent,
    /// There is a cluster, of this major version, but its server does not run.
    Stopped {
        /// The major version of PostgreSQL.
        major: u32,
    },
    /// Its server runs, until it is stopped.
    Running(Running),
    /// A program uses it, and its server ends with the program.
    Owned {
        /// The program's process number, or that of the server it left behind, if it is known.
        pid: Option<u32>,
    },
}

/// A server that runs independently of a program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The server's process number.
    pub pid: u32,
    /// The URL for its Unix socket.
    pub url: String,
    /// The URL for 127.0.0.1, including the password.
    pub tcp_url: Option<String>,
    /// Of the server.
    pub version: Version,
    /// The folder of its socket, which clients accept as a host.
    pub socket_folder: PathBuf,
    /// The port of 127.0.0.1, and in the name of the socket.
    pub port: u16,
    /// The superuser.
    pub user: String,
    /// The password for TCP.
    pub password: Option<String>,
    /// The database of the folder.
    pub database: String,
}

impl std::fmt::Debug for Running {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("pid", &self.pid)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Instance {
    /// The instance of a folder, which need not exist.
    ///
    /// # Errors
    ///
    /// If the current folder is unknown.
    pub fn at(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let absolute = folder
            .canonicalize()
            .or_else(|_| std::path::absolute(folder));
        let folder = absolute.map_err(|error| Error::file("find", folder, error))?;
        Ok(Self { folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server, which then runs until [`stop`](Self::stop). A running server is left
    /// unchanged. A folder set in the builder is ignored.
    ///
    /// # Errors
    ///
    /// As [`Builder::start`].
    pub fn start(&self, builder: Builder) -> Result<Running> {
        let begin = Instant::now();
        let mut refused = None;
        let opened = loop {
            // The owner is checked before the status, so that a server that is detached in between
            // is found as running.
            let is_owned = persistent::is_owned(&self.folder);
            if let Status::Running(running) = self.status()? {
                return self.check_options(&builder).map(|()| running);
            }
            if let Some(error) = refused.take()
                && (is_owned || begin.elapsed() > self.busy_timeout())
            {
                return Err(error);
            }
            match builder.open_folder(&self.folder, OpenMode::Detached) {
                // Another start may be in progress.
                Err(error) if error.kind() == ErrorKind::Busy => refused = Some(error),
                opened => break opened?,
            }
            thread::sleep(BUSY_POLL);
        };
        register(&self.folder)?;
        opened.detach()?;
        match self.status()? {
            Status::Running(running) => Ok(running),
            _ => Err(Error::crashed(&self.folder, &log_end(&self.folder, 0))),
        }
    }

    /// Returns an error for options that the running server does not have.
    fn check_options(&self, builder: &Builder) -> Result<()> {
        if let Some(archive) = builder.archive() {
            return Err(Error::restore_into_data(&self.folder, archive));
        }
        let Some(record) = ServerRecord::read(&self.folder)? else {
            return Ok(());
        };
        match builder.find_mismatch(record.version(), &record.settings) {
            None => Ok(()),
            Some(option) => Err(Error::runs_with_other_options(&self.folder, &option)),
        }
    }

    /// The state of the server.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn status(&self) -> Result<Status> {
        let Some(manifest) = ClusterManifest::read(&self.folder)? else {
            return Ok(Status::Absent);
        };
        let Some((pid, is_own)) = self.holder()? else {
            return Ok(match manifest.is_complete {
                true => Status::Stopped {
                    major: manifest.major,
                },
                false => Status::Absent,
            });
        };
        if let Some(pid) = pid.filter(|_| is_own)
            && let Some(record) = ServerRecord::read(&self.folder)?
        {
            return Ok(Status::Running(self.running(pid, &manifest, record)));
        }
        Ok(Status::Owned { pid })
    }

    /// The process that uses the folder, if known, and whether it is the server itself, which has
    /// outlived its owner; `None` if the folder is free.
    fn holder(&self) -> Result<Option<(Option<u32>, bool)>> {
        let server = server_of(&self.folder);
        if is_free(&self.folder)? {
            // A server whose owner and watching shells were killed continues to run, and no process
            // holds the lock.
            return Ok(server.map(|pid| (Some(number(pid)), false)));
        }
        let owner = owner_of(&self.folder);
        // A lock file without a process is damaged; then the other files of the server decide.
        let is_own = server.is_some() && owner.is_none_or(|owner| server == Some(owner));
        let pid = owner.filter(|pid| is_alive(*pid)).or(server);
        Ok(Some((pid.map(number), is_own)))
    }

    /// Whether the server temporarily accepts no sessions. If it cannot be reached, there is no
    /// wait.
    fn is_recovering(&self) -> Result<bool> {
        let Ok(Some(record)) = ServerRecord::read(&self.folder) else {
            return Ok(false);
        };
        let session = Connection::open(&record.socket_folder, record.port, USER, "postgres");
        Ok(session.is_err_and(|failure| failure.is_starting_up()))
    }

    fn running(&self, pid: u32, manifest: &ClusterManifest, record: ServerRecord) -> Running {
        let password = fs::read_to_string(self.folder.join(PASSWORD))
            .ok()
            .filter(|_| record.tcp);
        let address = Endpoint {
            socket_folder: &record.socket_folder,
            port: record.port,
            user: &manifest.user,
            password: password.as_deref(),
            database: &manifest.database,
        };
        Running {
            pid,
            url: address.url(),
            tcp_url: address.tcp_url(),
            version: record.version(),
            port: record.port,
            user: manifest.user.clone(),
            database: manifest.database.clone(),
            socket_folder: record.socket_folder,
            password,
        }
    }

    /// Stops the server and waits until everything is written to disk. If it is being started,
    /// waits for that first. Returns `false` if none was running.
    ///
    /// # Errors
    ///
    /// If a program uses the folder, or the server does not end.
    pub fn stop(&self) -> Result<bool> {
        let begin = Instant::now();
        let mut request: Option<StopRequest> = None;
        let mut was_running = false;
        // The watch releases the lock when the server has ended.
        while self.holder()?.is_some() {
            was_running = true;
            match &mut request {
                // Another start took the folder as soon as the server had ended.
                Some(server) if server.has_ended_for(&self.folder) => return Ok(true),
                Some(server) => server.escalate(&self.folder)?,
                None => request = self.request_stop(begin)?,
            }
            thread::sleep(STOP_POLL);
        }
        // With the lock, since another start may be writing it anew.
        if was_running && let Some(_lock) = take_lock(&self.folder)? {
            ServerRecord::remove(&self.folder);
        }
        Ok(was_running)
    }

    /// Sends the server the signal to stop; `None` if there is no server yet, or no longer.
    fn request_stop(&self, begin: Instant) -> Result<Option<StopRequest>> {
        let lock_text = lock_text_of(&self.folder);
        let is_starting = is_starting(&self.folder);
        let Some((pid, is_own)) = self.holder()? else {
            return Ok(None);
        };
        let server = server_of(&self.folder);
        if let Some(server) = server.filter(|server| pid == Some(number(*server))) {
            // A server that recovers from the crash of one of its processes would ignore the
            // signal.
            if begin.elapsed() < KILL_DELAY && self.is_recovering()? {
                return Ok(None);
            }
            return match kill_process(server, Signal::INT) {
                Ok(()) | Err(Errno::SRCH) => Ok(Some(StopRequest::now(server, lock_text))),
                Err(error) => Err(Error::cannot_wait(error.into())),
            };
        }
        // The values were read one after the other, and are consistent only if the lock is unchanged.
        let is_owned = is_owned(&self.folder) && lock_text == lock_text_of(&self.folder);
        if is_owned && !is_own && !is_starting {
            return Err(Error::folder_in_use(&self.folder, pid));
        }
        let timeout = self.busy_timeout();
        match begin.elapsed() > timeout {
            true if pid.is_none() => Err(Error::folder_in_use(&self.folder, None)),
            true => Err(Error::does_not_stop(&self.folder, pid, timeout)),
            false => Ok(None),
        }
    }

    /// How long to wait for another process that uses the folder.
    fn busy_timeout(&self) -> Duration {
        match owner_of(&self.folder) {
            Some(_) => BUSY_TIMEOUT,
            None => UNNAMED_TIMEOUT,
        }
    }

    /// Writes the folder's cluster into an archive, or its database as SQL if the file's name ends
    /// with `.sql`. A stopped server is started temporarily.
    ///
    /// # Errors
    ///
    /// If there is no cluster, a program owns it, or the file cannot be written.
    pub fn dump(&self, file: &Path) -> Result<()> {
        match self.status()? {
            Status::Absent => Err(Error::no_cluster(&self.folder)),
            Status::Stopped { .. } => {
                let database = Postgres::builder().path(&self.folder).start()?;
                database.dump(file)?;
                database.close()
            }
            Status::Owned { pid } => Err(Error::folder_in_use(&self.folder, pid)),
            Status::Running(running) => self.attach(running)?.dump(file),
        }
    }

    /// Creates a handle of a server that runs independently.
    fn attach(&self, running: Running) -> Result<Postgres> {
        let requirement = VersionRequirement::of_major(running.version.major);
        let binaries = Binaries::find(requirement, &())?;
        let address = Address {
            folder: self.folder.clone(),
            socket_folder: running.socket_folder,
            port: running.port,
            password: running.password,
        };
        let connected = Connection::open(&address.socket_folder, address.port, USER, "postgres");
        let cluster = connected
            .and_then(|session| Cluster::new(binaries, address, ServerHandle::Attached, session))
            .map_err(|failure| failure.during("connecting to the server"))?;
        let lease = Lease {
            cluster,
            lifetime: Lifetime::Databases,
        };
        Ok(Postgres::new(
            Arc::new(lease),
            running.user,
            running.database,
            Scope::Folder,
        ))
    }

    /// Removes the folder from [`Instance::list`] until it is started again; its data is kept.
    /// Returns `false` if the list has no such folder.
    ///
    /// # Errors
    ///
    /// If its server runs, since it would then be in no list, or if the cache cannot be written.
    pub fn forget(&self) -> Result<bool> {
        match self.status()? {
            Status::Running(_) | Status::Owned { .. } => Err(Error::runs_still(&self.folder)),
            Status::Absent | Status::Stopped { .. } => {
                let note = registry_file(&Cache::open()?, &self.folder)?;
                match fs::remove_file(&note) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(Error::file("remove", &note, error)),
                }
            }
        }
    }

    /// All folders that this user has ever started and that still contain a cluster, sorted.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    pub fn list() -> Result<Vec<Self>> {
        let known = Cache::open()?.folder(REGISTRY)?;
        let failed = |error| Error::file("read", &known, error);
        let mut instances = Vec::new();
        for entry in fs::read_dir(&known).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let folder = PathBuf::from(OsString::from_vec(fs::read(&path).map_err(failed)?));
            if matches!(ClusterManifest::read(&folder), Ok(None)) {
                let _ = fs::remove_file(path);
                continue;
            }
            instances.push(Self { folder });
        }
        instances.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(instances)
    }
}

/// A server that was told to stop.
struct StopRequest {
    server: Pid,
    /// The text of the folder's lock at that time.
    lock_text: String,
    since: Instant,
    is_escalated: bool,
}

impl StopRequest {
    fn now(server: Pid, lock_text: String) -> Self {
        Self {
            server,
            lock_text,
            since: Instant::now(),
            is_escalated: false,
        }
    }

    /// Whether the server has ended and another process holds the lock by now.
    fn has_ended_for(&self, folder: &Path) -> bool {
        // The lock may have been read just before the start of this server signed it.
        let is_signed_by_other = owner_of(folder).is_some_and(|owner| owner != self.server);
        server_of(folder) != Some(self.server)
            && is_signed_by_other
            && lock_text_of(folder) != self.lock_text
    }

    /// Stops a server immediately if it takes too long; an error if that does not help.
    fn escalate(&mut self, folder: &Path) -> Result<()> {
        let elapsed = self.since.elapsed();
        if elapsed > STOP_TIMEOUT {
            let pid = Some(number(self.server));
            return Err(Error::does_not_stop(folder, pid, STOP_TIMEOUT));
        }
        if elapsed > KILL_DELAY && !self.is_escalated {
            // It may have ended meanwhile, and its number may have been reused.
            if server_of(folder) == Some(self.server) {
                let _ = kill_process(self.server, Signal::QUIT);
            }
            self.is_escalated = true;
        }
        Ok(())
    }
}

/// Registers a folder for [`Instance::list`].
fn register(folder: &Path) -> Result<()> {
    let cache = Cache::open()?;
    cache.write(
        &registry_file(&cache, folder)?,
        folder.as_os_str().as_bytes(),
    )
}

/// The file by which a folder is registered.
fn registry_file(cache: &Cache, folder: &Path) -> Result<PathBuf> {
    Ok(cache
        .folder(REGISTRY)?
        .join(digest::of(folder.as_os_str().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LOCK;

    /// The server has ended, and its watch may still hold the lock.
    #[test]
    fn only_another_process_takes_the_folder_of_a_stopped_server() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let server = Pid::from_raw(2_147_483_646).unwrap();
        for (at_request, now, expected) in [
            ("2147483646 server", "2147483646 server", false),
            // The request read the lock just before the start signed it.
            ("2147483645 starting", "2147483646 server", false),
            ("", "2147483646 server", false),
            // While another start signs the lock.
            ("2147483646 server", "", false),
            ("2147483646 server", "2147483647 starting", true),
            ("2147483646 server", "2147483647 server", true),
            // An owner that was killed and left the server behind.
            ("2147483647", "2147483647", false),
        ] {
            fs::write(folder.join(LOCK), now).unwrap();
            let request = StopRequest::now(server, at_request.to_owned());
            let found = request.has_ended_for(folder);
            assert_eq!(found, expected, "{at_request:?}, then {now:?}");
        }
    }
}
