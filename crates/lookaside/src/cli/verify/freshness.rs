//! `lookaside verify freshness`: writers, readers and faults over the product, and the check of what was
//! read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lookaside_embedded::VersionRequirement;
use lookaside_stream::StopFlag;
use lookaside_verify::check::{CheckOptions, check};
use lookaside_verify::export::write_edn;
use lookaside_verify::fault::{Control, FaultKind, FaultPlan, PhaseSignal, PlanOptions};
use lookaside_verify::history::{Contract, History, Key, Layer, RecorderLimits};
use lookaside_verify::matrix::Demands;
use lookaside_verify::run::{KeyDistribution, KeyLaw, RunOptions, run as run_threads};
use metrics_exporter_prometheus::PrometheusHandle;

use super::Cause;
use super::first_use::FirstUses;
use super::inject::{Faults, Injections, left_out};
use super::names::{self, FaultChoice};
use super::pattern::Patterns;
use super::product::{Product, ProductOptions};
use super::read::{ProductReader, ReaderOptions, Statements};
use super::relay::Relay;
use super::report::{Outcome, Setup};
use super::server::Server;
use super::write::Writer;
use crate::cli::metrics;
use crate::cli::output::write_stdout;
use crate::cli::signals::SignalListener;
use crate::failure::{CommandResult, Exit, Failure};

/// The exit status if a server or the product could not be used: nothing was checked.
const EXIT_ENVIRONMENT: Exit = Exit::Passed(3);

/// The pause of a writer between two writes, which leaves a key unchanged for some time.
const WRITE_PAUSE: Duration = Duration::from_millis(2);

/// The pause of a reader: some ten million reads of four readers in ten minutes.
const READ_PAUSE: Duration = Duration::from_micros(100);

/// How much longer than a cached answer is used nothing is written before the last reads: a write that
/// was not acknowledged may still happen.
const QUIET_MARGIN: Duration = Duration::from_millis(500);

/// How long the change feed of the product may take to begin: the server first waits for the end of all
/// transactions that write.
const FEED_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a run looks whether a signal wants it to end.
const SIGNAL_LOOK: Duration = Duration::from_millis(50);

const LONG_ABOUT: &str = "\
Check how fresh the answers of the caches are

Writers change rows in a PostgreSQL server. Readers read these rows through the layers of the product:
sessions, shared cache, batches, HTTP. Afterwards each answer is compared with what its contract
promises:

  any         a version that was written, and after the writers have stopped, the last one
  within      what was committed 50 ms before the read began, or longer ago; 200ms, 1s: likewise
  after       what was committed up to a position of the log that a writer has passed on
  now         what the database itself would have answered
In addition, no session reads an older version after a newer one, and no answer is older than the age
that it claims.

The command starts a server of its own for each version in --pg and removes it at the end, or uses the
server at --url, in which it creates a schema and a publication lookaside_verify and drops them at the
end. With --feed off, the product does not follow the changes: contracts are then kept by the age of
answers.";

const AFTER_LONG_HELP: &str = "\
Examples:
  lookaside verify freshness --seconds 10
  lookaside verify freshness --contracts any --seconds 60 --faults all
  lookaside verify freshness --pg 15,18 --seconds 600 --faults all --json
  lookaside verify freshness --seconds 600 --faults all --synchronous-commit off
  lookaside verify freshness --ttl-ms 0 --layers l0,body --edn history.edn
  lookaside verify freshness --url postgres://app@db1/test --faults kill-backend,truncate

Faults: --faults all injects every fault that is possible. With --url, these are the ones that need
ordinary connections only, or this process. Faults of a change feed are not applicable as long as
there is no replication slot whose name begins with lookaside. A run lasts longer than --seconds if
faults take longer than planned, such as the recovery of a killed server; the same seed makes the same
plan.

Exit codes: 0 if there was no violation; 1 if there were violations, or if a combination of contract,
layer and fault was not read or a fault was not injected; 2 if the command line is invalid; 3 if a
server or the product could not be used, and nothing was checked; 130 and 143 after Ctrl-C and
SIGTERM, with the report of what was done until then.";

