//! Detects that the limit on open files was reached, and which limit to raise.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Whether a file could not be opened because the process or the system has too many open.
pub(crate) fn is_cause(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// The limit on open files, and how it is raised.
pub(crate) fn hint() -> String {
    let limit = match getrlimit(Resource::Nofile).current {
        Some(max) => format!("this process may open {max} files (RLIMIT_NOFILE)"),
        None => "the system has reached its limit of open files (`fs.file-max`)".to_owned(),
    };
    format!(
        "{limit}; increase it: `ulimit -n 1024`, `LimitNOFILE=` of a systemd unit, or \
         `docker run --ulimit nofile=1024`"
    )
}
