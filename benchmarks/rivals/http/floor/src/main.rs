//! rival-http-floor: no server, but what one cannot be cheaper than. It reads, counts bytes, and
//! writes; what it is asked it never looks at, but for the length of the first request of each
//! connection, which all others have to have.
//!
//! PORT=8080, or SOCKET=/path instead. A thread a core, each with an epoll of its own.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::{env, fs, thread};

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

/// As long as what servers with a Date say.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 00:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
const LISTENER: u64 = u64::MAX;
/// Requests that are answered at once.
const PIPELINED_MAX: usize = 1024;

fn main() -> Result<()> {
    let listener: OwnedFd = match env::var("SOCKET") {
        Ok(path) => {
            let _ = fs::remove_file(&path);
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            listener.into()
        }
        Err(_) => {
            let port = env::var("PORT").unwrap_or("8080".into()).parse()?;
            let listener = TcpListener::bind(("0.0.0.0", port))?;
            listener.set_nonblocking(true)?;
            listener.into()
        }
    };
    let thread_count = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count)
            .map(|_| scope.spawn(|| serve(&listener)))
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics")?;
        }
        Ok(())
    })
}

struct Connection {
    socket: OwnedFd,
    request_size: usize,
    /// Of the request that came in part.
    part_size: usize,
}

fn serve(listener: &OwnedFd) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), flags)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut input = vec![0; 64 << 10];
    let answers = ANSWER.repeat(PIPELINED_MAX);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let index = event.data.u64();
            if index == LISTENER {
                accept(listener, &epoll, &mut connections)?;
                continue;
            }
            let slot = &mut connections[index as usize];
            let connection = slot.as_mut().context("its events end with it")?;
            if !answer(connection, &mut input, &answers) {
                *slot = None;
            }
        }
    }
}

fn accept(
    listener: &OwnedFd,
    epoll: &OwnedFd,
    connections: &mut Vec<Option<Connection>>,
) -> Result<()> {
    let Ok(socket) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else {
        return Ok(());
    };
    // A Unix socket has none, and needs none.
    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
    let index = match connections.iter().position(Option::is_none) {
        Some(index) => index,
        None => {
            connections.push(None);
            connections.len() - 1
        }
    };
    let data = epoll::EventData::new_u64(index as u64);
    epoll::add(epoll, &socket, data, epoll::EventFlags::IN)?;
    connections[index] = Some(Connection {
        socket,
        request_size: 0,
        part_size: 0,
    });
    Ok(())
}

/// Whether the connection goes on.
fn answer(connection: &mut Connection, input: &mut [u8], answers: &[u8]) -> bool {
    let size = match recv(connection.socket.as_fd(), &mut *input, RecvFlags::empty()) {
        Ok((0, _)) => return false,
        Ok((size, _)) => size,
        Err(Errno::AGAIN | Errno::INTR) => return true,
        Err(_) => return false,
    };
    if connection.request_size == 0 {
        let end = input[..size]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let Some(end) = end else { return false };
        connection.request_size = end + 4;
    }
    let all = connection.part_size + size;
    let count = all / connection.request_size;
    connection.part_size = all % connection.request_size;
    let answers = &answers[..count.min(PIPELINED_MAX) * ANSWER.len()];
    // What does not fit into the socket is lost: the generator would say so.
    count <= PIPELINED_MAX
        && send(&connection.socket, answers, SendFlags::NOSIGNAL) == Ok(answers.len())
}
