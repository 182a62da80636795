//! A UDP socket as source: one datagram is one event.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Input, ReadOutcome};
use crate::Progress;
use crate::wake::{Wait, Waited, Wake};

/// The largest datagram.
const DATAGRAM_SIZE_MAX: usize = 65_535;

/// The requested size of the kernel's buffer, which it limits to `net.core.rmem_max`.
const KERNEL_BUFFER_SIZE: usize = 8 << 20;

/// More datagrams than the kernel's buffer has room for.
const UNREAD_COUNT_MAX: usize = 100_000;

/// How often the kernel is queried for what it has lost.
const LOSS_INTERVAL: Duration = Duration::from_secs(1);

/// Reads datagrams as lines. Line breaks within one become spaces, and those at its end are removed.
/// What the system still holds at the end counts as lost.
pub(super) struct Udp {
    socket: UdpSocket,
    wake: Wake,
    progress: Progress,
    datagram: Vec<u8>,
    /// The line of the last datagram, from `returned` on, that did not fit into the room of a read.
    line_size: usize,
    returned: usize,
    loss: Loss,
}

impl Udp {
    pub(super) fn new(socket: UdpSocket, wake: Wake, progress: Progress) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // As large as the system permits.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, KERNEL_BUFFER_SIZE);
        Ok(Self {
            loss: Loss::of(&socket)?,
            socket,
            wake,
            progress,
            // With the newline.
            datagram: vec![0; DATAGRAM_SIZE_MAX + 1],
            line_size: 0,
            returned: 0,
        })
    }

    /// Receives a datagram, if there is one; the line of an empty one is empty.
    fn receive(&mut self) -> io::Result<bool> {
        let room = &mut self.datagram[..DATAGRAM_SIZE_MAX];
        let size = match self.socket.recv(room) {
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        self.returned = 0;
        let end = room[..size].iter().rposition(|byte| !is_break(byte));
        let Some(last) = end else {
            self.line_size = 0;
            return Ok(true);
        };
        room[..last]
            .iter_mut()
            .filter(|byte| is_break(byte))
            .for_each(|byte| *byte = b' ');
        self.datagram[last + 1] = b'\n';
        self.line_size = last + 2;
        Ok(true)
    }
}

impl Input for Udp {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<ReadOutcome> {
        let mut filled = 0;
        let deadline = match wait {
            Wait::Forever => None,
            Wait::AtMost(time) => Instant::now().checked_add(time),
        };
        loop {
            let line = &self.datagram[self.returned..self.line_size];
            let size = line.len().min(room.len() - filled);
            room[filled..filled + size].copy_from_slice(&line[..size]);
            self.returned += size;
            filled += size;
            // Datagrams, also empty ones, may come without a pause.
            if filled < room.len() && !self.wake.is_raised() && self.receive()? {
                continue;
            }
            if filled > 0 {
                self.loss.count(&self.progress);
                return Ok(ReadOutcome::Bytes(filled));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(LOSS_INTERVAL).min(LOSS_INTERVAL);
            match self
                .wake
                .wait(Some(self.socket.as_fd()), Wait::AtMost(wait))?
            {
                Waited::Ready => {}
                Waited::Stopped => {
                    return Ok(ReadOutcome::Stopped);
                }
                Waited::TimedOut => {
                    self.loss.count(&self.progress);
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return Ok(ReadOutcome::Idle);
                    }
                }
            }
        }
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.loss.queried = None;
        self.loss.count(&self.progress);
        // More may come all the time.
        let unread = (0..UNREAD_COUNT_MAX).take_while(|_| self.socket.recv(&mut []).is_ok());
        self.progress.add_lost_datagrams(unread.count() as u64);
    }
}

/// The datagrams that the kernel discarded because its buffer was full, as `/proc/net/udp` has them.
struct Loss {
    /// Of the socket, which identifies it there.
    inode: u64,
    counted: u64,
    queried: Option<Instant>,
}

impl Loss {
    fn of(socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self {
            inode: rustix::fs::fstat(socket)?.st_ino,
            counted: 0,
            queried: None,
        })
    }

    /// Adds what was lost since the last time; a system without these files counts nothing.
    fn count(&mut self, progress: &Progress) {
        if self
            .queried
            .is_some_and(|queried| queried.elapsed() < LOSS_INTERVAL)
        {
            return;
        }
        self.queried = Some(Instant::now());
        let tables = ["/proc/net/udp", "/proc/net/udp6"];
        let texts = tables
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        let lost = texts.filter_map(|text| lost(&text, self.inode)).next();
        if let Some(lost) = lost {
            progress.add_lost_datagrams(lost.saturating_sub(self.counted));
            self.counted = lost;
        }
    }
}

/// The last column of the socket's line.
fn lost(table: &str, inode: u64) -> Option<u64> {
    const INODE_COLUMN: usize = 9;
    let inode = inode.to_string();
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace());
    let line = lines.find(|line| line.clone().nth(INODE_COLUMN) == Some(&inode));
    line?.next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StopFlag;

    fn open() -> (Udp, UdpSocket) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr().unwrap()).unwrap();
        let wake = Wake {
            stop: StopFlag::new().unwrap(),
            abort: StopFlag::new().unwrap(),
        };
        (Udp::new(socket, wake, Progress::new()).unwrap(), sender)
    }

    /// All lines that are there, read in pieces.
    fn read_all(udp: &mut Udp, room_size: usize) -> String {
        let (mut found, mut room) = (Vec::new(), vec![0; room_size]);
        while let ReadOutcome::Bytes(size) =
            udp.read(&mut room, Wait::AtMost(Duration::ZERO)).unwrap()
        {
            found.extend_from_slice(&room[..size]);
        }
        String::from_utf8(found).unwrap()
    }

    #[test]
    fn a_datagram_is_a_line() {
        for room_size in [1, 3, 100_000] {
            let (mut udp, sender) = open();
            let largest = "x".repeat(65_507);
            for datagram in ["<1>a", "", "\r\n", "<1>b\n", "c\r\nd\r\n\n", &largest] {
                sender.send(datagram.as_bytes()).unwrap();
            }
            let found = read_all(&mut udp, room_size);
            assert_eq!(found, format!("<1>a\n<1>b\nc  d\n{largest}\n"));
        }
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let (mut udp, _sender) = open();
        let stop = udp.wake.stop.clone();
        let thread = std::thread::spawn(move || udp.read(&mut [0; 9], Wait::Forever).unwrap());
        stop.raise();
        assert_eq!(thread.join().unwrap(), ReadOutcome::Stopped);
    }

    #[test]
    fn what_is_not_read_counts_as_lost() {
        let (mut udp, sender) = open();
        for _ in 0..5 {
            sender.send(b"x").unwrap();
        }
        let mut room = [0; 2];
        udp.read(&mut room, Wait::Forever).unwrap();
        let progress = udp.progress.clone();
        drop(udp);
        assert_eq!(progress.figures().datagrams_lost, 4);
    }

    #[test]
    fn what_does_not_fit_into_the_buffer_is_counted() {
        let (mut udp, sender) = open();
        rustix::net::sockopt::set_socket_recv_buffer_size(&udp.socket, 4096).unwrap();
        let sent = 1000;
        for _ in 0..sent {
            sender.send(&[b'x'; 100]).unwrap();
        }
        let received = read_all(&mut udp, 1000).lines().count() as u64;
        udp.loss.queried = None;
        udp.loss.count(&udp.progress);
        let lost = udp.progress.figures().datagrams_lost;
        assert!(lost > 0 && received > 0);
        assert_eq!(received + lost, sent);
    }
}
