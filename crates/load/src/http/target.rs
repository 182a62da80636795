//! Where the requests go: a TCP address or a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{Error, ErrorKind, Result};

/// The timeout of the first connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server's address, resolved.
#[derive(Clone, Debug)]
pub struct HttpTarget {
    address: Address,
    /// As the user gave it.
    name: String,
    /// The value of `Host`.
    host: String,
    /// The path of a URL, if any.
    path: Option<String>,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(String, SocketAddrUnix),
}

impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl HttpTarget {
    /// Reads `http://HOST[:PORT][/PATH]`, `HOST:PORT[/PATH]` or `unix:PATH`. A host name is
    /// resolved now, to its first address.
    ///
    /// # Errors
    ///
    /// When it has another form, is `https:`, or its host has no address.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let address = SocketAddrUnix::new(path)
                .map_err(|error| Error::usage(format!("{text} is not a socket")).because(error))?;
            return Ok(Self {
                address: Address::Unix(path.to_owned(), address),
                name: text.to_owned(),
                host: "localhost".into(),
                path: None,
            });
        }
        if text.starts_with("https:") {
            return Err(Error::usage("the load generator speaks no TLS")
                .with_hint("measure the server behind its plain port, or with wrk or h2load"));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (host, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let address = match has_port {
            true => host.to_socket_addrs(),
            false => (host, 80).to_socket_addrs(),
        };
        let help = "an address is http://HOST:PORT, HOST:PORT or unix:PATH";
        let address = address
            .map_err(|error| Error::usage(format!("no address for {host:?}")).because(error))
            .and_then(|mut all| {
                let none = || Error::usage(format!("no address for {host:?}"));
                all.next().ok_or_else(none)
            })
            .map_err(|error| error.with_hint(help))?;
        Ok(Self {
            address: Address::Tcp(address),
            name: host.to_owned(),
            host: host.to_owned(),
            path,
        })
    }

    /// The value of `Host`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path of a URL, with its query, if the address had one.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Connects once, blocking, so that a missing server is detected before the run.
    pub(super) fn probe(&self) -> Result<()> {
        let done = match &self.address {
            Address::Tcp(address) => TcpStream::connect_timeout(address, PROBE_TIMEOUT).map(|_| ()),
            Address::Unix(path, _) => UnixStream::connect(path).map(|_| ()),
        };
        done.map_err(|error| {
            let help = match (&self.address, error.kind()) {
                (Address::Unix(path, _), io::ErrorKind::NotFound) => {
                    format!("there is no socket {path}: is the server running, and as this path?")
                }
                (_, io::ErrorKind::PermissionDenied) => {
                    "run this as a user who may write to the socket".into()
                }
                _ => format!("is the server running at {self}?"),
            };
            Error::new(ErrorKind::Connection, format!("cannot connect to {self}"))
                .because(error)
                .with_hint(help)
        })
    }

    /// Returns a socket that is connected, or will be once it is writable.
    pub(super) fn connect(&self) -> rustix::io::Result<OwnedFd> {
        let family = match &self.address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(..) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match &self.address {
            Address::Tcp(address) => {
                rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
                rustix::net::connect(&socket, address)
            }
            Address::Unix(_, address) => rustix::net::connect(&socket, address),
        };
        match connected {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_three_forms() {
        let check = |text: &str, host: &str, path: Option<&str>| {
            let target = HttpTarget::parse(text).unwrap();
            assert_eq!(target.host, host, "{text}");
            assert_eq!(target.path.as_deref(), path, "{text}");
        };
        check("http://127.0.0.1:8080", "127.0.0.1:8080", None);
        check("127.0.0.1:8080/a?b=c", "127.0.0.1:8080", Some("/a?b=c"));
        check("http://127.0.0.1/", "127.0.0.1", Some("/"));
        check("http://[::1]:81/x", "[::1]:81", Some("/x"));
        check("unix:/tmp/a.sock", "localhost", None);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["https://127.0.0.1", "127.0.0.1:x", "", "http://:80:80/"] {
            assert!(HttpTarget::parse(text).is_err(), "{text}");
        }
    }
}
