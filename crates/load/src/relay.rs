//! A link with a delay: a relay to a server that delays all bytes in each direction.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The size of one read. What was read is passed on when its time has come, however little it is.
const READ_SIZE: usize = 64 * 1024;

/// The limit of reads in transit, which bounds the memory: when the link is full, the sender waits.
const READ_COUNT_MAX: usize = 1024;

/// A relay, which runs until the program ends.
#[derive(Clone, Copy, Debug)]
pub struct Relay {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 and forwards to `target`, with `delay` in each
    /// direction.
    ///
    /// # Errors
    ///
    /// When no port or thread is available.
    pub fn start(target: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        thread::Builder::new()
            .name("load-relay".into())
            .spawn(move || {
                for client in listener.incoming().flatten() {
                    // If the server cannot be reached, the client gets the end of the stream.
                    let _ = join(client, target, delay);
                }
            })?;
        Ok(Self { port })
    }
}

/// Forwards between two sockets until both have ended.
fn join(client: TcpStream, target: SocketAddr, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
    }
    pass(client.try_clone()?, server.try_clone()?, delay)?;
    pass(server, client, delay)
}

/// Forwards in one direction: one thread reads and records the time, another writes when the delay
/// has passed.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) -> io::Result<()> {
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(READ_COUNT_MAX);
    let builder = || thread::Builder::new().name("load-relay".into());
    builder().spawn(move || {
        let mut buffer = vec![0; READ_SIZE];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let due = Instant::now() + delay;
            if sender.send((due, buffer[..size].to_vec())).is_err() {
                return;
            }
        }
    })?;
    builder().spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other side may have closed already.
        let _ = to.shutdown(Shutdown::Write);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_late_and_in_their_order() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let delay = Duration::from_millis(20);
        let relay = Relay::start(server.local_addr().unwrap(), delay).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
        let (mut peer, _) = server.accept().unwrap();
        let echo = thread::spawn(move || {
            let mut all = Vec::new();
            let mut buffer = [0; 1000];
            while let Ok(size @ 1..) = peer.read(&mut buffer) {
                peer.write_all(&buffer[..size]).unwrap();
                all.extend_from_slice(&buffer[..size]);
            }
            all
        });
        let sent: Vec<u8> = (0..50_000_u32).map(|index| index as u8).collect();
        let begin = Instant::now();
        client.write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        client.read_exact(&mut received).unwrap();
        assert!(begin.elapsed() >= 2 * delay, "{:?}", begin.elapsed());
        client.shutdown(Shutdown::Write).unwrap();
        assert!(echo.join().unwrap() == sent && received == sent);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
