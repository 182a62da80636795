//! Persistent clusters: a folder of the caller, with one owner at a time.
//!
//! ```text
//! <folder>/lookaside.toml   version, user, database, and whether the rest is whole; comes first
//! <folder>/data.partial/    the data while it is copied
//! <folder>/data/            the server's data
//! <folder>/s/               the socket; of a long path it is <runtime dir>/s-<digest of the path>
//! <folder>/lock             the owner's process number, after it `starting` if the server will outlive
//!                           it; then the server's, after it `server`; locked while owner or server lives
//! <folder>/log              what the server says
//! <folder>/password         the superuser's for TCP
//! <folder>/running.toml     how a server that outlives its owner is reached
//! <folder>/ending  alive  joined/     between owners, server and watch, see `server.rs`
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::binaries::{Binaries, Progress};
use crate::cluster::{Address, Cluster, JanitorJob, ServerHandle};
use crate::cluster_manifest::{
    CLUSTER_MANIFEST, CLUSTER_MANIFEST_PARTIAL, ClusterManifest, DATABASE, rename_for_good,
};
use crate::contents::{Contents, prepare};
use crate::file_lock::{is_free, sign, take_lock};
use crate::files::{DATA, JOINED, LOCK, PASSWORD};
use crate::identity::Identity;
use crate::kill::end_server;
use crate::names::{FIRST_DATABASE, USER};
use crate::password::set_password;
use crate::pidfile::{find_server, remove_stale_pid_files, server_file, server_pid, works_in};
use crate::process::{is_alive, number, wait_until_gone};
use crate::runtime_dir::{find_denial, make_private, server_uid};
use crate::schema::Schema;
use crate::server::{Listen, OnOwnerExit, Server, Spec, log_end};
use crate::setup::Setup;
use crate::{Error, Result, Version, VersionRequirement, archive};

/// How long to wait for a folder whose owner has died: its server writes its data to disk first.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// When a start reports that it waits for that.
const NOTICE_DELAY: Duration = Duration::from_secs(1);

/// How long an owner may take to write its process number into the folder's lock.
const SIGN_TIMEOUT: Duration = Duration::from_millis(50);

/// The text after the process number in the lock while a server starts that will outlive its owner.
const STARTING: &str = "starting";

/// The text after the number of a server that has outlived its owner. While it stops, it is still a
/// running process, but its folder will soon be free.
const SERVER: &str = "server";

/// The hint for a full file system.
const OTHER_FOLDER: &str = "choose another folder for the data";

/// The options of a persistent folder.
pub(crate) struct FolderOptions<'a> {
    pub(crate) requirement: VersionRequirement,
    pub(crate) user: Option<&'a str>,
    pub(crate) database: Option<&'a str>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) listen: Listen,
    pub(crate) is_durable: bool,
    pub(crate) purpose: OpenMode,
    pub(crate) schema: &'a Schema,
    /// The archive that a new folder is restored from, instead of an empty database.
    pub(crate) archive: Option<&'a Path>,
    pub(crate) progress: &'a Arc<dyn Progress>,
}

/// The purpose of opening a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// To use it within this process.
    Attached,
    /// To leave its server running.
    Detached,
}

/// A folder with a running server.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) user: String,
    pub(crate) database: String,
    listen: Listen,
    settings: Vec<(String, String)>,
    lock: File,
}

impl Opened {
    /// Leaves the server running after this process, until it is stopped. Until the last step, it
    /// ends with this process.
    pub(crate) fn detach(mut self) -> Result<()> {
        let cluster = &self.cluster;
        let settings = std::mem::take(&mut self.settings);
        ServerRecord::of(cluster, self.listen, settings).write(&cluster.folder)?;
        let pid = server_pid(&cluster.data())
            .ok_or_else(|| Error::crashed(&cluster.folder, &log_end(&cluster.folder, 0)))?;
        sign(&mut self.lock, &format!("{} {SERVER}", number(pid)))
            .map_err(|error| Error::file("write", &cluster.folder.join(LOCK), error))?;
        cluster.detach()
    }
}

