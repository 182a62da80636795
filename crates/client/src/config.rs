//! The configuration of connections: the usual connection URLs.
//!
//! A URL and an [`Environment`] become a [`Config`], with typed settings. Only
//! [`Environment::of_process`] and [`PostgresConfig::read_passfile`] read external state;
//! certificate files are read when connecting.

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
use std::str::FromStr;

use url::Url;

impl Environment {
    /// The variables of this process that `libpq` and the `mysql` client read. Variables that are
    /// empty or not UTF-8 count as not set.
    pub fn of_process() -> Self {
        let keys = postgres::KEYS.iter().chain(mysql::KEYS);
        Self::of_names(keys.filter_map(|key| key.variable))
    }
}

/// The configuration of a connection, by the kind of its server.
///
/// `Display` shows a URL without password and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Config {
    /// `postgres://` or `postgresql://`
    Postgres(PostgresConfig),
    /// `mysql://` or `mariadb://`
    Mysql(MysqlConfig),
}

/// The URL schemes.
const SCHEMES: &[&str] = &["postgres", "postgresql", "mysql", "mariadb"];

impl Config {
    /// Parses a connection URL; missing parts come from the environment, as with `libpq` and the
    /// `mysql` client, and then from their defaults.
    ///
    /// # Errors
    /// When this is not such a URL, or a setting is unknown or invalid. The error never contains a
    /// password.
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

/// Parses a connection URL; missing parts come from the environment variables of this process; see
/// [`Config::parse`].
///
/// ```
/// use lookaside_client::{Config, MysqlConfig, PostgresConfig};
///
/// let config: Config = "mysql://amy@db/shop".parse()?;
/// assert_eq!(config.to_string(), "mysql://amy@db:3306/shop");
/// assert!("mysql://amy@db/shop".parse::<MysqlConfig>().is_ok());
/// assert!("mysql://amy@db/shop".parse::<PostgresConfig>().is_err());
/// # Ok::<(), lookaside_client::ConfigError>(())
/// ```
impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::parse(url, &Environment::of_process())
    }
}

/// Parses a URL of PostgreSQL; see [`Config::from_str`].
impl FromStr for PostgresConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        match url.parse()? {
            Config::Postgres(config) => Ok(config),
            Config::Mysql(_) => Err(ConfigError::other_server("MySQL", "postgres")),
        }
    }
}

/// Parses a URL of MySQL or MariaDB; see [`Config::from_str`].
impl FromStr for MysqlConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        match url.parse()? {
            Config::Mysql(config) => Ok(config),
            Config::Postgres(_) => Err(ConfigError::other_server("PostgreSQL", "mysql")),
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
