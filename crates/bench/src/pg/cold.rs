//! How long does a fresh process take until its first query is answered?

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lookaside_embedded::{Binaries, Postgres, VersionRequirement};
use lookaside_load::measure::cpu_time;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::Result;
use super::measure::Samples;
use super::report::Report;
use super::served::{open, ours, run_script};
use crate::progress::DownloadBar;

/// The first database of a new process: with an empty cache, with a full cache, with a running
/// server, and with an empty file cache
#[derive(Debug, Args)]
pub(super) struct ColdArguments {
    /// The version of PostgreSQL: a major version such as 17, or an exact one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,

    /// A folder for the servers' data, to measure the file system that it is on; memory by default
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,

    /// Do not measure without the file cache, which drops that of the whole machine
    #[arg(long)]
    keep_file_cache: bool,

    /// Rounds; each is a fresh process
    #[arg(long, default_value_t = 7, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Print one line of JSON per case
    #[arg(long)]
    json: bool,
}

/// The fresh process of `cold`: gets a server, reports when its first query is answered, and waits.
#[derive(Debug, Args)]
pub(super) struct FreshArguments {
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    pg_version: Option<VersionRequirement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A database of the server that processes share.
    Database,
    /// A server of its own.
    Cluster,
}

/// What the fresh process reports.
#[derive(Debug, Serialize, Deserialize)]
struct FirstAnswer {
    /// CPU time of the fresh process until then.
    cpu_ns: u64,
    /// Where the server's data is.
    folder: PathBuf,
    version: String,
}

/// How long a fresh process stays after its answer, so that the library can finish its preparation
/// for the next one (a spare copy of the template).
const SETTLE: Duration = Duration::from_millis(500);

/// The longest time that a server takes to end.
const END_PATIENCE: Duration = Duration::from_secs(20);

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

pub(super) fn run_fresh(arguments: &FreshArguments) -> Result<()> {
    let mut builder = Postgres::builder();
    if arguments.kind == Kind::Cluster {
        builder = builder.fresh_cluster();
    }
    if let Some(version) = arguments.pg_version {
        builder = builder.version(version);
    }
    let server = builder.start()?;
    let mut connection = open(&ours(&server)?)?;
    run_script(&mut connection, "select 1")?;
    let first = FirstAnswer {
        cpu_ns: cpu_time().as_nanos() as u64,
        folder: server.folder().to_owned(),
        version: connection.server_version().to_owned(),
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&first)?)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(connection);
    Ok(server.close()?)
}

pub(super) fn run(arguments: &ColdArguments) -> Result<()> {
    let mut report = Report::new("cold", arguments.json);
    let requirement = arguments.pg_version.unwrap_or(VersionRequirement::ANY);
    // Downloads happen before the clock starts.
    let binaries = Binaries::find(requirement, &DownloadBar::new())?;
    // A separate folder, so that no server of other programs is found.
    let place = TempDir::with_prefix_in("lookaside-bench-", place(arguments))?;
    let fresh = Fresh {
        binaries,
        place,
        requirement: arguments.pg_version,
    };
    let first = fresh.start(Kind::Database, None)?.end()?;
    let identity = if rustix::process::geteuid().is_root() {
        "as root"
    } else {
        "not as root"
    };
    let engine = format!(
        "embedded PostgreSQL {} {identity}, data on {}",
        first.version,
        file_system(fresh.place.path())
    );
    let cases = Cases {
        fresh: &fresh,
        engine,
        rounds: arguments.rounds,
        keep_file_cache: arguments.keep_file_cache,
    };
    cases.run(&mut report)?;
    report.finish()
}

/// A folder in memory if available, as the library chooses.
fn place(arguments: &ColdArguments) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match &arguments.place {
        Some(folder) => folder.clone(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    }
}

struct Cases<'a> {
    fresh: &'a Fresh,
    engine: String,
    rounds: u16,
    keep_file_cache: bool,
}

const FULL_CACHE: &str =
    "no process, no server; programs, template and a spare copy of it on the disk";

