//! A project folder: its configuration, its tables, its models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookaside_knowledge::{Builder, Config, Knowledge, MetricsTelemetry, UsedStatement};
use tracing::warn;

use crate::config::{ENRICH, EnrichSettings, LOOKUPS, SERVER, read_lookups};
use crate::failure::Failure;
use crate::models::Models;
use crate::models::lookups::model_lookups;
use crate::progress::LoadBar;
use crate::progress::download::DownloadBar;

/// A folder whose `knowdb.toml` has been read.
pub(crate) struct Project {
    pub(crate) config: Config,
    pub(crate) settings: EnrichSettings,
}

/// The statements of a project's lookups and models. Errors in their files are ignored here and
/// reported where the files are used.
pub(crate) fn statements(file: &Path) -> Vec<UsedStatement> {
    let Ok(config) = Config::open(file, &[ENRICH, LOOKUPS, SERVER]) else {
        return Vec::new();
    };
    let lookups = read_lookups(&config).unwrap_or_default();
    let lookups = lookups.into_iter().map(|lookup| UsedStatement {
        sql: lookup.sql,
        takes_all_rows: lookup.many,
    });
    let mut statements: Vec<UsedStatement> = lookups.collect();
    if let Ok(models) = Models::read(&config.folder().join(MODELS)) {
        let of_models = models.iter().flat_map(|model| model_lookups(model));
        statements.extend(of_models.map(|sql| UsedStatement {
            sql: sql.text.to_string(),
            takes_all_rows: sql.rows_max.is_some(),
        }));
    }
    statements
}

/// The folder of the models in a project.
pub(crate) const MODELS: &str = "models";

/// Whether an input or an output is a file.
pub(crate) fn is_path(text: &str) -> bool {
    text != "-" && text != "null" && !is_url(text)
}

/// Whether an input or an output is a socket or a topic.
pub(crate) fn is_url(text: &str) -> bool {
    let is_socket = text.starts_with("tcp://") || text.starts_with("udp://");
    is_socket || lookaside_connect::ConnectUrl::is_one(text)
}

/// Options for loading tables in long-running commands; off by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadOptions {
    /// Reload when a file changes.
    pub(crate) watch: bool,
    /// Time queries and reloads for the metrics.
    pub(crate) telemetry: bool,
}

impl Project {
    /// Reads the configuration of a folder, or a `knowdb.toml` itself; no table is loaded.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let config = Config::open(dir, &[ENRICH, LOOKUPS, SERVER]).map_err(|error| {
            let failure = Failure::from_error(&error);
            if dir.exists() {
                failure
            } else {
                failure.with_help(format!(
                    "create a project there with `lookaside new {}`",
                    dir.display()
                ))
            }
        })?;
        let settings = EnrichSettings::read(&config)?;
        Ok(Self { config, settings })
    }

    /// Loads the tables for a command that ends soon.
    pub(crate) fn load(&self) -> Result<Knowledge, Failure> {
        self.load_with(LoadOptions::default())
    }

    /// A builder that loads the tables, with a bar on a terminal.
    pub(crate) fn builder(&self, options: LoadOptions) -> Builder {
        let file = self.config.file.clone();
        let mut builder = Knowledge::builder(&self.config.file)
            .statements(move || statements(&file))
            .config(self.config.clone())
            .foreign_section(ENRICH)
            .progress(Arc::new(LoadBar::new()))
            .embedded(lookaside::embedded_databases(Arc::new(DownloadBar::new())))
            .watch(options.watch);
        if options.telemetry {
            builder = builder.telemetry(Arc::new(MetricsTelemetry::default()));
        }
        builder
    }

    /// Loads the tables, with a warning for each row that was skipped.
    pub(crate) fn load_with(&self, options: LoadOptions) -> Result<Knowledge, Failure> {
        let knowledge = self
            .builder(options)
            .open()
            .map_err(|error| Failure::from_error(&error))?;
        for table in &knowledge.load_report().tables {
            for warning in &table.warnings {
                warn!(table = table.name, "{warning}");
            }
            for row in &table.skipped {
                warn!(
                    table = table.name,
                    place = row.place,
                    "row skipped: {}",
                    row.reason
                );
            }
        }
        Ok(knowledge)
    }

    /// A path that the configuration names, relative to the folder; a text that is not a path is
    /// returned unchanged.
    pub(crate) fn resolve(&self, text: &str) -> String {
        if !is_path(text) {
            return text.to_owned();
        }
        // Both kinds of text come from UTF-8 files or arguments, so the conversion is lossless.
        self.config.folder().join(text).display().to_string()
    }

    /// Where the models are.
    pub(crate) fn models_folder(&self) -> PathBuf {
        self.config.folder().join(MODELS)
    }
}
