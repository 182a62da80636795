//! The socket itself, for connections without a runtime.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::driver::{Protocol, Target};
use crate::{Error, Host, HostAddress, Keepalives, Result};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A tokio socket that can be detached from its runtime.
pub(crate) trait IntoStream {
    /// The socket itself; its runtime no longer watches it.
    fn into_stream(self) -> io::Result<Stream>;
}

impl IntoStream for tokio::net::TcpStream {
    fn into_stream(self) -> io::Result<Stream> {
        self.into_std().map(Stream::Tcp)
    }
}

impl IntoStream for tokio::net::UnixStream {
    fn into_stream(self) -> io::Result<Stream> {
        self.into_std().map(Stream::Unix)
    }
}

/// The address of a server.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// The addresses of a host, resolved if it has a name. This may block.
    pub(crate) fn of<T: Target>(host: &Host) -> Result<Vec<Self>> {
        match &host.address {
            HostAddress::Unix(_) => Ok(T::socket_path(host).map(Self::Unix).into_iter().collect()),
            HostAddress::Tcp {
                address: Some(ip), ..
            } => Ok(vec![Self::Tcp(SocketAddr::new(*ip, host.port))]),
            HostAddress::Tcp { name, .. } => {
                let found = (name.as_str(), host.port).to_socket_addrs();
                let found = found.map_err(|error| Error::unknown_host(host, error))?;
                Ok(found.map(Self::Tcp).collect())
            }
        }
    }
}

impl Stream {
    /// Connects, within an optional timeout.
    pub(crate) fn connect(address: &Address, timeout: Option<Duration>) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = match timeout {
                    Some(timeout) => TcpStream::connect_timeout(address, timeout),
                    None => TcpStream::connect(address),
                };
                stream.map(Self::Tcp)
            }
            Address::Unix(path) => connect_unix(path, timeout).map(Self::Unix),
        }
    }

    /// Begins to connect without blocking. The socket becomes writable once it is connected; a
    /// failure is reported by a read.
    pub(crate) fn begin_connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let family = match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                begin_connect(family, address).map(|socket| Self::Tcp(socket.into()))
            }
            Address::Unix(path) => {
                let address = SocketAddrUnix::new(path)?;
                let socket = begin_connect(AddressFamily::UNIX, &address);
                socket.map(|socket| Self::Unix(socket.into()))
            }
        }
    }

    /// Sets the socket options of a session.
    pub(crate) fn tune(&self, keepalives: &Keepalives) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => tune_tcp(stream, keepalives),
            Self::Unix(_) => Ok(()),
        }
    }

    /// The address of the peer, for another connection.
    pub(crate) fn peer(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Address::Tcp),
            Self::Unix(stream) => {
                let peer = stream.peer_addr()?;
                let path = peer.as_pathname();
                path.map(|path| Address::Unix(path.to_owned()))
                    .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
            }
        }
    }

    /// Writes without blocking; `None` if there is no room.
    fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        ready(|| send(self, bytes, flags))
    }

    /// Writes as much of the output as there is room for; returns whether that was all.
    pub(crate) fn drain(&self, protocol: &mut impl Protocol) -> io::Result<bool> {
        loop {
            let output = protocol.output();
            if output.is_empty() {
                return Ok(true);
            }
            match self.try_write(output)? {
                Some(size) => protocol.written(size),
                None => return Ok(false),
            }
        }
    }

    /// Reads without blocking; `None` if there is no input, zero at the end.
    pub(crate) fn try_read(&self, space: &mut [u8]) -> io::Result<Option<usize>> {
        ready(|| recv(self, &mut *space, RecvFlags::DONTWAIT).map(|(size, _)| size))
    }

    /// Reads, blocking until there is input.
    pub(crate) fn read(&self, space: &mut [u8]) -> io::Result<Option<usize>> {
        ready(|| recv(self, &mut *space, RecvFlags::empty()).map(|(size, _)| size))
    }

    /// Waits until it is readable, or also writable if `writes`, or until the deadline.
    pub(crate) fn wait(&self, writes: bool, deadline: Option<Instant>) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, writes);
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left).expect("a deadline is not centuries away")
        });
        match poll(&mut [PollFd::new(self, flags)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Sets the options of a TCP socket.
pub(crate) fn tune_tcp(socket: impl AsFd, keepalives: &Keepalives) -> io::Result<()> {
    let socket = socket.as_fd();
    // Each write is a complete batch, so Nagle's algorithm has no benefit.
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, keepalives.enabled)?;
    if let Some(idle) = keepalives.idle {
        sockopt::set_tcp_keepidle(socket, idle)?;
    }
    if let Some(interval) = keepalives.interval {
        sockopt::set_tcp_keepintvl(socket, interval)?;
    }
    if let Some(count) = keepalives.count {
        sockopt::set_tcp_keepcnt(socket, count)?;
    }
    if let Some(timeout) = keepalives.user_timeout {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, timeout_ms)?;
    }
    Ok(())
}

/// A local server accepts a connection at once, unless its backlog is full.
fn connect_unix(path: &Path, timeout: Option<Duration>) -> io::Result<UnixStream> {
    let Some(timeout) = timeout else {
        return UnixStream::connect(path);
    };
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    match connect(&socket, &address) {
        Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
        connected => connected?,
    }
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(socket.into())
}

fn begin_connect(family: AddressFamily, address: &impl SocketAddrArg) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// The result of a non-blocking call.
fn ready(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(size) => return Ok(Some(size)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
