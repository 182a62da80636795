//! A link to the server that can be disturbed: cut in the middle of a message, stopped, or slow.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// The size of one read.
const READ_SIZE: usize = 16 * 1024;

/// What happens to bytes that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// They are held until the mode is another one; the connections stay open.
    Hold,
    /// Half of them is passed on, and the connection is closed.
    Cut,
    /// Those of the server are passed on late.
    Slow,
}

/// How late, in milliseconds: longer than a change of a row takes to the caches.
const SLOW_MS: RangeInclusive<u64> = 1..=20;

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Both ends of each connection. Those that have ended are removed when another one begins.
    links: Vec<Weak<Link>>,
    /// Connections that were cut in the current phase.
    cut_count: u64,
}

/// A connection of a client and its connection to the server.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
}

impl Link {
    fn close(&self) {
        // They may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mode, as soon as bytes are not held.
    fn mode(&self) -> Mode {
        let mut state = self.lock();
        while state.mode == Mode::Hold {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.mode
    }

    fn set(&self, mode: Mode) {
        self.lock().mode = mode;
        self.changed.notify_all();
    }
}

/// A relay, whose connections run until they end by themselves. Its listener ends with the process.
#[derive(Debug)]
pub(super) struct Relay {
    /// Where it listens, on 127.0.0.1.
    pub(super) port: u16,
    shared: Arc<Shared>,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 and forwards to `target`.
    pub(super) fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                mode: Mode::Pass,
                links: Vec::new(),
                cut_count: 0,
            }),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client gets the end of the stream.
                let _ = join(client, target, &of_thread);
            }
        })?;
        Ok(Self { port, shared })
    }

    /// Holds all bytes until [`pass`](Self::pass). Returns the number of open connections.
    pub(super) fn hold(&self) -> u64 {
        self.shared.set(Mode::Hold);
        self.links().len() as u64
    }

    /// Cuts each connection in the middle of what it passes on next, until [`pass`](Self::pass).
    pub(super) fn cut(&self) {
        self.shared.lock().cut_count = 0;
        self.shared.set(Mode::Cut);
    }

    /// Passes the bytes of the server on late, until [`pass`](Self::pass). Returns the number of open
    /// connections.
    pub(super) fn slow(&self) -> u64 {
        self.shared.set(Mode::Slow);
        self.links().len() as u64
    }

    /// Passes bytes on again.
    pub(super) fn pass(&self) {
        self.shared.set(Mode::Pass);
    }

    /// How many connections were cut since [`cut`](Self::cut).
    pub(super) fn cut_count(&self) -> u64 {
        self.shared.lock().cut_count
    }

    /// Closes all connections, and returns how many there were.
    pub(super) fn close_all(&self) -> u64 {
        let links = self.links();
        links.iter().for_each(|link| link.close());
        links.len() as u64
    }

    fn links(&self) -> Vec<Arc<Link>> {
        let state = self.shared.lock();
        state.links.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Forwards between two sockets until both have ended.
fn join(client: TcpStream, target: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
    let link = Arc::new(Link { client, server });
    let mut state = shared.lock();
    state.links.retain(|link| link.strong_count() > 0);
    state.links.push(Arc::downgrade(&link));
    drop(state);
    for (from, to_server) in [(from_client, true), (from_server, false)] {
        let (link, shared) = (Arc::clone(&link), Arc::clone(shared));
        spawn(move || {
            pass(from, &link, to_server, &shared);
            link.close();
        })?;
    }
    Ok(())
}

fn pass(mut from: TcpStream, link: &Link, to_server: bool, shared: &Shared) {
    let mut to = match to_server {
        true => &link.server,
        false => &link.client,
    };
    let mut buffer = vec![0; READ_SIZE];
    while let Ok(size @ 1..) = from.read(&mut buffer) {
        let mode = shared.mode();
        if mode == Mode::Slow && !to_server {
            // sleep: a slow link
            thread::sleep(Duration::from_millis(fastrand::u64(SLOW_MS)));
        }
        let is_cut = mode == Mode::Cut;
        let size = if is_cut { size / 2 } else { size };
        if to.write_all(&buffer[..size]).is_err() {
            return;
        }
        if is_cut {
            shared.lock().cut_count += 1;
            return;
        }
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("verify-relay".into());
    thread.spawn(body).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, on one connection.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut buffer = [0; 100];
                    while let Ok(size @ 1..) = stream.read(&mut buffer) {
                        stream.write_all(&buffer[..size]).unwrap();
                    }
                });
            }
        });
        address
    }

    #[test]
    fn a_link_passes_holds_delays_and_cuts() {
        let relay = Relay::start(echo()).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
        let mut received = [0; 4];
        client.write_all(b"1234").unwrap();
        client.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"1234");

        assert_eq!(relay.hold(), 1);
        client.write_all(b"5678").unwrap();
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut received).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
        relay.pass();
        client.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"5678");

        assert_eq!(relay.slow(), 1);
        client.write_all(b"1234").unwrap();
        client.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"1234");

        relay.cut();
        client.write_all(b"9876").unwrap();
        // The server gets half of it at most, and its answer does not come as a whole.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(rest.len() < 4, "{rest:?}");
        // The other direction may have been cut, too.
        assert!(relay.cut_count() >= 1);
        relay.pass();
        let mut client = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
        client.write_all(b"1234").unwrap();
        client.read_exact(&mut received).unwrap();
        assert!(relay.close_all() >= 1);
        assert_eq!(client.read(&mut received).unwrap_or(0), 0);
    }
}
