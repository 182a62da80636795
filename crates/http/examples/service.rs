//! A service in thirty lines: a path with parameters, a generated body, a deferred answer, and
//! gapless numbers from a serial stage.
//!
//! `cargo run -p lookaside-http --example service -- 127.0.0.1:8080 unix:/tmp/service.sock`

#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::io::Write;
use std::time::Duration;

use lookaside_http::{Method, Options, Router, SerialReply, SerialRequest, Server, Ticket};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Server::builder(Options::default());
    for place in std::env::args().skip(1) {
        builder = builder.listen(place.parse()?);
    }
    let mut number = 0_u64;
    let serial = move |_: &SerialRequest<'_>, reply: SerialReply<'_>| {
        number += 1;
        reply.body_with(|out| write!(out, "{number}").expect("memory takes everything"));
    };
    let server = builder.serial(serial).start(|_io| {
        let mut router = Router::new(());
        router
            .get("/hello/{name}", |(), request, reply| {
                reply.send_with("text/plain", |out| {
                    out.extend_from_slice(b"Hello, ");
                    out.extend_from_slice(request.param("name").unwrap_or("you").as_bytes());
                });
            })
            .get("/delay/{ms}", |(), request, reply| {
                let ms = request.param("ms").and_then(|ms| ms.parse().ok());
                let at = reply.now() + Duration::from_millis(ms.unwrap_or(0));
                reply.defer_until(at);
            })
            .on_timer(|(), io, token| {
                if let Some(reply) = io.reply(Ticket::from_u64(token)) {
                    reply.text("now");
                }
            })
            .serial(Method::Get, "/number", 0);
        router
    })?;
    for address in server.addresses() {
        println!("listening on {address}");
    }
    Ok(server.join()?)
}
