//! A server of a URL.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Secret;

/// A server to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its address.
    pub address: HostAddress,
    /// Its port; the socket of a local PostgreSQL is named after it.
    pub port: u16,
    /// The password from a password file for this server.
    pub password: Option<Secret>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// On the network.
    Tcp {
        /// The name that its certificate must have, and that is resolved unless there is an
        /// address.
        name: String,
        /// The address to connect to, if the URL has one (`hostaddr`).
        address: Option<IpAddr>,
    },
    /// On a Unix socket: for PostgreSQL the folder that it is in, for MySQL the socket itself.
    Unix(PathBuf),
}

impl Host {
    /// The socket of a local PostgreSQL.
    pub fn postgres_socket(&self) -> Option<PathBuf> {
        match &self.address {
            HostAddress::Unix(folder) => Some(folder.join(format!(".s.PGSQL.{}", self.port))),
            HostAddress::Tcp { .. } => None,
        }
    }

    /// A readable form: a plain path, or otherwise as in a URL.
    pub(crate) fn plain(&self) -> String {
        match &self.address {
            HostAddress::Unix(path) => path.display().to_string(),
            HostAddress::Tcp { .. } => self.to_string(),
        }
    }
}

/// The characters that are escaped in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name as a part of a URL.
pub(super) fn encoded(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, ENCODED)
}

/// As in a URL: `db:5432`, `[::1]:5432`, `%2Frun%2Fpostgresql:5432`.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            HostAddress::Tcp { name, .. } if name.contains(':') => {
                write!(f, "[{}]", name.replace('%', "%25"))?;
            }
            HostAddress::Tcp { name, .. } => encoded(name).fmt(f)?,
            HostAddress::Unix(path) => encoded(&path.to_string_lossy()).fmt(f)?,
        }
        write!(f, ":{}", self.port)
    }
}

/// Appends `scheme://user@host,host/database`.
pub(super) fn write_url(
    f: &mut fmt::Formatter<'_>,
    scheme: &str,
    user: &str,
    hosts: &[Host],
    database: Option<&str>,
) -> fmt::Result {
    write!(f, "{scheme}://{}@", encoded(user))?;
    for (index, host) in hosts.iter().enumerate() {
        write!(f, "{}{host}", if index == 0 { "" } else { "," })?;
    }
    match database {
        Some(database) => write!(f, "/{}", encoded(database)),
        None => Ok(()),
    }
}
