//! StartupMessage: user, database, settings and protocol version.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `StartupMessage`

use super::{sized, text};
use crate::error::RequestError;
use crate::postgres::version::ProtocolVersion;

/// The first message of a connection.
///
/// The texts of this crate's events are read as UTF-8, so `client_encoding` should be set to it.
#[derive(Clone, Debug)]
pub struct Startup<'a> {
    user: &'a str,
    database: Option<&'a str>,
    parameters: &'a [(&'a str, &'a str)],
    is_replication: bool,
    version: ProtocolVersion,
}

impl<'a> Startup<'a> {
    /// Logs in as `user`, to the database of the same name.
    pub fn new(user: &'a str) -> Self {
        Self {
            user,
            database: None,
            parameters: &[],
            is_replication: false,
            version: ProtocolVersion::default(),
        }
    }

    /// Logs in to this database.
    pub fn database(self, database: &'a str) -> Self {
        Self {
            database: Some(database),
            ..self
        }
    }

    /// Sets these parameters of the session: `application_name`, `client_encoding`, `options`, …
    pub fn parameters(self, parameters: &'a [(&'a str, &'a str)]) -> Self {
        Self { parameters, ..self }
    }

    /// Logs in for logical replication of the database: `replication=database`. The session then
    /// takes the commands of [`replication`](crate::postgres::replication) and SQL, both by
    /// [`Request::Query`](crate::postgres::Request::Query) only.
    ///
    /// <https://www.postgresql.org/docs/current/protocol-replication.html>
    pub fn replication(self) -> Self {
        Self {
            is_replication: true,
            ..self
        }
    }

    /// Requests this version of the protocol; an older server lowers it.
    pub fn version(self, version: ProtocolVersion) -> Self {
        Self { version, ..self }
    }

    pub(crate) fn user_name(&self) -> &'a str {
        self.user
    }

    pub(crate) fn is_replication(&self) -> bool {
        self.is_replication
    }

    pub(crate) fn version_asked(&self) -> ProtocolVersion {
        self.version
    }

    pub(crate) fn encode(&self, output: &mut Vec<u8>) -> Result<(), RequestError> {
        sized(output, |output| {
            output.extend_from_slice(&self.version.code().to_be_bytes());
            let database = self.database.map(|database| ("database", database));
            let replication = self.is_replication.then_some(("replication", "database"));
            let named = [Some(("user", self.user)), database, replication];
            let named = named.into_iter().flatten();
            for (name, value) in named.chain(self.parameters.iter().copied()) {
                text(output, name)?;
                text(output, value)?;
            }
            output.push(0);
            Ok(())
        })
    }
}