/// Starts the server of a folder, which is created if necessary.
pub(crate) fn open(folder: &Path, options: &FolderOptions<'_>) -> Result<Opened> {
    if folder.is_file() {
        return Err(Error::not_a_folder(folder));
    }
    // Checked before the folder is created, so that a bad archive leaves none.
    let requirement_of_new = archive::requirement_of(options.archive, options.requirement)?;
    fs::create_dir_all(folder)
        .map_err(|error| Error::folder_access("create the folder", folder, folder, error))?;
    let folder = &folder
        .canonicalize()
        .map_err(|error| Error::file("find", folder, error))?;
    let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    if let Some(denial) = find_denial(folder, rights) {
        return Err(Error::folder_access("write into", folder, folder, denial));
    }
    refuse_foreign(folder)?;
    let mut lock = acquire(folder, &**options.progress)?;
    let lock_text = match options.purpose {
        OpenMode::Attached => process::id().to_string(),
        OpenMode::Detached => format!("{} {STARTING}", process::id()),
    };
    sign(&mut lock, &lock_text).map_err(|error| Error::file("write", folder, error))?;

    // Otherwise, the folder is incomplete, and its data is created again.
    let manifest = ClusterManifest::read(folder)?.filter(|manifest| manifest.is_complete);
    if let (Some(_), Some(archive)) = (&manifest, options.archive) {
        return Err(Error::restore_into_data(folder, archive));
    }
    let requirement = match &manifest {
        None => requirement_of_new,
        Some(manifest) => version_of_folder(folder, manifest, options.requirement)?,
    };
    let setup = Setup::find(requirement, options.progress)?;
    setup.identity.check_reach(&folder.join(DATA))?;
    setup.identity.chown_folder(folder)?;
    check_data_owner(folder, setup.identity)?;
    end_orphan(folder, &setup)?;
    remove_stale_pid_files(&folder.join(DATA), &setup.runtime_dir.socket_folder(folder));
    let (manifest, contents) = match manifest {
        Some(manifest) => (manifest, Contents::Existing),
        None => create_data(folder, options, &setup).inspect_err(|_| {
            if options.archive.is_some() {
                remove_new_folder(folder);
            }
        })?,
    };
    let user = options.user.unwrap_or(&manifest.user).to_owned();
    let database = options.database.unwrap_or(&manifest.database).to_owned();
    let cluster = start(folder, options, &setup, &lock)?;
    prepare(&cluster, &user, &database, options.schema, contents)?;
    if !manifest.is_complete {
        cluster.drop_database(FIRST_DATABASE)?;
        let manifest = ClusterManifest {
            user: user.clone(),
            database: database.clone(),
            is_complete: true,
            ..manifest
        };
        manifest.write(folder)?;
    }
    let kept = vec![manifest.database, database.clone()];
    cluster.queue_job(JanitorJob::DropOrphans {
        kept,
        count_max: usize::MAX,
        done: None,
    });
    ServerRecord::remove(folder);
    Ok(Opened {
        cluster,
        user,
        database,
        listen: options.listen,
        settings: options.settings.clone(),
        lock,
    })
}

/// Returns an error if the data does not belong to the user that the server runs as: PostgreSQL
/// would not start on it.
fn check_data_owner(folder: &Path, identity: &Identity) -> Result<()> {
    let (data, user) = (folder.join(DATA), server_uid(identity));
    match data.metadata() {
        Ok(metadata) if metadata.uid() != user => {
            Err(Error::data_of_other(&data, metadata.uid(), user))
        }
        _ => Ok(()),
    }
}

/// Removes the files of a failed restore, so that the folder is not taken for a new, empty one.
/// Foreign files were refused before.
fn remove_new_folder(folder: &Path) {
    for name in [CLUSTER_MANIFEST, CLUSTER_MANIFEST_PARTIAL, LOCK] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir_all(folder.join("data.partial"));
    let _ = fs::remove_dir(folder);
}

