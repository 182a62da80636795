//! The manifest of a data folder, written when it is complete, by which damage is detected later.
//!
//! One line per file: the digest of its contents, its size, time of change in nanoseconds, inode
//! and name.
//!
//! ```text
//! 7d865e959b246691 8192 1763890000123456789 81239 global/pg_control
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::verify::Verify;
use crate::{Error, Result, digest};

/// The manifest file, next to the data.
pub(crate) const FILE_MANIFEST: &str = "manifest";

/// The bootstrap catalogs, by the number that names their files in a new cluster: `pg_type`,
/// `pg_attribute`, `pg_proc`, `pg_class` (see `BKI_BOOTSTRAP` in PostgreSQL's source).
const CATALOGS: [&str; 4] = ["1247", "1249", "1255", "1259"];

/// Numbers of databases begin here; those below are of `initdb` (`FirstNormalObjectId`).
const FIRST_OID: u32 = 16384;

/// The files of a folder, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileManifest {
    files: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    digest: String,
    stamp: Stamp,
}

/// The file system's metadata of a file, which changes with each write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    changed_ns: i128,
    inode: u64,
}

/// The result of a check that found a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// A file has other contents, is missing, or was added.
    Contents(String),
    /// A file was replaced or written to; its contents were not compared.
    Stamp(String),
}

impl FileManifest {
    /// Creates the manifest of a folder by reading every file.
    pub(crate) fn of(data: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (name, stamp) in stamps(data)? {
            let digest = digest_of(data, &name)?;
            files.insert(name, Entry { digest, stamp });
        }
        Ok(Self { files })
    }

    /// Reads the manifest of `folder`, if it has a valid one.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE_MANIFEST)).ok()?;
        let files = text.lines().map(parse_line).collect::<Option<_>>()?;
        Some(Self { files })
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE_MANIFEST);
        fs::write(&path, self.text()).map_err(|error| Error::file("write", &path, error))
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, Entry { digest, stamp }) in &self.files {
            let Stamp {
                size,
                changed_ns,
                inode,
            } = stamp;
            writeln!(text, "{digest} {size} {changed_ns} {inode} {name}")
                .expect("writing into a string succeeds");
        }
        text
    }

    /// The manifest of a copy in another folder, with the stamps read there.
    pub(crate) fn of_copy(&self, data: &Path) -> Result<Self> {
        let mut files = self.files.clone();
        for (name, stamp) in stamps(data)? {
            if let Some(entry) = files.get_mut(&name) {
                entry.stamp = stamp;
            }
        }
        Ok(Self { files })
    }

    /// The number of files and bytes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let sizes = self.files.values().map(|entry| entry.stamp.size);
        (self.files.len() as u64, sizes.sum())
    }

    /// The first difference between a folder and the manifest. Every stamp is compared; the
    /// contents are compared of `pg_control` and of our databases' basic catalogs, or with
    /// [`Verify::Full`] of every file.
    pub(crate) fn find_damage(&self, data: &Path, verify: Verify) -> Option<Damage> {
        let Ok(Listing {
            files: found,
            denied,
        }) = Listing::of(data)
        else {
            return Some(Damage::Contents("the folder cannot be read".to_owned()));
        };
        if let Some(name) = denied {
            let damage = format!("the mode of `{name}` denies its owner to read or write it");
            return Some(Damage::Contents(damage));
        }
        let missing = self.files.keys().find(|name| !found.contains_key(*name));
        if let Some(name) = missing {
            return Some(Damage::Contents(format!("`{name}` is missing")));
        }
        let mut touched = None;
        for (name, stamp) in &found {
            let Some(entry) = self.files.get(name) else {
                return Some(Damage::Contents(format!("`{name}` was added")));
            };
            if entry.stamp.size != stamp.size {
                return Some(Damage::Contents(format!("`{name}` has another size")));
            }
            if touched.is_none() && entry.stamp != *stamp {
                touched = Some(Damage::Stamp(format!(
                    "`{name}` was written to or replaced"
                )));
            }
            let is_read = verify == Verify::Full || is_basic(name);
            if is_read && digest_of(data, name).ok().as_ref() != Some(&entry.digest) {
                return Some(Damage::Contents(format!("`{name}` has other contents")));
            }
        }
        touched
    }
}

impl Damage {
    /// A description for reports.
    pub(crate) fn describe(&self) -> &str {
        match self {
            Self::Contents(what) | Self::Stamp(what) => what,
        }
    }
}

/// Whether a file is read by each check: without `pg_control` no server starts, and every database
/// that is handed out is a copy of one of ours. Including the catalogs of `initdb`'s own databases,
/// the check took 9 ms at best, without them 6, and for all files 38.
fn is_basic(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["global", "pg_control" | "pg_filenode.map"] => true,
        ["base", database, file] => {
            let is_ours = database.parse().is_ok_and(|oid: u32| oid >= FIRST_OID);
            is_ours && (CATALOGS.contains(file) || *file == "pg_filenode.map")
        }
        _ => false,
    }
}

fn parse_line(line: &str) -> Option<(String, Entry)> {
    let mut fields = line.splitn(5, ' ');
    let digest = fields.next()?.to_owned();
    let stamp = Stamp {
        size: fields.next()?.parse().ok()?,
        changed_ns: fields.next()?.parse().ok()?,
        inode: fields.next()?.parse().ok()?,
    };
    let name = fields.next()?.to_owned();
    Some((name, Entry { digest, stamp }))
}

