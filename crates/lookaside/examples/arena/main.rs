//! A server for the workloads of HttpArena's HTTP/1.1 profiles, by the rules of its tuned class:
//! responses are not rendered in advance, and only the items of the cached profile are cached, for
//! 200 ms.
//!
//! ```console
//! $ cargo run --release --example arena
//! $ curl 'http://127.0.0.1:8080/async-db?min=10&max=50&limit=3'
//! ```
//!
//! Without `DATABASE_URL` it starts its own PostgreSQL and fills it. Other environment variables:
//! `HOST` (127.0.0.1), `PORT` (8080), `TLS_PORT` (8081), `THREADS` (one for each processor),
//! `DATABASE_MAX_CONN` (32), `ARENA_DATA` (`/data`: `dataset.json` and `static/`) and `ARENA_CERTS`
//! (`/certs`: `server.crt` and `server.key`); missing files are generated.

mod server;

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use lookaside_embedded::Postgres;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use server::{Data, Settings, Timeouts, seed, start};

/// The time from a signal to the end: longer than the drain timeout of the connections, and shorter
/// than the arena waits.
const STOP_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The number of items that the arena has.
const ITEM_COUNT: usize = 100_000;

const USAGE: &str = "\
usage: arena

Serves the workloads of HttpArena's HTTP/1.1 profiles. It takes no arguments but these variables of
the environment:
  DATABASE_URL       postgres://user@host/name; without it a PostgreSQL of its own is started
  DATABASE_MAX_CONN  connections to it [32]
  HOST               address to listen on [127.0.0.1]
  PORT, TLS_PORT     ports for HTTP and HTTPS [8080, 8081]
  THREADS            I/O threads; 0 is one for each processor [0]
  ARENA_DATA         folder with dataset.json and static/ [/data]
  ARENA_CERTS        folder with server.crt and server.key [/certs]
";

fn main() -> ExitCode {
    if let Some(argument) = env::args_os().nth(1) {
        if argument == "--help" || argument == "-h" {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        let argument = argument.display();
        let _ = write!(
            io::stderr(),
            "error: unknown argument {argument}\n\n{USAGE}"
        );
        return ExitCode::from(2);
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut out = io::stderr();
            let _ = writeln!(out, "error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                let _ = writeln!(out, "  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // Registered first, so that an early signal is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let url = env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
    let mut own = None;
    let database_url = match url {
        Some(url) => url,
        None => {
            let postgres = Postgres::builder().start()?;
            seed(&postgres.url(), ITEM_COUNT)?;
            own.insert(postgres).url()
        }
    };
    let data = setting("ARENA_DATA", "/data".to_owned())?;
    let certificates = setting("ARENA_CERTS", "/certs".to_owned())?;
    let settings = Settings {
        address: setting("HOST", [127, 0, 0, 1].into())?,
        port: setting("PORT", 8080)?,
        tls_port: setting("TLS_PORT", 8081)?,
        threads: setting("THREADS", 0)?,
        database_url,
        database_connection_count: setting("DATABASE_MAX_CONN", 32)?,
        database_timeouts: Timeouts::default(),
        data: Data::find(data.as_ref(), certificates.as_ref())?,
    };
    let server = start(&settings).map_err(|error| error as Box<dyn Error>)?;
    let mut out = io::stdout();
    let addresses = server.addresses();
    let _ = writeln!(out, "http://{} and https://{}", addresses[0], addresses[1]);
    signals.forever().next();
    server.stop();
    server.join_within(STOP_TIMEOUT)?;
    Ok(())
}

/// Reads a setting from the environment.
fn setting<T: FromStr>(name: &str, default: T) -> Result<T, String> {
    match env::var(name) {
        Ok(text) => match text.parse() {
            Ok(value) => Ok(value),
            Err(_) => Err(format!("{name} is `{text}`, which it cannot be")),
        },
        Err(_) => Ok(default),
    }
}
