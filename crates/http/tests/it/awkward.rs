//! A service whose handlers make errors, and delay clients.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lookaside_http::{
    BodyReader, Deferred, Io, Listen, Method, Options, Response, Route, Router, Server, Ticket,
};

use crate::service::file;

#[derive(Default)]
pub(crate) struct State {
    /// In the order of their requests.
    parked: Vec<Ticket>,
    /// Streams that get an empty piece at the end of each batch.
    quiet: Vec<Ticket>,
    /// Streams that never end.
    endless: Vec<Ticket>,
    /// Bodies that nobody reads.
    _readers: Vec<BodyReader>,
    /// The channel for requests that the test answers itself.
    remote: Option<Sender<Deferred>>,
}

pub(crate) fn start(options: Options) -> Server {
    begin(options).0
}

/// A server, and the requests that the test answers itself.
pub(crate) fn begin(options: Options) -> (Server, Receiver<Deferred>) {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let server = Server::start(options, vec![listen], move |_io| {
        router(State {
            remote: Some(sender.lock().unwrap().clone()),
            ..State::default()
        })
    });
    (server.unwrap(), receiver)
}

fn router(state: State) -> Router<State> {
    let mut router = Router::new(state);
    router
        .get("/hello", |_, _, reply| reply.text("hello"))
        .get("/close", |_, _, reply| reply.close().text("closing"))
        .get("/large", |_, _, reply| reply.text(&"x".repeat(100_000)))
        .get("/remote", |state, _, reply| {
            let remote = state.remote.as_ref().unwrap();
            remote.send(reply.defer_remote()).unwrap();
        })
        .route(
            Method::Post,
            "/half-read",
            Route::streamed(),
            |state, _, reply| {
                let (_, deferred) = reply.receive_remote();
                state.remote.as_ref().unwrap().send(deferred).unwrap();
            },
        )
        .get("/framing", |_, _, reply| {
            reply.header("content-Length", "1").text("framed twice");
        })
        .get("/prepared-framing", |_, _, reply| {
            reply.respond(Response::new(200).header("Transfer-Encoding", "chunked"));
        })
        .route(
            Method::Post,
            "/unwanted",
            Route::streamed(),
            |_, _, reply| {
                reply.status(403).text("no");
            },
        );
    parking(&mut router);
    streams(&mut router);
    router
}

fn parking(router: &mut Router<State>) {
    router
        .get("/park", |state, _, reply| state.parked.push(reply.defer()))
        .get("/release", |state, _, mut reply| {
            for ticket in state.parked.drain(..) {
                if let Some(reply) = reply.io().reply(ticket) {
                    reply.text("parked");
                }
            }
            reply.text("released");
        })
        .get("/release-and-park", |state, _, mut reply| {
            for ticket in state.parked.drain(..) {
                if let Some(reply) = reply.io().reply(ticket) {
                    reply.text("parked");
                }
            }
            state.parked.push(reply.defer());
        })
        // The replies of three requests are begun from the last to the first.
        .get("/nest", |state, _, mut reply| {
            let (second, first) = (state.parked.pop().unwrap(), state.parked.pop().unwrap());
            let mut second = reply.io().reply(second).unwrap();
            second.io().reply(first).unwrap().text("first");
            second.text("second");
            reply.text("third");
        })
        .get("/nest-close", |state, _, mut reply| {
            let (second, first) = (state.parked.pop().unwrap(), state.parked.pop().unwrap());
            let mut second = reply.io().reply(second).unwrap();
            second.io().reply(first).unwrap().close().text("first");
            second.text("second");
            reply.text("third");
        });
}

fn streams(router: &mut Router<State>) {
    router
        .get("/quiet", |state, _, reply| {
            state.quiet.push(reply.stream("text/plain"));
        })
        .get("/endless", |state, _, reply| {
            state.endless.push(reply.stream("text/plain"));
        })
        .get("/stream-panics", |state, _, mut reply| {
            let ticket = state.quiet.pop().unwrap();
            let mut stream = reply.io().stream(ticket).unwrap();
            stream.write_with(|out| {
                out.extend_from_slice(b"half");
                panic!("a test wants it");
            });
        })
        .get("/cut", |_, _, reply| {
            let deferred = reply.defer_remote();
            std::thread::spawn(move || {
                let mut writer = deferred.stream(Response::new(200));
                writer.write_all(b"half").unwrap();
            });
        })
        .get("/overwrite/{size}", |_, request, reply| {
            let size = request.param("size").unwrap().parse().unwrap();
            reply.send_with("text/plain", |out| *out = vec![b'y'; size]);
        })
        .get("/stream-overwrites", |state, _, mut reply| {
            let ticket = state.quiet.pop().unwrap();
            let mut stream = reply.io().stream(ticket).unwrap();
            stream.write_with(|out| *out = vec![b'y'; 10_000]);
            stream.finish();
            reply.text("to nobody");
        })
        .get("/file", |_, _, reply| {
            let file = Arc::new(std::fs::File::open(file()).unwrap());
            let size = file.metadata().unwrap().len();
            reply.file(file, 0..size);
        })
        .get("/file-split", |_, _, reply| {
            let file = Arc::new(std::fs::File::open(file()).unwrap());
            reply.header("X", "a\r\nY: b").file(file, 0..100_000);
        })
        .get("/stream-split", |state, _, reply| {
            let ticket = reply.header("X", "a\r\nY: b").stream("text/plain");
            state.quiet.push(ticket);
        })
        .get("/timer", |_, _, mut reply| {
            let now = reply.now();
            reply.io().timer(now - Duration::from_secs(1), 0);
            reply.empty();
        })
        .on_timer(|_, io, _| {
            let now = io.now();
            io.timer(now - Duration::from_secs(1), 0);
        })
        .on_batch_end(|state, io| {
            for &ticket in &state.quiet {
                if let Some(mut stream) = io.stream(ticket) {
                    stream.write(b"");
                }
            }
            for &ticket in &state.endless {
                fill(io, ticket);
            }
        })
        .on_writable(|_, io, ticket| fill(io, ticket));
}

fn fill(io: &mut Io, ticket: Ticket) {
    if let Some(mut stream) = io.stream(ticket) {
        while !stream.is_full() {
            stream.write(&[b'x'; 60_000]);
        }
    }
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}
