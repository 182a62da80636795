//! Templates: clusters made once with `initdb`, of which all others are copies.
//!
//! In addition to the usual databases, it contains two empty ones: [`TEMPLATE_DATABASE`], of which
//! all others are copies, and [`FIRST_DATABASE`], which a cluster hands out first, without a copy.

mod prepared;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::admin::{Failure, Row};
use crate::binaries::{Binaries, Progress};
use crate::cache::{Cache, is_partial};
use crate::file_manifest::{Damage, FILE_MANIFEST, FileManifest, for_each_entry};
use crate::files::{DATA, LOCK};
use crate::identity::Identity;
use crate::names::{FIRST_DATABASE, TEMPLATE_DATABASE};
use crate::passwd_entry::PasswdEntry;
use crate::runtime_dir::{RuntimeDir, make_private};
use crate::server::{Listen, OnOwnerExit, Server, Spec};
use crate::settings::temporary_settings;
use crate::verify::Verify;
use crate::{Error, Result, digest};

pub(crate) use self::prepared::Preparation;

/// Increases when the contents of templates change.
const FORMAT: u32 = 4;

/// How long an unused template is kept; another version of this crate may need it.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The time since its creation or last use after which a template is taken to belong to removed
/// programs.
const UNKNOWN_AGE_MIN: Duration = Duration::from_secs(24 * 3600);

/// The number of templates with prepared databases in a cache, of 40 MB and more each: a project
/// has one or a few, and each change of its migrations leaves an obsolete one.
const PREPARED_COUNT_MAX: usize = 8;

/// The templates' folder in the cache.
const FOLDER: &str = "template";

/// Options of `initdb` for every version. Small WAL segments keep a copy small: 1 MB instead of 16
/// halves it. Checksums, which are the default from version 18 on, let the server detect damage
/// when it reads.
const INITDB_OPTIONS: [&str; 7] = [
    "--username=postgres",
    "--auth-local=trust",
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--wal-segsize=1",
    "--data-checksums",
    "--no-sync",
];

/// A cluster to copy.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    folder: PathBuf,
    key: String,
    /// How it is made, if not only by `initdb`.
    preparation: Option<Arc<Preparation>>,
}

/// A template of which all files were read.
pub(crate) struct Examined {
    pub(crate) folder: PathBuf,
    pub(crate) damage: Option<Damage>,
    /// Whether a start, which may check less, detects the damage.
    pub(crate) is_seen_by_start: bool,
}

/// The context for making a cluster.
#[derive(Clone, Copy)]
pub(crate) struct BuildContext<'a> {
    pub(crate) binaries: &'a Binaries,
    pub(crate) identity: &'a Identity,
    pub(crate) cache: &'a Cache,
    pub(crate) runtime_dir: &'a RuntimeDir,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) verify: Verify,
}

impl Template {
    /// Finds the template of these programs in the cache, or creates it.
    pub(crate) fn find(context: BuildContext<'_>) -> Result<Self> {
        let programs = context.binaries.folder().as_os_str().as_encoded_bytes();
        let version = context.binaries.version();
        let key = format!("{version}-{}-{FORMAT}", digest::of(programs));
        let folder = context.cache.folder(FOLDER)?.join(&key);
        let template = Self {
            folder,
            key,
            preparation: None,
        };
        if !template.exists() {
            template.make(context)?;
        }
        Ok(template)
    }

    /// Finds the template with a prepared database in the cache, or creates it: one process does
    /// so, and others that need the same wait for it.
    pub(crate) fn prepare(preparation: Preparation, context: BuildContext<'_>) -> Result<Self> {
        let key = preparation.key();
        let template = Self {
            folder: context.cache.folder(FOLDER)?.join(&key),
            key,
            preparation: Some(Arc::new(preparation)),
        };
        match template.exists() {
            true => template.mark_used(),
            false => {
                // Done first, since a short process may end before its background clean-up.
                template.remove_old(context.cache);
                template.make(context)?;
            }
        }
        Ok(template)
    }

    /// Whether it contains a prepared database.
    pub(crate) fn is_prepared(&self) -> bool {
        self.preparation.is_some()
    }

