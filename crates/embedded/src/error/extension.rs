//! Errors of adding extensions to a server.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, ErrorKind};

impl Error {
    /// `major` is that of `version`.
    pub(crate) fn named_is_not_ours(folder: &Path, version: impl fmt::Display, major: u32) -> Self {
        let folder = folder.display();
        Self::new(
            ErrorKind::Misuse,
            format!(
                "LOOKASIDE_PG_BIN is PostgreSQL {version} in `{folder}`, whose files are not \
                 changed; install the extension for it (`apt install postgresql-{major}-…`), or \
                 unset the variable"
            ),
        )
    }

    pub(crate) fn bad_extension_name(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{name}` is not a valid name of an extension; write only the name, such as \
                 `vector`"
            ),
        )
    }

    pub(crate) fn extension_folders_missing(server: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the server in `{}` has no folder of extensions with `plpgsql.control`; remove it, so \
                 that it is fetched again",
                server.display()
            ),
        )
    }

    /// `majors` are those for which a package is known.
    pub(crate) fn extension_unknown(name: &str, major: u32, majors: &BTreeSet<u32>) -> Self {
        let known = match majors.iter().rev().map(u32::to_string).collect::<Vec<_>>() {
            majors if majors.is_empty() => String::new(),
            majors => format!(" (one is for PostgreSQL {})", majors.join(" and ")),
        };
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no package with `{name}` is known for PostgreSQL {major} and this machine{known}; name \
                 one: `lookaside pg extension add {name} --from PATH`, which may be a .deb, a wheel, an \
                 archive or a folder"
            ),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn extension_offline(name: &str, file: &str) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "LOOKASIDE_PG_OFFLINE forbids the download of `{file}`, which holds `{name}`; unset it, \
                 or fetch the file elsewhere and name it with --from"
            ),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn extension_download_failed(name: &str, file: &str, why: &str) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "`{file}`, which contains `{name}`, cannot be downloaded: {why}; PIP_INDEX_URL \
                 names a mirror, and --from a file that is here already"
            ),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn package_unreadable(label: &str, why: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("`{label}` cannot be read as a package: {why}"),
        )
    }

    #[cfg(not(feature = "download"))]
    pub(crate) fn no_packages(label: &str) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "this program was built without reading packages such as `{label}`; unpack it, and \
                 name the folder"
            ),
        )
    }

    /// `majors` are those for which the package has it.
    pub(crate) fn extension_not_in_package(
        name: &str,
        label: &str,
        major: u32,
        majors: &BTreeSet<u32>,
    ) -> Self {
        let found = match majors.iter().map(u32::to_string).collect::<Vec<_>>() {
            majors if majors.is_empty() => format!("has no `{name}.control`"),
            majors => format!(
                "has `{name}` for PostgreSQL {}, not for {major}",
                majors.join(", ")
            ),
        };
        Self::new(ErrorKind::Misuse, format!("`{label}` {found}"))
    }

    pub(crate) fn bad_control_file(name: &str, label: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("`{name}.control` of `{label}` does not set default_version"),
        )
    }

    pub(crate) fn extension_requires(name: &str, required: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{name}` requires the extension `{required}`, which the server and the package do not \
                 have; add that first"
            ),
        )
    }

    pub(crate) fn extension_not_installed(name: &str, major: u32, found: &[PathBuf]) -> Self {
        let found = match found {
            [] => format!("no PostgreSQL {major} is installed"),
            [folder, ..] => format!(
                "the PostgreSQL {major} in `{}` does not have it",
                folder.display()
            ),
        };
        Self::new(
            ErrorKind::Misuse,
            format!("`{name}` cannot be taken from an installed PostgreSQL: {found}"),
        )
    }

    pub(crate) fn extension_in_the_way(name: &str, path: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{name}` would replace `{}`, which belongs to another extension; remove that \
                 extension first",
                path.display()
            ),
        )
    }

    pub(crate) fn extension_does_not_load(
        name: &str,
        version: impl fmt::Display,
        why: Self,
    ) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the extension `{name}` cannot be loaded into PostgreSQL {version}; its files were \
                 removed again"
            ),
        )
        .because(why)
    }

    pub(crate) fn extension_too_slow(name: &str, timeout: Duration, why: Self) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the extension `{name}` was not created within {} s; increase the limit with `--timeout SECONDS`",
                timeout.as_secs()
            ),
        )
        .because(why)
    }

    pub(crate) fn bad_extension_manifest(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "`{}` is damaged; remove the server's folder, so that it is fetched again, and add its \
                 extensions",
                path.display()
            ),
        )
    }
}
