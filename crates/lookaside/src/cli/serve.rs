//! `lookaside serve`: lookups over HTTP until a signal ends it.

use std::env;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use clap::Args;
use crossbeam_channel::{RecvTimeoutError, bounded};
use lookaside_knowledge::Knowledge;
use lookaside_stream::{StopFlag, worker_count};
use rustix::event::{PollFd, PollFlags, poll};

use crate::cli::enrich::count;
use crate::cli::metrics;
use crate::cli::signals::{Drain, SignalListener};
use crate::config::ListenAddress;
use crate::failure::{CommandResult, Exit, Failure};
use crate::project::LoadOptions;
use crate::serve::{Catalog, Files, Lookup, Needed, Service, StartOptions, example};

/// The default address.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8300";

/// The name of the default socket in the user's runtime folder.
const DEFAULT_SOCKET: &str = "lookaside.sock";

const LONG_ABOUT: &str = "\
Serve lookups over HTTP

Answers GET /v1/lookup/NAME?param=value with the row of [lookups.NAME] in the project's knowdb.toml,
as JSON, CSV or MessagePack, and POST with thousands of parameter sets at once. The sections
[lookups.*] and [server] define the lookups, the keys and the addresses; docs/SERVE.md is the
reference.

Without keys, the server listens on this machine only. `lookaside key new` generates a key.";

const AFTER_LONG_HELP: &str = "\
Examples:
  lookaside serve examples/access-log
  curl 'http://127.0.0.1:8300/v1/lookup/asn?ip=82.96.44.9'
  curl http://127.0.0.1:8300/v1/lookup/asn -d '[\"82.96.44.9\", \"192.0.2.1\"]'

  lookaside serve my-project --listen 8301 --listen unix:/tmp/lookups.sock --access-log -

Signals: SIGHUP reloads tables, lookups and keys without delaying requests. After SIGTERM and SIGINT
(Ctrl-C), the server accepts no more connections, answers the requests that it has received, and
ends within drain_timeout_ms; a second signal ends it immediately.

Exit codes: 0 after a signal; 1 if the server could not start, one of its threads failed, or
drain_timeout_ms was exceeded; 2 if the command line is invalid.";

/// Serve lookups over HTTP
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct ServeArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,

    /// The address to listen on, instead of those of [server]: ADDRESS:PORT, a port of 127.0.0.1,
    /// or unix:PATH; may be repeated
    #[arg(long, value_name = "PLACE", value_parser = listen_address)]
    listen: Vec<ListenAddress>,

    /// I/O threads [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<usize>>)]
    threads: Option<NonZero<usize>>,

    /// The access log, one JSON object per line: a file, or `-` for standard error
    #[arg(long, value_name = "FILE")]
    access_log: Option<String>,

    /// Reload everything when a file of the tables changes
    #[arg(long)]
    watch: bool,

    /// Print nothing at the start
    #[arg(long, short)]
    quiet: bool,
}

/// The interval at which a start checks for a signal.
const LOOK: Duration = Duration::from_millis(20);

/// The actions of SIGHUP and of the end of a drain, which are set during the start.
type Action = Box<dyn Fn() + Send + Sync>;

fn listen_address(text: &str) -> Result<ListenAddress, &'static str> {
    ListenAddress::parse(text)
}

pub(crate) fn run(arguments: &ServeArguments) -> CommandResult {
    let files = Files::read(&arguments.dir)?;
    let addresses = ListenAddresses::of(arguments, &files)?;
    if arguments.access_log.is_none() {
        files.server.guard_access_log()?;
    }
    let thread_count = match arguments.threads {
        Some(count) => count.get(),
        None if files.server.threads > 0 => files.server.threads,
        None => worker_count(),
    };
    let stop = StopFlag::new().map_err(|error| Failure::new("cannot begin").because(&error))?;
    bound_the_end(&stop, files.server.drain_timeout)?;
    let reloader: Arc<OnceLock<Action>> = Arc::default();
    // Signals are handled from the beginning, since loading takes a while. A reload requested
    // before it is done is ignored: the tables are being loaded anyway.
    let loaded: Arc<OnceLock<Knowledge>> = Arc::default();
    let canceller: Arc<OnceLock<Action>> = Arc::default();
    let drain = Drain {
        timeout: files.server.drain_timeout,
        cancel: Box::new({
            let (loaded, canceller) = (loaded.clone(), canceller.clone());
            move || match (canceller.get(), loaded.get()) {
                (Some(cancel), _) => cancel(),
                (None, Some(knowledge)) => knowledge.cancel_queries(),
                (None, None) => {}
            }
        }),
    };
    let signals = SignalListener::start(stop.clone(), Some(drain), {
        let reloader = reloader.clone();
        move || {
            if let Some(reload) = reloader.get() {
                reload();
            }
        }
    })?;
    let prometheus = metrics::recorder()?;
    let knowledge = files.project.load_with(LoadOptions {
        watch: arguments.watch || files.server.watch,
        telemetry: true,
    })?;
    // It is set once, here.
    let _ = loaded.set(knowledge.clone());
    let name = arguments.dir.display().to_string();
    let options = StartOptions {
        listen: addresses.listen,
        thread_count,
        access_log: arguments.access_log.clone(),
        prometheus,
        stop: stop.clone(),
    };
    let service = start(files, &knowledge, options, &stop)?;
    drop(knowledge);
    // It is set once, here.
    let _ = reloader.set(Box::new(service.reloader()));
    let _ = canceller.set(Box::new(service.canceller()));
    if !arguments.quiet {
        // A failed write to standard error is ignored.
        let _ = io::stderr()
            .lock()
            .write_all(greeting(&name, &service, addresses.note).as_bytes());
    }
    wait(&stop)?;
    if !arguments.quiet
        && let Some(exit) = signals.ended_by()
    {
        let signal = match exit {
            Exit::Terminated => "SIGTERM",
            _ => "SIGINT",
        };
        // A failed write to standard error is ignored.
        let _ = writeln!(io::stderr(), "{signal}: answering the requests in progress");
    }
    service.drain()?;
    Ok(Exit::Done)
}

