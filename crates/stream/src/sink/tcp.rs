//! A TCP connection as sink, reopened when it is lost.
//!
//! TCP does not tell a sender what its peer has read. So after a loss, the last lines are sent
//! again over the next connection: the peer may get lines twice, and older lines are lost if they
//! were still in the buffers between the two programs. Both are counted.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::SinkTarget;
use super::replay::Replay;
use crate::Reconnects;
use crate::wake::{Wait, Waited, Wake};

/// How a sink handles the loss of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// The size of the complete lines that are sent again over the next connection, in bytes. 1 MiB
    /// by default: more than the buffers of both ends usually hold, and negligible for a process.
    pub replay_bytes: usize,
    /// How long the peer may be unavailable until the run fails. One minute by default, enough for
    /// a restart.
    pub reconnect_timeout: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            replay_bytes: 1 << 20,
            reconnect_timeout: Duration::from_secs(60),
        }
    }
}

/// The first pause between two attempts; each is twice as long as the previous one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Practically unlimited, without overflow of the clock.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximal size of the buffers between two programs: Linux's default limits for a sender (4
/// MiB) and a receiver (6 MiB).
const BUFFERED_SIZE_MAX: u64 = 10 << 20;

/// How long the peer may take to close its side after the end was signalled. A peer that does so
/// has read everything; of one that does not, nothing is known.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection, and the state for reconnecting.
pub(super) struct Connection {
    address: String,
    options: TcpOptions,
    stream: TcpStream,
    opened: Instant,
    /// How long to wait before the next attempt to open another.
    pause: Duration,
    /// The number of bytes written to this connection.
    sent: u64,
    /// The part of `sent` that belongs to the current write.
    partial: usize,
    /// The column names, with which each connection begins.
    header: Vec<u8>,
    /// Whether the header still has to be sent on this connection.
    is_header_pending: bool,
    /// Whether the next write begins with the header.
    begins_with_header: bool,
    replay: Replay,
    /// Whether the peer has closed its sending side. It may still read, as `ncat` without input
    /// does.
    half_closed: bool,
    wake: Option<Wake>,
    reconnects: Arc<Mutex<Reconnects>>,
}

impl Connection {
    pub(super) fn open(
        address: &str,
        options: TcpOptions,
        reconnects: Arc<Mutex<Reconnects>>,
    ) -> io::Result<Self> {
        Ok(Self {
            address: address.to_owned(),
            options,
            stream: connect(address)?,
            opened: Instant::now(),
            pause: Duration::ZERO,
            sent: 0,
            partial: 0,
            header: Vec::new(),
            is_header_pending: false,
            begins_with_header: false,
            replay: Replay::new(options.replay_bytes),
            half_closed: false,
            wake: None,
            reconnects,
        })
    }

