//! How a connection for tokio reaches its server: the hosts of a configuration in turn, and the
//! addresses of a host in turn.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::time::timeout_at;

use crate::driver::Target;
use crate::net::{Address, Attempt, Peer, Search, part, tune_tcp};
use crate::{Error, Result};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A server that was reached; nothing was sent yet.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) socket: Socket,
    pub(crate) address: Address,
    /// The peer for TLS, if TLS may be used.
    pub(crate) peer: Option<Peer>,
    /// The duration of the TCP handshake; zero for Unix sockets.
    pub(crate) round_trip: Duration,
}

/// Attempts the hosts of a configuration, each within its deadline, until one has a suitable
/// session. A failure that does not concern the host alone ends the search.
pub(crate) async fn first_session<C, T, F>(
    config: &C,
    attempt: impl Fn(Arc<C>, Attempt) -> F,
) -> Result<T>
where
    C: Target,
    F: Future<Output = Result<T>>,
{
    if Handle::try_current().is_err() {
        return Err(Error::no_runtime());
    }
    let config = config.clone();
    let mut search = spawn_blocking(move || Search::new(&config)).await?;
    while let Some(next) = search.next(Instant::now()) {
        let connecting = attempt(Arc::clone(search.config()), next.clone());
        let connected = match next.deadline {
            Some(deadline) => timeout_at(deadline.into(), connecting)
                .await
                .unwrap_or_else(|_| Err(Error::host_timeout(&next.host))),
            None => connecting.await,
        };
        match connected {
            Ok(session) => return Ok(session),
            Err(error) => search.failed(next, error)?,
        }
    }
    Err(search.into_error())
}

/// Connects to the first address of the host that can be reached.
pub(crate) async fn dial<C: Target>(config: &Arc<C>, attempt: &Attempt) -> Result<Dialed> {
    let resolved_host = {
        let (config, attempt) = (Arc::clone(config), attempt.clone());
        spawn_blocking(move || attempt.prepare(&*config)).await?
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let mut addresses = resolved_host.addresses.into_iter();
    while let Some(address) = addresses.next() {
        let left_count = addresses.len() + 1;
        let deadline = part(attempt.deadline, left_count, Instant::now());
        let began = Instant::now();
        let connected = match &address {
            Address::Tcp(address) => connect_tcp(*address, deadline).await.map(Socket::Tcp),
            Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        };
        match connected {
            Ok(socket) => {
                let mut round_trip = Duration::ZERO;
                if let Socket::Tcp(stream) = &socket {
                    round_trip = began.elapsed();
                    tune_tcp(stream, &config.keepalives()).map_err(Error::socket)?;
                }
                return Ok(Dialed {
                    socket,
                    address,
                    peer: resolved_host.peer,
                    round_trip,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(Error::cannot_connect(&attempt.host, last))
}

async fn connect_tcp(address: SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect(address);
    match deadline {
        Some(deadline) => timeout_at(deadline.into(), connecting).await?,
        None => connecting.await,
    }
}

/// Runs blocking work on another thread.
async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    // The work does not panic, so the cause is the end of the runtime.
    done.unwrap_or_else(|_| Err(Error::closed()))
}
