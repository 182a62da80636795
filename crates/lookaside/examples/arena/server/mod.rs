//! The arena's endpoints, on the public API of `lookaside-http` and `lookaside-client`.

mod cache;
mod data;
mod database;
mod dataset;
mod fortunes;
mod items;
mod json;
mod questions;
mod simple;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use hashbrown::HashMap;
use lookaside_client::{Config, Environment, PostgresConfig};
use lookaside_http::encoding::{Compressor, EncodingOptions};
use lookaside_http::{
    Deferred, Listen, Method, Options, Route, Router, Server, StaticFiles, StaticOptions, Ticket,
    Tls,
};

use cache::ItemCache;
pub(crate) use data::{Data, seed};
use database::Database;
pub(crate) use database::Timeouts;
use dataset::Thing;
use questions::Purpose;

/// Marks the tokens of the database's timers; others are numbers of delays.
const DATABASE_TIMER: u64 = 1 << 63;

/// The largest body that `/echo` returns.
const ECHO_SIZE_MAX: usize = 1 << 20;

/// The largest body that `/upload` counts.
const UPLOAD_SIZE_MAX: usize = 1 << 30;

/// Connections to the database that are left for other clients, such as monitoring.
const SPARE_CONNECTION_COUNT: usize = 16;

/// More connections for each thread only make the database switch between them.
const CONNECTION_COUNT_MAX: usize = 4;

/// The arena weights requests per second by the square of the compression ratio. The fastest level
/// compresses nearly as well as the others and takes the least time.
const GZIP_LEVEL: u8 = 1;

/// The settings of the server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    /// 0 means one per processor.
    pub(crate) threads: usize,
    pub(crate) database_url: String,
    /// The number of connections that the database accepts, for all threads together.
    pub(crate) database_connection_count: usize,
    pub(crate) database_timeouts: Timeouts,
    pub(crate) data: Data,
}

/// The state that all threads share.
struct Shared {
    things: Vec<Thing>,
    cache: Arc<ItemCache<Deferred>>,
    /// Holds the generated files.
    _data: Data,
}

/// The state of one thread.
struct Arena {
    shared: Arc<Shared>,
    compressor: Compressor,
    files: StaticFiles,
    database: Database<Purpose>,
    /// The delayed requests by the number of their timer, with their delay in ms.
    delays: HashMap<u64, (Ticket, u64)>,
    delay_count: u64,
}

/// Starts the server.
pub(crate) fn start(settings: &Settings) -> Result<Server, Box<dyn Error + Send + Sync>> {
    let config = match Config::parse(&settings.database_url, &Environment::of_process())? {
        Config::Postgres(config) => config,
        other => return Err(format!("{other} is not PostgreSQL, which this takes").into()),
    };
    let tls = Tls::from_files(&settings.data.certificate, &settings.data.key)?;
    let listens = vec![
        Listen::tcp(SocketAddr::new(settings.address, settings.port)),
        Listen::tcp(SocketAddr::new(settings.address, settings.tls_port)).tls(tls),
    ];
    let options = options(settings.threads);
    let shared = Arc::new(Shared {
        things: settings.data.things()?,
        cache: Arc::new(ItemCache::new()),
        _data: settings.data.clone(),
    });
    let site: PathBuf = settings.data.site.clone();
    // Opened here as well, to report errors at once.
    StaticFiles::open(&site, StaticOptions::default())?;
    let connection_count = connection_count(settings)?;
    let timeouts = settings.database_timeouts;
    let server = Server::start(options, listens, move |io| {
        let config: Option<PostgresConfig> = Some(config.clone());
        let files = StaticFiles::open(&site, StaticOptions::default());
        router(Arena {
            shared: Arc::clone(&shared),
            compressor: Compressor::new(EncodingOptions {
                gzip_level: GZIP_LEVEL,
                ..EncodingOptions::default()
            }),
            files: files.expect("it could be opened a moment ago"),
            database: Database::new(
                io,
                config,
                timeouts,
                connection_count,
                questions::STATEMENTS,
            ),
            delays: HashMap::new(),
            delay_count: 0,
        })
    })?;
    Ok(server)
}

/// The arena starts the next server 2 s after it has told one to end, and requires incomplete
/// headers to be closed within 20 s; both values leave a margin for a busy machine.
pub(crate) fn options(threads: usize) -> Options {
    Options {
        threads,
        header_timeout: Duration::from_secs(10),
        drain_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

/// The number of connections per thread.
fn connection_count(settings: &Settings) -> std::io::Result<usize> {
    let threads = match settings.threads {
        0 => available_parallelism()?.get(),
        threads => threads,
    };
    let all = settings.database_connection_count;
    let all = all.saturating_sub(SPARE_CONNECTION_COUNT).max(1);
    Ok((all / threads).clamp(1, CONNECTION_COUNT_MAX))
}

fn router(arena: Arena) -> Router<Arena> {
    let mut router = Router::new(arena);
    router
        .get("/pipeline", |_, _, reply| reply.send("text/plain", b"ok"))
        .get("/baseline11", |_, request, reply| {
            simple::sum(request, reply)
        })
        .post("/baseline11", |_, request, reply| {
            simple::sum(request, reply)
        })
        .get("/json/{count}", Arena::json)
        .get("/delay/{ms}", Arena::delay)
        .route(
            Method::Post,
            "/echo",
            Route::buffered().limit(ECHO_SIZE_MAX),
            |_, request, reply| reply.send("application/octet-stream", request.body()),
        )
        .route(
            Method::Post,
            "/upload",
            Route::streamed().limit(UPLOAD_SIZE_MAX),
            |_, _, reply| simple::count(reply),
        )
        .get("/static/{*path}", |arena, request, reply| {
            let path = request.param("path").unwrap_or_default();
            arena.files.serve(request, path, reply);
        })
        .get("/async-db", Arena::range)
        .get("/fortunes", Arena::fortunes)
        .get("/crud/items", Arena::list)
        .post("/crud/items", Arena::create)
        .get("/crud/items/{id}", Arena::read)
        .put("/crud/items/{id}", Arena::update)
        .on_ready(|arena, _, token, readiness| {
            arena.database.ready(token as usize, readiness);
        })
        .on_timer(|arena, io, token| match token & DATABASE_TIMER {
            0 => arena.delay_over(io, token),
            _ => {
                let index = (token & !DATABASE_TIMER) as usize;
                arena.database.timer(io, index);
            }
        })
        .on_batch_end(Arena::batch_end);
    router
}
