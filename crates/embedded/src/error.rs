//! What can fail, and whose fault it is.

use std::fmt;
use std::io;
use std::path::Path;

use crate::{Version, VersionRequirement};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a server, a database or a file of theirs cannot be had.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    sqlstate: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Whose fault an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that does not exist or does not fit together.
    Misuse,
    /// No PostgreSQL was found, and none could be fetched.
    Missing,
    /// A file, process or other part of the environment failed.
    Environment,
    /// The server refused a statement; [`Error::sqlstate`] says why.
    Refused,
    /// The server ended when it should run; the message quotes the end of its log.
    Crashed,
    /// Another owner has the folder.
    Busy,
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The server's five-letter code, where the server refused.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            sqlstate: None,
            source: None,
        }))
    }

    pub(crate) fn because(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// A file or folder that could not be worked with; `verb` is what was tried, such as `write`.
    pub(crate) fn file(verb: &str, path: &Path, source: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("cannot {verb} `{}`", path.display()),
        )
        .because(source)
    }

    pub(crate) fn bad_version(text: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{text}` is no version of PostgreSQL; write a major version such as 17, or 17.11"
            ),
        )
    }

    pub(crate) fn version_too_old(text: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "PostgreSQL {text} is too old; {} work",
                VersionRequirement::ANY
            ),
        )
    }

    pub(crate) fn cache_nowhere() -> Self {
        Self::new(
            ErrorKind::Environment,
            "this user has no home folder for the cache; set LOOKASIDE_CACHE to a folder",
        )
    }

    pub(crate) fn cache_no_folder(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the cache `{}` is no folder; set LOOKASIDE_CACHE to another place",
                path.display()
            ),
        )
    }

    pub(crate) fn cache_of_other(path: &Path, owner: u32, me: u32) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the cache folder `{}` belongs to user {owner}, and this is user {me}; \
                 set LOOKASIDE_CACHE to a folder of your own",
                path.display()
            ),
        )
    }

    pub(crate) fn cache_open_to_all(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "everyone may write into the cache `{}`, and programs are started from it; \
                 `chmod o-w` it, or set LOOKASIDE_CACHE to a folder of your own",
                path.display()
            ),
        )
    }

    /// The same error; where it comes from a full file system, led by the way out.
    pub(crate) fn when_full(self, target: &Path) -> Self {
        if !self.is_full() {
            return self;
        }
        let folder = target.parent().unwrap_or(target);
        Self::new(
            ErrorKind::Environment,
            format!(
                "no room is left for `{}`; free some, or set LOOKASIDE_CACHE to a folder on \
                 another file system",
                folder.display()
            ),
        )
        .because(self)
    }

    /// Whether a full file system or a used-up quota is among the causes.
    pub(crate) fn is_full(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            let full = matches!(
                kind,
                Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            );
            // Other people's programs and libraries give the text alone.
            if full || error.to_string().contains("No space left on device") {
                return true;
            }
            cause = error.source();
        }
        false
    }

    pub(crate) fn named_without(folder: &Path, program: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "LOOKASIDE_PG_BIN is `{}`, and there is no program `{program}`; \
                 name the folder that holds `postgres` and `initdb`, or unset it",
                folder.display()
            ),
        )
    }

    pub(crate) fn program_fails(program: &Path, outcome: &str) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("`{}` does not run here: {outcome}", program.display()),
        )
    }

    pub(crate) fn bad_variable(name: &str, value: &str, known: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("{name} is `{value}`; {known}, or leave it unset"),
        )
    }

    /// No server anywhere; `why` tells why none could be fetched.
    pub(crate) fn missing(requirement: VersionRequirement, why: &str) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "no PostgreSQL {requirement} was found, and {why}; set LOOKASIDE_PG_BIN to a \
                 folder with `postgres` and `initdb`, or install your distribution's package \
                 (`apt install postgresql`), or allow the download; `lookaside pg doctor` tells \
                 where it was looked for"
            ),
        )
    }

    #[cfg(not(feature = "download"))]
    pub(crate) fn no_download(version: Version) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("this program was built without the download of PostgreSQL {version}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn offline(version: Version) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("LOOKASIDE_PG_OFFLINE forbids the download of PostgreSQL {version}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn download_failed(version: Version, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("PostgreSQL {version} cannot be downloaded: {outcome}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn archive_unusable(version: Version, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("the archive of PostgreSQL {version} cannot be unpacked: {outcome}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn archive_foreign(version: Version, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the downloaded PostgreSQL {version} is not for this machine: {outcome}; install \
                 your distribution's package instead (`apt install postgresql`)"
            ),
        )
    }

    pub(crate) fn no_user() -> Self {
        Self::new(
            ErrorKind::Environment,
            "PostgreSQL does not run as root, and here root may neither make a user namespace \
             (`unshare --user`) nor is there a user `postgres` or `nobody`; run as another user, or \
             add one",
        )
    }

    pub(crate) fn out_of_reach(path: &Path, folder: &Path, user: &str) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the server runs as `{user}`, who cannot enter `{}` on the way to `{}`; \
                 `chmod o+x` it, or choose another place",
                folder.display(),
                path.display()
            ),
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("sqlstate", &self.0.sqlstate)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
