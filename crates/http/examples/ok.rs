//! What a serial stage costs: `/ok` through the ring, or with `--direct` on the I/O threads.
//!
//! `cargo run -p lookaside-http --release --example ok -- unix:/tmp/ok.socket`
//! `cargo bench-lookaside http unix:/tmp/ok.socket --get /ok --depth 16`

use lookaside_http::{Method, Options, Router, SerialReply, SerialRequest, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Server::builder(Options::default());
    let mut is_direct = false;
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--direct" => is_direct = true,
            place => builder = builder.listen(place.parse()?),
        }
    }
    let serial = |_: &SerialRequest<'_>, reply: SerialReply<'_>| reply.text("ok");
    let server = builder.serial(serial).start(move |_io| {
        let mut router = Router::new(());
        if is_direct {
            router.get("/ok", |(), _, reply| reply.text("ok"));
        } else {
            router.serial(Method::Get, "/ok", 0);
        }
        router
    })?;
    Ok(server.join()?)
}
