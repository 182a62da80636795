//! How a temporary cluster is to run.

use crate::server::Listen;
use crate::settings::temporary_settings;
use crate::{Error, Version};

/// Sessions that a shared cluster takes: tests of many processes, each with a pool.
const CONNECTION_COUNT_MAX: &str = "300";

/// How a cluster is to run.
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
            // The kernel copies a database's files, or shares their blocks: 1 ms less of 10.
            set("file_copy_method", "clone");
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }

    /// Whether the server names one of the caller's settings as what it does not take.
    pub(crate) fn are_rejected(&self, error: &Error) -> bool {
        let said = error.to_string();
        let mut names = self.settings.iter().map(|(name, _)| name);
        names.any(|name| said.contains(&format!("parameter \"{name}\"")))
    }
}
