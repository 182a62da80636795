//! Keys of templates, from the contents of files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::glob;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::file_manifest::for_each_entry;
use crate::{Error, Result};

/// Computes a key for [`Builder::template`](crate::Builder::template) that changes when a file is
/// changed, added, removed or renamed.
///
/// Patterns are those of the crate `glob`, relative to the working folder: `migrations/**`,
/// `prisma/schema.prisma`, `app/*/migrations/*.py`. All files of a matching folder are included.
///
/// # Errors
///
/// If a pattern matches no file, or a file cannot be read or is not a regular one.
pub fn key_of_files<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<String> {
    let mut files = BTreeSet::new();
    for pattern in patterns {
        let pattern = pattern.as_ref();
        // At the end, `**` only matches folders.
        let all_below = pattern == "**" || pattern.ends_with("/**");
        let searched = format!("{pattern}{}", if all_below { "/*" } else { "" });
        let mut is_found = false;
        let found = glob(&searched).map_err(|error| Error::bad_pattern(pattern, error.msg))?;
        for path in found {
            let path = path.map_err(|error| {
                let path = error.path().to_owned();
                Error::file("read", &path, error.into())
            })?;
            add(path, &mut files, &mut is_found)?;
        }
        if !is_found {
            return Err(Error::no_files(pattern));
        }
    }
    let mut hasher = Sha256::new();
    for path in &files {
        let bytes = read_regular(path).map_err(|error| Error::file("read", path, error))?;
        let name = path.as_os_str().as_encoded_bytes();
        // Including the sizes, so that different lists of files have different inputs.
        for part in [name, &bytes] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(hex(&hasher.finalize()[..16]))
}

/// Adds a file, or all files below a folder.
fn add(path: PathBuf, files: &mut BTreeSet<PathBuf>, is_found: &mut bool) -> Result<()> {
    if path.is_dir() {
        return for_each_entry(&path, |path, _| add(path, files, is_found));
    }
    *is_found = true;
    files.insert(path);
    Ok(())
}

/// Reads a file; a pipe or a device might never end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let error = key_of_files([format!("{}/**", folder.path().display())]).unwrap_err();
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        let text = format!("{error}: {cause}");
        assert!(
            text.contains("pipe`") && text.contains("not a regular file"),
            "{text}"
        );
    }

    #[test]
    fn a_key_changes_with_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap().to_owned();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let key = || key_of_files([format!("{root}/migrations/**")]).unwrap();
        write("migrations/1.sql", "a");
        write("migrations/deep/down/2.sql", "b");
        let mut seen = vec![key()];
        assert_eq!(key(), seen[0]);
        let same = [
            format!("{root}/migrations/**"),
            format!("{root}/migrations/1.sql"),
        ];
        assert_eq!(key_of_files(same).unwrap(), seen[0]);
        let changes: [&dyn Fn(); 4] = [
            &|| write("migrations/1.sql", "A"),
            &|| write("migrations/deep/down/2.sql", "B"),
            &|| write("migrations/3.sql", ""),
            &|| {
                fs::rename(
                    folder.path().join("migrations/3.sql"),
                    folder.path().join("migrations/4.sql"),
                )
                .unwrap()
            },
        ];
        for change in changes {
            change();
            assert!(!seen.contains(&key()));
            seen.push(key());
        }
        let error = key_of_files([format!("{root}/none/*.sql")]).unwrap_err();
        assert!(error.to_string().contains("none/*.sql"), "{error}");
        assert!(key_of_files(["a***"]).is_err());
    }
}
