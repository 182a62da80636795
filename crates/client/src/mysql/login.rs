//! The log-in to a server from a configuration.

use std::fs;
use std::sync::Arc;

use lookaside_wire::mysql::{Connection, Credentials, PublicKey, Startup, TlsMode, Transport};

use crate::{Error, Host, HostAddress, MysqlConfig, Result, ServerKey, driver};

/// How to log in to one server.
#[derive(Clone, Debug)]
pub(super) struct Login {
    config: Arc<MysqlConfig>,
    transport: Transport,
    tls: TlsMode,
}

impl Login {
    pub(super) fn new(config: &MysqlConfig, host: &Host, transport: driver::Transport) -> Self {
        Self {
            config: Arc::new(config.clone()),
            transport: match host.address {
                HostAddress::Unix(_) => Transport::Protected,
                HostAddress::Tcp { .. } => Transport::Plain,
            },
            tls: match transport {
                driver::Transport::Plain => TlsMode::Disable,
                driver::Transport::TlsIfOffered => TlsMode::Prefer,
                driver::Transport::Tls => TlsMode::Require,
            },
        }
    }

    /// Whether there is a password to log in with.
    pub(super) fn has_password(&self) -> bool {
        self.config.password.is_some()
    }

    /// The same, for a connection that is to be inside of TLS, or not.
    pub(super) fn again(&self, is_encrypted: bool) -> Self {
        let tls = if is_encrypted {
            TlsMode::Require
        } else {
            TlsMode::Disable
        };
        Self {
            tls,
            ..self.clone()
        }
    }

    /// A second connection to the same server.
    pub(super) fn connection(&self) -> Result<Connection> {
        let limits = lookaside_wire::Limits::default();
        let connection = Connection::new(&self.startup()?, self.credentials()?, limits);
        connection.map_err(Error::request)
    }

    /// The database to begin in.
    pub(super) fn database(&self) -> Option<&str> {
        self.config.database.as_deref()
    }

    /// What the server is told of the connection.
    pub(super) fn startup(&self) -> Result<Startup<'_>> {
        const ATTRIBUTES: &[(&str, &str)] = &[("program_name", env!("CARGO_PKG_NAME"))];
        let Self {
            config,
            transport,
            tls,
            ..
        } = self;
        let startup = Startup::new(&config.user)
            .transport(*transport)
            .tls(*tls)
            .attributes(ATTRIBUTES);
        Ok(match &config.database {
            Some(database) => startup.database(database),
            None => startup,
        })
    }

    /// What the log-in is done with.
    pub(super) fn credentials(&self) -> Result<Credentials> {
        let mut seed = [0; 20];
        getrandom::fill(&mut seed).map_err(Error::no_random_bytes)?;
        let mut credentials = Credentials::new(seed);
        if let Some(password) = &self.config.password {
            credentials = credentials.password(password.expose().as_bytes());
        }
        match &self.config.server_key {
            ServerKey::Refuse => Ok(credentials),
            ServerKey::Ask => Ok(credentials.ask_public_key()),
            ServerKey::File(path) => {
                let text = fs::read(path).map_err(|error| Error::no_server_key(path, error))?;
                let key = PublicKey::from_pem(&text);
                let key = key.map_err(|error| Error::no_server_key(path, error))?;
                Ok(credentials.public_key(key))
            }
        }
    }
}
