//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Error, Result, Tls};

/// The longest path of a socket: `sun_path` has 108 bytes, and the last one is NUL.
pub(crate) const SOCKET_PATH_SIZE_MAX: usize = 107;

/// The mode of a socket's file unless [`Listen::mode`] sets another: read and write for owner and
/// group.
const SOCKET_MODE: u32 = 0o660;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A TCP address; port 0 selects a free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("unix:") {
            Some("") => Err(Error::bad_address(text)),
            Some(path) if path.len() > SOCKET_PATH_SIZE_MAX => {
                Err(Error::long_socket_path(path, SOCKET_PATH_SIZE_MAX))
            }
            Some(path) => Ok(Self::Unix(path.into())),
            None => match text.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => Err(Error::bad_address(text)),
            },
        }
    }
}

/// A listener: its address and its options.
#[derive(Clone, Debug)]
pub struct Listen {
    pub(crate) address: Address,
    pub(crate) mode: u32,
    pub(crate) tls: Option<Tls>,
}

impl Listen {
    /// Listens on a TCP address.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::at(Address::Tcp(address))
    }

    /// Listens on a Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Address::Unix(path.into()))
    }

    /// Listens on an address of either kind.
    pub fn at(address: Address) -> Self {
        Self {
            address,
            mode: SOCKET_MODE,
            tls: None,
        }
    }

    /// Sets the mode of a Unix socket's file, `0o660` by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Enables TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The requested address.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::tcp(address)
    }
}

impl FromStr for Listen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self::at(text.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["127.0.0.1:8300", "[::1]:80", "unix:/run/x.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "8300", "localhost", "unix:", "127.0.0.1", "tcp:1"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("is not an address"), "{error}");
        }
        let error = format!("unix:/{}", "x".repeat(107)).parse::<Address>();
        assert!(error.unwrap_err().to_string().contains("shorter"));
    }
}