    /// Marks it as recently used, which delays its removal.
    fn mark_used(&self) {
        // In a read-only cache, nothing is removed either.
        let _ =
            fs::File::open(&self.folder).and_then(|folder| folder.set_modified(SystemTime::now()));
    }

    /// The key, made of the programs and the way it was created: equal keys have equal contents.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Whether it exists, undamaged or not.
    pub(crate) fn exists(&self) -> bool {
        self.folder.join(FILE_MANIFEST).exists()
    }

    /// Whether a cache contains a template with this key.
    pub(crate) fn is_in(cache: &Cache, key: &str) -> bool {
        cache.root().join(FOLDER).join(key).exists()
    }

    /// Removes other old templates, and all prepared ones except the most recently used. A process
    /// that still uses one recreates it.
    pub(crate) fn remove_old(&self, cache: &Cache) {
        let folder = cache.root().join(FOLDER);
        cache.sweep(&folder);
        let mut prepared_count = usize::from(self.is_prepared());
        for (used, key) in by_last_use(&folder) {
            if key == self.key {
                continue;
            }
            let is_prepared = is_prepared_key(&key);
            prepared_count += usize::from(is_prepared);
            let is_old = used.elapsed().is_ok_and(|age| age > AGE_MAX);
            let is_base = self.key.starts_with(&*key);
            if !is_base && (is_old || (is_prepared && prepared_count > PREPARED_COUNT_MAX)) {
                let _ = cache.remove(&folder.join(&key));
                let _ = cache.remove_lock(&format!("template-{key}"));
            }
        }
    }

    /// The folders of templates that are not kept, and why: those of another format, those of none of
    /// these `servers` (`<version>-<programs>`) that were not made or used for a day, since programs that are
    /// not found now may be named at the next start, and prepared ones other than those used last.
    pub(crate) fn unused(cache: &Cache, servers: &[String]) -> Vec<(PathBuf, &'static str)> {
        let is_unused = |key: &str, used: SystemTime| {
            let mut parts = key.splitn(4, '-');
            let (Some(version), Some(programs), Some(format)) =
                (parts.next(), parts.next(), parts.next())
            else {
                return false;
            };
            let is_known = servers.contains(&format!("{version}-{programs}"));
            let is_old = used.elapsed().is_ok_and(|age| age > UNKNOWN_AGE_MIN);
            format != FORMAT.to_string() || (!is_known && is_old)
        };
        let folder = cache.root().join(FOLDER);
        let mut prepared_count = 0;
        let mut unused = Vec::new();
        for (used, key) in by_last_use(&folder) {
            let what = if is_unused(&key, used) {
                "template of a server that was not found"
            } else {
                prepared_count += usize::from(is_prepared_key(&key));
                if !is_prepared_key(&key) || prepared_count <= PREPARED_COUNT_MAX {
                    continue;
                }
                "template with contents that was not among those used last"
            };
            unused.push((folder.join(key), what));
        }
        unused.sort();
        unused
    }

    /// Removes the template in a folder of the cache, unless a process is making it. Returns
    /// whether it is gone.
    pub(crate) fn remove(cache: &Cache, folder: &Path) -> bool {
        let key = folder.file_name().unwrap_or_default().to_string_lossy();
        let lock = format!("template-{key}");
        let Ok(Some(_making)) = cache.try_lock(&lock) else {
            return false;
        };
        cache.remove(folder).is_ok()
    }

    /// Recreates the template if it is damaged, and returns whether it was.
    pub(crate) fn repair(&self, context: BuildContext<'_>) -> Result<bool> {
        let _lock = self.lock(context)?;
        if self.find_damage(Verify::Full).is_none() {
            return Ok(false);
        }
        context
            .progress
            .step("the template is damaged and is made again");
        self.make_locked(context).map(|()| true)
    }

    /// Checks it; the result describes the damage. A file that was replaced by an equal one is
    /// undamaged if contents are read.
    fn find_damage(&self, verify: Verify) -> Option<Damage> {
        let Some(manifest) = FileManifest::read(&self.folder) else {
            return Some(Damage::Contents(format!(
                "no `{FILE_MANIFEST}` can be read"
            )));
        };
        let damage = manifest.find_damage(&self.folder.join(DATA), verify)?;
        let is_sound = verify == Verify::Full && matches!(damage, Damage::Stamp(_));
        (!is_sound).then_some(damage)
    }

