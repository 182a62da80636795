//! Settings of servers: those that temporary clusters have, and those that callers may not give.

use crate::{Error, Result};

/// Settings that say where the server lives and how it is reached, which this crate decides.
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

/// Durability that a temporary cluster does without: it is never opened again.
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

/// Refuses settings that are reserved, and those that no command line can hold.
pub(crate) fn check_settings(settings: &[(String, String)]) -> Result<()> {
    for (name, value) in settings {
        // As the server reads names.
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
