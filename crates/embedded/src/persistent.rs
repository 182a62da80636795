//! Clusters with a future: a folder of the caller's, one owner at a time.
//!
//! ```text
//! <folder>/lookaside.toml   version, user, database; whole only after the folder is
//! <folder>/data/            the server's data
//! <folder>/s/               the socket, where the path is short enough
//! <folder>/lock             the owner's process number, locked while owner or server lives
//! <folder>/log  owners  joined/  password  port
//! ```

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::binaries::{Binaries, Progress};
use crate::builder::{Contents, prepare};
use crate::cluster::{Address, Cluster, Hold};
use crate::folder::{copy_or_mend, end_server, sign, take_lock};
use crate::identity::Identity;
use crate::keeper::Job;
use crate::place::make_private;
use crate::schema::Schema;
use crate::server::{DATA, Ending, JOINED, Listen, Server, Spec};
use crate::setup::Setup;
use crate::template::{FIRST, USER};
use crate::temporary::{PASSWORD, set_password};
use crate::{Error, Result, VersionRequirement, archive};

/// How long a folder whose owner has died may take to come free: its server writes everything down.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// File that says what the folder is.
const RECEIPT: &str = "lookaside.toml";

/// The database of a folder, if no other name is wished for. Not `postgres`, where we are connected
/// ourselves: it could not be copied for snapshots.
const DATABASE: &str = "main";

/// The way out of a full file system.
const OTHER_PLACE: &str = "choose another place for the data";

/// How a persistent folder is to be kept.
pub(crate) struct Keeping<'a> {
    pub(crate) requirement: VersionRequirement,
    pub(crate) user: Option<&'a str>,
    pub(crate) database: Option<&'a str>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) listen: Listen,
    pub(crate) is_durable: bool,
    pub(crate) schema: &'a Schema,
    /// What a new folder begins with instead of an empty database.
    pub(crate) archive: Option<&'a Path>,
    pub(crate) progress: &'a Arc<dyn Progress>,
    pub(crate) ending: Ending,
}

/// A folder whose server runs.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) user: String,
    pub(crate) database: String,
}

/// What [`RECEIPT`] holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) major: u32,
    pub(crate) user: String,
    pub(crate) database: String,
    /// False until user, database and schema are whole.
    pub(crate) is_complete: bool,
}

impl Receipt {
    /// What a folder says of itself; `None` if it is not one of ours.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RECEIPT);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map(Some)
                .map_err(|error| Error::bad_receipt(&path).because(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &path, error)),
        }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RECEIPT);
        let text = toml::to_string(self).expect("numbers and texts can be written");
        let partial = folder.join(format!("{RECEIPT}.partial"));
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|error| Error::file("write", &path, error))
    }
}

/// Starts the server of a folder, which is made first if need be.
pub(crate) fn open(folder: &Path, keeping: &Keeping<'_>) -> Result<Opened> {
    fs::create_dir_all(folder).map_err(|error| Error::file("create the folder", folder, error))?;
    let folder = &folder
        .canonicalize()
        .map_err(|error| Error::file("find", folder, error))?;
    refuse_foreign(folder)?;
    let mut lock = own(folder)?;
    sign(&mut lock, &process::id().to_string())
        .map_err(|error| Error::file("write", folder, error))?;

    // One that was left half made is made anew.
    let receipt = Receipt::read(folder)?.filter(|receipt| receipt.is_complete);
    let requirement = match &receipt {
        None => archive::requirement_of(keeping.archive, keeping.requirement)?,
        Some(receipt) => version_of_folder(folder, receipt, keeping.requirement)?,
    };
    let setup = Setup::find(requirement, keeping.progress)?;
    setup.identity.check_reach(&folder.join(DATA))?;
    setup.identity.give_folder(folder)?;
    // A server that outlived both its watch and its owner.
    end_server(&folder.join(DATA));
    let (receipt, contents) = match receipt {
        Some(receipt) => (receipt, Contents::Kept),
        None => lay_data(folder, keeping, &setup)?,
    };
    let user = keeping.user.unwrap_or(&receipt.user).to_owned();
    let database = keeping.database.unwrap_or(&receipt.database).to_owned();
    let cluster = start(folder, keeping, &setup, &lock)?;
    prepare(&cluster, &user, &database, keeping.schema, contents)?;
    if !receipt.is_complete {
        cluster.drop_database(FIRST)?;
        let receipt = Receipt {
            user: user.clone(),
            database: database.clone(),
            is_complete: true,
            ..receipt
        };
        receipt.write(folder)?;
    }
    if keeping.ending == Ending::Stop {
        let kept = vec![receipt.database, database.clone()];
        cluster.later(Job::DropOfTheDead { kept });
    }
    match keeping.ending {
        Ending::Outlive => Listening::of(&cluster, keeping.listen).write(folder)?,
        _ => Listening::forget(folder),
    }
    Ok(Opened {
        cluster,
        user,
        database,
    })
}