impl Cases<'_> {
    fn run(&self, report: &mut Report) -> Result<()> {
        let warm = format!("{FULL_CACHE}; all of it in the file cache");
        report.begin(&self.engine, &warm);
        for (kind, case) in [
            (Kind::Database, "first database"),
            (Kind::Cluster, "own cluster"),
        ] {
            self.measure(report, case, kind, || Ok(None))?;
        }

        let up = self.fresh.start(Kind::Database, None)?;
        report.begin(
            &self.engine,
            "no process; a server that another process shares",
        );
        report.measuring("first database");
        let mut samples = Samples::default();
        for _ in 0..self.rounds {
            let started = self.fresh.start(Kind::Database, None)?;
            started.add_to(&mut samples);
            started.leave()?;
        }
        report.add("first database", 1, &samples, None, Vec::new())?;
        up.end()?;

        report.begin(
            &self.engine,
            "no process, no server, no template (initdb runs); programs in the file cache",
        );
        self.measure(report, "first database", Kind::Database, || {
            Ok(Some(TempDir::with_prefix("lookaside-bench-")?))
        })?;

        let cold = format!("{FULL_CACHE}; nothing of the disk in the file cache");
        report.begin(&self.engine, &cold);
        let kept = self.file_cache_kept();
        for (kind, case) in [
            (Kind::Database, "first database"),
            (Kind::Cluster, "own cluster"),
        ] {
            match &kept {
                None => self.measure(report, case, kind, || {
                    drop_caches()?;
                    Ok(None)
                })?,
                Some(why) => report.skip(&format!("{case} without the file cache"), why)?,
            }
        }
        Ok(())
    }

    /// Why the file cache is kept, if it is.
    fn file_cache_kept(&self) -> Option<String> {
        if self.keep_file_cache {
            return Some("--keep-file-cache".to_owned());
        }
        let error = drop_caches().err()?;
        Some(format!(
            "{DROP_CACHES} cannot be written to, which needs root: {error}"
        ))
    }

    fn measure(
        &self,
        report: &mut Report,
        case: &str,
        kind: Kind,
        prepare: impl Fn() -> Result<Option<TempDir>>,
    ) -> Result<()> {
        report.measuring(case);
        let mut samples = Samples::default();
        for _ in 0..self.rounds {
            let cache = prepare()?;
            let started = self.fresh.start(kind, cache.as_ref().map(TempDir::path))?;
            started.add_to(&mut samples);
            started.end()?;
        }
        report.add(case, 1, &samples, None, Vec::new())
    }
}

/// How fresh processes are started.
struct Fresh {
    binaries: Binaries,
    place: TempDir,
    requirement: Option<VersionRequirement>,
}

/// A fresh process that has its answer and waits.
struct Started {
    child: std::process::Child,
    answered_after: Duration,
    first: FirstAnswer,
}

impl Fresh {
    fn start(&self, kind: Kind, cache: Option<&Path>) -> Result<Started> {
        let kind_value = kind.to_possible_value().expect("no kind is hidden");
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["pg", "fresh", "--kind", kind_value.get_name()])
            .env("LOOKASIDE_PG_TEMP", self.place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(requirement) = self.requirement {
            command.args(["--pg-version", &requirement.to_string()]);
        }
        if let Some(cache) = cache {
            command.env("LOOKASIDE_CACHE", cache);
            // Otherwise, an empty cache would cause another download.
            command.env("LOOKASIDE_PG_BIN", self.binaries.folder());
        }
        let started = Instant::now();
        let mut child = command.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line)?;
        let answered_after = started.elapsed();
        let first =
            serde_json::from_str(&line).map_err(|_| "the fresh process ended without an answer")?;
        Ok(Started {
            child,
            answered_after,
            first,
        })
    }
}

impl Started {
    fn add_to(&self, samples: &mut Samples) {
        let cpu = Duration::from_nanos(self.first.cpu_ns);
        samples.push(self.answered_after, cpu, 1);
    }

    /// Lets the process end, and waits until its server has gone.
    fn end(self) -> Result<FirstAnswer> {
        let first = self.leave()?;
        let begun = Instant::now();
        while first.folder.exists() {
            if begun.elapsed() > END_PATIENCE {
                let folder = first.folder.display();
                return Err(format!("the server of {folder} did not end").into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(first)
    }

    /// Lets a process end whose server is shared with others.
    fn leave(mut self) -> Result<FirstAnswer> {
        thread::sleep(SETTLE);
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("the fresh process ended with {status}").into());
        }
        Ok(self.first)
    }
}

fn drop_caches() -> io::Result<()> {
    // Only written pages can be dropped.
    rustix::fs::sync();
    fs::write(DROP_CACHES, "3")
}

/// The kind of file system that a folder is on.
pub(super) fn file_system(folder: &Path) -> String {
    // From statfs(2).
    const KINDS: [(i64, &str); 6] = [
        (0x0102_1994, "tmpfs"),
        (0xef53, "ext4"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x794c_7630, "overlayfs"),
        (0x2fc1_2fc1, "zfs"),
    ];
    let Ok(stat) = rustix::fs::statfs(folder) else {
        return "an unknown file system".to_owned();
    };
    let magic = stat.f_type;
    let known = KINDS.iter().find(|(kind, _)| *kind == magic);
    known.map_or_else(
        || format!("file system {magic:#x}"),
        |(_, name)| (*name).to_owned(),
    )
}
