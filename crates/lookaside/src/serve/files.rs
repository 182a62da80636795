//! The parts of a project's files that concern the server.

use std::path::Path;
use std::time::Duration;

use lookaside_knowledge::Config;

use super::catalog::Parts;
use super::models::ModelSources;
use crate::config::{LookupConfig, ServerConfig, read_lookups, read_server};
use crate::failure::Failure;
use crate::project::Project;

/// The configuration of a project and its server.
pub(crate) struct Files {
    pub(crate) project: Project,
    pub(crate) lookups: Vec<LookupConfig>,
    pub(crate) server: ServerConfig,
}

impl Files {
    /// Reads the configuration; no table is loaded.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let project = Project::open(path)?;
        let config: &Config = &project.config;
        Ok(Self {
            lookups: read_lookups(config)?,
            server: read_server(config)?,
            project,
        })
    }

    /// Converts the files into the parts of a catalog.
    ///
    /// # Errors
    /// When a model cannot be read.
    pub(crate) fn into_parts(self) -> Result<Parts, Failure> {
        let cache = &self.project.config.cache;
        Ok(Parts {
            models: ModelSources::read(&self.project)?,
            enrich: self.project.settings.clone(),
            cache_ttl: if cache.enabled {
                cache.ttl
            } else {
                Duration::ZERO
            },
            lookups: self.lookups,
            server: self.server,
        })
    }
}
