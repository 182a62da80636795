//! The locations of the extension files of a server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::{Error, Result};

use super::control::parameter;

/// The kind of an extension file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionFileKind {
    Control,
    Sql,
    Library,
}

/// One file of an extension.
#[derive(Clone, Debug)]
pub(crate) struct ExtensionFile<'a> {
    pub(crate) kind: ExtensionFileKind,
    pub(crate) name: String,
    pub(crate) bytes: &'a [u8],
}

/// The folders of one server, relative to its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    server: PathBuf,
    /// Of `.control` and `.sql` files.
    pub(super) extension: PathBuf,
    /// The folder `$libdir`.
    library: PathBuf,
}

impl Layout {
    /// Finds the folders by the files of plpgsql, which every server has.
    pub(crate) fn of(server: &Path) -> Result<Self> {
        let find = |candidates: [&str; 2], names: &[&str]| {
            let mut candidates = candidates.into_iter().map(PathBuf::from);
            candidates.find(|folder| {
                names
                    .iter()
                    .any(|name| server.join(folder).join(name).exists())
            })
        };
        let extension = find(
            ["share/postgresql/extension", "share/extension"],
            &["plpgsql.control"],
        );
        let library = find(["lib/postgresql", "lib"], &["plpgsql.so", "plpgsql.dylib"]);
        match (extension, library) {
            (Some(extension), Some(library)) => Ok(Self {
                server: server.to_owned(),
                extension,
                library,
            }),
            _ => Err(Error::extension_folders_missing(server)),
        }
    }

    /// The path of a file, relative to the server's folder.
    pub(super) fn target(&self, kind: ExtensionFileKind, name: &str) -> PathBuf {
        match kind {
            ExtensionFileKind::Library => self.library.join(name),
            ExtensionFileKind::Control | ExtensionFileKind::Sql => self.extension.join(name),
        }
    }

    pub(crate) fn has_control(&self, name: &str) -> bool {
        self.control(name).exists()
    }

    /// The version that the server would create; `None` if it does not have the extension.
    pub(crate) fn default_version(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.control(name)).ok()?;
        parameter(&text, "default_version")
    }

    fn control(&self, name: &str) -> PathBuf {
        self.server
            .join(&self.extension)
            .join(format!("{name}.control"))
    }
}

/// Checks that a name is safe as a file name; PostgreSQL allows a few more.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_name = !name.is_empty()
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    match is_name {
        true => Ok(()),
        false => Err(Error::bad_extension_name(name)),
    }
}

/// Installs the files of an extension, the control file last, since it makes the extension
/// available. A library that a server has open stays unchanged for that server.
pub(crate) fn write_files(
    cache: &Cache,
    server: &Path,
    layout: &Layout,
    files: &[ExtensionFile<'_>],
) -> Result<()> {
    for wanted in [
        ExtensionFileKind::Library,
        ExtensionFileKind::Sql,
        ExtensionFileKind::Control,
    ] {
        for file in files.iter().filter(|file| file.kind == wanted) {
            let mode = match wanted {
                ExtensionFileKind::Library => 0o755,
                ExtensionFileKind::Sql | ExtensionFileKind::Control => 0o644,
            };
            let target = server.join(layout.target(wanted, &file.name));
            write_file(cache, &target, file.bytes, mode)?;
        }
    }
    Ok(())
}

/// Writes a file that the server's user can read, too.
pub(super) fn write_file(cache: &Cache, target: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    cache.write(target, bytes)?;
    fs::set_permissions(target, Permissions::from_mode(mode))
        .map_err(|error| Error::file("change the rights of", target, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["vector", "uuid-ossp", "pg_trgm", "h3_postgis"] {
            check_name(name).unwrap();
        }
        for name in ["", "../x", "a/b", "a--b", "-a", "a-", "a.b", "ä", "a b"] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
