//! Extensions that are added to a server in the cache: pgvector and others that PostgreSQL's own
//! distribution lacks.
//!
//! An extension counts as added when a scratch server has created it; one that cannot be created is
//! removed again. The manifest is written first, marked as untried, so that the files of a process
//! that was killed in between are known, and are removed by the next one.

mod entries;
#[cfg(feature = "download")]
mod package;
mod select;
mod source;
mod trial;

use std::fmt;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::added::{
    AddedExtension, ExtensionManifest, ExtensionState, Layout, check_name, usable, write_files,
};
use crate::binaries::{self, CachedServer, Progress};
use crate::cache::Cache;
use crate::{Error, Postgres, Result, Version, VersionRequirement, preflight};

use self::select::Selection;
use self::trial::TRIAL_TIMEOUT;

/// The source of an extension's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtensionSource {
    /// A known package for the extension, downloaded once: pinned by version and SHA-256.
    #[default]
    Known,
    /// An installed PostgreSQL of the same major version.
    Installed,
    /// A folder, or a file that is a `.deb`, a wheel, a zip or a tar archive.
    Path(PathBuf),
}

/// The extensions of a server in the cache.
///
/// ```no_run
/// use lookaside_embedded::{ExtensionSource, Extensions, Postgres, VersionRequirement};
///
/// let extensions = Extensions::find(VersionRequirement::ANY, std::sync::Arc::new(()))?;
/// extensions.add("vector", &ExtensionSource::Known)?;
/// let db = Postgres::builder().extension("vector").start()?;
/// # Ok::<(), lookaside_embedded::Error>(())
/// ```
#[derive(Clone)]
pub struct Extensions {
    cached: CachedServer,
    cache: Cache,
    layout: Layout,
    progress: Arc<dyn Progress>,
    trial_timeout: Duration,
}

impl Extensions {
    /// Opens the extensions of the newest cached server that a requirement accepts. If there is
    /// none, one is downloaded, and later starts use it.
    ///
    /// # Errors
    ///
    /// If `LOOKASIDE_PG_BIN` names the server of this version: nothing is written into foreign
    /// folders. If no server can be downloaded.
    pub fn find(requirement: VersionRequirement, progress: Arc<dyn Progress>) -> Result<Self> {
        preflight::check()?;
        let cache = Cache::open()?;
        let cached = binaries::find_cached(&cache, requirement, &*progress)?;
        let layout = Layout::of(&cached.folder)?;
        Ok(Self {
            cached,
            cache,
            layout,
            progress,
            trial_timeout: TRIAL_TIMEOUT,
        })
    }

    /// Sets the limit for the scratch server to create an extension, 120 s by default. An extension
    /// that takes longer counts as failed.
    #[must_use]
    pub fn trial_timeout(mut self, timeout: Duration) -> Self {
        self.trial_timeout = timeout;
        self
    }

    /// The version of the server.
    pub fn version(&self) -> Version {
        self.cached.version
    }

    /// Adds an extension, and those that it requires from the same source. One that is already
    /// present, undamaged and from the same source, is kept.
    ///
    /// # Errors
    ///
    /// If the source has no such extension for this major version of PostgreSQL, or if a scratch
    /// server cannot create it; then its files are removed again.
    pub fn add(&self, name: &str, source: &ExtensionSource) -> Result<AddedExtension> {
        check_name(name)?;
        let _lock = self.lock()?;
        if let Some(there) = self.there(name, source)? {
            return Ok(there);
        }
        let package = source::open(name, source, self.version(), &self.cache, &*self.progress)?;
        // The manifest is read from other folders too.
        let origin = match source {
            ExtensionSource::Path(path) => path::absolute(path).unwrap_or_else(|_| path.clone()),
            _ => PathBuf::from(&package.label),
        };
        let origin = origin.display().to_string();
        let selection = Selection::of(&package, name, self.version().major)?;
        for required in &selection.requires {
            if self.layout.has_control(required) {
                continue;
            }
            let inner = Selection::of(&package, required, self.version().major)
                .map_err(|_| Error::extension_requires(name, required))?;
            self.install(inner, &origin, &package.sha256)?;
        }
        self.install(selection, &origin, &package.sha256)
    }

    /// Returns an extension that need not be added: it came with the server, or was added from this
    /// source before.
    fn there(&self, name: &str, source: &ExtensionSource) -> Result<Option<AddedExtension>> {
        let Some(manifest) = ExtensionManifest::read(&self.cached.folder, name)? else {
            let version = self.layout.default_version(name);
            return Ok(version.map(|version| AddedExtension {
                name: name.to_owned(),
                version,
                source: None,
                preload: None,
            }));
        };
        if manifest.state == ExtensionState::Untried {
            manifest.remove(&self.cached.folder)?;
            return Ok(None);
        }
        let known = source::known(name, self.version().major);
        let is_same = *source == ExtensionSource::Known
            && known.is_none_or(|known| known.sha256 == manifest.sha256);
        let is_whole = manifest.check(&self.cached.folder).is_ok();
        Ok((is_same && is_whole).then(|| manifest.extension()))
    }

