//! Who is at the other end of a connection.

use std::net::SocketAddr;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// From this address.
    Tcp(SocketAddr),
    /// Through a Unix socket.
    Unix,
}

/// What the connection says about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: Peer,
    pub(crate) is_tls: bool,
}
