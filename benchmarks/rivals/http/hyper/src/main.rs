//! rival-http-hyper: bare tokio and hyper on PORT (8080), or on SOCKET=/path instead.
//!
//! Its best settings: a runtime of one thread a core, each with a listener of its own by
//! SO_REUSEPORT; answers of a pipeline in one write; no timers.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::{env, fs, thread};

use anyhow::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let unix = match env::var("SOCKET") {
        Ok(path) => {
            let _ = fs::remove_file(&path);
            let listener = StdUnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Some(listener)
        }
        Err(_) => None,
    };
    let port: u16 = env::var("PORT").unwrap_or("8080".into()).parse()?;
    let threads: Vec<_> = (0..thread::available_parallelism()?.get())
        .map(|_| {
            let unix = unix.as_ref().map(StdUnixListener::try_clone).transpose()?;
            Ok(thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, accept(unix, port))
            }))
        })
        .collect::<Result<_>>()?;
    for thread in threads {
        thread.join().expect("no thread panics")?;
    }
    Ok(())
}

async fn accept(unix: Option<StdUnixListener>, port: u16) -> Result<()> {
    if let Some(listener) = unix {
        let listener = UnixListener::from_std(listener)?;
        loop {
            serve(listener.accept().await?.0);
        }
    }
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(4096)?;
    let listener = TcpListener::from_std(socket.into())?;
    loop {
        let stream = listener.accept().await?.0;
        stream.set_nodelay(true)?;
        serve(stream);
    }
}

fn serve<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static>(stream: S)
where
    TokioIo<S>: Read + Write,
{
    tokio::task::spawn_local(async move {
        // A client that goes is no failure of the server.
        let _ = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await;
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match request.uri().path() {
        "/ok" | "/pipeline" => Bytes::from_static(b"ok"),
        "/baseline11" => {
            let query = request.uri().query().unwrap_or_default();
            let mut sum: i64 = query
                .split('&')
                .filter_map(|pair| pair.split_once('=')?.1.parse::<i64>().ok())
                .sum();
            if request.method() == Method::POST
                && let Ok(body) = request.into_body().collect().await
            {
                let body = body.to_bytes();
                let text = std::str::from_utf8(&body).unwrap_or_default();
                sum += text.trim().parse::<i64>().unwrap_or(0);
            }
            Bytes::from(sum.to_string())
        }
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
