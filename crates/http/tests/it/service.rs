//! What the server of the tests does.

use std::time::Duration;

use lookaside_http::{Io, Listen, Options, Reply, Request, Router, Server, Ticket};

/// The state of a thread: requests that wait to be told to go on.
#[derive(Default)]
pub(crate) struct State {
    parked: Vec<(String, Ticket)>,
}

pub(crate) fn start(options: Options) -> Server {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    Server::start(options, vec![listen], router).unwrap()
}

/// Deadlines that tests can wait for.
pub(crate) fn hasty() -> Options {
    Options {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(600),
        write_timeout: Duration::from_millis(400),
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
    router
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
