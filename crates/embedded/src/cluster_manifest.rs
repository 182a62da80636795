//! The manifest of a persistent folder or an archive.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::names::USER;
use crate::{Error, Result};

/// The manifest file of the folder.
pub(crate) const CLUSTER_MANIFEST: &str = "lookaside.toml";

/// The name of the file while it is written.
pub(crate) const CLUSTER_MANIFEST_PARTIAL: &str = "lookaside.toml.partial";

/// The database of a folder, if no other name is given. Not `postgres`, which this crate itself is
/// connected to: it could not be copied for snapshots.
pub(crate) const DATABASE: &str = "main";

/// The contents of [`CLUSTER_MANIFEST`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterManifest {
    pub(crate) major: u32,
    pub(crate) user: String,
    pub(crate) database: String,
    /// False until user, database and schema are complete.
    pub(crate) is_complete: bool,
}

impl ClusterManifest {
    /// Reads the manifest of a folder; `None` if it is not one of ours.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(CLUSTER_MANIFEST);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map(Some).map_err(|error| {
                Error::bad_cluster_manifest(&path, &Self::example()).because(error)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(Error::not_a_folder(folder))
            }
            Err(error) => Err(Error::folder_access("read", &path, folder, error)),
        }
    }

    /// Writes the manifest, durably: it must not be older than the data.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(CLUSTER_MANIFEST);
        let partial = folder.join(CLUSTER_MANIFEST_PARTIAL);
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            rename_for_good(&partial, &path)
        };
        write().map_err(|error| Error::file("write", &path, error))
    }

    pub(crate) fn text(&self) -> String {
        toml::to_string(self).expect("numbers and texts can be written")
    }

    /// An example for a user whose file was lost.
    pub(crate) fn example() -> String {
        let manifest = Self {
            major: 18,
            user: USER.to_owned(),
            database: DATABASE.to_owned(),
            is_complete: true,
        };
        manifest.text().trim_end().replace('\n', ", ")
    }
}

/// Renames durably.
pub(crate) fn rename_for_good(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let folder = to.parent().expect("files of ours are in a folder");
    File::open(folder)?.sync_all()
}
