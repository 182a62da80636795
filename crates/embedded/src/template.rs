//! A cluster made once with `initdb`, of which every other one is a copy.
//!
//! It holds, beside the usual databases, two empty ones: [`BLANK`], of which all others are copies,
//! and [`FIRST`], which a cluster hands out first, without a copy.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admin::{Failure, Row};
use crate::binaries::{Binaries, Progress};
use crate::cache::Cache;
use crate::identity::Identity;
use crate::place::{Place, make_private};
use crate::server::{DATA, Ending, LOCK, Listen, Server, Spec};
use crate::{Error, Result, digest};

/// The superuser of every cluster.
pub(crate) const USER: &str = "postgres";

/// The database whose copies are handed out.
pub(crate) const BLANK: &str = "template_lookaside";

/// The database that a new cluster hands out first, under another name.
pub(crate) const FIRST: &str = "first_lookaside";

/// Counts up when what is made here changes.
const FORMAT: u32 = 3;

/// How long a template that is not asked for is kept; another version of this crate may want it.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The templates' folder in the cache.
const FOLDER: &str = "template";

/// File beside the data that tells how much there is to copy, and what.
const RECEIPT: &str = "template.toml";

/// Durability that a temporary cluster does without: it is never opened again.
pub(crate) const RELAXED: [(&str, &str); 3] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
];

/// Options of `initdb` for every version. Small segments of the log keep a copy small: one of 1 MB
/// instead of 16 is half of it.
const INITDB_OPTIONS: [&str; 6] = [
    "--username=postgres",
    "--auth-local=trust",
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--wal-segsize=1",
    "--no-sync",
];

/// A cluster to copy.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    folder: PathBuf,
    key: String,
}

/// What a whole copy amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Extent {
    file_count: u64,
    byte_count: u64,
}

/// What [`RECEIPT`] holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Receipt {
    /// Of every name and every byte: copying does not look at those.
    digest: String,
    extent: Extent,
}

/// What is needed to make a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Makers<'a> {
    pub(crate) binaries: &'a Binaries,
    pub(crate) identity: &'a Identity,
    pub(crate) cache: &'a Cache,
    pub(crate) place: &'a Place,
    pub(crate) progress: &'a dyn Progress,
}

impl Template {
    /// Finds the template of these programs in the cache, or makes it there.
    pub(crate) fn find(makers: Makers<'_>) -> Result<Self> {
        let programs = makers.binaries.folder().as_os_str().as_encoded_bytes();
        let version = makers.binaries.version();
        let key = format!("{version}-{}-{FORMAT}", digest::of(programs));
        let folder = makers.cache.folder(FOLDER)?.join(&key);
        let template = Self { folder, key };
        if !template.stands() {
            template.make(makers)?;
        }
        Ok(template)
    }

    /// Names the programs and the way it was made: equal keys have equal contents.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Whether it is there, whole or damaged.
    pub(crate) fn stands(&self) -> bool {
        self.folder.join(RECEIPT).exists()
    }

    /// Whether a cache holds a template of this key.
    pub(crate) fn is_in(cache: &Cache, key: &str) -> bool {
        cache.root().join(FOLDER).join(key).exists()
    }

    /// Removes other templates that are old. Whoever still uses one makes it anew.
    pub(crate) fn forget_old(&self, cache: &Cache) {
        let entries = fs::read_dir(cache.root().join(FOLDER))
            .into_iter()
            .flatten();
        for path in entries.flatten().map(|entry| entry.path()) {
            let made = path.metadata().and_then(|metadata| metadata.modified());
            let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > AGE_MAX));
            if is_old && path != self.folder {
                let _ = cache.remove(&path);
            }
        }
    }

    /// Makes the template anew if it is damaged, and says whether it was.
    pub(crate) fn mend(&self, makers: Makers<'_>) -> Result<bool> {
        let _lock = self.lock(makers)?;
        let data = self.folder.join(DATA);
        let found = Receipt::of(&data).ok();
        if found.is_some() && found == self.receipt() {
            return Ok(false);
        }
        makers
            .progress
            .step("the template is damaged and is made anew");
        self.make_alone(makers).map(|()| true)
    }

    fn receipt(&self) -> Option<Receipt> {
        toml::from_str(&fs::read_to_string(self.folder.join(RECEIPT)).ok()?).ok()
    }

    fn make(&self, makers: Makers<'_>) -> Result<()> {
        let _lock = self.lock(makers)?;
        if self.stands() {
            return Ok(());
        }
        self.make_alone(makers)
    }

    fn lock(&self, makers: Makers<'_>) -> Result<fs::File> {
        makers.cache.lock(&format!("template-{}", self.key))
    }

    fn make_alone(&self, makers: Makers<'_>) -> Result<()> {
        makers.cache.remove(&self.folder)?;
        makers.progress.step(&format!(
            "preparing PostgreSQL {} for its first use",
            makers.binaries.version()
        ));
        makers.cache.install(&self.folder, |folder| {
            makers.identity.check_reach(&folder.join(DATA))?;
            makers.identity.give(folder)?;
            initialise(folder, makers)?;
            add_databases(folder, makers)?;
            let data = folder.join(DATA);
            let _ = fs::remove_file(data.join("postmaster.opts"));
            let receipt = toml::to_string(&Receipt::of(&data)?).expect("numbers can be written");
            let path = folder.join(RECEIPT);
            fs::write(&path, receipt).map_err(|error| Error::file("write", &path, error))
        })
    }

    /// Copies the cluster's data to `data`, which must not exist. File systems that can share
    /// blocks do: the standard library's copy asks for it. `false` if the template is damaged.
    pub(crate) fn copy_to(&self, data: &Path, identity: &Identity) -> Result<bool> {
        let Some(Receipt { extent, .. }) = self.receipt() else {
            return Ok(false);
        };
        let mut copied = Extent::default();
        copy_folder(&self.folder.join(DATA), data, &mut copied)?;
        identity.give(data)?;
        Ok(copied == extent)
    }
}

