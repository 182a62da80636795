//! The builder that opens an engine.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::clock::Clock;
use crate::config::{CacheConfig, Config, LocalConfig, PRODUCT_SECTIONS, ProviderConfig};
use crate::feed::OnChange;
use crate::knowledge::Knowledge;
use crate::load::{NoProgress, Progress, UsedStatement};
use crate::remote::{Providers, ResolveError, Resolver};
use crate::source::{Source, Statements};
use crate::telemetry::Telemetry;

/// Opens a [`Knowledge`] with options.
///
/// ```
/// use std::sync::Arc;
///
/// use lookaside_knowledge::{Knowledge, MetricsTelemetry};
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("users.sqlite");
/// # rusqlite::Connection::open(&database)?.execute_batch(
/// #     "create table users (id integer primary key, name text);
/// #      insert into users values (1, 'ada'), (2, 'grace');",
/// # )?;
///
/// let knowledge = Knowledge::sqlite_builder(&database)
///     .telemetry(Arc::new(MetricsTelemetry::default()))
///     .watch(true)
///     .open()?;
/// assert_eq!(knowledge.generation(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder {
    path: PathBuf,
    kind: Kind,
    config: Option<Config>,
    variables: HashMap<String, String>,
    foreign_sections: Vec<String>,
    statements: Option<Statements>,
    cache: CacheConfig,
    local: LocalConfig,
    progress: Arc<dyn Progress + Send + Sync>,
    watch: bool,
    telemetry: Option<Arc<dyn Telemetry>>,
    resolver: Option<Resolver>,
    pub(crate) clock: Clock,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Folder,
    SqliteFile,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may hold secrets.
        f.debug_struct("Builder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Knowledge {
    /// Loads the tables of a folder that contains a `knowdb.toml`, or of such a file.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens a folder or a `knowdb.toml` with options.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::folder(path.as_ref().to_owned())
    }

    /// Opens a copy of an existing SQLite database, as it is now and as it is at each reload.
    pub fn sqlite_builder(path: impl AsRef<Path>) -> Builder {
        Builder::sqlite_file(path.as_ref().to_owned())
    }
}

impl Builder {
    pub(crate) fn folder(path: PathBuf) -> Self {
        Self::new(path, Kind::Folder)
    }

    pub(crate) fn sqlite_file(path: PathBuf) -> Self {
        Self::new(path, Kind::SqliteFile)
    }

    fn new(path: PathBuf, kind: Kind) -> Self {
        Self {
            path,
            kind,
            config: None,
            variables: HashMap::new(),
            foreign_sections: PRODUCT_SECTIONS.map(str::to_owned).into(),
            statements: None,
            cache: CacheConfig::default(),
            local: LocalConfig::default(),
            progress: Arc::new(NoProgress),
            watch: false,
            telemetry: None,
            resolver: None,
            clock: Clock::default(),
        }
    }

    /// Sets the configuration for the first load, for callers that have already read it. A reload
    /// reads the file again.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets a variable for `${NAME}` in the configuration; it takes precedence over the
    /// environment.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Allows a section in the configuration that belongs to the caller. Those of Lookaside's own
    /// programs, `[enrich]`, `[server]` and `[lookups]`, are allowed without it.
    #[must_use]
    pub fn foreign_section(mut self, name: impl Into<String>) -> Self {
        self.foreign_sections.push(name.into());
        self
    }

    /// Sets the statements that will be queried, so that derived tables get an index for each
    /// column that one of them looks rows up by, and keys with several rows where one is expected are
    /// counted. `list` is called at each load, and may leave out
    /// statements that it cannot determine.
    #[must_use]
    pub fn statements(
        mut self,
        list: impl Fn() -> Vec<UsedStatement> + Send + Sync + 'static,
    ) -> Self {
        self.statements = Some(Arc::new(list));
        self
    }

    /// Sets how answers are cached when the tables come from a SQLite file; a folder configures
    /// this itself.
    #[must_use]
    pub fn cache(mut self, cache: CacheConfig) -> Self {
        self.cache = cache;
        self
    }

    /// Sets how long a query may take when the tables come from a SQLite file, 30 s by default; a
    /// folder configures this itself. `None` means no limit.
    #[must_use]
    pub fn query_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.local.query_timeout = timeout;
        self
    }

    /// Sets a listener for the progress of the first load and of each reload.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress + Send + Sync>) -> Self {
        self.progress = progress;
        self
    }

    /// Sets whether the tables are loaded again when one of their files changes; off by default.
    #[must_use]
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Sets a listener for telemetry of the engine.
    #[must_use]
    pub fn telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Sets the function that returns the URL of the database of a provider of `kind = "embedded"`.
    /// It is called at each load, and kept as long as the provider can be queried, so it may own
    /// the server.
    #[must_use]
    pub fn embedded(
        mut self,
        resolver: impl Fn(&ProviderConfig) -> std::result::Result<String, ResolveError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Loads the tables.
    ///
    /// # Errors
    /// When the configuration, a SQL file or the data of a table is wrong, or a file cannot be
    /// read; the message names the place.
    pub fn open(self) -> Result<Knowledge> {
        let source = match self.kind {
            Kind::Folder => Source::Folder {
                path: self.path,
                variables: self.variables,
                foreign_sections: self.foreign_sections,
                statements: self.statements,
            },
            Kind::SqliteFile => Source::SqliteFile {
                path: self.path,
                cache: self.cache,
                local: self.local,
            },
        };
        let loaded = match self.config {
            Some(config) => source.load_config(config, &*self.progress, None)?,
            None => source.load(&*self.progress, None)?,
        };
        let on_change = self.telemetry.clone().map(|telemetry| -> OnChange {
            Arc::new(move |provider, wait| telemetry.on_change(provider, wait))
        });
        Knowledge::new(
            source,
            loaded,
            self.progress,
            self.watch,
            self.telemetry,
            self.clock,
            Providers::new(self.resolver, on_change),
        )
    }
}
