//! The options of a temporary cluster.

use crate::server::Listen;
use crate::settings::temporary_settings;
use crate::{Error, Version};

/// The number of sessions that a shared cluster accepts: tests of many processes, each with a pool.
const CONNECTION_COUNT_MAX: &str = "300";

/// The options of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterOptions {
    pub(crate) listen: Listen,
    pub(crate) settings: Vec<(String, String)>,
}

impl ClusterOptions {
    /// The server's settings: ours for temporary clusters, then the caller's.
    pub(crate) fn settings(&self, version: Version) -> Vec<(String, String)> {
        let mut settings = temporary_settings();
        let mut set = |name: &str, value: &str| settings.push((name.to_owned(), value.to_owned()));
        set("max_connections", CONNECTION_COUNT_MAX);
        if version.major >= 18 {
            // The kernel copies a database's files, or shares their blocks: 9 ms instead of 10.
            set("file_copy_method", "clone");
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }

    /// Whether the server rejects one of the caller's settings by name.
    pub(crate) fn are_rejected(&self, error: &Error) -> bool {
        let said = error.to_string();
        let mut names = self.settings.iter().map(|(name, _)| name);
        names.any(|name| said.contains(&format!("parameter \"{name}\"")))
    }
}
