//! The greeting: the first message of a server.
//!
//! ```text
//!   0a  version\0  connection id (4)  challenge (8)  00  capabilities (2)  charset  status (2)
//!   capabilities (2)  challenge size  reserved (6)  MariaDB's capabilities (4)
//!   challenge (13 or more)  plugin\0
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>

use std::ffi::CStr;

use crate::error::{ProtocolError, Reason};
use crate::mysql::Capabilities;
use crate::read::Reader;

/// The identity of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Greeting<'a> {
    /// Its version. MariaDB before 11 sends the prefix `5.5.5-`, which is removed.
    pub server_version: &'a CStr,
    /// The id of this connection, which `KILL QUERY` requires to stop its statements.
    pub connection_id: u32,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its default collation.
    pub collation: u8,
}

impl Greeting<'_> {
    /// Whether it is a MariaDB server, according to capabilities that only such a server has.
    pub fn is_mariadb(&self) -> bool {
        !self.capabilities.contains(Capabilities::LONG_PASSWORD)
    }
}

/// The greeting, and the challenge of the log-in.
#[derive(Clone, Copy)]
pub(crate) struct Handshake<'a> {
    pub(crate) greeting: Greeting<'a>,
    /// Both parts of the challenge.
    pub(crate) challenge: [&'a [u8]; 2],
    pub(crate) plugin: &'a [u8],
}

/// The capabilities that this client requires.
const REQUIRED: Capabilities = Capabilities(
    Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::TRANSACTIONS.0,
);

impl<'a> Handshake<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let before = reader;
        let version = reader.u8()?;
        if version != 10 {
            return Err(before.error(Reason::HandshakeVersion(version)));
        }
        let server_version = reader.c_str()?;
        let connection_id = reader.u32_le()?;
        let challenge_begin = reader.bytes(8)?;
        reader.u8()?;
        let before = reader;
        let low = reader.u16_le()?;
        let collation = reader.u8()?;
        reader.u16_le()?;
        let middle = reader.u16_le()?;
        let challenge_size = reader.u8()?;
        reader.bytes(6)?;
        let high = reader.u32_le()?;
        let mut capabilities = Capabilities(u64::from(low) | u64::from(middle) << 16);
        if !capabilities.contains(REQUIRED) {
            return Err(before.error(Reason::ServerTooOld));
        }
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.0 |= u64::from(high) << 32;
        }
        // At least 13 bytes, of which the last one is NUL.
        let rest_size = usize::from(challenge_size).saturating_sub(8).max(13);
        let challenge_end = reader.bytes(rest_size)?;
        // Some old servers omit the NUL.
        let plugin = match reader.c_str() {
            Ok(name) => name.to_bytes(),
            Err(_) => reader.rest(),
        };
        let version = server_version.to_bytes_with_nul();
        let version = version.strip_prefix(b"5.5.5-").unwrap_or(version);
        Ok(Self {
            greeting: Greeting {
                server_version: CStr::from_bytes_with_nul(version).unwrap_or(server_version),
                connection_id,
                capabilities,
                collation,
            },
            challenge: [
                challenge_begin,
                challenge_end.strip_suffix(&[0]).unwrap_or(challenge_end),
            ],
            plugin,
        })
    }
}
