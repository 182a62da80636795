//! The change feed of a provider: the keys `feed…` of `[provider.sqldb]`.

use std::fmt;

use lookaside_client::{Config as Connection, Environment, PostgresConfig};

use super::reader::Section;
use crate::Result;

/// The longest name of an object of PostgreSQL, in bytes; longer ones are cut off.
const NAME_SIZE_MAX: usize = 63;

/// The keys that set the change feed.
pub(super) const FEED_KEYS: [&str; 4] = ["feed", "feed_uri", "feed_publication", "feed_wal_max"];

/// How much of the server's log the feed may hold back, in bytes: far more than a slot lags by
/// ordinarily, and far less than a disk.
const WAL_MAX: u64 = 1 << 30;

/// The least value of that: a file of the log, which a server removes as a whole.
const WAL_MAX_MIN: u64 = 16 << 20;

/// The change feed of a provider: answers are invalidated when their rows change.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedConfig {
    /// The publication of the tables whose changes are followed.
    pub publication: String,
    /// The address for replication, if it is not that of the provider.
    pub sender: Option<Box<PostgresConfig>>,
    /// The most bytes of the server's log that the feed's slot holds back; beyond that it is given up.
    pub wal_max: u64,
}

impl FeedConfig {
    /// The publication if the configuration names none: `lookaside`.
    pub const PUBLICATION: &str = "lookaside";
}

impl fmt::Debug for FeedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Does not show the password and the settings.
        f.debug_struct("FeedConfig")
            .field("publication", &self.publication)
            .field("has_sender", &self.sender.is_some())
            .field("wal_max", &self.wal_max)
            .finish()
    }
}

/// Reads the keys; `None` without a feed.
pub(super) fn read_feed(section: &Section<'_>, is_postgres: bool) -> Result<Option<FeedConfig>> {
    let found = FEED_KEYS.into_iter().find(|key| section.has(key));
    let Some(key) = found else {
        return Ok(None);
    };
    if !is_postgres {
        return Err(section.bad(key, "is for kind = \"postgres\"; remove it"));
    }
    let is_on = section.word("feed", &[("auto", true), ("off", false)])?;
    if is_on.is_none() {
        return Err(section.bad(key, "has no effect without feed = \"auto\"; add it"));
    }
    let publication = section
        .str("feed_publication")?
        .unwrap_or(FeedConfig::PUBLICATION);
    if publication.is_empty() || publication.len() > NAME_SIZE_MAX || publication.contains('\0') {
        let problem = format!("must be a name of 1 to {NAME_SIZE_MAX} bytes");
        return Err(section.bad("feed_publication", &problem));
    }
    let wal_max = section.u64("feed_wal_max")?.unwrap_or(WAL_MAX);
    if wal_max < WAL_MAX_MIN {
        let problem =
            format!("must be at least {WAL_MAX_MIN} bytes, the size of a file of the log");
        return Err(section.bad("feed_wal_max", &problem));
    }
    let sender = match section.str("feed_uri")? {
        None => None,
        // Its errors never quote a password.
        Some(uri) => match Connection::parse(uri, &Environment::of_process()) {
            Ok(Connection::Postgres(config)) => Some(Box::new(config)),
            Ok(_) => {
                let problem = "must be the URL of a PostgreSQL server";
                return Err(section.bad("feed_uri", problem));
            }
            Err(error) => {
                return Err(section.bad("feed_uri", &format!("cannot be used: {error}")));
            }
        },
    };
    Ok((is_on == Some(true)).then(|| FeedConfig {
        publication: publication.to_owned(),
        sender,
        wal_max,
    }))
}
