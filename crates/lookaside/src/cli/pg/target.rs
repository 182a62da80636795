//! A PostgreSQL server to query, and the variables and arguments that lead a command to it.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment, Error, ErrorKind, Host, HostAddress, PostgresConfig};

use super::client_failure;
use crate::failure::Failure;

/// Variables that may be set for another server: they would lead a command there, or require
/// features that the embedded server lacks, such as TLS and Kerberos.
const VARIABLES_FOREIGN: [&str; 11] = [
    "PGHOSTADDR",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGPASSFILE",
    "PGOPTIONS",
    "PGREQUIRESSL",
    "PGSSLNEGOTIATION",
    "PGCHANNELBINDING",
    "PGGSSENCMODE",
    "PGREQUIREAUTH",
    "PGTARGETSESSIONATTRS",
];

/// A server on this machine answers within milliseconds, a remote one within a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default user: that of every embedded server.
const USER: &str = "postgres";

/// A server and one of its databases. `Display` shows the address of the server, never a password.
#[derive(Clone)]
pub(crate) struct PostgresTarget {
    config: PostgresConfig,
    /// The URL as it was given; `None` for an embedded server.
    url: Option<String>,
}

impl PostgresTarget {
    /// An embedded server, whose URL is complete.
    pub(crate) fn of_ours(url: &str) -> Result<Self, Failure> {
        let config = read(url, &Environment::empty())?;
        Ok(Self { config, url: None })
    }

    /// The server of a URL that the user gave. Missing parts come from the environment, as with
    /// psql.
    pub(crate) fn of_url(url: &str) -> Result<Self, Failure> {
        let mut environment = Environment::of_process();
        let is_named = ["PGUSER", "USER", "LOGNAME"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|user| !user.is_empty()));
        if !is_named {
            environment = environment.with("PGUSER", USER);
        }
        Ok(Self {
            config: read(url, &environment)?,
            url: Some(url.to_owned()),
        })
    }

    /// The name of its database.
    pub(crate) fn database(&self) -> &str {
        &self.config.database
    }

    /// Connects to it.
    pub(crate) fn connect(&self, options: Options) -> Result<Connection, Error> {
        Connection::connect_with(&self.config, options)
    }

    /// The error for a failed connection.
    pub(crate) fn no_connection(&self, error: &Error) -> Failure {
        if error.server().is_some() {
            let failure = client_failure(error);
            return match error.hint() {
                Some(step) => failure.with_help(step),
                None => failure,
            };
        }
        if error.kind() != ErrorKind::Connection {
            return Failure::from_error(error);
        }
        let mut failure = Failure::new(format!("cannot connect to {self}"));
        if let Some(step) = error.hint() {
            failure = failure.with_help(step);
        }
        match std::error::Error::source(error) {
            Some(_) => failure.with_sources(error),
            None => failure.because(error),
        }
    }

    /// Leads psql to it. Embedded servers are passed by variables only. A URL is passed as an
    /// argument without its password, which goes into the environment: arguments are visible to all
    /// users, the environment only to the same user.
    pub(crate) fn give_to_psql(&self, command: &mut Command) {
        let Some(url) = &self.url else {
            return self.give_to(command);
        };
        command.arg(without_password(url));
        command.env("PGUSER", &self.config.user);
        if let Some(password) = &self.config.password {
            command.env("PGPASSWORD", password.expose());
        }
    }

    /// Leads a command to an embedded server, by the variables that libpq and most other clients
    /// read.
    pub(crate) fn give_to(&self, command: &mut Command) {
        for name in VARIABLES_FOREIGN {
            command.env_remove(name);
        }
        let host = self.host();
        let place = match &host.address {
            HostAddress::Tcp { name, .. } => name.into(),
            HostAddress::Unix(folder) => folder.clone().into_os_string(),
        };
        command
            .env("PGHOST", place)
            .env("PGPORT", host.port.to_string())
            // Go's clients require TLS by default.
            .env("PGSSLMODE", "disable")
            .env("PGUSER", &self.config.user)
            .env("PGDATABASE", &self.config.database);
        match &self.config.password {
            Some(password) => command.env("PGPASSWORD", password.expose()),
            None => command.env_remove("PGPASSWORD"),
        };
    }

    /// The configuration for clients, beside the host.
    pub(super) fn config(&self) -> &PostgresConfig {
        &self.config
    }

    /// The first host, the only one of an embedded server.
    pub(super) fn host(&self) -> &Host {
        let first = self.config.hosts.first();
        first.expect("a configuration has a host")
    }
}

