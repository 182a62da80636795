//! The providers of a configuration, opened or reused from the previous state.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex};

use lookaside_client::{Config as Connection, Environment, PoolStatus};

use super::{Remote, lock};
use crate::Result;
use crate::config::{Config, FeedConfig, ProviderConfig, ProviderKind, ProviderServer};
use crate::databases::Databases;
use crate::error::Error;
use crate::feed::{Feed, FeedStatus, OnChange};
use crate::postgres_mirror;
use crate::runtime::Runtime;
use crate::source::Loaded;

/// Why there is no embedded database.
pub type ResolveError = Box<dyn StdError + Send + Sync>;

/// Returns the URL of the database of an embedded provider.
pub(crate) type Resolver =
    Arc<dyn Fn(&ProviderConfig) -> std::result::Result<String, ResolveError> + Send + Sync>;

/// Opens providers; the thread of their connections is started with the first of them.
pub(crate) struct Providers {
    resolver: Option<Resolver>,
    on_change: Option<OnChange>,
    runtime: Mutex<Option<Arc<Runtime>>>,
}

/// The status of a provider, from [`Knowledge::providers`](crate::Knowledge::providers).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderStatus {
    /// The name that qualifies its tables.
    pub name: String,
    /// The kind of its server.
    pub kind: ProviderKind,
    /// The address of the server, without secrets.
    pub place: String,
    /// The state of its connections.
    pub pool: PoolStatus,
    /// The state of its change feed, if the configuration sets one.
    pub feed: Option<FeedStatus>,
}

impl Providers {
    pub(crate) fn new(resolver: Option<Resolver>, on_change: Option<OnChange>) -> Self {
        Self {
            resolver,
            on_change,
            runtime: Mutex::default(),
        }
    }

    /// Opens the providers of a loaded configuration. A server that is not available yet is not an
    /// error here: only queries to it fail.
    pub(crate) fn open(&self, loaded: &Loaded, before: &[Arc<Remote>]) -> Result<Vec<Arc<Remote>>> {
        let config = loaded.config.as_ref();
        let providers = config.map_or(&[][..], |config| &config.providers);
        let bytes = loaded.cache_bytes();
        providers
            .iter()
            .map(|provider| {
                if let Some(same) = before.iter().find(|it| is_same(&it.config, provider)) {
                    same.set_bytes(bytes);
                    return Ok(Arc::clone(same));
                }
                let runtime = self.runtime()?;
                let on_change = self.on_change.clone();
                let remote = match &provider.server {
                    ProviderServer::Remote(connection) => {
                        let connection = (**connection).clone();
                        Remote::new(
                            provider.clone(),
                            connection,
                            None,
                            runtime,
                            bytes,
                            on_change,
                        )
                    }
                    ProviderServer::Embedded { extensions, .. } => {
                        let connection = self.resolve(provider)?;
                        let embedded = Embedded {
                            schema: postgres_mirror::new_schema(),
                            _resolver: self.resolver.clone(),
                        };
                        // Dropping it also drops its schema, so a failed copy leaves nothing.
                        let remote = Remote::new(
                            provider.clone(),
                            connection,
                            Some(embedded),
                            runtime,
                            bytes,
                            on_change,
                        );
                        remote.fill(
                            extensions,
                            config.expect("it has the provider"),
                            &loaded.databases,
                        )?;
                        remote
                    }
                };
                Ok(Arc::new(remote))
            })
            .collect()
    }

    fn resolve(&self, provider: &ProviderConfig) -> Result<Connection> {
        let Some(resolver) = &self.resolver else {
            return Err(Error::no_resolver(&provider.name));
        };
        let cannot = |source: ResolveError| Error::unresolved(&provider.name, source);
        let url = resolver(provider).map_err(cannot)?;
        Connection::parse(&url, &Environment::empty()).map_err(|error| cannot(error.into()))
    }

    fn runtime(&self) -> Result<Arc<Runtime>> {
        let mut runtime = lock(&self.runtime);
        match &*runtime {
            Some(runtime) => Ok(Arc::clone(runtime)),
            None => Ok(Arc::clone(runtime.insert(Runtime::start()?))),
        }
    }
}

/// Whether nothing has changed except the position in the file.
fn is_same(old: &ProviderConfig, new: &ProviderConfig) -> bool {
    let moved = ProviderConfig {
        line: new.line,
        ..old.clone()
    };
    moved == *new && old.kind() != ProviderKind::Embedded
}

/// The change feed of a provider. Where its answers may come from another server than its changes,
/// there is none, and its status says why.
pub(super) fn feed(
    config: &ProviderConfig,
    feed: &FeedConfig,
    connection: &Connection,
    on_change: Option<OnChange>,
    runtime: &Runtime,
) -> Feed {
    let Connection::Postgres(server) = connection else {
        unreachable!("the configuration refuses a feed for another kind");
    };
    if config.pooler {
        return Feed::refused(
            "with pooler = true, queries may be answered by another server than the one that \
             sends its changes; use the URL of the server itself",
        );
    }
    if server.hosts.len() > 1 {
        return Feed::refused(
            "connection_uri has several hosts, and the changes of one are followed; use one host",
        );
    }
    Feed::start(&config.name, server.clone(), feed, on_change, runtime)
}

/// The additional state of an embedded provider.
pub(crate) struct Embedded {
    pub(super) schema: String,
    /// It may own the server, which so runs as long as the provider can be queried.
    _resolver: Option<Resolver>,
}

impl Remote {
    /// Copies the folder's tables into the schema of this embedded provider.
    fn fill(&self, extensions: &[String], config: &Config, databases: &Databases) -> Result<()> {
        let embedded = self
            .embedded
            .as_ref()
            .expect("only an embedded one is filled");
        postgres_mirror::copy(
            &self.pool,
            &self.runtime,
            &embedded.schema,
            extensions,
            config,
            databases,
        )
    }

    pub(crate) fn shown(&self) -> ProviderStatus {
        ProviderStatus {
            name: self.config.name.clone(),
            kind: self.config.kind(),
            place: self.place.clone(),
            pool: self.pool.status(),
            feed: self.feed_status(),
        }
    }
}
