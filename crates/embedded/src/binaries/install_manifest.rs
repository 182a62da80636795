//! The manifest of a server in the cache, written when it was unpacked.
//!
//! ```text
//! pg/18.6/receipt.toml    version, archive, sizes of the programs, hash of files.sha256
//! pg/18.6/files.sha256    "<hash>  <path>" for each file, as sha256sum(1) writes and checks it
//! pg/18.6/bin lib share   the files
//! ```
//!
//! The manifest is written last and is small, so that a start reads a few hundred bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::program::is_program;
use crate::digest::hex;
use crate::verify::Verify;
use crate::{Error, Result, Version};

pub(super) const MANIFEST: &str = "receipt.toml";
pub(super) const FILES: &str = "files.sha256";

/// The programs that a server needs to start.
pub(super) const PROGRAMS: [&str; 2] = ["bin/postgres", "bin/initdb"];

/// The manifest of an unpacked server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstallManifest {
    pub(super) version: String,
    /// Its source: the archive and its hash.
    pub(super) archive: String,
    pub(super) archive_sha512: String,
    pub(super) file_count: u64,
    pub(super) size: u64,
    pub(super) files_sha256: String,
    pub(super) programs: BTreeMap<String, u64>,
}

impl InstallManifest {
    /// Checks the server of `version` in `folder`; the error describes the damage.
    pub(super) fn check(folder: &Path, version: Version, verify: Verify) -> Result<(), String> {
        let text = fs::read_to_string(folder.join(MANIFEST))
            .map_err(|e| format!("`{MANIFEST}` cannot be read: {e}"))?;
        let manifest: Self =
            toml::from_str(&text).map_err(|_| format!("`{MANIFEST}` cannot be parsed"))?;
        if manifest.version != version.to_string() {
            return Err(format!("`{MANIFEST}` is of version {}", manifest.version));
        }
        for program in PROGRAMS {
            let path = folder.join(program);
            let size = fs::metadata(&path).map(|metadata| metadata.len()).ok();
            if !is_program(&path) {
                return Err(format!("`{program}` is missing or not executable"));
            }
            if size != manifest.programs.get(program).copied() {
                return Err(format!("`{program}` has another size"));
            }
        }
        match verify {
            Verify::Quick => Ok(()),
            Verify::Full => manifest.check_files(folder),
        }
    }

    fn check_files(&self, folder: &Path) -> Result<(), String> {
        let files = fs::read_to_string(folder.join(FILES))
            .map_err(|e| format!("`{FILES}` cannot be read: {e}"))?;
        if hex(&Sha256::digest(&files)) != self.files_sha256 {
            return Err(format!("`{FILES}` was changed"));
        }
        for line in files.lines() {
            let Some((hash, path)) = line.split_once("  ") else {
                return Err(format!("`{FILES}` cannot be parsed"));
            };
            match hash_file(&folder.join(path)) {
                Ok((found, _)) if found == hash => {}
                Ok(_) => return Err(format!("`{path}` was changed")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// The hash and the size of the file at `path`, following links.
pub(super) fn hash_file(path: &Path) -> Result<(String, u64)> {
    let failed = |e| Error::file("read", path, e);
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok((hex(&hasher.finalize()), size));
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
    }
}
