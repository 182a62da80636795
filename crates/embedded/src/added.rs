//! Extensions that were added to a server: their files, and a manifest of each.
//!
//! ```text
//! pg/18.6/extensions/vector.toml    the manifest: version, source and files of one extension
//! pg/18.6/share pg/18.6/lib         the location of its files, together with those of the server
//! ```

mod control;
mod extension_manifest;
mod files;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(crate) use control::parameter;
#[cfg(feature = "download")]
pub(crate) use extension_manifest::carry;
pub(crate) use extension_manifest::{ExtensionManifest, ExtensionState};
pub(crate) use files::{ExtensionFile, ExtensionFileKind, Layout, check_name, write_files};

/// An extension that was added to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedExtension {
    /// Its name in `CREATE EXTENSION`.
    pub name: String,
    /// The default version, which `CREATE EXTENSION` creates.
    pub version: String,
    /// The source of its files; `None` for one that came with the server.
    pub source: Option<String>,
    /// The library that must be in `shared_preload_libraries`, if the extension requires that.
    pub preload: Option<String>,
}

/// The extensions that were added to a server, were tried, and are undamaged.
pub(crate) fn usable(server: &Path) -> Vec<AddedExtension> {
    let manifests = ExtensionManifest::all(server).into_iter();
    let whole = manifests.filter(|manifest| {
        manifest.state == ExtensionState::Tried && manifest.check(server).is_ok()
    });
    whole.map(|manifest| manifest.extension()).collect()
}

/// A stamp that changes when extensions of a server are added, replaced, edited or removed: from
/// names, sizes and times of their control and SQL files. `None` if the files of the server are not
/// all below one folder, as in packages of distributions. `programs` is the folder of its programs.
pub(crate) fn stamp(programs: &Path) -> Option<String> {
    let server = programs.parent()?;
    let folder = server.join(Layout::of(server).ok()?.extension);
    let mut stamps = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        if name.ends_with(".control") || name.ends_with(".sql") {
            let metadata = entry.metadata().ok()?;
            let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
            stamps.push(format!("\0{name}\0{}\0{seconds}.{nanos}", metadata.len()));
        }
    }
    stamps.sort();
    Some(stamps.concat())
}
