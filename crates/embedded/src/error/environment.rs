//! Errors of the environment: permissions, folders, file descriptors, timeouts.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Error, ErrorKind};
use crate::descriptor_limit;

impl Error {
    pub(crate) fn few_descriptors(min: u64) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "a server needs {min} file descriptors, and {}",
                descriptor_limit::hint()
            ),
        )
    }

    pub(crate) fn closed_umask(umask: u32) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the umask {umask:04o} removes permissions of the owner of new files; set another, \
                 such as `umask 022`"
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

    /// As [`file`](Self::file), for one in a cluster's `folder`, or for that itself.
    pub(crate) fn folder_access(verb: &str, path: &Path, folder: &Path, source: io::Error) -> Self {
        let is_denied = matches!(
            source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        );
        if !is_denied {
            return Self::file(verb, path, source);
        }
        let me = rustix::process::geteuid().as_raw();
        let owner = folder.metadata().map_or(me, |metadata| metadata.uid());
        let reason = match owner == me {
            true => "a server writes into its folder; make it writable, or name another folder"
                .to_owned(),
            false => format!(
                "the folder belongs to user {owner}, but the current user is {me}; run as that \
                 user, or name a folder of your own"
            ),
        };
        Self::new(
            ErrorKind::Environment,
            format!("cannot {verb} `{}`: {reason}", path.display()),
        )
        .because(source)
    }

    /// PostgreSQL runs only as the user whom its data belongs to.
    pub(crate) fn data_of_other(data: &Path, owner: u32, user: u32) -> Self {
        let data = data.display();
        Self::new(
            ErrorKind::Environment,
            format!(
                "`{data}` belongs to user {owner}, and the server runs as user {user}; run as the owner, \
                 or change it: `chown -R {user} {data}`"
            ),
        )
    }

    pub(crate) fn runtime_dir_unwritable(folder: &Path, source: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "temporary clusters cannot be created in `{}`; set LOOKASIDE_PG_TEMP to a folder \
                 that you can write to",
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
