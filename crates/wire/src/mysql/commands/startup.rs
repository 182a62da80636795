//! What a connection begins with: who logs in to what, and what the session can.
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

/// `utf8mb4_general_ci`, which all servers know.
const COLLATION: u8 = 45;

/// The collation that the session begins with, by which it compares literals: the server's own, as
/// in the vendor's client, if that is one of `utf8mb4`; for any other one, say SET NAMES.
fn collation(greeted: u8) -> u8 {
    match greeted {
        45 | 46 | 224..=247 | 255 => greeted,
        _ => COLLATION,
    }
}

/// The longest packet that we say we take; servers send longer ones anyway.
const PACKET_SIZE_MAX: u32 = 1 << 30;

/// Capabilities that are taken wherever the server has them.
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

/// Whether the log-in is hidden by TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    #[default]
    Disable,
    /// If the server can. Somebody on the way can say that it cannot.
    Prefer,
    /// Or there is no log-in.
    Require,
}

/// Who logs in, and how.
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

    /// The database to begin in.
    pub fn database(self, database: &'a str) -> Self {
        Self {
            database: Some(database),
            ..self
        }
    }

    /// What the server may know of this program, as `program_name`.
    pub fn attributes(self, attributes: &'a [(&'a str, &'a str)]) -> Self {
        Self { attributes, ..self }
    }

    /// What the connection runs on. TLS that begins later need not be told here.
    pub fn transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Whether TLS is asked for.
    pub fn tls(self, tls: TlsMode) -> Self {
        Self { tls, ..self }
    }

    /// Counts rows that an UPDATE found, not those that it changed.
    pub fn count_found_rows(self) -> Self {
        self.with(Capabilities::FOUND_ROWS)
    }

    /// Lets a query hold several statements; without, a server refuses it.
    pub fn multi_statements(self) -> Self {
        self.with(Capabilities::MULTI_STATEMENTS)
    }

    /// Lets the session leave out the definitions of columns by `SET resultset_metadata = NONE`,
    /// on MySQL since 8.0.3.
    ///
    /// **Dangerous.** Such a server says nothing when a table changes: two columns that were
    /// exchanged come back exchanged, and a number that became a wider one may be read with bytes
    /// of its neighbour. Each row is checked to be used up exactly, and
    /// [`Event::Unreadable`](crate::mysql::Event::Unreadable) tells when one was not, or when the
    /// number of columns is another one; what changes neither goes by unseen. So this is for
    /// statements whose columns and their types are pinned by what they say, and for owners who ask
    /// for the definitions anew now and then.
    ///
    /// Such an owner prepares a statement and executes it once with definitions, then says
    /// `SET resultset_metadata = NONE` and executes as often as it likes. To check, it says
    /// `SET resultset_metadata = FULL`, executes, and sees whether
    /// [`Event::Columns`](crate::mysql::Event::Columns) tells of other columns; after
    /// [`Event::Unreadable`](crate::mysql::Event::Unreadable) it has to. A reset of the connection
    /// brings the definitions back by itself.
    ///
    /// Without this, the definitions come with each answer, and are compared before they are read;
    /// that costs little but the network. MariaDB leaves them out by itself, and safely.
    pub fn optional_metadata(self) -> Self {
        self.with(Capabilities::OPTIONAL_RESULTSET_METADATA)
    }

    /// Does without these, as if the server did not have them.
    ///
    /// What the protocol cannot do without is used all the same.
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
        // The server's limit is one for all of them together.
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

/// The same, kept until the server greets.
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
    /// What both sides can and want.
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
        // MySQL's bit is clear in what MariaDB offers, and has to be clear in what it is answered.
        (wanted | NEEDED) & offered
    }
}

/// The answer to the greeting.
pub(crate) struct HandshakeResponse<'a> {
    pub(crate) startup: &'a StartupOwned,
    pub(crate) capabilities: Capabilities,
    /// As the server greeted with.
    pub(crate) collation: u8,
    pub(crate) plugin: &'a str,
    pub(crate) proof: &'a [u8],
}

impl HandshakeResponse<'_> {
    /// SSLRequest: its head alone, after which TLS begins.
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
        // Without PLUGIN_AUTH_LENENC the length is a single byte, which is the same up to 250.
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
