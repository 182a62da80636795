//! The start of a connection: user, database, and the capabilities of the session.
//!
//! ```text
//!   capabilities (4)  size of packets (4)  collation  00 … (19)  MariaDB's capabilities (4)
//!   user\0  proof  [database\0]  plugin\0  [attributes]
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html>

use crate::error::RequestError;
use crate::mysql::lenenc::write_lenenc_bytes;
use crate::mysql::{Capabilities, Transport};

/// `utf8mb4_general_ci`, which all servers have.
const COLLATION: u8 = 45;

/// The initial collation of the session, by which it compares literals: the server's own, as in the
/// vendor's client, if that is one of `utf8mb4`. Use SET NAMES for any other one.
fn collation(greeted: u8) -> u8 {
    match greeted {
        45 | 46 | 224..=247 | 255 => greeted,
        _ => COLLATION,
    }
}

/// The announced maximal packet size; servers send longer packets anyway.
const PACKET_SIZE_MAX: u32 = 1 << 30;

/// Capabilities that are used whenever the server has them.
const WANTED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0
        | Capabilities::MARIADB_BULK.0
        | Capabilities::MARIADB_EXTENDED_METADATA.0
        | Capabilities::MARIADB_CACHE_METADATA.0,
);

/// Whether the log-in uses TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS is never used.
    #[default]
    Disable,
    /// TLS if the server supports it. A man in the middle can pretend that it does not.
    Prefer,
    /// TLS, or the log-in fails.
    Require,
}

/// The parameters of a log-in.
#[derive(Clone, Copy, Debug)]
pub struct Startup<'a> {
    user: &'a str,
    database: Option<&'a str>,
    attributes: &'a [(&'a str, &'a str)],
    transport: Transport,
    tls: TlsMode,
    optional: Capabilities,
    excluded: Capabilities,
}

impl<'a> Startup<'a> {
    /// A log-in on TCP without TLS.
    pub fn new(user: &'a str) -> Self {
        Self {
            user,
            database: None,
            attributes: &[],
            transport: Transport::Plain,
            tls: TlsMode::Disable,
            optional: Capabilities::NONE,
            excluded: Capabilities::NONE,
        }
    }

    /// Sets the initial database.
    pub fn database(self, database: &'a str) -> Self {
        Self {
            database: Some(database),
            ..self
        }
    }

    /// Sets attributes of the client program for the server, such as `program_name`.
    pub fn attributes(self, attributes: &'a [(&'a str, &'a str)]) -> Self {
        Self { attributes, ..self }
    }

    /// Sets the transport of the connection. TLS that begins later need not be set here.
    pub fn transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Sets whether TLS is used.
    pub fn tls(self, tls: TlsMode) -> Self {
        Self { tls, ..self }
    }

    /// Counts rows that an UPDATE found, not those that it changed.
    pub fn count_found_rows(self) -> Self {
        self.with(Capabilities::FOUND_ROWS)
    }

    /// Allows a query to contain several statements; otherwise, a server refuses it.
    pub fn multi_statements(self) -> Self {
        self.with(Capabilities::MULTI_STATEMENTS)
    }

    /// Allows the session to leave out column definitions by `SET resultset_metadata = NONE`, on
    /// MySQL since 8.0.3.
    ///
    /// **Dangerous.** Such a server does not report that a table has changed: two exchanged
    /// columns are returned exchanged, and a number whose type became wider may be read with bytes
    /// of the next column. Each row is checked to be consumed exactly, and
    /// [`Event::Unreadable`](crate::mysql::Event::Unreadable) reports if one was not, or if the
    /// number of columns differs; other changes are not detected. So this is for statements whose
    /// columns and types are fixed by their text, and for owners that request the definitions again
    /// from time to time.
    ///
    /// Such an owner prepares a statement and executes it once with definitions, then runs `SET
    /// resultset_metadata = NONE` and executes the statement any number of times. To check, it runs
    /// `SET resultset_metadata = FULL`, executes the statement, and compares the columns of
    /// [`Event::Columns`](crate::mysql::Event::Columns); after
    /// [`Event::Unreadable`](crate::mysql::Event::Unreadable) this is required. A reset of the
    /// connection enables the definitions again.
    ///
    /// Without this, the definitions are sent with each answer, and are compared before they are
    /// decoded; the main cost is the network. MariaDB leaves them out automatically and safely.
    pub fn optional_metadata(self) -> Self {
        self.with(Capabilities::OPTIONAL_RESULTSET_METADATA)
    }

