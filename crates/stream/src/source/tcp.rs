//! A TCP listener as source: many connections, each with its own lane.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::block::{Block, BlockRead, Cut, Cutter, Eof, Lane, Skip};
use super::octet_counting::OctetCounting;
use super::{LINGER, TcpFraming};
use crate::wake::{Wait, Waited, Wake};
use crate::{Error, Result};

/// The most open connections; further ones wait in the backlog until others close: each may buffer
/// the beginning of a record, and each is polled.
const CONNECTION_COUNT_MAX: usize = 1024;

/// All connections together may buffer this many records of maximal size, or one block each if that
/// is more; checked whenever a connection waits for the rest of a record.
const LONG_RECORD_COUNT_MAX: usize = 4;

/// Accepts connections and reads those that have data, in turn.
pub(super) struct Listener {
    listener: TcpListener,
    framing: TcpFraming,
    record_size_max: usize,
    name: String,
    connections: Vec<Connection>,
    /// Connections that can be read, in ascending order and taken from the end: removing the last
    /// of them moves none of the others.
    ready: Vec<usize>,
    accepting: Accepting,
    wake: Wake,
}

/// Whether more connections are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepting {
    Open,
    /// The process has no descriptor left until a connection closes.
    Exhausted,
}

struct Connection {
    stream: Stream,
    lane: Lane,
}

/// The bytes of a connection, as lines.
enum Stream {
    Lines(TcpStream),
    Counted(Box<OctetCounting<TcpStream>>),
}

impl Stream {
    fn new(stream: TcpStream, framing: TcpFraming, size_max: usize) -> Self {
        match framing {
            TcpFraming::Lines => Self::Lines(stream),
            TcpFraming::OctetCounting => {
                Self::Counted(Box::new(OctetCounting::new(stream, size_max)))
            }
        }
    }

    /// Whether lines were received that a block had no room for.
    fn has_lines(&self) -> bool {
        matches!(self, Self::Counted(counted) if counted.has_lines())
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Lines(stream) => stream.read(room),
            Self::Counted(stream) => stream.read(room),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Lines(stream) => stream.as_fd(),
            Self::Counted(counted) => counted.inner().as_fd(),
        }
    }
}

/// Why reading a connection paused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    Silent,
    Full,
    Closed,
}

impl Listener {
    pub(super) fn new(
        listener: TcpListener,
        framing: TcpFraming,
        record_size_max: usize,
        name: String,
        wake: Wake,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            framing,
            record_size_max,
            name,
            connections: Vec::new(),
            ready: Vec::new(),
            accepting: Accepting::Open,
            wake,
        })
    }

    /// Fills a block with records of one connection.
    pub(super) fn read_block(&mut self, block: &mut Block, cutter: &Cutter) -> Result<BlockRead> {
        loop {
            if self.wake.is_raised() {
                return Ok(BlockRead::Stopped);
            }
            let Some(index) = self.ready.pop() else {
                let polled = self.poll();
                match polled.map_err(|error| Error::read_input(&self.name, error))? {
                    Waited::Stopped => return Ok(BlockRead::Stopped),
                    Waited::Ready | Waited::TimedOut => continue,
                }
            };
            let (pause, found) = self.read_connection(index, block, cutter)?;
            if pause == Pause::Closed {
                self.connections.swap_remove(index);
                self.accepting = Accepting::Open;
            }
            if found {
                return Ok(BlockRead::Filled);
            }
        }
    }

    /// Waits for bytes or connections, and accepts the latter.
    fn poll(&mut self) -> io::Result<Waited> {
        let streams = self.connections.iter().map(|c| c.stream.as_fd());
        let mut fds: Vec<BorrowedFd<'_>> = streams.collect();
        let listener = fds.len();
        if listener < CONNECTION_COUNT_MAX && self.accepting == Accepting::Open {
            fds.push(self.listener.as_fd());
        }
        let waited = self.wake.wait_any(&fds, Wait::Forever, &mut self.ready)?;
        if self.ready.last() == Some(&listener) {
            self.ready.pop();
            self.accept()?;
        }
        Ok(waited)
    }

    fn accept(&mut self) -> io::Result<()> {
        match self.listener.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                let lane = Lane::new(format!("tcp://{peer}").into());
                let stream = Stream::new(stream, self.framing, self.record_size_max);
                self.connections.push(Connection { stream, lane });
                Ok(())
            }
            // The peer closed the connection before it was accepted, which does not affect the
            // listener.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            Err(error) if is_exhausted(&error) && !self.connections.is_empty() => {
                self.accepting = Accepting::Exhausted;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a connection until it pauses; also returns whether the block has records.
    fn read_connection(
        &mut self,
        index: usize,
        block: &mut Block,
        cutter: &Cutter,
    ) -> Result<(Pause, bool)> {
        // Other connections must not wait for this one to continue.
        let linger = (self.connections.len() == 1).then_some(LINGER);
        let Connection { stream, lane } = &mut self.connections[index];
        let mut cut = lane.begin(block, cutter)?;
        let pause = loop {
            if cut == Cut::Full {
                if stream.has_lines() {
                    // They are not seen by a poll. The connection was the last of those in order.
                    self.ready.push(index);
                }
                return Ok((Pause::Full, true));
            }
            match stream.read(lane.room(block, cutter)) {
                Ok(0) => break Pause::Closed,
                Ok(size) => cut = lane.filled(size, block, cutter)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match linger {
                    Some(linger) if cut == Cut::Open => {
                        let fds = [stream.as_fd(), self.listener.as_fd()];
                        let wait = Wait::AtMost(linger);
                        let waited = self.wake.wait_any(&fds, wait, &mut self.ready);
                        let alone = self.ready == [0];
                        self.ready.clear();
                        match waited {
                            Ok(Waited::Ready) if alone => {}
                            Ok(_) => break Pause::Silent,
                            Err(error) => return Err(Error::read_input(&self.name, error)),
                        }
                    }
                    _ => break Pause::Silent,
                },
                // The next read fails again.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    if lane.end(block, cutter, Eof::Ahead)? {
                        self.ready.push(index);
                        return Ok((Pause::Full, true));
                    }
                    lane.suspend(block);
                    lane.give_up(block, Skip::Broken(error.to_string()));
                    return Ok((Pause::Closed, true));
                }
                // After a reset, as after a close, the received data is complete records or a last
                // line.
                Err(_) => break Pause::Closed,
            }
        };
        let eof = match pause {
            Pause::Closed => Eof::Reached,
            _ => Eof::Ahead,
        };
        let found = lane.end(block, cutter, eof)?;
        if !found && pause == Pause::Silent {
            lane.suspend(block);
            return Ok((pause, self.make_room(index, block, cutter)));
        }
        Ok((pause, found))
    }

    /// Skips the incomplete record of a connection if all of them buffer too much; returns whether
    /// it did.
    fn make_room(&mut self, index: usize, block: &mut Block, cutter: &Cutter) -> bool {
        let sizes = self.connections.iter().map(|c| c.lane.carry_size());
        let size_max = cutter.record_size_max.saturating_mul(LONG_RECORD_COUNT_MAX);
        // The connection that grew last is chosen, as it certainly contributes.
        let crowded = sizes.sum::<usize>() > size_max;
        if crowded {
            self.connections[index].lane.give_up(block, Skip::Crowded);
        }
        crowded
    }
}

/// Whether `accept` failed because this process or the system has no descriptor or memory left.
fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|known| Some(known.raw_os_error()) == code)
}
