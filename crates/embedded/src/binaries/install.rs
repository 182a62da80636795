//! Completes an unpacked server in the cache: permissions, hashes, and the manifest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::install_manifest::{FILES, InstallManifest, MANIFEST, PROGRAMS, hash_file};
use crate::digest::hex;
use crate::{Error, Result, Version};

impl InstallManifest {
    /// Writes the manifest of what is in `folder`, and makes everything readable for all users,
    /// since the server may run as another user.
    pub(super) fn write(
        folder: &Path,
        version: Version,
        archive: &str,
        archive_sha512: &str,
    ) -> Result<()> {
        let mut paths = Vec::new();
        open_to_all(folder, &mut paths)?;
        paths.sort();

        let mut files = String::new();
        let mut size = 0;
        for path in &paths {
            let relative = path.strip_prefix(folder).unwrap_or(path);
            let (hash, file_size) = hash_file(path)?;
            size += file_size;
            // Writing into a string succeeds.
            let _ = writeln!(files, "{hash}  {}", relative.display());
        }
        let mut programs = BTreeMap::new();
        for program in PROGRAMS {
            let path = folder.join(program);
            let metadata = fs::metadata(&path).map_err(|e| Error::file("read", &path, e))?;
            programs.insert(program.to_owned(), metadata.len());
        }
        let manifest = Self {
            version: version.to_string(),
            archive: archive.to_owned(),
            archive_sha512: archive_sha512.to_owned(),
            file_count: paths.len() as u64,
            size,
            files_sha256: hex(&Sha256::digest(&files)),
            programs,
        };
        let text = toml::to_string(&manifest).expect("strings and small numbers are TOML");
        for (name, text) in [(FILES, files), (MANIFEST, text)] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| Error::file("write", &path, e))?;
            set_mode(&path, 0o644)?;
        }
        Ok(())
    }
}

/// Makes everything readable for all users, and lists the files.
fn open_to_all(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    set_mode(folder, 0o755)?;
    for entry in fs::read_dir(folder).map_err(|e| Error::file("read", folder, e))? {
        let entry = entry.map_err(|e| Error::file("read", folder, e))?;
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = kind.map_err(|e| Error::file("read", &path, e))?;
        if kind.is_dir() {
            open_to_all(&path, files)?;
            continue;
        }
        if kind.is_file() {
            let metadata = entry
                .metadata()
                .map_err(|e| Error::file("read", &path, e))?;
            let is_program = metadata.permissions().mode() & 0o111 != 0;
            set_mode(&path, if is_program { 0o755 } else { 0o644 })?;
        }
        files.push(path);
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|e| Error::file("change the rights of", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Verify;

    const VERSION: Version = Version {
        major: 18,
        minor: 6,
    };

    fn server() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        fs::create_dir_all(folder.path().join("share/with space")).unwrap();
        for program in PROGRAMS {
            fs::write(folder.path().join(program), "program").unwrap();
            set_mode(&folder.path().join(program), 0o700).unwrap();
        }
        fs::write(folder.path().join("share/with space/a"), "text").unwrap();
        set_mode(&folder.path().join("share"), 0o700).unwrap();
        InstallManifest::write(folder.path(), VERSION, "an archive", "a hash").unwrap();
        folder
    }

    #[test]
    fn a_server_has_the_modes_that_others_need() {
        let folder = server();
        for (path, expected) in [
            ("", 0o755),
            ("bin/postgres", 0o755),
            ("share", 0o755),
            ("share/with space/a", 0o644),
            (MANIFEST, 0o644),
        ] {
            let mode = fs::metadata(folder.path().join(path))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, expected, "{path}");
        }
    }

    #[test]
    fn each_damage_is_seen_and_named() {
        let check = |damage: &dyn Fn(&Path), quick: Option<&str>, full: Option<&str>| {
            let folder = server();
            damage(folder.path());
            for (verify, expected) in [(Verify::Quick, quick), (Verify::Full, full)] {
                let found = InstallManifest::check(folder.path(), VERSION, verify).err();
                match (found, expected) {
                    (None, None) => {}
                    (Some(found), Some(expected)) if found.contains(expected) => {}
                    (found, expected) => panic!("{verify:?}: {found:?}, not {expected:?}"),
                }
            }
        };
        let write = |path: &'static str, text: &'static str| {
            move |folder: &Path| fs::write(folder.join(path), text).unwrap()
        };
        let remove =
            |path: &'static str| move |folder: &Path| fs::remove_file(folder.join(path)).unwrap();
        let both = |text| (Some(text), Some(text));

        check(&|_| (), None, None);
        check(&write("extra", "x"), None, None);
        for path in [MANIFEST, "bin/postgres", "bin/initdb"] {
            let (quick, full) = both(path);
            check(&remove(path), quick, full);
            check(&write(path, "other"), quick, full);
            check(&write(path, ""), quick, full);
        }
        check(
            &write("bin/postgres", "PROGRAM"),
            None,
            Some("bin/postgres"),
        );
        check(
            &write("share/with space/a", "t3xt"),
            None,
            Some("share/with space/a"),
        );
        check(
            &remove("share/with space/a"),
            None,
            Some("share/with space/a"),
        );
        check(&write(FILES, ""), None, Some(FILES));
        check(&remove(FILES), None, Some(FILES));
        let no_program = |folder: &Path| set_mode(&folder.join("bin/postgres"), 0o644).unwrap();
        check(&no_program, Some("not executable"), Some("not executable"));
    }

    #[test]
    fn a_manifest_of_another_version_is_refused() {
        let folder = server();
        let other = Version {
            major: 18,
            minor: 5,
        };
        let found = InstallManifest::check(folder.path(), other, Verify::Quick).unwrap_err();
        assert!(found.contains("18.6"), "{found}");
    }
}
