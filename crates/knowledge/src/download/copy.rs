//! The copy of a file on disk, and its validators.

use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::UrlFile;

/// Numbers the downloads of this process; the numbers only have to be unique, so `Relaxed` is enough.
static DOWNLOAD_COUNTER: AtomicU64 = AtomicU64::new(0);

/// What identifies a version of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Validators {
    /// A hash of the address, whose query may be secret.
    url: u64,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// When the file was downloaded, in seconds since 1970.
    time: u64,
}

impl Validators {
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only the client gets validators")
    )]
    pub(super) fn new(file: &UrlFile, etag: Option<String>, last_modified: Option<String>) -> Self {
        Self {
            url: hash(&file.url),
            etag,
            last_modified,
            time: now(),
        }
    }

    /// How long ago the file was downloaded.
    pub(super) fn age(&self) -> String {
        match now().saturating_sub(self.time) {
            seconds @ 0..=119 => format!("{seconds} s"),
            seconds @ 120..=7199 => format!("{} min", seconds / 60),
            seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
            seconds => format!("{} days", seconds / 86_400),
        }
    }

    /// A text that differs between versions; without validators, between requests.
    pub(super) fn version(&self) -> String {
        match (&self.etag, &self.last_modified) {
            (None, None) => DOWNLOAD_COUNTER.fetch_add(1, Ordering::Relaxed).to_string(),
            validators => format!("{validators:?}"),
        }
    }
}

/// The validators of the copy, if it is one of this address.
pub(super) fn validators(file: &UrlFile) -> Option<Validators> {
    let text = fs::read(validators_file(&file.copy)).ok()?;
    let validators: Validators = serde_json::from_slice(&text).ok()?;
    (validators.url == hash(&file.url) && file.copy.is_file()).then_some(validators)
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn hash(url: &str) -> u64 {
    // It only has to differ from that of the address before.
    FixedState::with_seed(0x6c6f_6f6b).hash_one(url)
}

fn validators_file(copy: &Path) -> PathBuf {
    copy.with_added_extension("json")
}

/// A download that is not the copy yet. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct Pending {
    file: File,
    path: PathBuf,
    copy: PathBuf,
    validators: Validators,
}

impl Pending {
    /// An empty file beside the copy, which only its owner may read.
    pub(super) fn new(file: &UrlFile) -> io::Result<Self> {
        if let Some(folder) = file.copy.parent() {
            fs::create_dir_all(folder)?;
        }
        let number = DOWNLOAD_COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = file.copy.file_name().unwrap_or_default().to_string_lossy();
        // The suffix tells how the file is decompressed.
        let name = format!(".{}-{number}{name}", std::process::id());
        let path = file.copy.with_file_name(name);
        Ok(Self {
            file: private(&path)?,
            path,
            copy: file.copy.clone(),
            validators: Validators::default(),
        })
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn with(mut self, validators: Validators) -> Self {
        self.validators = validators;
        self
    }

    /// Makes the download the copy, after the tables were loaded from it.
    pub(crate) fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        // Another process may do the same; the copy and its validators must be of one download.
        let lock = private_or_open(&self.copy.with_added_extension("lock"))?;
        lock.lock()?;
        fs::rename(&self.path, &self.copy)?;
        let path = validators_file(&self.copy);
        let next = path.with_added_extension("next");
        let text = serde_json::to_vec(&self.validators)?;
        drop(fs::remove_file(&next));
        io::Write::write_all(&mut private(&next)?, &text)?;
        fs::rename(&next, &path)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After `commit` there is no such file.
        drop(fs::remove_file(&self.path));
    }
}

/// A new file that only its owner may read and write.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_or_open(path: &Path) -> io::Result<File> {
    match private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(path),
        made => made,
    }
}
