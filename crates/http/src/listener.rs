//! Listening sockets.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};

use crate::peer::Peer;
use crate::{Address, Error, Listen, Result};

/// The number of connections that may wait to be accepted; the system may limit it further
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// A socket on which one thread accepts.
pub(crate) struct Listener {
    socket: OwnedFd,
    /// The index of the server's listener that it belongs to.
    pub(crate) listen_index: usize,
    /// Whether its connections are distributed over all threads. Those of a TCP socket are not,
    /// since each thread has its own socket.
    pub(crate) is_shared: bool,
    /// Whether it is registered with the poller.
    pub(crate) is_polled: bool,
    /// Removes the file of a Unix socket at the end.
    _file: Option<SocketFile>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// The next connection; `WouldBlock` when there is none.
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        if self.is_shared {
            return Ok((rustix::net::accept_with(&self.socket, flags)?, Peer::Unix));
        }
        let (socket, address) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        let peer = match address.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => Peer::Tcp(address),
            None => Peer::Unix,
        };
        Ok((socket, peer))
    }
}

/// Opens a listener for `thread_count` threads. Returns its address, and which thread accepts on
/// which socket.
pub(crate) fn open(
    listen: &Listen,
    listen_index: usize,
    thread_count: usize,
) -> Result<(Address, Vec<(usize, Listener)>)> {
    match &listen.address {
        Address::Tcp(address) => open_tcp(*address, listen_index, thread_count)
            .map_err(|error| Error::cannot_listen(address, error)),
        Address::Unix(path) => {
            let listener = open_unix(path, listen.mode, listen_index)
                .map_err(|error| Error::cannot_listen(&listen.address, error))?;
            // The kernel does not distribute connections of Unix sockets: one thread accepts for
            // all.
            let thread = listen_index % thread_count;
            Ok((listen.address.clone(), vec![(thread, listener)]))
        }
    }
}

fn open_tcp(
    mut address: SocketAddr,
    listen_index: usize,
    thread_count: usize,
) -> io::Result<(Address, Vec<(usize, Listener)>)> {
    if address.port() != 0 {
        // With `SO_REUSEPORT`, the port could be shared with another server of the same user, which
        // would get half of the requests. A bind without it detects that.
        bind_tcp(address, false)?;
    }
    let mut listeners = Vec::with_capacity(thread_count);
    for thread in 0..thread_count {
        let socket = bind_tcp(address, true)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let bound = rustix::net::getsockname(&socket)?;
        address = SocketAddr::try_from(bound)?;
        let listener = Listener {
            socket,
            listen_index,
            is_shared: false,
            is_polled: false,
            _file: None,
        };
        listeners.push((thread, listener));
    }
    Ok((Address::Tcp(address), listeners))
}

fn bind_tcp(address: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, is_shared)?;
    // Accepted sockets inherit it: replies are written as a whole, so Nagle's algorithm has no
    // benefit.
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrAny::from(address))?;
    Ok(socket)
}

fn open_unix(path: &Path, mode: u32, listen_index: usize) -> io::Result<Listener> {
    remove_stale(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    let file = SocketFile {
        inode: fs::metadata(path)?.ino(),
        path: path.to_owned(),
    };
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Listener {
        socket,
        listen_index,
        is_shared: true,
        is_polled: false,
        _file: Some(file),
    })
}

/// Removes the socket of a server that has ended, which is determined by connecting. A file that is
/// not a socket is kept.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            Err(error) => Err(error),
        },
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The file of a Unix socket, removed on drop if it is still ours.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have replaced it.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