/// Returns an error for a folder that contains files of other programs. Another process may be
/// creating the folder: it writes the manifest first, so other files count only if there is still
/// no manifest.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let found = find_foreign(folder);
    match folder.join(CLUSTER_MANIFEST).exists() {
        true => Ok(()),
        false => found,
    }
}

/// Finds foreign files: before the manifest, only these two files are ours.
fn find_foreign(folder: &Path) -> Result<()> {
    if folder.join(DATA).join("PG_VERSION").exists() {
        return Err(Error::cluster_manifest_lost(
            &folder.join(CLUSTER_MANIFEST),
            &ClusterManifest::example(),
        ));
    }
    let entries = fs::read_dir(folder).map_err(|error| Error::file("read", folder, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| Error::file("read", folder, error))?
            .file_name();
        if name != LOCK && name != CLUSTER_MANIFEST_PARTIAL {
            return Err(Error::folder_not_empty(folder, &name.to_string_lossy()));
        }
    }
    Ok(())
}

/// Becomes the owner of a folder; the error names its current owner.
fn acquire(folder: &Path, progress: &dyn Progress) -> Result<File> {
    let begin = Instant::now();
    let mut is_reported = false;
    loop {
        if let Some(lock) = take_lock(folder)? {
            return Ok(lock);
        }
        let owner = owner_of(folder);
        // The server of an ended owner may still be writing its data. A shared lock is that of a
        // `status` check.
        let ends = owner.is_some_and(|pid| !is_alive(pid)) || is_free(folder)?;
        let timeout = match ends {
            true => END_TIMEOUT,
            false => SIGN_TIMEOUT,
        };
        if begin.elapsed() > timeout {
            let pid = owner.filter(|pid| is_alive(*pid));
            let pid = pid.or_else(|| server_of(folder));
            return Err(Error::folder_in_use(folder, pid.map(number)));
        }
        if begin.elapsed() > NOTICE_DELAY && !is_reported {
            is_reported = true;
            progress.step(&format!(
                "waiting up to {} s for the server in `{}`, whose owner has ended, to stop",
                END_TIMEOUT.as_secs(),
                folder.display()
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Stops the server in our data, if it has outlived both its watching shells and its owner.
fn end_orphan(folder: &Path, setup: &Setup) -> Result<()> {
    let data = folder.join(DATA);
    let Some(pid) = server_of(folder) else {
        return Ok(());
    };
    // One with another socket was started by hand.
    let socket_folder = setup.runtime_dir.socket_folder(folder);
    if socket_folder_of_server(&data).as_deref() != Some(&*socket_folder) {
        return Err(Error::folder_in_use(folder, Some(number(pid))));
    }
    let _ = kill_process(pid, Signal::INT);
    if !wait_until_gone(pid, END_TIMEOUT) {
        end_server(&data);
    }
    Ok(())
}

/// Where the server that works in `data` has its socket.
fn socket_folder_of_server(data: &Path) -> Option<PathBuf> {
    let text = server_file(data)?;
    text.lines().nth(4).map(PathBuf::from)
}

/// The text of a folder's lock, which names its owner; empty if there is none.
pub(crate) fn lock_text_of(folder: &Path) -> String {
    fs::read_to_string(folder.join(LOCK)).unwrap_or_default()
}

/// The process that a folder's lock names.
pub(crate) fn owner_of(folder: &Path) -> Option<Pid> {
    let lock_text = lock_text_of(folder);
    Pid::from_raw(lock_text.split_whitespace().next()?.parse().ok()?)
}

/// The server of a folder: by its own PID file, or by the lock if that file is damaged, or already
/// removed because the server is stopping. If one of them is damaged and neither names it, all
/// processes are searched.
pub(crate) fn server_of(folder: &Path) -> Option<Pid> {
    let data = folder.join(DATA);
    let owner = owner_of(folder);
    let signed = || owner.filter(|_| lock_text_of(folder).contains(SERVER));
    let named = server_pid(&data).or_else(|| signed().filter(|pid| works_in(*pid, &data)));
    // Neither exists after a regular end, so most folders without a server need no search.
    let is_damaged = || owner.is_none() || server_file(&data).is_some();
    named.or_else(|| is_damaged().then(|| find_server(&data)).flatten())
}

/// Whether a living process is starting a server that will outlive it.
pub(crate) fn is_starting(folder: &Path) -> bool {
    lock_text_of(folder).contains(STARTING) && owner_of(folder).is_some_and(is_alive)
}

/// Whether a running process owns the folder, and is not about to detach its server.
pub(crate) fn is_owned(folder: &Path) -> bool {
    let lock_text = lock_text_of(folder);
    let is_passing = [STARTING, SERVER]
        .iter()
        .any(|word| lock_text.contains(word));
    !is_passing && owner_of(folder).is_some_and(is_alive)
}

fn version_of_folder(
    folder: &Path,
    manifest: &ClusterManifest,
    wanted: VersionRequirement,
) -> Result<VersionRequirement> {
    match wanted.major() {
        None => Ok(VersionRequirement::of_major(manifest.major)),
        Some(major) if major == manifest.major => Ok(wanted),
        Some(_) => Err(Error::other_major(folder, manifest.major, wanted)),
    }
}

/// Fills a new folder with data. The manifest is written first and marks it as incomplete, so that
/// only our own files are ever removed, and until it is marked as complete, the next start repeats
/// this.
fn create_data(
    folder: &Path,
    options: &FolderOptions<'_>,
    setup: &Setup,
) -> Result<(ClusterManifest, Contents)> {
    let mut manifest = ClusterManifest {
        major: setup.binaries.version().major,
        user: options.user.unwrap_or(USER).to_owned(),
        database: options.database.unwrap_or(DATABASE).to_owned(),
        is_complete: false,
    };
    manifest.write(folder)?;
    let (partial, data) = (folder.join("data.partial"), folder.join(DATA));
    // It belongs to the data that is removed.
    let _ = fs::remove_file(folder.join(PASSWORD));
    for leftover in [&partial, &data] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::file("remove", leftover, error));
            }
            _ => {}
        }
    }
    let contents = match options.archive {
        None => {
            setup
                .template
                .copy_or_repair(&partial, setup.context())
                .map_err(|error| error.when_no_room(folder, OTHER_FOLDER))?;
            Contents::New
        }
        Some(archive) => {
            manifest = archive::unpack(archive, &partial, setup.identity, setup.binaries.version())
                .map_err(|error| error.when_no_room(folder, OTHER_FOLDER))?;
            manifest.is_complete = true;
            Contents::Existing
        }
    };
    if options.is_durable {
        sync(&setup.binaries, setup.identity, &partial)?;
    }
    rename_for_good(&partial, &data).map_err(|error| Error::file("write", &data, error))?;
    if manifest.is_complete {
        manifest.write(folder)?;
    }
    Ok((manifest, contents))
}

/// Syncs a copied folder to disk.
fn sync(binaries: &Binaries, identity: &Identity, data: &Path) -> Result<()> {
    let mut command = identity.command(&binaries.initdb());
    let output = command
        .arg("--sync-only")
        .arg("-D")
        .arg(data)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(Error::cannot_spawn)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::initdb_failed(
        data,
        String::from_utf8_lossy(&output.stderr).trim(),
    ))
}