/// Check how fresh the answers of the caches are
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_long_help = AFTER_LONG_HELP)]
pub(super) struct FreshnessArguments {
    /// The versions of PostgreSQL to check with, each on a server of its own
    #[arg(
        long,
        value_name = "VERSION",
        value_delimiter = ',',
        default_value = "18"
    )]
    pg: Vec<VersionRequirement>,

    /// An existing server instead
    #[arg(long, value_name = "URL", conflicts_with = "pg")]
    url: Option<String>,

    /// How long to write and read, for each server; reading goes on for --ttl-ms after the last write
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Selects the keys, layers, contracts and faults; each seed makes the same choices again
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many rows are written and read; the first ones more often
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    keys: u32,

    /// Threads that read
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    readers: u16,

    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    writers: u16,

    /// What to inject: all, none, or names of faults such as truncate,kill-postmaster
    #[arg(long, value_name = "NAMES", default_value = "none", value_parser = names::faults)]
    faults: FaultChoice,

    /// The contracts of the reads: any, within, after, now, or durations such as 200ms
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "any,within,after,now", value_parser = names::contract)]
    contracts: Vec<Contract>,

    /// The layers to read through: database, l0, l1, call, batch, body, http
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "l0,l1,call,batch,body,http", value_parser = names::layer)]
    layers: Vec<Layer>,

    /// The ttl_ms of the product's [cache]; with 0, nothing is cached
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    ttl_ms: u64,

    /// Whether the product follows the changes of the rows, as with feed = "auto"
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    feed: String,

    /// Whether commits wait until they are on disk; with off, they do only while a fault needs it:
    /// kill-postmaster and those of standbys
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    synchronous_commit: String,

    /// A mistake to build into the product, which has to be found
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "NAME", value_parser = names::mutant)]
    mutant: Option<lookaside_knowledge::Mutant>,

    /// The reads that each combination of contract, layer and fault must have
    #[arg(long, value_name = "N", default_value_t = 1)]
    reads_min: u64,

    /// How many reads of each combination must begin within 50 ms after a change of their row
    #[arg(long, value_name = "N", default_value_t = 0)]
    recent_reads_min: u64,

    /// How often each fault must be injected
    #[arg(long, value_name = "N", default_value_t = 1)]
    injections_min: u64,

    /// Also write all operations to this file, as EDN for Knossos and Elle
    #[arg(long, value_name = "FILE")]
    edn: Option<PathBuf>,

    /// Print the report as JSON, a line for each server
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FreshnessArguments) -> CommandResult {
    let choice = Choice::of(arguments)?;
    #[cfg(feature = "mutants")]
    if let Some(mutant) = arguments.mutant {
        mutant.activate();
    }
    let environment = |failure: Failure| failure.with_exit(EXIT_ENVIRONMENT);
    let prometheus = metrics::recorder().map_err(environment)?;
    let stop = StopFlag::new();
    let stop = stop.map_err(|error| environment(Failure::new("cannot begin").because(&error)))?;
    let signals = SignalListener::start(stop.clone(), None, || {}).map_err(environment)?;
    let mut edn = match &arguments.edn {
        Some(file) => Some(create(file).map_err(environment)?),
        None => None,
    };
    let mut exit = Exit::Done;
    let requirements: Vec<Option<VersionRequirement>> = match &arguments.url {
        Some(_) => vec![None],
        None => arguments.pg.iter().copied().map(Some).collect(),
    };
    for requirement in requirements {
        let server = match (requirement, &arguments.url) {
            (Some(requirement), _) => Server::start(requirement),
            (None, url) => Server::at(url.as_deref().unwrap_or_default()),
        };
        let server = server.map_err(environment)?;
        let (history, outcome) =
            check_server(arguments, &choice, &server, &prometheus, &stop).map_err(environment)?;
        write_stdout(|out| match arguments.json {
            true => writeln!(out, "{}", outcome.to_json()),
            false => outcome.write_text(&history, out),
        })?;
        if let Some((file, out)) = &mut edn {
            write_history(&history, &server.version, out).map_err(|error| {
                let message = format!("cannot write `{}`", file.display());
                environment(Failure::new(message).because(&error))
            })?;
        }
        if !outcome.is_good() {
            exit = Exit::Failed;
        }
        if let Some(ended_by) = signals.ended_by() {
            return Ok(ended_by);
        }
    }
    Ok(exit)
}

fn create(file: &PathBuf) -> Result<(PathBuf, io::BufWriter<File>), Failure> {
    let created = File::create(file).map_err(|error| {
        Failure::new(format!("cannot create `{}`", file.display())).because(&error)
    });
    Ok((file.clone(), io::BufWriter::new(created?)))
}

/// What the arguments select, without repetitions.
struct Choice {
    contracts: Vec<Contract>,
    layers: Vec<Layer>,
    faults: Vec<FaultKind>,
    /// Faults of `all` that cannot be injected here.
    left_out: BTreeMap<FaultKind, &'static str>,
    plan: FaultPlan,
}