/// Runs `initdb`.
fn initialise(folder: &Path, makers: Makers<'_>) -> Result<()> {
    let data = folder.join(DATA);
    let mut command = makers.identity.command(&makers.binaries.initdb());
    command.args(INITDB_OPTIONS).arg("-D").arg(&data);
    // Sorts by code point, handles case for all of Unicode, and is the same on every machine.
    if makers.binaries.version().major >= 17 {
        command.args([
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        ]);
    } else {
        command.arg("--locale=C");
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::cannot_spawn)?;
    if output.status.success() {
        return Ok(());
    }
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Err(Error::initdb_failed(&data, said.trim()).when_full(folder))
}

/// Adds [`BLANK`] and [`FIRST`].
fn add_databases(folder: &Path, makers: Makers<'_>) -> Result<()> {
    let socket_folder = makers.place.socket_folder(folder);
    make_private(&socket_folder, makers.identity)?;
    let lock_path = folder.join(LOCK);
    let lock =
        fs::File::create(&lock_path).map_err(|error| Error::file("write", &lock_path, error))?;
    let settings = RELAXED.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (mut server, mut session) = Server::start(&Spec {
        binaries: makers.binaries,
        identity: makers.identity,
        folder,
        socket_folder: &socket_folder,
        listen: Listen::Socket,
        settings: &settings,
        ending: Ending::Stop,
        lock: &lock,
    })?;
    let added = || -> Result<Vec<Row>, Failure> {
        for database in [BLANK, FIRST] {
            session.query(&format!("CREATE DATABASE {database}"))?;
        }
        session.query(&format!(
            "ALTER DATABASE {BLANK} ALLOW_CONNECTIONS false IS_TEMPLATE true"
        ))?;
        session.query(&format!(
            "SELECT oid FROM pg_database WHERE datname IN ('{BLANK}', '{FIRST}')"
        ))
    }();
    server.end()?;
    let _ = fs::remove_dir_all(&socket_folder);
    let rows = added.map_err(|failure| failure.during("making the template"))?;
    for oid in rows.into_iter().flatten().flatten() {
        drop_maps(&folder.join(DATA).join("base").join(oid))?;
    }
    Ok(())
}

/// Removes the free-space and visibility maps of a database: a quarter of its files, so its copies
/// are made sooner. The server makes them again as it needs them, and takes a missing one for empty
/// (see "Free Space Map" and "Visibility Map" in PostgreSQL's manual).
fn drop_maps(database: &Path) -> Result<()> {
    for_each_entry(database, |entry, _| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with("_fsm") || name.ends_with("_vm") {
            fs::remove_file(&entry).map_err(|error| Error::file("remove", &entry, error))?;
        }
        Ok(())
    })
}

impl Receipt {
    /// What a receipt for a folder says.
    fn of(data: &Path) -> Result<Self> {
        let mut files = Vec::new();
        list_files(data, &mut files)?;
        files.sort();
        let mut extent = Extent::default();
        let mut sum = String::new();
        for path in files {
            let bytes = fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
            extent.file_count += 1;
            extent.byte_count += bytes.len() as u64;
            let name = path.strip_prefix(data).unwrap_or(&path).display();
            writeln!(sum, "{name} {}", digest::of(&bytes)).expect("writing into a string succeeds");
        }
        Ok(Self {
            digest: digest::of(sum.as_bytes()),
            extent,
        })
    }
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for_each_entry(folder, |entry, kind| {
        if kind.is_dir() {
            return list_files(&entry, files);
        }
        files.push(entry);
        Ok(())
    })
}

fn copy_folder(from: &Path, to: &Path, copied: &mut Extent) -> Result<()> {
    // The server refuses a data folder that others can enter.
    fs::DirBuilder::new()
        .mode(0o700)
        .create(to)
        .map_err(|error| Error::file("create the folder", to, error))?;
    for_each_entry(from, |entry, kind| {
        let target = to.join(entry.file_name().expect("an entry of a folder has a name"));
        if kind.is_dir() {
            return copy_folder(&entry, &target, copied);
        }
        copied.file_count += 1;
        copied.byte_count +=
            fs::copy(&entry, &target).map_err(|error| Error::file("copy to", &target, error))?;
        Ok(())
    })
}

fn for_each_entry(
    folder: &Path,
    mut visit: impl FnMut(PathBuf, fs::FileType) -> Result<()>,
) -> Result<()> {
    let failed = |error: io::Error| Error::file("read", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        visit(entry.path(), entry.file_type().map_err(failed)?)?;
    }
    Ok(())
}
