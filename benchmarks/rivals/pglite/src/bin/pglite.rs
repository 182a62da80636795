//! What does pglite-oxide cost, in its best settings?
//!
//! `rival-pglite first|warm|rtt|speed|prepared-updates|serve [--place TEXT] [--count N] [--rounds N]`
//!
//! Best settings are: databases from its cached template (`temporary`), artifacts in its cache before
//! the clock starts, `preload` before what is called warm, a Unix socket, and relaxed durability as
//! the other servers of a comparison have it (its fsync is always off). `TMPDIR` says where databases
//! are, `XDG_CACHE_HOME` where its cache is. It has one connection, so nothing here asks for two.
//!
//! `first` starts this program again for each database: its clock runs from before the process is
//! spawned until that process says that the first query was answered.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pglite_oxide::{Pglite, PgliteBuilder, PgliteServer};
use rival_pglite::arguments::Arguments;
use rival_pglite::client::Client;
use rival_pglite::measure::{Measure, Report, Server, ServerCpu, Stopwatch, process_cpu};

/// Set in the processes that `first` starts; says which way to open the database.
const FIRST: &str = "RIVAL_PGLITE_FIRST";

/// The two ways of its users.
#[derive(Clone, Copy)]
enum Way {
    /// Calls without a socket.
    Direct,
    /// A server on a Unix socket for any client.
    Socket,
}

const WAYS: [Way; 2] = [Way::Direct, Way::Socket];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct calls",
            Self::Socket => "Unix socket",
        }
    }
}

fn main() -> Result<()> {
    if let Ok(name) = std::env::var(FIRST) {
        let way = WAYS.into_iter().find(|way| way.name() == name);
        return answer_first(way.context("a way that does not exist")?);
    }
    let arguments = Arguments::read(&["--place", "--count", "--rounds"])?;
    let report = Report {
        engine: "pglite-oxide 0.5.1".into(),
        place: arguments.value("--place").unwrap_or_default().into(),
    };
    match arguments.case.as_str() {
        "first" => first(arguments.count("--rounds", 10)?, &report),
        "warm" => warm(arguments.count("--rounds", 20)?, &report),
        _ => {
            Pglite::preload()?;
            let database = Database::open(Way::Socket)?;
            rival_pglite::run_suite(&arguments, &database.url()?, Server::Inside, &report)?;
            database.close()
        }
    }
}

fn first(rounds: usize, report: &Report) -> Result<()> {
    let program = std::env::current_exe()?;
    for way in WAYS {
        let mut measure =
            Measure::new(format!("first database in a fresh process, {}", way.name()));
        // The first process may have to fill the cache, and is not counted.
        for round in 0..=rounds {
            let started = Instant::now();
            let mut child = Command::new(&program)
                .env(FIRST, way.name())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut line = String::new();
            let output = child.stdout.take().context("the output is piped")?;
            BufReader::new(output).read_line(&mut line)?;
            let wall = started.elapsed();
            let status = child.wait()?;
            ensure!(status.success(), "the process ended with {status}");
            let cpu = Duration::from_nanos(line.trim().parse().context("CPU time of the process")?);
            if round > 0 {
                measure.add_foreign(wall, cpu);
            }
        }
        report.print(&measure);
    }
    Ok(())
}

fn answer_first(way: Way) -> Result<()> {
    let mut database = Database::open(way)?;
    database.first_query()?;
    let mut output = std::io::stdout();
    writeln!(output, "{}", process_cpu().as_nanos())?;
    output.flush()?;
    database.close()
}

fn warm(rounds: usize, report: &Report) -> Result<()> {
    Pglite::preload()?;
    for way in WAYS {
        let name = way.name();
        let mut open = Measure::new(format!("temporary database in a warm process, {name}"));
        let mut close = Measure::new(format!("end of a temporary database, {name}"));
        for round in 0..=rounds {
            let stopwatch = Stopwatch::start(Some(ServerCpu::OtherThreads));
            let mut database = Database::open(way)?;
            database.first_query()?;
            if round > 0 {
                open.add(stopwatch);
            }
            let stopwatch = Stopwatch::start(Some(ServerCpu::OtherThreads));
            database.close()?;
            if round > 0 {
                close.add(stopwatch);
            }
        }
        report.print(&open);
        report.print(&close);
    }
    Ok(())
}

/// A temporary database of its own.
enum Database {
    Direct(Box<Pglite>),
    Socket {
        server: PgliteServer,
        /// Holds the socket.
        _folder: tempfile::TempDir,
    },
}

impl Database {
    fn open(way: Way) -> Result<Self> {
        Ok(match way {
            Way::Direct => {
                let builder: PgliteBuilder = Pglite::builder().temporary().relaxed_durability(true);
                Self::Direct(Box::new(
                    builder.postgres_config("full_page_writes", "off").open()?,
                ))
            }
            Way::Socket => {
                let folder = tempfile::tempdir()?;
                let server = PgliteServer::builder()
                    .temporary()
                    .relaxed_durability(true)
                    .postgres_config("full_page_writes", "off")
                    .unix(folder.path().join(".s.PGSQL.5432"))
                    .start()?;
                Self::Socket {
                    server,
                    _folder: folder,
                }
            }
        })
    }

    fn url(&self) -> Result<String> {
        match self {
            Self::Direct(_) => bail!("direct calls have no URL"),
            Self::Socket { server, .. } => Ok(server.database_url()),
        }
    }

    fn first_query(&mut self) -> Result<()> {
        match self {
            Self::Direct(pglite) => {
                let answer = pglite.query("select 42 as answer", &[], None)?;
                let answer = answer.rows.first().context("no row came")?;
                ensure!(answer["answer"].as_i64() == Some(42), "{answer} came");
            }
            Self::Socket { server, .. } => {
                let answer = Client::connect(&server.database_url())?
                    .ask("select 42")?
                    .text()?;
                ensure!(answer == "42", "{answer} came");
            }
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        match self {
            Self::Direct(mut pglite) => pglite.close(),
            Self::Socket { server, .. } => server.shutdown(),
        }
    }
}
