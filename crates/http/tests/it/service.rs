//! The service of the tests.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use lookaside_http::{
    BodyReader, BodySink, Deferred, Io, Listen, Method, Options, Reply, Request, Response, Route,
    Router, Server, Ticket,
};

/// The state of a thread: requests that wait to be woken.
#[derive(Default)]
pub(crate) struct State {
    parked: Vec<(String, Ticket)>,
    /// Bodies that are not written yet, and how much of them.
    streams: Vec<(Ticket, usize)>,
}

pub(crate) fn start(options: Options) -> Server {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    Server::start(options, vec![listen], router).unwrap()
}

/// Timeouts that tests can wait for, and that a client on a busy machine does not miss when it
/// sends at once.
pub(crate) fn hasty() -> Options {
    Options {
        header_timeout: Duration::from_millis(1_500),
        body_timeout: Duration::from_millis(1_500),
        idle_timeout: Duration::from_millis(2_000),
        write_timeout: Duration::from_millis(1_500),
        ..single()
    }
}

/// One thread, so that requests that wait for each other meet.
pub(crate) fn single() -> Options {
    Options {
        threads: 1,
        ..Options::default()
    }
}

pub(crate) fn router(_io: &mut Io) -> Router<State> {
    let mut router = Router::new(State::default());
    router
        .get("/hello", |_, _, reply| reply.text("hello"))
        .get("/echo/{tag}", |_, request, reply| {
            reply.text(request.param("tag").unwrap());
        })
        .get("/rest/{*path}", |_, request, reply| {
            reply.text(&request.param_decoded("path").unwrap());
        })
        .get("/query", |_, request, reply| {
            reply.text(&request.query_value("q").unwrap_or_default());
        })
        .get("/with/{size}", |_, request, reply| {
            let size: usize = request.param("size").unwrap().parse().unwrap();
            reply.send_with("application/octet-stream", |out| {
                out.resize(out.len() + size, b'x');
            });
        })
        .serial(Method::Get, "/serial-without-stage", 0)
        .get("/none", |_, _, reply| reply.status(204).empty())
        .get("/panic", |_, _, _reply| panic!("a test wants it"))
        .get("/forgotten", |_, _, reply| drop(reply.status(201)))
        .get("/split", |_, _, reply| {
            reply.header("X", "a\r\nY: b").text("never sent");
        })
        .get("/late", |_, _, reply| {
            reply.header("X", "a").status(201).text("never sent");
        })
        .get("/park/{tag}", |state, request, reply| {
            let tag = request.param("tag").unwrap().to_owned();
            state.parked.push((tag, reply.defer()));
        })
        .get("/wake/{tag}", wake)
        .post("/body", |_, request, reply| {
            reply.send("application/octet-stream", request.body());
        })
        .put("/hello", |_, request, reply| {
            reply.status(201).text(&request.body().len().to_string());
        });
    streams(&mut router);
    router
}

