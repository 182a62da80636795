//! The servers in the cache.

use std::cmp::Reverse;
use std::fs;
use std::path::PathBuf;

use super::FOLDER;
use super::install_manifest::InstallManifest;
use crate::Version;
use crate::cache::Cache;
use crate::verify::Verify;

/// A server in the cache, or the folder where it would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedServer {
    pub(crate) version: Version,
    /// Contains `bin`, `lib`, `share` and the manifest.
    pub(crate) folder: PathBuf,
}

/// The condition of a [`CachedServer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Absent,
    Sound,
    Damaged(String),
}

impl CachedServer {
    /// All cached servers, the newest first.
    pub(crate) fn all(cache: &Cache) -> Vec<Self> {
        let mut all: Vec<Self> = fs::read_dir(cache.root().join(FOLDER))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(Self::at(cache, version_of(entry.file_name().to_str()?)?)))
            .collect();
        all.sort_by_key(|cached| Reverse(cached.version));
        all
    }

    /// The server of a version, which need not exist.
    pub(crate) fn at(cache: &Cache, version: Version) -> Self {
        Self {
            version,
            folder: cache.root().join(FOLDER).join(version.to_string()),
        }
    }

    /// The folder of the programs.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Checks the files.
    pub(crate) fn condition(&self, verify: Verify) -> Condition {
        if !self.folder.exists() {
            return Condition::Absent;
        }
        match InstallManifest::check(&self.folder, self.version, verify) {
            Ok(()) => Condition::Sound,
            Err(damage) => Condition::Damaged(damage),
        }
    }
}

/// The version a folder is named after, if it is.
fn version_of(name: &str) -> Option<Version> {
    let (major, minor) = name.split_once('.')?;
    let version = Version {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    };
    (version.to_string() == name).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_named_after_versions_are_servers() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        assert_eq!(CachedServer::all(&cache), []);
        for name in [
            "9.6",
            "18.6",
            "17.11",
            "17.9",
            "18.6.partial-1-2",
            "archives",
            "017.1",
            "x.y",
        ] {
            cache.folder(&format!("{FOLDER}/{name}")).unwrap();
        }
        let found: Vec<_> = CachedServer::all(&cache)
            .iter()
            .map(|cached| cached.version.to_string())
            .collect();
        assert_eq!(found, ["18.6", "17.11", "17.9", "9.6"]);
        let absent = CachedServer::at(
            &cache,
            Version {
                major: 15,
                minor: 1,
            },
        );
        assert_eq!(absent.condition(Verify::Quick), Condition::Absent);
        let empty = CachedServer::at(
            &cache,
            Version {
                major: 18,
                minor: 6,
            },
        );
        assert!(matches!(
            empty.condition(Verify::Quick),
            Condition::Damaged(_)
        ));
    }
}