/// A folder with other people's files is not filled with ours.
fn refuse_foreign(folder: &Path) -> Result<()> {
    if folder.join(RECEIPT).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(|error| Error::file("read", folder, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| Error::file("read", folder, error))?
            .file_name();
        // What an interrupted first start leaves.
        let ours = [
            "lock",
            "data.partial",
            "data",
            "log",
            "owners",
            "joined",
            "s",
            "ending",
            "password",
            "lookaside.toml.partial",
        ];
        if !ours.iter().any(|ours| name == *ours) {
            return Err(Error::folder_not_empty(folder, &name.to_string_lossy()));
        }
    }
    Ok(())
}

/// Becomes the owner of a folder; an error names the one it has.
fn own(folder: &Path) -> Result<File> {
    let begin = Instant::now();
    loop {
        if let Some(lock) = take_lock(folder)? {
            return Ok(lock);
        }
        let owner = owner_of(folder);
        let is_alive = owner.is_none_or(|pid| test_kill_process(pid).is_ok());
        // Its server is still writing down.
        if is_alive || begin.elapsed() > END_TIMEOUT {
            return Err(Error::folder_in_use(folder, owner.map(number)));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// The process that a folder's lock names.
pub(crate) fn owner_of(folder: &Path) -> Option<Pid> {
    let mut text = String::new();
    let mut lock = File::open(folder.join(crate::server::LOCK)).ok()?;
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

fn version_of_folder(
    folder: &Path,
    receipt: &Receipt,
    wanted: VersionRequirement,
) -> Result<VersionRequirement> {
    match wanted.major() {
        None => Ok(VersionRequirement::of_major(receipt.major)),
        Some(major) if major == receipt.major => Ok(wanted),
        Some(_) => Err(Error::other_major(folder, receipt.major, wanted)),
    }
}

/// Fills a new folder with data; until the receipt stands, the next start does it again.
fn lay_data(folder: &Path, keeping: &Keeping<'_>, setup: &Setup) -> Result<(Receipt, Contents)> {
    let (partial, data) = (folder.join("data.partial"), folder.join(DATA));
    // It belongs to the data that goes.
    let _ = fs::remove_file(folder.join(PASSWORD));
    for leftover in [&partial, &data] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::file("remove", leftover, error));
            }
            _ => {}
        }
    }
    let mut receipt = Receipt {
        major: setup.binaries.version().major,
        user: keeping.user.unwrap_or(USER).to_owned(),
        database: keeping.database.unwrap_or(DATABASE).to_owned(),
        is_complete: false,
    };
    let contents = match keeping.archive {
        None => {
            copy_or_mend(&setup.template, &partial, setup.makers())
                .map_err(|error| error.when_no_room(folder, OTHER_PLACE))?;
            Contents::New
        }
        Some(archive) => {
            let restored =
                archive::unpack(archive, &partial, setup.identity, setup.binaries.version())
                    .map_err(|error| error.when_no_room(folder, OTHER_PLACE))?;
            receipt = Receipt {
                is_complete: true,
                ..restored
            };
            Contents::Kept
        }
    };
    if keeping.is_durable {
        sync(&setup.binaries, setup.identity, &partial)?;
    }
    fs::rename(&partial, &data).map_err(|error| Error::file("write", &data, error))?;
    receipt.write(folder)?;
    Ok((receipt, contents))
}

/// Makes a copied folder safe against a crash of the machine.
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

fn start(folder: &Path, keeping: &Keeping<'_>, setup: &Setup, lock: &File) -> Result<Arc<Cluster>> {
    make_private(&folder.join(JOINED), setup.identity)?;
    let socket_folder = setup.place.socket_folder(folder);
    make_private(&socket_folder, setup.identity)?;
    let (server, mut session) = Server::start(&Spec {
        binaries: &setup.binaries,
        identity: setup.identity,
        folder,
        socket_folder: &socket_folder,
        listen: keeping.listen,
        settings: &keeping.settings,
        ending: keeping.ending,
        lock,
    })?;
    let port = server.port();
    let password = match keeping.listen {
        Listen::Socket => None,
        // One that stands stays, so that URLs do.
        Listen::Tcp => match fs::read_to_string(folder.join(PASSWORD)) {
            Ok(password) => Some(password),
            Err(_) => Some(set_password(folder, &mut session, setup)?),
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
        Hold::Started(server),
        session,
    )
    .map_err(|failure| failure.during("starting the server"))
}

/// How a server that outlives its command is reached; the file is there while it should run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) socket_folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) tcp: bool,
}

/// File with [`Listening`].
const LISTENING: &str = "running.toml";

impl Listening {
    fn of(cluster: &Cluster, listen: Listen) -> Self {
        let version = cluster.binaries.version();
        Self {
            major: version.major,
            minor: version.minor,
            socket_folder: cluster.socket_folder.clone(),
            port: cluster.port,
            tcp: listen == Listen::Tcp,
        }
    }

    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(LISTENING);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map(Some)
                .map_err(|error| Error::bad_receipt(&path).because(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &path, error)),
        }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(LISTENING);
        let text = toml::to_string(self).expect("numbers and texts can be written");
        fs::write(&path, text).map_err(|error| Error::file("write", &path, error))
    }

    pub(crate) fn forget(folder: &Path) {
        // Without the lock held by anybody it means nothing.
        let _ = fs::remove_file(folder.join(LISTENING));
    }
}