fn start(
    folder: &Path,
    options: &FolderOptions<'_>,
    setup: &Setup,
    lock: &File,
) -> Result<Arc<Cluster>> {
    make_private(&folder.join(JOINED), setup.identity)?;
    let socket_folder = setup.runtime_dir.socket_folder(folder);
    make_private(&socket_folder, setup.identity)?;
    let (server, mut session) = Server::start(&Spec {
        binaries: &setup.binaries,
        identity: setup.identity,
        folder,
        socket_folder: &socket_folder,
        listen: options.listen,
        settings: &options.settings,
        on_owner_exit: OnOwnerExit::Stop,
        lock,
    })?;
    let port = server.port();
    let password = match options.listen {
        Listen::Socket => None,
        // An existing one is kept, so that URLs stay valid.
        Listen::Tcp => match fs::read_to_string(folder.join(PASSWORD)) {
            Ok(password) => Some(password),
            Err(_) => Some(set_password(folder, &mut session, setup.identity)?),
        },
    };
    let address = Address {
        folder: folder.to_owned(),
        socket_folder,
        port,
        password,
    };
    Cluster::new(
        setup.binaries.clone(),
        address,
        ServerHandle::Started(server),
        session,
    )
    .map_err(|failure| failure.during("starting the server"))
}

/// How a server that outlives its command is reached; the file exists while it should run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) socket_folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) tcp: bool,
    /// The settings it was started with, in addition to those of its folder.
    pub(crate) settings: Vec<(String, String)>,
}