    /// Writes to the current connection, with the header first if it is pending.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.partial = 0;
        self.listen()?;
        if self.is_header_pending {
            let header = mem::take(&mut self.header);
            let sent = self.send(&header);
            self.header = header;
            // The header is not counted: if it is lost, the next connection begins with it again.
            (self.sent, self.partial) = (0, 0);
            sent?;
            self.is_header_pending = false;
        }
        self.send(bytes)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.sent += size as u64;
                    self.partial += size;
                    bytes = &bytes[size..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what the peer sent, without waiting, to detect a closed connection before more is
    /// sent. The data is discarded.
    fn listen(&mut self) -> io::Result<()> {
        let mut scratch = [0; 1024];
        while !self.half_closed {
            let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec::default())) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            self.half_closed = self.stream.read(&mut scratch)? == 0;
        }
        Ok(())
    }

    /// Repeats `attempt` over this connection and its successors until it succeeds. The first
    /// attempt after the deadline is the last one, as is one after a stop.
    fn persist(&mut self, mut attempt: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let Err(mut loss) = attempt(self) else {
            return Ok(());
        };
        let deadline = self.deadline();
        loop {
            let is_last = self.reconnect(loss, deadline)?;
            match attempt(self) {
                Ok(()) => return Ok(()),
                Err(error) if is_last => return Err(error),
                Err(error) => loss = error,
            }
        }
    }

    /// Opens the next connection, after increasing pauses, and sends the last lines over it;
    /// returns whether it was the last attempt.
    fn reconnect(&mut self, loss: io::Error, deadline: Instant) -> io::Result<bool> {
        let first = loss.to_string();
        if self.opened.elapsed() > PAUSE_MAX * 2 {
            self.pause = Duration::ZERO;
        }
        loop {
            let is_last = Instant::now() >= deadline || self.wait()? == Waited::Stopped;
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            let attempt = connect(&self.address).and_then(|stream| {
                self.succeed(stream);
                let lines = self.replay.lines().to_vec();
                self.try_write(&lines)
            });
            match attempt {
                Ok(()) => return Ok(is_last),
                Err(error) if is_last => {
                    let message = format!(
                        "the connection was lost ({first}) and could not be opened again: {error}"
                    );
                    return Err(io::Error::new(error.kind(), message));
                }
                Err(_) => {}
            }
        }
    }

    /// Switches to the next connection and counts what is sent again and what may be lost.
    fn succeed(&mut self, stream: TcpStream) {
        let lines = self.replay.lines();
        // The current write is sent again too, from its beginning.
        let again = (lines.len() + self.partial) as u64;
        let lost = self.sent.saturating_sub(again).min(BUFFERED_SIZE_MAX);
        let line_count = memchr_iter(b'\n', lines).count();
        self.reconnects
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(Reconnects {
                count: 1,
                replayed_lines: line_count as u64,
                replayed_bytes: lines.len() as u64,
                lost_bytes_max: lost,
            });
        self.stream = stream;
        self.opened = Instant::now();
        self.sent = 0;
        self.is_header_pending = true;
        self.half_closed = false;
    }

    /// Waits before an attempt, so that a peer that accepts and closes is not contacted in a busy
    /// loop.
    fn wait(&self) -> io::Result<Waited> {
        match &self.wake {
            Some(wake) => wake.wait(None, Wait::AtMost(self.pause)),
            None => {
                thread::sleep(self.pause);
                Ok(Waited::TimedOut)
            }
        }
    }

    fn deadline(&self) -> Instant {
        let now = Instant::now();
        let deadline = now.checked_add(self.options.reconnect_timeout);
        deadline.unwrap_or(now + TIMEOUT_MAX)
    }

    /// Closes the sending side, and waits until the peer has read everything or the connection is
    /// lost.
    fn try_finish(&mut self) -> io::Result<()> {
        self.listen()?;
        match self.stream.shutdown(Shutdown::Write) {
            // The connection is lost; the following read reports it if possible.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            done => done?,
        }
        let begun = Instant::now();
        let mut scratch = [0; 1024];
        while !self.half_closed {
            let left = CLOSE_TIMEOUT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut scratch) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted
                            | io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        // A peer that closed earlier answers later data with a reset, after a round trip.
        while begun.elapsed() < CLOSE_TIMEOUT / 2 {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            thread::sleep(PAUSE_MIN);
        }
        Ok(())
    }
}

impl SinkTarget for Connection {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if mem::take(&mut self.begins_with_header) {
            bytes = bytes.strip_prefix(&*self.header).unwrap_or(bytes);
        }
        self.persist(|connection| connection.try_write(bytes))?;
        self.replay.push(bytes);
        self.partial = 0;
        Ok(())
    }

    fn set_header(&mut self, header: &[u8]) {
        self.header = header.to_vec();
        self.is_header_pending = true;
        self.begins_with_header = true;
    }

    fn attach(&mut self, wake: &Wake) {
        self.wake = Some(wake.clone());
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.persist(Self::try_finish)
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::InvalidInput);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                // Batches are large, or small for low latency.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