    /// Compares it with its manifest. If a file was written to or replaced, as in a copied cache,
    /// the contents of all files are compared, and the manifest is updated.
    fn is_sound(&self, context: BuildContext<'_>) -> bool {
        match self.find_damage(context.verify) {
            None => true,
            Some(Damage::Contents(_)) => false,
            Some(Damage::Stamp(_)) => {
                let is_sound = self.find_damage(Verify::Full).is_none();
                if is_sound && let Some(manifest) = FileManifest::read(&self.folder) {
                    // In a read-only cache, this is repeated at each start.
                    let _ = manifest
                        .of_copy(&self.folder.join(DATA))
                        .and_then(|manifest| {
                            let path = self.folder.join(FILE_MANIFEST);
                            context.cache.write(&path, manifest.text().as_bytes())
                        });
                }
                is_sound
            }
        }
    }

    /// The folders of all templates in a cache that this version uses, and the damage of each.
    pub(crate) fn examine(cache: &Cache, verify: Verify) -> Vec<Examined> {
        let entries = fs::read_dir(cache.root().join(FOLDER))
            .into_iter()
            .flatten();
        let templates = entries.flatten().filter_map(|entry| {
            let key = entry.file_name().into_string().ok()?;
            let is_ours = key.split('-').nth(2) == Some(&FORMAT.to_string());
            (is_ours && !is_partial(&key)).then(|| Self {
                folder: entry.path(),
                key,
                preparation: None,
            })
        });
        let mut found: Vec<_> = templates
            .map(|template| {
                let damage = template.find_damage(Verify::Full);
                Examined {
                    is_seen_by_start: damage.is_some() && template.find_damage(verify).is_some(),
                    damage,
                    folder: template.folder,
                }
            })
            .collect();
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        found
    }

    fn make(&self, context: BuildContext<'_>) -> Result<()> {
        let _lock = self.lock(context)?;
        if self.exists() {
            return Ok(());
        }
        self.make_locked(context)
    }

    fn lock(&self, context: BuildContext<'_>) -> Result<fs::File> {
        context.cache.lock(&format!("template-{}", self.key))
    }

    fn make_locked(&self, context: BuildContext<'_>) -> Result<()> {
        context.cache.remove(&self.folder)?;
        if let Some(preparation) = &self.preparation {
            context
                .progress
                .step("making a template with the caller's contents");
            return context.cache.install(&self.folder, |folder| {
                context.identity.check_reach(&folder.join(DATA))?;
                context.identity.chown(folder)?;
                preparation.fill(folder, context)
            });
        }
        context.progress.step(&format!(
            "preparing PostgreSQL {} for its first use",
            context.binaries.version()
        ));
        context.cache.install(&self.folder, |folder| {
            context.identity.check_reach(&folder.join(DATA))?;
            context.identity.chown(folder)?;
            initialise(folder, context)?;
            add_databases(folder, context)?;
            let data = folder.join(DATA);
            let _ = fs::remove_file(data.join("postmaster.opts"));
            FileManifest::of(&data)?.write(folder)
        })
    }

    /// Copies the cluster's data to `data`, which must not exist. File systems that can share
    /// blocks do: the standard library's copy asks for it. `None` if the template is damaged; else
    /// the manifest, with the stamps of the template's files.
    pub(crate) fn copy_to(
        &self,
        data: &Path,
        context: BuildContext<'_>,
    ) -> Result<Option<FileManifest>> {
        if !self.is_sound(context) {
            return Ok(None);
        }
        let Some(manifest) = FileManifest::read(&self.folder) else {
            return Ok(None);
        };
        let mut copied = (0, 0);
        copy_folder(&self.folder.join(DATA), data, &mut copied)?;
        context.identity.chown(data)?;
        Ok((copied == manifest.extent()).then_some(manifest))
    }