/// File with [`ServerRecord`].
const SERVER_RECORD: &str = "running.toml";

/// The name of the file while it is written.
const SERVER_RECORD_PARTIAL: &str = "running.toml.partial";

impl ServerRecord {
    fn of(cluster: &Cluster, listen: Listen, settings: Vec<(String, String)>) -> Self {
        let version = cluster.binaries.version();
        Self {
            major: version.major,
            minor: version.minor,
            socket_folder: cluster.socket_folder.clone(),
            port: cluster.port,
            tcp: listen == Listen::Tcp,
            settings,
        }
    }

    pub(crate) fn version(&self) -> Version {
        Version {
            major: self.major,
            minor: self.minor,
        }
    }

    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(SERVER_RECORD);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map(Some)
                .map_err(|error| Error::bad_server_record(&path).because(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // It is not UTF-8.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::bad_server_record(&path).because(error))
            }
            Err(error) => Err(Error::file("read", &path, error)),
        }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(SERVER_RECORD);
        let partial = folder.join(SERVER_RECORD_PARTIAL);
        let text = toml::to_string(self).expect("numbers and texts can be written");
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|error| Error::file("write", &path, error))
    }

    pub(crate) fn remove(folder: &Path) {
        // While the lock is free, the file is meaningless.
        for name in [SERVER_RECORD, SERVER_RECORD_PARTIAL] {
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_will_leave_its_server_running_is_told_from_one_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let us = process::id();
        for (text, has_owner, kept) in [
            (String::new(), false, false),
            (format!("{us}"), true, true),
            (format!("{us} {STARTING}"), true, false),
            (format!("{us} {SERVER}"), true, false),
            ("2147483647".to_owned(), true, false),
        ] {
            fs::write(folder.path().join(LOCK), &text).unwrap();
            assert_eq!(owner_of(folder.path()).is_some(), has_owner, "{text}");
            assert_eq!(is_owned(folder.path()), kept, "{text}");
        }
    }

    #[test]
    fn a_folder_that_another_start_is_creating_is_accepted() {
        let parent = tempfile::tempdir().unwrap();
        for round in 0..300 {
            let folder = parent.path().join(round.to_string());
            fs::create_dir(&folder).unwrap();
            thread::scope(|scope| {
                let maker = scope.spawn(|| {
                    let manifest = ClusterManifest {
                        major: 18,
                        user: USER.to_owned(),
                        database: DATABASE.to_owned(),
                        is_complete: false,
                    };
                    manifest.write(&folder).unwrap();
                    fs::create_dir(folder.join(DATA)).unwrap();
                    fs::write(folder.join(DATA).join("PG_VERSION"), "18").unwrap();
                });
                while !maker.is_finished() {
                    refuse_foreign(&folder).unwrap();
                }
            });
        }
        let folder = parent.path().join("other");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("letter.txt"), "").unwrap();
        let error = refuse_foreign(&folder).unwrap_err();
        assert!(error.to_string().contains("letter.txt"), "{error}");
    }
}