impl fmt::Display for PostgresTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.config.hosts.iter().enumerate() {
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

impl fmt::Debug for PostgresTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn read(url: &str, environment: &Environment) -> Result<PostgresConfig, Failure> {
    let wanted = "a PostgreSQL server is required; its URL begins with postgres://";
    match Config::parse(url, environment) {
        Ok(Config::Postgres(mut config)) => {
            config.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
            let name = &mut config.application_name;
            name.get_or_insert_with(|| "lookaside".to_owned());
            Ok(config)
        }
        Ok(_) => Err(Failure::usage(wanted)),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

/// A valid URL, without the password before its host and in its parameters.
fn without_password(url: &str) -> String {
    let (front, query) = match url.split_once('?') {
        Some((front, query)) => (front, Some(query)),
        None => (url, None),
    };
    let (scheme, rest) = front.split_once("://").unwrap_or(("postgres", front));
    let mut shown = format!("{scheme}://");
    // Any other `@` is written as %40.
    match rest.rsplit_once('@') {
        Some((login, address)) => {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            shown.push_str(user);
            shown.push('@');
            shown.push_str(address);
        }
        None => shown.push_str(rest),
    }
    let is_kept = |pair: &&str| !is_password(pair.split('=').next().unwrap_or_default());
    for (index, pair) in query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(is_kept)
        .enumerate()
    {
        shown.push(if index == 0 { '?' } else { '&' });
        shown.push_str(pair);
    }
    shown
}

/// Whether a key is `password`, with any of its letters percent-encoded.
fn is_password(mut key: &str) -> bool {
    let is_next = |wanted: char| {
        let (found, size) = match key.strip_prefix('%').and_then(|rest| rest.get(..2)) {
            Some(digits) => (u8::from_str_radix(digits, 16).ok().map(char::from), 3),
            None => (key.chars().next(), 1),
        };
        key = key.get(size..).unwrap_or_default();
        found == Some(wanted)
    };
    "password".chars().all(is_next) && key.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_passed_on() {
        for (url, expected) in [
            ("postgres://h/d", "postgres://h/d"),
            ("postgres://u:secret@h:6000/d", "postgres://u@h:6000/d"),
            (
                "postgres://u:se%40cret@[::1],h2/d",
                "postgres://u@[::1],h2/d",
            ),
            (
                "postgresql:///d?host=/a&password=secret&user=u",
                "postgresql:///d?host=/a&user=u",
            ),
            (
                "postgres://h?p%61ss%77ord=secret&%68ost=h2&passwordx=1",
                "postgres://h?%68ost=h2&passwordx=1",
            ),
            (
                "postgres://:secret@h?sslmode=require",
                "postgres://@h?sslmode=require",
            ),
        ] {
            assert_eq!(without_password(url), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_without_its_password() {
        for url in [
            "mysql://u:secret@h/d",
            "u:secret@h/d",
            "postgres://u:secret@h:x/d",
            "postgres://u:secret@h/%",
            "postgres://u:secret@h/d?nope=1",
        ] {
            let mut refused = Vec::new();
            let failure = PostgresTarget::of_url(url).map(drop).expect_err(url);
            failure.write(&mut refused).unwrap();
            let refused = String::from_utf8(refused).unwrap();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

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
            let target = PostgresTarget::of_url(url).unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(format!("{target:?}"), format!("Target({shown})"));
        }
    }
}
