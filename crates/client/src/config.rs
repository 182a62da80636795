//! Where a server is and how to talk to it: connection URLs as users know them.
//!
//! A URL and an [`Environment`] become a [`Config`], which holds everything in types that fit. The
//! only things read from outside are [`Environment::of_process`] and
//! [`PostgresConfig::read_passfile`]; certificates are named here and read by who connects.

mod environment;
mod error;
mod host;
mod mysql;
mod passfile;
mod postgres;
mod secret;
mod settings;
mod tls;
mod url;

pub use environment::Environment;
pub use error::ConfigError;
pub use host::{Host, HostAddress};
pub use mysql::{MysqlConfig, ServerKey};
pub use passfile::passfile_password;
pub use postgres::{Keepalives, LoadBalance, PostgresConfig, TargetSession};
pub use secret::Secret;
pub use tls::{ChannelBinding, ClientCertificate, RootCertificates, SslMode, Tls, TlsNegotiation};

use std::fmt;

use url::Url;

impl Environment {
    /// The variables of this process that `libpq` and the `mysql` client read. One that is not UTF-8
    /// or empty counts as not set.
    pub fn of_process() -> Self {
        let keys = postgres::KEYS.iter().chain(mysql::KEYS);
        Self::of_names(keys.filter_map(|key| key.variable))
    }
}

/// The configuration of a connection, by the kind of its server.
///
/// Shown, it is a URL without password and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Config {
    /// `postgres://` or `postgresql://`
    Postgres(PostgresConfig),
    /// `mysql://` or `mariadb://`
    Mysql(MysqlConfig),
}

/// What a URL can begin with.
const SCHEMES: &[&str] = &["postgres", "postgresql", "mysql", "mariadb"];

impl Config {
    /// Reads a connection URL; what it leaves out comes from the environment, as with `libpq` and
    /// the `mysql` client, and then from their defaults.
    ///
    /// # Errors
    /// When this is no such URL, or a setting is unknown or wrong. The error never quotes a password.
    pub fn parse(url: &str, environment: &Environment) -> Result<Self, ConfigError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(ConfigError::no_url)?;
        match scheme {
            "postgres" | "postgresql" => {
                PostgresConfig::of(Url::parse(rest)?, environment).map(Self::Postgres)
            }
            "mysql" | "mariadb" => MysqlConfig::of(Url::parse(rest)?, environment).map(Self::Mysql),
            other => Err(ConfigError::unknown_scheme(other, SCHEMES)),
        }
    }

    /// The servers, in the order in which they are tried.
    pub fn hosts(&self) -> &[Host] {
        match self {
            Self::Postgres(config) => &config.hosts,
            Self::Mysql(config) => &config.hosts,
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(config) => config.fmt(f),
            Self::Mysql(config) => config.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    mod mysql;
    mod postgres;
    mod secrets;
}