fn digest_of(data: &Path, name: &str) -> Result<String> {
    let path = data.join(name);
    let bytes = fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
    Ok(digest::of(&bytes))
}

/// The stamps of all files below a folder, by their names in it.
fn stamps(data: &Path) -> Result<BTreeMap<String, Stamp>> {
    Ok(Listing::of(data)?.files)
}

/// What is below a folder.
#[derive(Debug, Default)]
struct Listing {
    files: BTreeMap<String, Stamp>,
    /// A file whose mode denies its owner access that a server needs: root can read it
    /// nevertheless, but copies have its mode, and the server does not run as root.
    denied: Option<String>,
}

impl Listing {
    fn of(data: &Path) -> Result<Self> {
        let mut listing = Self::default();
        list(data, "", &mut listing)?;
        Ok(listing)
    }
}

fn list(folder: &Path, prefix: &str, listing: &mut Listing) -> Result<()> {
    for_each_entry(folder, |path, kind| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        let metadata = path.symlink_metadata();
        let metadata = metadata.map_err(|error| Error::file("read", &path, error))?;
        let needed = if kind.is_dir() { 0o700 } else { 0o600 };
        if metadata.mode() & needed != needed {
            listing.denied.get_or_insert(name.clone());
        }
        if kind.is_dir() {
            return list(&path, &format!("{name}/"), listing);
        }
        let seconds = i128::from(metadata.mtime()) * 1_000_000_000;
        let stamp = Stamp {
            size: metadata.len(),
            changed_ns: seconds + i128::from(metadata.mtime_nsec()),
            inode: metadata.ino(),
        };
        listing.files.insert(name, stamp);
        Ok(())
    })
}

/// Visits what is in a folder, not below it.
pub(crate) fn for_each_entry(
    folder: &Path,
    mut visit: impl FnMut(PathBuf, fs::FileType) -> Result<()>,
) -> Result<()> {
    let failed = |error: io::Error| Error::file("read", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        visit(entry.path(), entry.file_type().map_err(failed)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("PG_VERSION", "18"),
            ("global/pg_control", "control"),
            ("base/16384/1259", "catalog"),
            ("base/1/1259", "rows"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// Writes without changing the modification time.
    fn write_secretly(path: &Path, text: &str) {
        let before = path.metadata().unwrap().modified().unwrap();
        fs::write(path, text).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(before).unwrap();
    }

    #[test]
    fn each_damage_is_found_and_named() {
        let check = |damage: &dyn Fn(&Path), quick: Option<Damage>, full: Option<Damage>| {
            let folder = folder();
            let manifest = FileManifest::of(folder.path()).unwrap();
            damage(folder.path());
            let found = |verify| manifest.find_damage(folder.path(), verify);
            assert_eq!(found(Verify::Quick), quick);
            assert_eq!(found(Verify::Full), full);
        };
        let contents = |what: &str| Some(Damage::Contents(what.to_owned()));
        let stamp = |what: &str| Some(Damage::Stamp(what.to_owned()));
        check(&|_| (), None, None);
        for name in ["global/pg_control", "base/16384/1259"] {
            let upper = |folder: &Path| {
                let path = folder.join(name);
                let text = fs::read_to_string(&path).unwrap().to_uppercase();
                write_secretly(&path, &text);
            };
            let expected = contents(&format!("`{name}` has other contents"));
            check(&upper, expected.clone(), expected);
        }
        check(
            &|folder| write_secretly(&folder.join("base/1/1259"), "ROWS"),
            None,
            contents("`base/1/1259` has other contents"),
        );
        check(
            &|folder| {
                let path = folder.join("base/1/1259");
                write_secretly(&path, "ROWS");
                let file = File::options().write(true).open(path).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            },
            stamp("`base/1/1259` was written to or replaced"),
            contents("`base/1/1259` has other contents"),
        );
        let replaced = |folder: &Path| {
            fs::copy(folder.join("PG_VERSION"), folder.join("copy")).unwrap();
            fs::rename(folder.join("copy"), folder.join("PG_VERSION")).unwrap();
        };
        let expected = stamp("`PG_VERSION` was written to or replaced");
        check(&replaced, expected.clone(), expected);
        let cut = |folder: &Path| fs::write(folder.join("PG_VERSION"), "1").unwrap();
        let expected = contents("`PG_VERSION` has another size");
        check(&cut, expected.clone(), expected);
        let gone = |folder: &Path| fs::remove_file(folder.join("PG_VERSION")).unwrap();
        let expected = contents("`PG_VERSION` is missing");
        check(&gone, expected.clone(), expected);
        for (name, mode) in [("base/1/1259", 0o200), ("base/1", 0o500)] {
            let close = |folder: &Path| {
                fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
            };
            let denied = format!("the mode of `{name}` denies its owner to read or write it");
            check(&close, contents(&denied), contents(&denied));
        }
        let more = |folder: &Path| fs::write(folder.join("base/2"), "x").unwrap();
        let expected = contents("`base/2` was added");
        check(&more, expected.clone(), expected);
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let (folder, beside) = (folder(), tempfile::tempdir().unwrap());
        let manifest = FileManifest::of(folder.path()).unwrap();
        manifest.write(beside.path()).unwrap();
        assert_eq!(FileManifest::read(beside.path()), Some(manifest.clone()));
        assert_eq!(manifest.extent(), (4, 20));
        fs::write(beside.path().join(FILE_MANIFEST), "file_c").unwrap();
        assert_eq!(FileManifest::read(beside.path()), None);
    }
}
