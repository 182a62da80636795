//! Downloads a server: an archive that zonky builds for each version and publishes on Maven
//! Central.
//!
//! The archive stays in the cache, so that a damaged server is repaired without a network.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use liblzma::read::XzDecoder;
use sha2::{Digest, Sha512};
use url::Url;
use zip::ZipArchive;

use super::fetch::Client;
use super::install_manifest::InstallManifest;
use super::program::probe;
use super::search_config::{Network, SearchConfig};
use super::{Binaries, CachedServer, Condition, FOLDER, Progress, Source};
use crate::added::carry;
use crate::cache::Cache;
use crate::digest::hex;
use crate::{Error, Result, Version};

/// The folder of the archives of all systems.
const REPOSITORY: &str = "https://repo1.maven.org/maven2/io/zonky/test/postgres";

/// Provides the server `cached`, from the archive in the cache or from the network.
pub(super) fn provide(
    cached: CachedServer,
    search_config: &SearchConfig,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Binaries> {
    let version = cached.version;
    let name = format!("pg-{version}");
    let _lock = match cache.try_lock(&name)? {
        Some(lock) => lock,
        None => {
            progress.step(&format!(
                "another process fetches PostgreSQL {version}: waiting for it"
            ));
            cache.lock(&name)?
        }
    };
    let binaries = |source| Binaries {
        folder: cached.bin(),
        version,
        source,
    };
    // Another process may have done so while this one waited for the lock.
    if cached.condition(search_config.verify) == Condition::Sound {
        return Ok(binaries(Source::Cache));
    }
    let archive = Archive::of(version, cache)?;
    let (bytes, source) = match archive.read(cache, progress)? {
        Some(bytes) => (bytes, Source::Cache),
        None => {
            if search_config.network == Network::Forbidden {
                return Err(Error::offline(version));
            }
            let bytes = download(version, progress)?;
            archive.write(cache, &bytes)?;
            (bytes, Source::Download)
        }
    };
    progress.step(&format!("unpacking PostgreSQL {version}"));
    let hash = hash(&bytes);
    let unpacked = cache.replace(&cached.folder, |folder| {
        unpack(version, &bytes, folder)?;
        check_runs(version, folder)?;
        InstallManifest::write(folder, version, &archive.name, &hash)?;
        // Added extensions fit every minor version of the major one. Those that cannot be copied
        // can be added again.
        let others = CachedServer::all(cache).into_iter();
        for other in others.filter(|other| other.version.major == version.major) {
            let _ = carry(cache, &other.folder, folder);
        }
        Ok(())
    });
    if let Err(error) = unpacked {
        // An archive that cannot be unpacked is useless, or takes up space that is missing.
        if source == Source::Download || !error.is_full() {
            archive.remove(cache)?;
        }
        return Err(error);
    }
    Ok(binaries(source))
}

/// An archive in the cache, with its hash in a separate file.
struct Archive {
    version: Version,
    name: String,
    file: PathBuf,
    hash_file: PathBuf,
}

impl Archive {
    fn of(version: Version, cache: &Cache) -> Result<Self> {
        let folder = cache.folder(&format!("{FOLDER}/archives"))?;
        let name = format!("postgresql-{version}.0-{OS}-{ARCH}.jar");
        Ok(Self {
            version,
            file: folder.join(&name),
            hash_file: folder.join(format!("{name}.sha512")),
            name,
        })
    }

    /// Reads the archive, if it exists and is undamaged; a damaged one is removed.
    fn read(&self, cache: &Cache, progress: &dyn Progress) -> Result<Option<Vec<u8>>> {
        let bytes = match fs::read(&self.file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::file("read", &self.file, e)),
        };
        let expected = fs::read_to_string(&self.hash_file).unwrap_or_default();
        if expected.split_whitespace().next() == Some(&hash(&bytes)) {
            return Ok(Some(bytes));
        }
        let (version, file) = (self.version, self.file.display());
        progress.step(&format!(
            "the archive `{file}` of PostgreSQL {version} is damaged and is removed"
        ));
        self.remove(cache)?;
        Ok(None)
    }

    fn write(&self, cache: &Cache, bytes: &[u8]) -> Result<()> {
        // The hash is written last: an archive without one is downloaded again.
        cache.write(&self.file, bytes)?;
        let line = format!("{}  {}\n", hash(bytes), self.name);
        cache
            .write(&self.hash_file, line.as_bytes())
            .inspect_err(|_| {
                // The first failure is the one to report.
                let _ = self.remove(cache);
            })
    }

    fn remove(&self, cache: &Cache) -> Result<()> {
        cache.remove(&self.hash_file)?;
        cache.remove(&self.file)
    }
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha512::digest(bytes))
}