    /// Disables these capabilities, as if the server did not have them.
    ///
    /// Capabilities that the protocol requires are used anyway.
    pub fn without(self, capabilities: Capabilities) -> Self {
        Self {
            excluded: self.excluded | capabilities,
            ..self
        }
    }

    fn with(self, capabilities: Capabilities) -> Self {
        Self {
            optional: self.optional | capabilities,
            ..self
        }
    }

    pub(crate) fn into_owned(self) -> Result<StartupOwned, RequestError> {
        let database = self.database.unwrap_or_default();
        if self.user.contains('\0') || database.contains('\0') {
            return Err(RequestError::Nul);
        }
        let mut attributes = Vec::new();
        for (name, value) in self.attributes {
            write_lenenc_bytes(&mut attributes, name.as_bytes());
            write_lenenc_bytes(&mut attributes, value.as_bytes());
        }
        // The server's limit applies to all attributes together.
        if attributes.len() > usize::from(u16::MAX) {
            return Err(RequestError::TooLong);
        }
        Ok(StartupOwned {
            user: self.user.into(),
            database: database.into(),
            attributes: attributes.into(),
            transport: self.transport,
            tls: self.tls,
            optional: self.optional,
            excluded: self.excluded,
        })
    }
}

/// An owned [`Startup`], stored until the server's greeting.
pub(crate) struct StartupOwned {
    user: Box<str>,
    database: Box<str>,
    attributes: Box<[u8]>,
    pub(crate) transport: Transport,
    pub(crate) tls: TlsMode,
    optional: Capabilities,
    excluded: Capabilities,
}

impl StartupOwned {
    /// The capabilities that both sides have and want.
    pub(crate) fn negotiate(&self, offered: Capabilities) -> Capabilities {
        const NEEDED: Capabilities = Capabilities(
            Capabilities::PROTOCOL_41.0
                | Capabilities::SECURE_CONNECTION.0
                | Capabilities::PLUGIN_AUTH.0
                | Capabilities::TRANSACTIONS.0
                | Capabilities::LONG_PASSWORD.0,
        );
        let wanted = (WANTED | self.optional)
            .and(Capabilities::CONNECT_WITH_DB, !self.database.is_empty())
            .without(self.excluded);
        // MariaDB does not set MySQL's bit in its offer, and the answer must not set it either.
        (wanted | NEEDED) & offered
    }
}

/// The answer to the greeting.
pub(crate) struct HandshakeResponse<'a> {
    pub(crate) startup: &'a StartupOwned,
    pub(crate) capabilities: Capabilities,
    /// The collation of the server's greeting.
    pub(crate) collation: u8,
    pub(crate) plugin: &'a str,
    pub(crate) proof: &'a [u8],
}

impl HandshakeResponse<'_> {
    /// SSLRequest: only the head of the response, after which TLS begins.
    pub(crate) fn encode_head(capabilities: Capabilities, greeted: u8, output: &mut Vec<u8>) {
        output.extend_from_slice(&capabilities.low().to_le_bytes());
        output.extend_from_slice(&PACKET_SIZE_MAX.to_le_bytes());
        output.push(collation(greeted));
        output.extend_from_slice(&[0; 19]);
        output.extend_from_slice(&capabilities.high().to_le_bytes());
    }

    pub(crate) fn encode(&self, output: &mut Vec<u8>) {
        let Self {
            startup,
            capabilities,
            ..
        } = self;
        Self::encode_head(*capabilities, self.collation, output);
        output.extend_from_slice(startup.user.as_bytes());
        output.push(0);
        // Without PLUGIN_AUTH_LENENC, the length is a single byte, which is identical up to 250.
        write_lenenc_bytes(output, self.proof);
        if capabilities.contains(Capabilities::CONNECT_WITH_DB) {
            output.extend_from_slice(startup.database.as_bytes());
            output.push(0);
        }
        output.extend_from_slice(self.plugin.as_bytes());
        output.push(0);
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            write_lenenc_bytes(output, &startup.attributes);
        }
    }
}
