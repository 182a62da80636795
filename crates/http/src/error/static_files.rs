//! Errors of folders that cannot be served.

use std::io;
use std::path::Path;

use crate::{Error, ErrorKind};

impl Error {
    pub(crate) fn unusable_folder(path: &Path, cause: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("cannot serve the folder `{}`", path.display()),
        )
        .because(cause)
    }

    pub(crate) fn no_openat2(path: &Path, cause: io::Error) -> Self {
        let message = match cause.kind() {
            io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => format!(
                "cannot confine paths to the folder `{}`; this requires Linux 5.6 and a sandbox \
                 that allows openat2",
                path.display()
            ),
            _ => format!("cannot look into the folder `{}`", path.display()),
        };
        Self::new(ErrorKind::Environment, message).because(cause)
    }
}