/// Downloads the archive of `version`, and verifies it by the published hash.
fn download(version: Version, progress: &dyn Progress) -> Result<Vec<u8>> {
    let what = format!("PostgreSQL {version}");
    let url = url_of(version);
    let url =
        |end: &str| Url::parse(&format!("{url}{end}")).expect("a constant with numbers in it");
    let client = Client::new();
    let download = || {
        progress.download(&what, 0, None);
        let (published, _) = client.text(&url(".sha512"))?;
        let report = |done, total| progress.download(&what, done, total);
        let bytes = client.bytes(&url(""), report)?;
        if hash(&bytes) != published.trim() {
            return Err("its SHA-512 is not the published one".to_owned());
        }
        progress.download(&what, bytes.len() as u64, Some(bytes.len() as u64));
        Ok(bytes)
    };
    download().map_err(|why: String| Error::download_failed(version, why))
}

/// Where the archive of `version` for this machine is published.
fn url_of(version: Version) -> String {
    let system = match OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64v8",
        "powerpc64" => "ppc64le",
        other => other,
    };
    let name = format!("embedded-postgres-binaries-{system}-{processor}");
    format!("{REPOSITORY}/{name}/{version}.0/{name}-{version}.0.jar")
}

/// Unpacks an archive into `folder`, which is empty: a zip that contains a tar archive compressed
/// by xz.
fn unpack(version: Version, bytes: &[u8], folder: &Path) -> Result<()> {
    let unusable = |why: String| Error::archive_unusable(version, why);
    let packed = packed_files(bytes).map_err(unusable)?;
    let mut files = tar::Archive::new(XzDecoder::new(&*packed));
    files
        .unpack(folder)
        .map_err(|error| match os_error(&error) {
            Some(cause) => Error::file("write", folder, cause),
            None => unusable(error.to_string()),
        })?;
    // The programs must be on disk before the manifest is written.
    let whole = File::open(folder).map_err(|e| Error::file("open", folder, e))?;
    sync(&whole).map_err(|e| Error::file("write", folder, e))
}

/// The compressed tar archive in a zip.
fn packed_files(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = file.name().map_err(|error| error.to_string())?;
        if name.ends_with(".txz") {
            let mut packed = Vec::new();
            io::copy(&mut file, &mut packed).map_err(|error| error.to_string())?;
            return Ok(packed);
        }
    }
    Err("it contains no .txz".to_owned())
}

/// The operating system's error, such as a full disk, within an error of a library.
fn os_error(error: &io::Error) -> Option<io::Error> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let code = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if let Some(code) = code {
            return Some(io::Error::from_raw_os_error(code));
        }
        cause = error.source();
    }
    None
}

#[cfg(target_os = "linux")]
fn sync(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync(folder: &File) -> io::Result<()> {
    folder.sync_all()
}

/// Checks that the server runs on this machine: archives exist for other C libraries, too.
fn check_runs(version: Version, folder: &Path) -> Result<()> {
    let banner = probe(&folder.join("bin/postgres"), "--version")
        .map_err(|error| Error::archive_foreign(version, &error).because(error))?;
    match Version::from_banner(&banner) {
        Some(found) if found == version => Ok(()),
        _ => Err(Error::archive_unusable(
            version,
            format!("its server is `{banner}`"),
        )),
    }
}
