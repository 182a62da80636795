//! A PostgreSQL server to measure.

use std::fmt;
use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment, PostgresConfig};

use crate::Result;

/// A server on this machine answers within milliseconds, a remote one within a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server and a database of it. `Display` shows the address, never a password.
#[derive(Clone)]
pub(super) struct PostgresTarget(PostgresConfig);

impl PostgresTarget {
    /// Parses a URL. Missing parts come from the environment, as with psql.
    pub(super) fn parse(url: &str, environment: &Environment) -> Result<Self> {
        let Config::Postgres(mut config) = Config::parse(url, environment)? else {
            return Err("not the URL of a PostgreSQL server; it begins with postgres://".into());
        };
        config.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
        Ok(Self(config))
    }

    /// Connects to it.
    pub(super) fn connect(&self, options: Options) -> Result<Connection> {
        Connection::connect_with(&self.0, options)
            .map_err(|error| format!("cannot connect to {self}: {error}").into())
    }
}

impl fmt::Display for PostgresTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.0.hosts.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match host.postgres_socket() {
                Some(socket) => socket.display().fmt(f)?,
                None => host.fmt(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://u:secret@h/d", "h:5432"),
            ("postgres://u:secret@h,[::1]:7/d", "h:5432, [::1]:7"),
            (
                "postgres:///d?host=/run&user=u&password=secret",
                "/run/.s.PGSQL.5432",
            ),
        ] {
            let target = PostgresTarget::parse(url, &Environment::empty()).unwrap();
            assert_eq!(target.to_string(), shown);
        }
        let refused = PostgresTarget::parse("mysql://u:secret@h/d", &Environment::empty());
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains("postgres://"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}
