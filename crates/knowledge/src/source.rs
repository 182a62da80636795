//! The source of the tables of an engine, at its start and at each reload.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::cache::CacheBytes;
use crate::config::{CacheConfig, Config, ConfigOptions, LocalConfig, wal_of};
use crate::databases::Databases;
use crate::file_stamp::{FileStamps, Watched};
use crate::load::{KeptTables, LastLoad, LoadReport, Progress, UsedStatement, load};
use crate::plan::Tables;
use crate::store::Store;
use crate::table::PackedTables;

/// Returns the statements that will be queried.
pub(crate) type Statements = Arc<dyn Fn() -> Vec<UsedStatement> + Send + Sync>;

/// The source of tables.
pub(crate) enum Source {
    /// A configuration and the tables that it names.
    Folder {
        path: PathBuf,
        variables: HashMap<String, String>,
        foreign_sections: Vec<String>,
        /// The statements, for the indexes of derived tables.
        statements: Option<Statements>,
    },
    /// A SQLite database, which is copied.
    SqliteFile {
        path: PathBuf,
        cache: CacheConfig,
        local: LocalConfig,
    },
}

/// The result of one load.
pub(crate) struct Loaded {
    /// The stamps of the files whose change requires a reload, taken before they were read.
    pub(crate) seen: FileStamps,
    /// `None` for a SQLite database.
    pub(crate) config: Option<Config>,
    pub(crate) cache: CacheConfig,
    pub(crate) local: LocalConfig,
    pub(crate) databases: Arc<Databases>,
    pub(crate) tables: Tables,
    pub(crate) kept: KeptTables,
    pub(crate) report: LoadReport,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The variables are left out, as they may hold secrets.
        match self {
            Self::Folder { path, .. } => f.debug_tuple("Folder").field(path).finish(),
            Self::SqliteFile { path, .. } => f.debug_tuple("SqliteFile").field(path).finish(),
        }
    }
}

impl Loaded {
    /// The division of the bytes for answers.
    pub(crate) fn cache_bytes(&self) -> CacheBytes {
        let providers = self.config.iter().flat_map(|config| &config.providers);
        let stale = providers.filter(|it| it.stale_if_error.is_some());
        CacheBytes::of(self.cache.capacity_bytes, stale.count())
    }
}

impl Source {
    /// Reads the configuration and loads everything that has changed since the last load.
    pub(crate) fn load(&self, progress: &dyn Progress, last: Option<&Loaded>) -> Result<Loaded> {
        match self {
            Self::Folder {
                path,
                variables,
                foreign_sections,
                ..
            } => self.load_config(open(path, variables, foreign_sections)?, progress, last),
            Self::SqliteFile { path, cache, local } => {
                let seen = FileStamps::of(files_of(path));
                let store = Store::copy_of_sqlite_file(path)?;
                let packed = PackedTables::default();
                let memory_max = local.pattern_memory_max;
                Ok(Loaded {
                    seen,
                    config: None,
                    cache: *cache,
                    local: *local,
                    tables: Tables::new(store.reader()?, packed.clone(), memory_max),
                    kept: KeptTables::default(),
                    databases: Arc::new(Databases::new(store, packed, local.sqlite_copy)),
                    report: LoadReport::default(),
                })
            }
        }
    }

    /// The files that a load would read now, as far as the configuration can be read.
    pub(crate) fn files(&self) -> Vec<Watched> {
        match self {
            Self::Folder {
                path,
                variables,
                foreign_sections,
                ..
            } => match open(path, variables, foreign_sections) {
                Ok(config) => config.watched(),
                // The load itself reports the error.
                Err(_) => Vec::new(),
            },
            Self::SqliteFile { path, .. } => files_of(path),
        }
    }

    /// Loads the tables of a configuration that was already read.
    pub(crate) fn load_config(
        &self,
        config: Config,
        progress: &dyn Progress,
        last: Option<&Loaded>,
    ) -> Result<Loaded> {
        let seen = FileStamps::of(config.watched());
        let statements = match self {
            Self::Folder {
                statements: Some(statements),
                ..
            } => statements(),
            _ => Vec::new(),
        };
        let last = last.map(|last| LastLoad {
            kept: &last.kept,
            tables: &last.tables,
        });
        let loaded = load(&config, &statements, progress, last)?;
        Ok(Loaded {
            seen,
            cache: config.cache,
            local: config.local,
            config: Some(config),
            databases: Arc::new(loaded.databases),
            tables: loaded.tables,
            kept: loaded.kept,
            report: loaded.report,
        })
    }
}

fn open(
    path: &Path,
    variables: &HashMap<String, String>,
    foreign_sections: &[String],
) -> Result<Config> {
    let foreign: Vec<&str> = foreign_sections.iter().map(String::as_str).collect();
    let options = ConfigOptions {
        variables: Some(variables),
        foreign_sections: &foreign,
    };
    Config::open_with(path, &options)
}

/// A SQLite database file and its write-ahead log.
fn files_of(path: &Path) -> Vec<Watched> {
    vec![
        Watched::File(path.to_owned()),
        Watched::SqliteLog(wal_of(path)),
    ]
}