impl Choice {
    fn of(arguments: &FreshnessArguments) -> Result<Self, Failure> {
        let mut contracts = arguments.contracts.clone();
        let mut layers = arguments.layers.clone();
        contracts.sort_unstable();
        contracts.dedup();
        layers.sort_unstable();
        layers.dedup();
        let mut reasons = BTreeMap::new();
        let faults = match &arguments.faults {
            FaultChoice::Named(kinds) => {
                let of_own = kinds.iter().find(|kind| needs_own_server(**kind));
                if let (Some(kind), Some(_)) = (of_own, &arguments.url) {
                    let message = format!("the fault {kind} needs a server of our own");
                    let help = "use --pg instead of --url, or leave the fault out of --faults";
                    return Err(Failure::usage(message).with_help(help));
                }
                kinds.clone()
            }
            FaultChoice::All => {
                for kind in FaultKind::ALL {
                    if arguments.url.is_some() && needs_own_server(kind) {
                        reasons.insert(kind, "needs a server of our own: use --pg");
                    } else if let Some(reason) = left_out(kind) {
                        reasons.insert(kind, reason);
                    }
                }
                let is_possible = |kind: &FaultKind| !reasons.contains_key(kind);
                FaultKind::ALL.into_iter().filter(is_possible).collect()
            }
        };
        let options = PlanOptions {
            seed: arguments.seed,
            ..PlanOptions::default()
        };
        let length = Duration::from_secs(arguments.seconds);
        let plan = FaultPlan::new(&faults, length, &options).map_err(|error| {
            Failure::usage(error.to_string()).with_help("reduce --seconds, and use several seeds")
        })?;
        Ok(Self {
            contracts,
            layers,
            faults,
            left_out: reasons,
            plan,
        })
    }

    fn has(&self, control: Control) -> bool {
        self.faults.iter().any(|kind| kind.control() == control)
    }
}

/// A relay is in front of our own servers only: the TLS of others may check their names.
fn needs_own_server(kind: FaultKind) -> bool {
    matches!(kind.control(), Control::Server | Control::Link)
}

/// Runs writers, readers and faults over one server, and checks what was read.
fn check_server(
    arguments: &FreshnessArguments,
    choice: &Choice,
    server: &Server,
    prometheus: &PrometheusHandle,
    stop: &StopFlag,
) -> Result<(History, Outcome), Failure> {
    server.create_tables(arguments.keys)?;
    let checked = check_tables(arguments, choice, server, prometheus, stop);
    let dropped = server.drop_tables();
    let checked = checked?;
    dropped.map_err(|cause| {
        let message = "cannot drop the schema lookaside_verify";
        Failure::new(message).because(cause.as_ref())
    })?;
    Ok(checked)
}

fn check_tables(
    arguments: &FreshnessArguments,
    choice: &Choice,
    server: &Server,
    prometheus: &PrometheusHandle,
    stop: &StopFlag,
) -> Result<(History, Outcome), Failure> {
    // The server of a URL may check the name that it is called by.
    let is_held = choice.faults.contains(&FaultKind::BulkUpdate) && server.is_own();
    let relay = match choice.has(Control::Link) || is_held {
        true => Some(start_relay(server)?),
        false => None,
    };
    let url = match &relay {
        Some((relay, port)) => {
            server
                .url
                .replacen(&format!(":{port}"), &format!(":{}", relay.port), 1)
        }
        None => server.url.clone(),
    };
    let options = ProductOptions {
        ttl: Duration::from_millis(arguments.ttl_ms),
        key_count: arguments.keys,
        is_served: [Layer::Body, Layer::Http]
            .iter()
            .any(|layer| choice.layers.contains(layer)),
        // Without caches, there is nothing to invalidate.
        has_feed: arguments.feed == "on" && arguments.ttl_ms > 0,
    };
    if options.has_feed {
        server.publish_tables()?;
    }
    let product = Product::start(&url, &options, prometheus)?;
    let signal = PhaseSignal::new();
    let is_asynchronous = arguments.synchronous_commit == "off";
    let patterns = Patterns::new(&signal, &choice.plan, is_asynchronous);
    let first_uses = FirstUses::new(&product.knowledge, &signal, &choice.plan, arguments.seed);
    let first_uses = options.has_feed.then_some(&first_uses);
    let readers = readers(arguments, server, &product, first_uses)
        .map_err(|cause| Failure::new("cannot prepare the lookups").because(cause.as_ref()))?;
    if options.has_feed {
        let status = product.wait_for_feed(FEED_TIMEOUT);
        if let Some(status) = status.filter(|status| status.lag.is_none()) {
            let reason = status.reason.unwrap_or_else(|| status.state.to_string());
            let message = format!("the change feed of the product does not begin: {reason}");
            return Err(Failure::new(message).with_help("use --feed off to check without it"));
        }
    }
    let writers = (0..usize::from(arguments.writers))
        .map(|number| {
            let random = fastrand::Rng::with_seed(arguments.seed ^ ((number as u64) << 32));
            Writer::new(&server.url, number, &patterns, random)
        })
        .collect();
    let faults = Faults {
        server,
        relay: relay.as_ref().map(|(relay, _)| relay),
        product: &product,
        patterns: &patterns,
        plan: &choice.plan,
    };
    let run_options = run_options(arguments, choice);
    let injector = signal.injector();
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    let (history, injections) = thread::scope(|scope| {
        // It owns the injector: if it panics, phases end without it.
        let faults = &faults;
        let injecting = scope.spawn(move || faults.run(&injector));
        let _over = SetOnDrop(&is_over);
        scope.spawn(|| {
            // `Relaxed`: nothing else is read by it.
            while !is_over.load(Ordering::Relaxed) {
                if stop.is_raised() {
                    signal.end_early();
                }
                thread::sleep(SIGNAL_LOOK);
            }
        });
        let history = run_threads(&run_options, writers, readers, &signal);
        let injections = injecting.join().expect("no fault panics");
        (history, injections)
    });
    let history = history.map_err(|error| Failure::new("the run failed").because(&error))?;
    let elapsed = begin.elapsed();
    product.end()?;
    let report = check(&history, &CheckOptions::default());
    let setup = Setup {
        version: server.version.clone(),
        seed: arguments.seed,
        elapsed,
        keys: arguments.keys,
        readers: arguments.readers,
        writers: arguments.writers,
        ttl: options.ttl,
        contracts: choice.contracts.clone(),
        layers: choice.layers.clone(),
        faults: choice.faults.clone(),
        demands: Demands {
            read_count_min: arguments.reads_min,
            recent_count_min: arguments.recent_reads_min,
            injection_count_min: arguments.injections_min,
        },
    };
    let outcome = Outcome::new(setup, &history, report, all(choice, injections));
    Ok((history, outcome))
}