    /// As [`copy_to`](Self::copy_to), but a damaged template is recreated, once.
    pub(crate) fn copy_or_repair(&self, data: &Path, context: BuildContext<'_>) -> Result<()> {
        let copied = self.copy_to(data, context);
        if let Ok(Some(_)) = copied {
            return Ok(());
        }
        let _ = fs::remove_dir_all(data);
        match copied {
            // The template is not the cause.
            Err(error) if error.is_full() || error.lacks_descriptor() => return Err(error),
            _ => {}
        }
        let _ = fs::remove_dir_all(self.spare(context.runtime_dir));
        self.repair(context)?;
        match self.copy_to(data, context)? {
            Some(_) => Ok(()),
            None => Err(Error::template_damaged(data)),
        }
    }

    /// The spare copy for the next cluster, if there is one.
    pub(crate) fn spare(&self, runtime_dir: &RuntimeDir) -> PathBuf {
        runtime_dir.folder.join(format!("spare-{}", self.key))
    }
}

/// The templates in a folder of the cache, with the time of their creation or last use; the latest
/// first.
fn by_last_use(folder: &Path) -> Vec<(SystemTime, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut templates: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let used = entry.metadata().and_then(|metadata| metadata.modified());
            Some((used.ok()?, entry.file_name().into_string().ok()?))
        })
        .filter(|(_, key)| !is_partial(key))
        .collect();
    templates.sort_by(|one, other| other.cmp(one));
    templates
}

/// Whether a template with this key contains a prepared database: the key of the one that it is a
/// copy of is `<version>-<programs>-<format>`.
fn is_prepared_key(key: &str) -> bool {
    key.split('-').count() > 3
}

/// Runs `initdb`.
fn initialise(folder: &Path, context: BuildContext<'_>) -> Result<()> {
    let data = folder.join(DATA);
    let mut command = context.identity.command(&context.binaries.initdb());
    command.args(INITDB_OPTIONS).arg("-D").arg(&data);
    // This locale sorts by code point, handles case for all of Unicode, and is the same on every
    // machine.
    if context.binaries.version().major >= 17 {
        command.args([
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        ]);
    } else {
        command.arg("--locale=C");
    }
    let entry = PasswdEntry::write_if_missing(folder)?;
    if let Some(entry) = &entry {
        entry.preload(&mut command);
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

/// Adds [`TEMPLATE_DATABASE`] and [`FIRST_DATABASE`].
fn add_databases(folder: &Path, context: BuildContext<'_>) -> Result<()> {
    let socket_folder = context.runtime_dir.socket_folder(folder);
    make_private(&socket_folder, context.identity)?;
    let lock_path = folder.join(LOCK);
    let lock =
        fs::File::create(&lock_path).map_err(|error| Error::file("write", &lock_path, error))?;
    let (mut server, mut session) = Server::start(&Spec {
        binaries: context.binaries,
        identity: context.identity,
        folder,
        socket_folder: &socket_folder,
        listen: Listen::Socket,
        settings: &temporary_settings(),
        on_owner_exit: OnOwnerExit::Stop,
        lock: &lock,
    })?;
    let added = || -> Result<Vec<Row>, Failure> {
        for database in [TEMPLATE_DATABASE, FIRST_DATABASE] {
            session.query(&format!("CREATE DATABASE {database}"))?;
        }
        session.query(&format!(
            "ALTER DATABASE {TEMPLATE_DATABASE} ALLOW_CONNECTIONS false IS_TEMPLATE true"
        ))?;
        session.query(&format!(
            "SELECT oid FROM pg_database WHERE datname IN ('{TEMPLATE_DATABASE}', '{FIRST_DATABASE}')"
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

/// Removes the free-space and visibility maps of a database: a quarter of its files, which makes
/// copying faster. The server recreates them when needed, and treats a missing one as empty (see
/// "Free Space Map" and "Visibility Map" in PostgreSQL's manual).
fn drop_maps(database: &Path) -> Result<()> {
    for_each_entry(database, |entry, _| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with("_fsm") || name.ends_with("_vm") {
            fs::remove_file(&entry).map_err(|error| Error::file("remove", &entry, error))?;
        }
        Ok(())
    })
}

/// Adds the number of files and bytes to `copied`.
fn copy_folder(from: &Path, to: &Path, copied: &mut (u64, u64)) -> Result<()> {
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
        copied.0 += 1;
        copied.1 +=
            fs::copy(&entry, &target).map_err(|error| Error::file("copy to", &target, error))?;
        Ok(())
    })
}
