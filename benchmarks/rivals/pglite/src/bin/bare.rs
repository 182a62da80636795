//! What do PostgreSQL's own programs cost, without anything around them?
//!
//! `rival-bare start|rtt|speed|prepared-updates|serve --bin DIR [--set NAME=VALUE]… [--place TEXT] [--count N] [--rounds N]`
//!
//! A cluster is what `initdb --no-sync` makes and `pg_ctl start` starts, in a new folder below
//! `TMPDIR`, on a Unix socket alone. `start` measures initdb, both ways to start, databases by
//! `CREATE DATABASE`, and the stop. As root it is run by
//! `unshare --user --map-user=1000 --map-group=1000`, because the server refuses root.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rival_pglite::arguments::Arguments;
use rival_pglite::client::Client;
use rival_pglite::measure::{Measure, Report, Server, Stopwatch};

/// A server that has not answered by then does not start.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Databases that `start` makes for each cluster.
const DATABASE_COUNT: usize = 5;

fn main() -> Result<()> {
    let arguments = Arguments::read(&["--bin", "--set", "--place", "--count", "--rounds"])?;
    let bin = PathBuf::from(arguments.value("--bin").context("--bin DIR is missing")?);
    let settings: Vec<&str> = arguments.values("--set").collect();
    let report = Report {
        engine: format!("bare {}", version(&bin)?),
        place: arguments.value("--place").unwrap_or_default().into(),
    };
    if arguments.case == "start" {
        return start(&bin, &settings, arguments.count("--rounds", 10)?, &report);
    }
    let cluster = Cluster::init(&bin, &settings)?;
    cluster.start()?;
    rival_pglite::run_suite(
        &arguments,
        &cluster.url("postgres"),
        Server::Outside,
        &report,
    )?;
    cluster.stop()
}

fn version(bin: &Path) -> Result<String> {
    let output = Command::new(bin.join("postgres"))
        .arg("--version")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let version = text.split(' ').nth(2).context("the server's version")?;
    Ok(format!("PostgreSQL {}", version.trim()))
}

fn start(bin: &Path, settings: &[&str], rounds: usize, report: &Report) -> Result<()> {
    let mut init = Measure::new("initdb");
    let mut whole = Measure::new("initdb and pg_ctl start, to the first query");
    let mut start = Measure::new("pg_ctl start of a ready folder, to the first query");
    let mut direct = Measure::new("postgres in a ready folder, to the first query");
    let mut create = Measure::new("CREATE DATABASE, to the first query");
    let mut stop = Measure::new("pg_ctl stop");
    for _ in 0..rounds {
        let both = Stopwatch::start(None);
        let stopwatch = Stopwatch::start(None);
        let cluster = Cluster::init(bin, settings)?;
        init.add(stopwatch);
        cluster.start()?;
        cluster.first_query("postgres")?;
        whole.add(both);

        let mut administrator = Client::connect(&cluster.url("postgres"))?;
        for index in 0..DATABASE_COUNT {
            let name = format!("database_{index}");
            let stopwatch = Stopwatch::start(None);
            administrator.ask(&format!("create database {name}"))?;
            cluster.first_query(&name)?;
            create.add(stopwatch);
        }
        drop(administrator);

        let stopwatch = Stopwatch::start(None);
        cluster.stop()?;
        stop.add(stopwatch);
        let stopwatch = Stopwatch::start(None);
        cluster.start()?;
        cluster.first_query("postgres")?;
        start.add(stopwatch);
        cluster.stop()?;

        let stopwatch = Stopwatch::start(None);
        let mut server = cluster.spawn()?;
        let answered = cluster.first_query_of(&mut server);
        if answered.is_ok() {
            direct.add(stopwatch);
        }
        cluster.stop()?;
        server.wait()?;
        answered?;
    }
    for measure in [&init, &whole, &start, &direct, &create, &stop] {
        report.print(measure);
    }
    Ok(())
}

/// A data folder with a socket folder beside it; both go with the value, the server before them.
struct Cluster {
    bin: PathBuf,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn init(bin: &Path, settings: &[&str]) -> Result<Self> {
        let cluster = Self {
            bin: bin.to_owned(),
            folder: tempfile::tempdir()?,
        };
        cluster.run(
            Command::new(bin.join("initdb"))
                .args([
                    "--no-sync",
                    "--auth=trust",
                    "--username=postgres",
                    "--encoding=UTF8",
                ])
                .args(["--locale=C.UTF-8", "--pgdata"])
                .arg(cluster.data()),
        )?;
        let mut lines = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\n",
            cluster.folder.path().display()
        );
        for setting in settings {
            let (name, value) = setting.split_once('=').context("--set is NAME=VALUE")?;
            lines.push_str(&format!("{name} = '{value}'\n"));
        }
        std::fs::write(cluster.data().join("postgresql.auto.conf"), lines)?;
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn url(&self, database: &str) -> String {
        format!(
            "postgres:///{database}?host={}&user=postgres",
            self.folder.path().display()
        )
    }

    fn start(&self) -> Result<()> {
        let log = self.folder.path().join("log");
        self.run(self.pg_ctl().arg("start").arg("--log").arg(log))
    }

    fn stop(&self) -> Result<()> {
        self.run(self.pg_ctl().args(["stop", "--mode=fast"]))
    }

    fn pg_ctl(&self) -> Command {
        let mut command = Command::new(self.bin.join("pg_ctl"));
        command
            .args(["--wait", "--silent", "--pgdata"])
            .arg(self.data());
        command
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_owned();
        // Files, because a server that inherited a pipe would keep it open.
        let said = self.folder.path().join("said");
        let output = std::fs::File::create(&said)?;
        let status = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .with_context(|| program.display().to_string())?;
        if !status.success() {
            bail!(
                "{}: {status}\n{}",
                program.display(),
                std::fs::read_to_string(said)?
            );
        }
        Ok(())
    }

    /// The server without pg_ctl, which looks only now and then whether it is ready.
    fn spawn(&self) -> Result<Child> {
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        Ok(Command::new(self.bin.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?)
    }

    fn first_query(&self, database: &str) -> Result<()> {
        let answer = Client::connect(&self.url(database))?
            .ask("select 42")?
            .text()?;
        ensure!(answer == "42", "{answer} came");
        Ok(())
    }

    fn first_query_of(&self, server: &mut Child) -> Result<()> {
        let started = Instant::now();
        loop {
            match self.first_query("postgres") {
                Ok(()) => return Ok(()),
                Err(error) if started.elapsed() > START_TIME_MAX => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_micros(500)),
            }
            if let Some(status) = server.try_wait()? {
                bail!("the server ended with {status}");
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            // Best effort on the way out of a failure, whose error is the one to be told.
            let _ = self.run(self.pg_ctl().args(["stop", "--mode=immediate"]));
        }
    }
}
