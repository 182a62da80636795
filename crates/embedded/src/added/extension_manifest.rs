//! The manifest of an extension, written before its files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::digest::hex;
use crate::{Error, Result};

use super::AddedExtension;
use super::files::{ExtensionFile, Layout, write_file};

/// Folder of the manifests in that of a server.
const FOLDER: &str = "extensions";

/// The progress of adding an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExtensionState {
    /// Its files may be present, completely or in part.
    Untried,
    /// A scratch server has created it.
    Tried,
}

/// The manifest of one extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExtensionManifest {
    pub(crate) name: String,
    version: String,
    pub(crate) state: ExtensionState,
    /// The package, and its hash; for a folder, that of its files.
    pub(crate) source: String,
    pub(crate) sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preload: Option<String>,
    /// Hashes by path below the server's folder.
    pub(crate) files: BTreeMap<String, String>,
}

/// The contents of an extension's files.
pub(crate) struct Saved(Vec<(PathBuf, Vec<u8>)>);

impl ExtensionManifest {
    /// Creates the manifest of untried files.
    pub(crate) fn of(
        name: &str,
        version: &str,
        files: &[ExtensionFile<'_>],
        layout: &Layout,
        source: &str,
        sha256: &str,
    ) -> Self {
        let files = files.iter().map(|file| {
            let target = layout.target(file.kind, &file.name);
            let path = target.display().to_string();
            (path, hex(&Sha256::digest(file.bytes)))
        });
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            state: ExtensionState::Untried,
            source: source.to_owned(),
            sha256: sha256.to_owned(),
            preload: None,
            files: files.collect(),
        }
    }

    pub(crate) fn read(server: &Path, name: &str) -> Result<Option<Self>> {
        let path = path_of(server, name);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map(Some)
                .map_err(|error| Error::bad_extension_manifest(&path).because(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &path, error)),
        }
    }

    /// All readable manifests, sorted by name.
    pub(crate) fn all(server: &Path) -> Vec<Self> {
        let entries = fs::read_dir(server.join(FOLDER)).into_iter().flatten();
        let texts = entries
            .flatten()
            .filter(|entry| entry.path().extension() == Some("toml".as_ref()))
            .filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let mut all: Vec<Self> = texts
            .filter_map(|text| toml::from_str(&text).ok())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(crate) fn write(&self, cache: &Cache, server: &Path) -> Result<()> {
        let path = path_of(server, &self.name);
        let folder = server.join(FOLDER);
        fs::create_dir_all(&folder).map_err(|error| Error::file("make", &folder, error))?;
        let text = toml::to_string(self).expect("texts are TOML");
        write_file(cache, &path, text.as_bytes(), 0o644)
    }

    /// Checks its files; the error describes the damage.
    pub(crate) fn check(&self, server: &Path) -> Result<(), String> {
        for (path, expected) in &self.files {
            match fs::read(server.join(path)) {
                Ok(bytes) if hex(&Sha256::digest(&bytes)) == *expected => {}
                Ok(_) => return Err(format!("`{path}` was changed")),
                Err(error) => return Err(format!("`{path}` cannot be read: {error}")),
            }
        }
        Ok(())
    }

    pub(crate) fn extension(&self) -> AddedExtension {
        AddedExtension {
            name: self.name.clone(),
            version: self.version.clone(),
            source: Some(self.source.clone()),
            preload: self.preload.clone(),
        }
    }

    /// Removes the files, the control file first, and then the manifest.
    pub(crate) fn remove(&self, server: &Path) -> Result<()> {
        let is_control = |path: &&String| path.ends_with(&format!("/{}.control", self.name));
        let first = self.files.keys().filter(is_control);
        let rest = self.files.keys().filter(|path| !is_control(path));
        let manifest = path_of(server, &self.name);
        let paths = first.chain(rest).map(|path| server.join(path));
        for path in paths.chain([manifest]) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the files, as far as they exist.
    pub(crate) fn save(&self, server: &Path) -> Saved {
        let read = |path: &String| {
            let path = server.join(path);
            fs::read(&path).ok().map(|bytes| (path, bytes))
        };
        Saved(self.files.keys().filter_map(read).collect())
    }
}

impl Saved {
    pub(crate) fn restore(self, cache: &Cache) -> Result<()> {
        for (path, bytes) in self.0 {
            write_file(cache, &path, &bytes, mode_of(&path))?;
        }
        Ok(())
    }
}

/// Copies undamaged added extensions of a server to another one of the same major version: a
/// replacement of a damaged one, or a newer minor version. Existing extensions of the new one are
/// kept.
#[cfg(any(test, feature = "download"))]
pub(crate) fn carry(cache: &Cache, from: &Path, to: &Path) -> Result<()> {
    for manifest in ExtensionManifest::all(from) {
        let is_there = manifest.files.keys().any(|path| to.join(path).exists());
        if manifest.state != ExtensionState::Tried || is_there || manifest.check(from).is_err() {
            continue;
        }
        for path in manifest.files.keys() {
            let (source, target) = (from.join(path), to.join(path));
            let bytes = fs::read(&source).map_err(|error| Error::file("read", &source, error))?;
            write_file(cache, &target, &bytes, mode_of(&target))?;
        }
        manifest.write(cache, to)?;
    }
    Ok(())
}

fn mode_of(path: &Path) -> u32 {
    match path.extension().and_then(|end| end.to_str()) {
        Some("so" | "dylib") => 0o755,
        _ => 0o644,
    }
}

fn path_of(server: &Path, name: &str) -> PathBuf {
    server.join(FOLDER).join(format!("{name}.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_carried_to_a_server_that_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        for server in [&old, &new] {
            fs::create_dir_all(server.join("share/extension")).unwrap();
        }
        let add = |name: &str, state| {
            let path = format!("share/extension/{name}.control");
            fs::write(old.join(&path), name).unwrap();
            let manifest = ExtensionManifest {
                name: name.to_owned(),
                version: "1".to_owned(),
                state,
                source: "a package".to_owned(),
                sha256: String::new(),
                preload: None,
                files: BTreeMap::from([(path, hex(&Sha256::digest(name)))]),
            };
            manifest.write(&cache, &old).unwrap();
            manifest
        };
        let whole = add("whole", ExtensionState::Tried);
        add("untried", ExtensionState::Untried);
        add("damaged", ExtensionState::Tried);
        fs::write(old.join("share/extension/damaged.control"), "other").unwrap();
        carry(&cache, &old, &new).unwrap();
        assert_eq!(ExtensionManifest::all(&new), std::slice::from_ref(&whole));
        whole.check(&new).unwrap();

        whole.remove(&new).unwrap();
        assert_eq!(ExtensionManifest::all(&new), []);
        assert!(whole.check(&new).unwrap_err().contains("whole.control"));
        assert_eq!(ExtensionManifest::read(&new, "whole").unwrap(), None);
    }
}
