//! Data files at HTTP(S) addresses: downloaded before each load, if they have changed, with the last
//! good copy on disk.
//!
//! A download is written beside the copy, and replaces it only when the tables were loaded from it.
//! The validators of the copy (`ETag`, `Last-Modified`) are in a second file, which is written after
//! the copy: a process that ends between the two leaves old validators, so that the file is downloaded
//! again.

#[cfg(feature = "http")]
mod client;
mod copy;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::copy::Pending;
use self::copy::Validators;
use crate::Result;
use crate::error::{Error, ErrorKind};

/// The default size limit of a file in bytes.
pub(crate) const SIZE_MAX: u64 = 1 << 30;

/// The default limit of a download.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// A file at an address.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UrlFile {
    /// The whole address, which may have secrets in its query.
    pub(crate) url: String,
    /// Sent with each request; their values are secret.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) size_max: u64,
    pub(crate) timeout: Duration,
    /// Where the copy is.
    pub(crate) copy: PathBuf,
}

/// A file that can be read.
pub(crate) struct Fetched {
    pub(crate) path: PathBuf,
    /// The download, if the file has changed.
    pub(crate) pending: Option<Pending>,
    /// Why the copy is used although the server did not confirm it.
    pub(crate) warning: Option<String>,
}

/// What a server says about a file.
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only the client gets replies")
)]
enum Reply {
    /// It is that of the validators that were sent.
    Unchanged,
    /// It has changed; its new validators.
    Changed(Validators),
}

impl UrlFile {
    /// The address without its query.
    pub(crate) fn shown(&self) -> &Path {
        Path::new(self.url.split(['?', '#']).next().unwrap_or_default())
    }

    /// The copy of this address, or of another one before.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }

    /// The same file, whose copy is at `path`.
    pub(crate) fn at(&self, path: PathBuf) -> Self {
        Self {
            copy: path,
            ..self.clone()
        }
    }

    /// Downloads the file if it is not that of the copy. If that fails, the copy is used.
    ///
    /// # Errors
    /// When there is neither an answer nor a copy of this address.
    pub(crate) fn fetch(&self) -> Result<Fetched> {
        let known = copy::validators(self);
        let of_copy = |warning| Fetched {
            path: self.copy.clone(),
            pending: None,
            warning,
        };
        let mut pending = match Pending::new(self) {
            Ok(pending) => pending,
            Err(_) if known.is_some() => {
                let warning = format!(
                    "{}: no download, because {} cannot be written; the copy is used",
                    self.shown().display(),
                    self.copy.display()
                );
                return Ok(of_copy(Some(warning)));
            }
            Err(source) => return Err(self.not_written(source)),
        };
        match request(self, known.as_ref(), Some(pending.file())) {
            Ok(Reply::Unchanged) => Ok(of_copy(None)),
            Ok(Reply::Changed(validators)) => Ok(Fetched {
                path: pending.path().to_owned(),
                pending: Some(pending.with(validators)),
                warning: None,
            }),
            Err(problem) => match known {
                Some(known) => Ok(of_copy(Some(format!(
                    "{}: {problem}; the copy is used, which is {} old",
                    self.shown().display(),
                    known.age()
                )))),
                None => Err(Error::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{}: {problem}, and there is no earlier copy; correct the address or \
                         tables.http, or try again",
                        self.shown().display()
                    ),
                )),
            },
        }
    }

    /// The version of the file at the server: `None` if it is that of the copy.
    ///
    /// # Errors
    /// When the server does not say; the reason is logged by the next load.
    pub(crate) fn version(&self) -> std::result::Result<Option<String>, String> {
        let known = copy::validators(self);
        Ok(match request(self, known.as_ref(), None)? {
            Reply::Unchanged => None,
            Reply::Changed(validators) => Some(validators.version()),
        })
    }

    fn not_written(&self, source: std::io::Error) -> Error {
        let message = format!(
            "{}: the download cannot be written; allow writing into its folder",
            self.copy.display()
        );
        Error::with_source(ErrorKind::Environment, message, source)
    }
}

/// Requests a file unless it is that of the validators, and writes it to `out`.
#[cfg(feature = "http")]
fn request(
    file: &UrlFile,
    known: Option<&Validators>,
    out: Option<&mut std::fs::File>,
) -> std::result::Result<Reply, String> {
    client::request(file, known, out)
}

#[cfg(not(feature = "http"))]
fn request(
    _: &UrlFile,
    _: Option<&Validators>,
    _: Option<&mut std::fs::File>,
) -> std::result::Result<Reply, String> {
    Err("this program was built without HTTP for data files; build it with the feature http".into())
}

impl fmt::Debug for UrlFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query and the headers may hold secrets.
        f.debug_tuple("UrlFile").field(&self.shown()).finish()
    }
}
