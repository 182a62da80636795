//! Settings of servers: those of temporary clusters, and those that callers must not set.

use crate::{Error, Result};

/// Reserved settings about the server's location and addresses, which this crate determines.
const RESERVED: [&str; 11] = [
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "log_destination",
    "logging_collector",
    "port",
    "unix_socket_directories",
    "unix_socket_permissions",
];

/// Settings that disable durability, which a temporary cluster does not need: it is never opened
/// again.
pub(crate) const RELAXED: [(&str, &str); 3] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
];

/// As [`RELAXED`], for servers of temporary clusters: their dynamic shared memory is in the data
/// folder, so that a server that is killed leaves nothing in `/dev/shm`.
pub(crate) fn temporary_settings() -> Vec<(String, String)> {
    let in_folder = [("dynamic_shared_memory_type", "mmap")];
    let settings = RELAXED.iter().chain(&in_folder);
    settings
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Returns an error for reserved settings, and for those that cannot be passed on a command line.
pub(crate) fn check_settings(settings: &[(String, String)]) -> Result<()> {
    for (name, value) in settings {
        // Normalized as by the server.
        let plain = name.to_ascii_lowercase().replace('-', "_");
        if RESERVED.contains(&&*plain) {
            return Err(Error::setting_is_reserved(name));
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(Error::zero_byte("a setting"));
        }
    }
    Ok(())
}
