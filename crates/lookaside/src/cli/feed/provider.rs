//! The provider whose change feed a command is about.

use lookaside_client::{Config as Connection, PostgresConfig};
use lookaside_knowledge::{Config, FeedConfig, ProviderConfig, ProviderServer};

use crate::failure::Failure;
use crate::suggestion::did_you_mean;

/// A PostgreSQL provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedProvider<'a> {
    pub(crate) config: &'a ProviderConfig,
    /// The server that answers queries.
    pub(crate) server: &'a PostgresConfig,
}

impl<'a> FeedProvider<'a> {
    /// `None` if the provider is not a PostgreSQL server.
    pub(crate) fn of(config: &'a ProviderConfig) -> Option<Self> {
        let ProviderServer::Remote(connection) = &config.server else {
            return None;
        };
        match &**connection {
            Connection::Postgres(server) => Some(Self { config, server }),
            _ => None,
        }
    }

    /// The named provider, or the only one that can be meant.
    pub(crate) fn choose(config: &'a Config, name: Option<&str>) -> Result<Self, Failure> {
        let all: Vec<Self> = config.providers.iter().filter_map(Self::of).collect();
        let names: Vec<&str> = all.iter().map(Self::name).collect();
        let file = config.file.display();
        if let Some(name) = name {
            let found = all.iter().find(|provider| provider.name() == name);
            return found.copied().ok_or_else(|| {
                let hint = did_you_mean(name, names.iter().copied());
                let message = format!("{file} has no PostgreSQL provider {name:?}{hint}");
                Failure::usage(message).with_help(match names.is_empty() {
                    true => "a change feed is for a provider with kind = \"postgres\"".to_owned(),
                    false => format!("the PostgreSQL providers are {}", names.join(", ")),
                })
            });
        }
        if all.is_empty() {
            let message = format!("{file} has no PostgreSQL provider");
            let help = "a change feed is for a provider with kind = \"postgres\"";
            return Err(Failure::usage(message).with_help(help));
        }
        let mut with_feed = all.iter().filter(|provider| provider.is_on());
        match (all.as_slice(), with_feed.next(), with_feed.next()) {
            ([only], _, _) => Ok(*only),
            (_, Some(only), None) => Ok(*only),
            _ => Err(
                Failure::usage(format!("{file} has several PostgreSQL providers"))
                    .with_help(format!("name one with --provider: {}", names.join(", "))),
            ),
        }
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.config.name
    }

    /// Whether the configuration sets `feed = "auto"`.
    pub(crate) fn is_on(&self) -> bool {
        self.config.feed.is_some()
    }

    pub(crate) fn publication(&self) -> &'a str {
        let feed = self.config.feed.as_ref();
        feed.map_or(FeedConfig::PUBLICATION, |feed| &feed.publication)
    }

    /// The server that sends changes: the same one, perhaps by another address.
    pub(crate) fn sender(&self) -> &'a PostgresConfig {
        let feed = self.config.feed.as_ref();
        let sender = feed.and_then(|feed| feed.sender.as_deref());
        sender.unwrap_or(self.server)
    }

    /// The user that replicates.
    pub(crate) fn role(&self) -> &'a str {
        &self.sender().user
    }
}
