//! What the environment of a process lacks: rights, a place, file descriptors, time.

use std::io;
use std::path::Path;

use super::{Error, ErrorKind};
use crate::descriptor_limit;

impl Error {
    pub(crate) fn few_descriptors(min: u64) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "a server needs {min} file descriptors, and {}",
                descriptor_limit::way_out()
            ),
        )
    }

    pub(crate) fn closed_umask(umask: u32) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the umask {umask:04o} takes from the owner of new files the right to use them; set one \
                 that does not, such as `umask 022`"
            ),
        )
    }

    /// As [`file`](Self::file), for one in the cache.
    pub(crate) fn cache_file(verb: &str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::new(
                ErrorKind::Environment,
                format!(
                    "cannot {verb} `{}` in the cache; set LOOKASIDE_CACHE to a folder that you can \
                     write to",
                    path.display()
                ),
            )
            .because(source),
            _ => Self::file(verb, path, source).when_full(path),
        }
    }

    pub(crate) fn place_unwritable(folder: &Path, source: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "temporary clusters cannot be made in `{}`; set LOOKASIDE_PG_TEMP to a folder that you \
                 can write to",
                folder.display()
            ),
        )
        .because(source)
    }

    /// Whether the lack of a file descriptor is among the causes.
    pub(crate) fn lacks_descriptor(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(descriptor_limit::is_cause) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Whether a server that did not answer in time is among the causes.
    pub(crate) fn is_timeout(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if let Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) = kind {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