/// Tells a thread to end, also after a panic, since the scope waits for it.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A relay in front of a server of our own, and that server's port.
fn start_relay(server: &Server) -> Result<(Relay, u16), Failure> {
    let port = server.port();
    let port = port.ok_or_else(|| Failure::new("the server has no port to disturb"))?;
    let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], port)));
    let relay = relay.map_err(|error| Failure::new("cannot start a relay").because(&error))?;
    Ok((relay, port))
}

fn readers<'a>(
    arguments: &FreshnessArguments,
    server: &'a Server,
    product: &Product,
    first_uses: Option<&'a FirstUses<'a>>,
) -> Result<Vec<ProductReader<'a>>, Cause> {
    let options = ReaderOptions {
        statements: Statements::prepare(&product.knowledge)?,
        key_count: arguments.keys,
        is_cached: arguments.ttl_ms > 0,
        http: product.http_address(),
        url: &server.url,
        cluster: server.cluster()?,
        first_uses,
    };
    let readers = (0..arguments.readers).map(|number| {
        let random = fastrand::Rng::with_seed(arguments.seed ^ (u64::from(number) << 16));
        ProductReader::new(&product.knowledge, options.clone(), random)
    });
    readers.collect()
}

fn run_options(arguments: &FreshnessArguments, choice: &Choice) -> RunOptions {
    let layers = |contract: &Contract| {
        let contract = *contract;
        choice.layers.iter().map(move |layer| (contract, *layer))
    };
    RunOptions {
        plan: choice.plan.clone(),
        quiet: Duration::from_millis(arguments.ttl_ms) + QUIET_MARGIN,
        keys: KeyDistribution {
            law: KeyLaw::Zipf,
            count: arguments.keys,
        },
        reads: choice.contracts.iter().flat_map(layers).collect(),
        write_pause: WRITE_PAUSE,
        read_pause: READ_PAUSE,
        seed: arguments.seed,
        limits: RecorderLimits::default(),
    }
}

/// The injections of all faults that were wanted.
fn all(
    choice: &Choice,
    mut injections: BTreeMap<FaultKind, Injections>,
) -> BTreeMap<FaultKind, Injections> {
    for kind in &choice.faults {
        injections.entry(*kind).or_default();
    }
    for (kind, reason) in &choice.left_out {
        injections.entry(*kind).or_default().not_applicable = Some(reason);
    }
    injections
}

/// The operations of all keys: of the reads those under `now`, or all if there are none, since a checker of
/// linearizability is given no others.
fn write_history(history: &History, version: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let contracts = history.contracts();
    let ids = match contracts.id(Contract::Now) {
        Ok(now) => vec![now],
        Err(_) => contracts.ids().collect(),
    };
    writeln!(out, "; PostgreSQL {version}")?;
    let keys: std::collections::BTreeSet<Key> = history.writes().iter().map(|it| it.key).collect();
    for key in keys {
        writeln!(out, "; {key}")?;
        write_edn(history, key, &ids, out)?;
    }
    out.flush()
}
