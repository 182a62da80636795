//! All kinds of connections on sockets that fail, and on servers that are awkward.

mod away;
mod bounds;
mod cuts;
mod cutting;
mod feed;
mod foreign;
mod hosts;
mod leaks;
mod pools;
mod syncs;
mod waits;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lookaside_client::{PostgresConfig, Request};
use lookaside_value::Value;

use crate::driver::server::Server;
use crate::live::config;

/// A server in memory behind a socket. It ends with the test's process.
pub(crate) struct Site {
    pub(crate) port: u16,
    /// How many connections are open.
    open_count: Arc<AtomicUsize>,
    /// How many there were.
    pub(crate) count: Arc<AtomicUsize>,
}

/// After how many bytes a connection is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) received: usize,
    pub(crate) sent: usize,
}

pub(crate) const NO_CUT: Cut = Cut {
    received: usize::MAX,
    sent: usize::MAX,
};

impl Site {
    pub(crate) fn start(cut: Cut) -> Self {
        Self::serve(move |socket| protocol(socket, cut))
    }

    /// Accepts connections and sends nothing.
    pub(crate) fn silent() -> Self {
        Self::serve(|mut socket| {
            // Until the client goes.
            let mut received = [0; 1024];
            while matches!(socket.read(&mut received), Ok(1..)) {}
        })
    }

    pub(crate) fn serve(protocol: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = Self {
            port,
            open_count: Arc::default(),
            count: Arc::default(),
        };
        let (open_count, count) = (Arc::clone(&site.open_count), Arc::clone(&site.count));
        let protocol = Arc::new(protocol);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (protocol, open_count) = (Arc::clone(&protocol), Arc::clone(&open_count));
                // Only the numbers matter here and below, and who reads them waits for them.
                count.fetch_add(1, Ordering::SeqCst);
                open_count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    protocol(socket.unwrap());
                    open_count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        site
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open_count.load(Ordering::SeqCst)
    }

    pub(crate) fn config(&self, settings: &str) -> PostgresConfig {
        let port = self.port;
        config(&format!(
            "postgres://amy@127.0.0.1:{port}/shop?sslmode=disable{settings}"
        ))
    }
}

fn protocol(mut socket: TcpStream, cut: Cut) {
    let mut server = Server::default();
    let (mut received, mut sent) = (0, 0);
    let mut space = [0; 4096];
    loop {
        let size_max = space.len().min(cut.received - received);
        let size = match socket.read(&mut space[..size_max]) {
            Ok(size @ 1..) => size,
            // The client's end, or the cut.
            _ => break,
        };
        received += size;
        server.receive(&space[..size]);
        let answer = server.answer();
        let size = answer.len().min(cut.sent - sent);
        sent += size;
        if socket.write_all(&answer[..size]).is_err() || sent == cut.sent {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}

/// Two queries, one after the other.
pub(crate) fn requests() -> Vec<Request> {
    [7, 8]
        .map(|number| Request::new("select $1", &[Value::Int(number)]))
        .into()
}