/// Starts the service. The start may wait for unavailable providers; a signal ends that.
fn start(
    files: Files,
    knowledge: &Knowledge,
    options: StartOptions,
    stop: &StopFlag,
) -> Result<Service, Failure> {
    let (starting, is_starting) = bounded::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            // Nothing is ever sent: the sender is dropped when the service has started.
            while is_starting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if stop.is_raised() {
                    return knowledge.leave_providers();
                }
            }
        });
        let service = Service::start(files, knowledge.clone(), options);
        drop(starting);
        service
    })
}

/// The addresses to listen on.
struct ListenAddresses {
    listen: Vec<(ListenAddress, Needed)>,
    /// A note about an address that was left out.
    note: Option<&'static str>,
}

impl ListenAddresses {
    fn of(arguments: &ServeArguments, files: &Files) -> Result<Self, Failure> {
        let said = match arguments.listen.is_empty() {
            false => Some(arguments.listen.clone()),
            true => files.server.listen.clone(),
        };
        let Some(said) = said else {
            return Ok(Self::usual());
        };
        files.server.guard(&said)?;
        files.server.guard_sockets(&said)?;
        let listen = said.into_iter().map(|address| (address, Needed::Must));
        Ok(Self {
            listen: listen.collect(),
            note: None,
        })
    }

    fn usual() -> Self {
        let address = ListenAddress::parse(DEFAULT_ADDRESS).expect("it is an address");
        let mut listen = vec![(address, Needed::Must)];
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let note = match &runtime {
            Some(folder) => {
                let socket = PathBuf::from(folder).join(DEFAULT_SOCKET);
                listen.push((ListenAddress::Unix(socket), Needed::May));
                None
            }
            None => Some(NO_SOCKET),
        };
        Self { listen, note }
    }
}

/// The note if the user has no runtime folder.
const NO_SOCKET: &str =
    "  no socket: XDG_RUNTIME_DIR is not set; create one elsewhere with `--listen unix:PATH`\n";

/// The note if nothing is served yet.
const NO_LOOKUP: &str = "\
no lookup is defined; add one to knowdb.toml, and send SIGHUP:
  [lookups.NAME]
  sql = \"select … from … where … = :key\"
";

/// The text that is printed after the start.
fn greeting(name: &str, service: &Service, note: Option<&str>) -> String {
    let catalog = service.catalog();
    let plural =
        |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let lookups = plural(catalog.lookups.len(), "lookup");
    let models = plural(catalog.models.names().len(), "model");
    let mut text = format!("serves {name}: {lookups}, {models}\n");
    let addresses: Vec<String> = service.listen_addresses().collect();
    for address in &addresses {
        text.push_str(&format!("  {address}\n"));
    }
    text.push_str(note.unwrap_or_default());
    if catalog.lookups.is_empty() {
        text.push_str(NO_LOOKUP);
    }
    // The shell expands it, so that the key does not appear in the history.
    let key = match catalog.access.has_keys() {
        true => "-H \"Authorization: Bearer $LOOKASIDE_KEY\" ",
        false => "",
    };
    let curl = match addresses
        .iter()
        .find(|address| !address.starts_with("unix:"))
    {
        Some(url) => format!("curl {key}'{}", callable(url)),
        None => format!(
            "curl {key}--unix-socket {} 'http://localhost",
            addresses[0].trim_start_matches("unix:")
        ),
    };
    text.push_str(&format!("try:  {curl}{}'\n", tried(&catalog)));
    text
}

/// Replaces the wildcard address of a URL by the loopback address, which clients can connect to.
fn callable(url: &str) -> String {
    url.replacen("//0.0.0.0:", "//127.0.0.1:", 1)
        .replacen("//[::]:", "//[::1]:", 1)
}

/// An example URL with an answer.
fn tried(catalog: &Catalog) -> String {
    let mut lookups = catalog.lookups.iter();
    let found = lookups.find_map(|lookup: &Lookup| example(lookup));
    found.unwrap_or_else(|| "/v1/lookups".to_owned())
}

/// Ends the process if it has not ended within `drain_timeout` of the first signal, whatever blocks
/// it: a load, a query, a disk.
fn bound_the_end(stop: &StopFlag, drain_timeout: Duration) -> Result<(), Failure> {
    let stop = stop.clone();
    let thread = thread::Builder::new().name("end".into()).spawn(move || {
        if wait(&stop).is_err() {
            // `run` fails with the same error.
            return;
        }
        // The thread usually ends with the process, long before the timeout.
        thread::sleep(drain_timeout);
        let message = "error: the server did not end within drain_timeout_ms of the first signal\n";
        // A failed write to standard error is ignored.
        let _ = io::stderr().lock().write_all(message.as_bytes());
        process::exit(Exit::Failed.number().into());
    });
    thread
        .map(drop)
        .map_err(|error| Failure::new("cannot begin").because(&error))
}

/// Waits until a signal arrives or a thread fails.
fn wait(stop: &StopFlag) -> Result<(), Failure> {
    while !stop.is_raised() {
        let mut polled = [PollFd::from_borrowed_fd(stop.wake_fd(), PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::new("cannot wait for signals").because(&error)),
        }
    }
    Ok(())
}