fn streams(router: &mut Router<State>) {
    router
        .route(Method::Post, "/upload", Route::streamed(), |_, _, reply| {
            reply.receive(Box::new(Count(0)));
        })
        .route(Method::Post, "/enough", Route::streamed(), |_, _, reply| {
            reply.receive(Box::new(Enough(Count(0))));
        })
        .route(
            Method::Post,
            "/limited",
            Route::streamed().limit(10),
            |_, _, reply| {
                reply.receive(Box::new(Count(0)));
            },
        )
        .route(
            Method::Post,
            "/unwanted",
            Route::streamed(),
            |_, _, reply| {
                reply.status(403).text("no");
            },
        )
        .route(
            Method::Post,
            "/sink-panics",
            Route::streamed(),
            |_, _, reply| {
                reply.receive(Box::new(Panics));
            },
        )
        .route(Method::Post, "/shout", Route::streamed(), |_, _, reply| {
            let (reader, deferred) = reply.receive_remote();
            std::thread::spawn(move || shout(reader, deferred));
        })
        .route(
            Method::Post,
            "/live",
            Route::streamed().live(),
            |_, _, reply| {
                let (reader, deferred) = reply.receive_remote();
                std::thread::spawn(move || shout(reader, deferred));
            },
        )
        .get("/remote/{tag}", |_, request, reply| {
            let tag = request.param("tag").unwrap().to_owned();
            let deferred = reply.defer_remote();
            std::thread::spawn(move || match &*tag {
                "forgotten" => drop(deferred),
                _ => deferred.respond(Response::new(202).header("X-Tag", &tag).body(tag)),
            });
        })
        .get("/remote-with/{size}", |_, request, reply| {
            let size = request.param("size").unwrap().parse().unwrap();
            let deferred = reply.defer_remote();
            std::thread::spawn(move || deferred.respond(Response::new(200).body(vec![b'x'; size])));
        })
        .get("/remote-cut", |_, _, reply| {
            let deferred = reply.defer_remote();
            std::thread::spawn(move || {
                let mut writer = deferred.stream(Response::new(200));
                writer.write_all(b"half").unwrap();
            });
        })
        .get("/trailers/{value}", |_, request, reply| {
            let value = request.param("value").unwrap().replace('_', "\n");
            let deferred = reply.defer_remote();
            std::thread::spawn(move || {
                let head = Response::new(200).header("Trailer", "X-Count, X-Note");
                let mut writer = deferred.stream(head);
                writer.write_all(b"body").unwrap();
                writer.finish_with_trailers([("X-Count", "4"), ("X-Note", value.as_str())]);
            });
        })
        .get("/stream/{size}", |state, request, reply| {
            let size = request.param("size").unwrap().parse().unwrap();
            let ticket = reply.stream("text/plain");
            state.streams.push((ticket, size));
        })
        .on_batch_end(|state, io| {
            for (ticket, _) in state.streams.clone() {
                state.stream(io, ticket);
            }
        })
        .get("/file/{from}/{to}", |_, request, reply| {
            let number = |name| request.param(name).unwrap().parse().unwrap();
            let file = Arc::new(File::open(file()).unwrap());
            reply.file(file, number("from")..number("to"));
        })
        .get("/break-off", |state, _, mut reply| {
            for (ticket, _) in state.streams.drain(..) {
                if let Some(stream) = reply.io().stream(ticket) {
                    stream.abort();
                }
            }
            reply.text("to nobody");
        })
        .on_writable(|state, io, ticket| state.stream(io, ticket));
}

/// A large file that exists while the tests run.
pub(crate) fn file() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// Counts the bytes of a body.
struct Count(u64);

impl BodySink for Count {
    fn data(&mut self, _io: &mut Io, piece: &[u8]) {
        self.0 += piece.len() as u64;
    }

    fn end(self: Box<Self>, reply: Reply<'_>) {
        reply.text(&self.0.to_string());
    }
}

/// Does not want more than some bytes.
struct Enough(Count);

impl BodySink for Enough {
    fn data(&mut self, io: &mut Io, piece: &[u8]) {
        self.0.data(io, piece);
    }

    fn wants_more(&self) -> bool {
        self.0.0 < 10
    }

    fn end(self: Box<Self>, reply: Reply<'_>) {
        reply.status(413).text(&self.0.0.to_string());
    }
}

struct Panics;

impl BodySink for Panics {
    fn data(&mut self, _io: &mut Io, _piece: &[u8]) {
        panic!("a test wants it");
    }

    fn end(self: Box<Self>, _reply: Reply<'_>) {}
}

/// Sends a body back in capital letters, as it arrives.
fn shout(mut reader: BodyReader, deferred: Deferred) {
    let mut writer = deferred.stream(Response::new(200).content_type("text/plain"));
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes) {
            Ok(0) => return writer.finish(),
            Ok(size) => {
                bytes[..size].make_ascii_uppercase();
                if writer.write_all(&bytes[..size]).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

impl State {
    fn stream(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(index) = self.streams.iter().position(|&(other, _)| other == ticket) else {
            return;
        };
        let left = &mut self.streams[index].1;
        let Some(mut stream) = io.stream(ticket) else {
            self.streams.swap_remove(index);
            return;
        };
        while *left > 0 && !stream.is_full() {
            let size = 5_000.min(*left);
            stream.write(&vec![b'x'; size]);
            *left -= size;
        }
        if *left == 0 {
            stream.finish();
            self.streams.swap_remove(index);
        }
    }
}

/// Answers those that were parked under a tag, the last one first.
fn wake(state: &mut State, request: &Request<'_>, mut reply: Reply<'_>) {
    let tag = request.param("tag").unwrap();
    let mut count = 0;
    let parked = std::mem::take(&mut state.parked);
    for (other, ticket) in parked.into_iter().rev() {
        if other != tag {
            state.parked.insert(0, (other, ticket));
        } else if let Some(reply) = reply.io().reply(ticket) {
            reply.text(tag);
            count += 1;
        }
    }
    reply.text(&count.to_string());
}
