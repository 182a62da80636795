//! rival-http-may-minihttp: may_minihttp on PORT (8080), a worker of may a core.

use std::io::{self, Read as _, Write as _};

use bytes::BufMut as _;
use may_minihttp::{HttpServer, HttpService, Request, Response};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct Service;

impl HttpService for Service {
    fn call(
        &mut self,
        request: Request<'_, '_, '_>,
        response: &mut Response<'_>,
    ) -> io::Result<()> {
        response.header("Content-Type: text/plain");
        let (path, query) = match request.path().split_once('?') {
            Some((path, query)) => (path, query),
            None => (request.path(), ""),
        };
        match path {
            "/ok" | "/pipeline" => response.body("ok"),
            "/baseline11" => {
                let mut sum: i64 = query
                    .split('&')
                    .filter_map(|pair| pair.split_once('=')?.1.parse::<i64>().ok())
                    .sum();
                if request.method() == "POST" {
                    let mut body = String::new();
                    request.body().read_to_string(&mut body)?;
                    sum += body.trim().parse::<i64>().unwrap_or(0);
                }
                write!(response.body_mut().writer(), "{sum}")?;
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    let core_count = std::thread::available_parallelism()?.get();
    may::config().set_workers(core_count);
    let port: u16 = std::env::var("PORT").unwrap_or("8080".into()).parse()?;
    let server = HttpServer(Service).start(("0.0.0.0", port))?;
    server.wait();
    Ok(())
}