    /// Installs the files, tries them, and removes them if they do not load; earlier files are
    /// restored then.
    fn install(
        &self,
        selection: Selection<'_>,
        origin: &str,
        sha256: &str,
    ) -> Result<AddedExtension> {
        let folder = &self.cached.folder;
        let before = ExtensionManifest::read(folder, &selection.name)?;
        let mut manifest = ExtensionManifest::of(
            &selection.name,
            &selection.version,
            &selection.files,
            &self.layout,
            origin,
            sha256,
        );
        let others = ExtensionManifest::all(folder);
        for path in manifest.files.keys() {
            let is_replaced = before
                .as_ref()
                .is_some_and(|before| before.files.contains_key(path));
            let is_of_other = others
                .iter()
                .any(|other| other.name != manifest.name && other.files.contains_key(path));
            if !is_replaced && (is_of_other || folder.join(path).exists()) {
                return Err(Error::extension_in_the_way(
                    &selection.name,
                    &folder.join(path),
                ));
            }
        }
        let saved = before.map(|before| {
            let saved = before.save(folder);
            (before, saved)
        });
        if let Some((before, _)) = &saved {
            before.remove(folder)?;
        }
        let name = selection.name.clone();
        self.progress.step(&format!(
            "trying the extension `{name}` in a scratch server"
        ));
        let tried = manifest
            .write(&self.cache, folder)
            .and_then(|()| write_files(&self.cache, folder, &self.layout, &selection.files))
            .and_then(|()| trial::run(&name, &selection, self.version(), self.trial_timeout));
        match tried {
            Ok(preload) => {
                manifest.state = ExtensionState::Tried;
                manifest.preload = preload;
                manifest.write(&self.cache, folder)?;
                Ok(manifest.extension())
            }
            Err(error) => {
                manifest.remove(folder)?;
                if let Some((before, saved)) = saved {
                    saved.restore(&self.cache)?;
                    before.write(&self.cache, folder)?;
                }
                Err(error)
            }
        }
    }

    /// Removes an extension that was added. Returns `false` if there is none of this name.
    ///
    /// # Errors
    ///
    /// If its files cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        let _lock = self.lock()?;
        match ExtensionManifest::read(&self.cached.folder, name)? {
            Some(manifest) => manifest.remove(&self.cached.folder).map(|()| true),
            None => Ok(false),
        }
    }

    /// The extensions that a scratch server can create, of those that came with the server and
    /// those that were added, sorted by name. Others, with a missing library for example, are
    /// omitted.
    ///
    /// # Errors
    ///
    /// If no scratch server starts.
    pub fn loadable(&self) -> Result<Vec<AddedExtension>> {
        let added = usable(&self.cached.folder);
        let names = trial::loadable(self.version(), self.trial_timeout)?;
        let found = names.into_iter().map(|(name, version)| {
            let known = added.iter().find(|added| added.name == name).cloned();
            known.unwrap_or(AddedExtension {
                name,
                version,
                source: None,
                preload: None,
            })
        });
        let mut found: Vec<_> = found.collect();
        // These need a server that was started for them.
        for extension in &added {
            if extension.preload.is_some() && !found.contains(extension) {
                found.push(extension.clone());
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn lock(&self) -> Result<std::fs::File> {
        self.cache
            .lock(&format!("pg-{}-extensions", self.cached.version))
    }
}

impl Postgres {
    /// Adds extensions before their first use, which then needs no download: each that the server
    /// lacks is added from its known package, once, as by `lookaside pg extension add`. See
    /// [`Extensions`] for other versions and sources.
    ///
    /// # Errors
    ///
    /// As [`Extensions::find`] and [`add`](Extensions::add).
    pub fn preload_extensions<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let extensions = Extensions::find(VersionRequirement::ANY, Arc::new(()))?;
        for name in names {
            extensions.add(name, &ExtensionSource::Known)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions")
            .field("server", &self.cached)
            .finish_non_exhaustive()
    }
}

/// An added extension that is damaged.
pub(crate) struct DamagedExtension {
    pub(crate) name: String,
    pub(crate) why: String,
    /// The source to add it from again; `None` for a known package.
    pub(crate) from: Option<String>,
}

/// The added extensions of a server that are damaged.
pub(crate) fn damaged(cached: &CachedServer) -> Vec<DamagedExtension> {
    let manifests = ExtensionManifest::all(&cached.folder).into_iter();
    let damage = |manifest: ExtensionManifest| {
        let why = match manifest.state {
            ExtensionState::Untried => Err("the trial did not complete".to_owned()),
            ExtensionState::Tried => manifest.check(&cached.folder),
        };
        let known = source::known(&manifest.name, cached.version.major);
        let is_known = known.is_some_and(|known| known.sha256 == manifest.sha256);
        Some(DamagedExtension {
            why: why.err()?,
            from: (!is_known).then_some(manifest.source),
            name: manifest.name,
        })
    };
    manifests.filter_map(damage).collect()
}
