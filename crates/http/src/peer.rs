//! The other end of a connection.

use std::net::SocketAddr;

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A TCP client with this address.
    Tcp(SocketAddr),
    /// A client of a Unix socket.
    Unix,
}

/// What is known about a request from its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: Peer,
    pub(crate) is_tls: bool,
}
