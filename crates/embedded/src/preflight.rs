//! Requirements of a start on its process, checked before anything is created: a umask that leaves
//! the owner access to new files, and file descriptors for a server.

use std::fs;

use rustix::process::{Resource, getrlimit};

use crate::{Error, Result};

/// The fewest file descriptors with which a server starts: 48 for files and 10 in reserve
/// (`FD_MINFREE` and `NUM_RESERVED_FDS` of PostgreSQL's fd.c), beside the 7 that are open by then.
const DESCRIPTOR_COUNT_MIN: u64 = 65;

/// The permission bits of a file's owner.
const OWNER_BITS: u32 = 0o700;

/// Returns an error if servers of this process would not start; it names what to change.
pub(crate) fn check() -> Result<()> {
    if let Some(max) = getrlimit(Resource::Nofile).current
        && max < DESCRIPTOR_COUNT_MIN
    {
        return Err(Error::few_descriptors(DESCRIPTOR_COUNT_MIN));
    }
    // The system call that returns the umask also replaces it, for other threads as well.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match umask_of(&status) {
        Some(umask) if umask & OWNER_BITS != 0 => Err(Error::closed_umask(umask)),
        _ => Ok(()),
    }
}

/// The umask in the text of `/proc/PID/status`, see proc(5).
fn umask_of(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let umask = lines.find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(umask.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_umask_is_read_from_the_status_of_a_process() {
        for (status, expected) in [
            ("Name:\tx\nUmask:\t0022\nState:\tR\n", Some(0o022)),
            ("Umask:\t0777\n", Some(0o777)),
            ("Name:\tx\n", None),
            ("", None),
        ] {
            assert_eq!(umask_of(status), expected, "{status}");
        }
    }
}
