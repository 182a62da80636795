//! From a project to a running service, and to its end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use lookaside_http::{Address, Listen, Options, Server, Tls};
use lookaside_knowledge::Knowledge;
use metrics_exporter_prometheus::PrometheusHandle;

use super::access_log::AccessLog;
use super::catalog::Catalog;
use super::config::{Place, ServerConfig};
use super::counters::Counters;
use super::keeper::{Files, Keeper, KeeperThread};
use super::service::{Shared, Thread, console_policy};
use crate::cli::failure::Failure;

/// Threads that may wait: batches for a provider, metrics, ad-hoc queries. They sleep nearly always,
/// and so many at once ask more of a database than it has connections.
const BLOCKING_THREAD_COUNT_MAX: usize = 32;

/// What the command line says beyond the file.
pub(crate) struct StartOptions {
    /// Where to listen; a place that may be missing is tried, and left out if it cannot be had.
    pub(crate) listen: Vec<(Place, Needed)>,
    /// I/O threads, from 1.
    pub(crate) thread_count: usize,
    /// Where to log requests, in place of what the file says.
    pub(crate) access_log: Option<String>,
    pub(crate) prometheus: PrometheusHandle,
}

/// Whether the server starts without a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    Must,
    May,
}

/// A running service. Dropping it ends it.
pub(crate) struct Service {
    shared: Arc<Shared>,
    server: Server,
    keeper: KeeperThread,
    runtime: tokio::runtime::Runtime,
    is_tls: bool,
}

impl Service {
    /// Listens and answers.
    ///
    /// # Errors
    /// When a lookup cannot be prepared or an address cannot be had.
    pub(crate) fn start(
        files: Files,
        knowledge: Knowledge,
        options: StartOptions,
    ) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::error::Error| Failure::new("cannot serve").because(error);
        let project = project_name(&files.project.config.file);
        let (file, config) = (files.project.config.file.clone(), files.server.clone());
        let parts = files.into_parts(&knowledge)?;
        let catalog = Catalog::new(parts, &knowledge, None)?;
        catalog.tell_waiting(None);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREAD_COUNT_MAX)
            .thread_name("serve-wait")
            .build()
            .map_err(|error| cannot(&error))?;
        let log = options.access_log.as_ref().or(config.access_log.as_ref());
        let log = log.map(|name| {
            AccessLog::start(name).map_err(|error| {
                Failure::new(format!("cannot write the access log {name}")).because(&error)
            })
        });
        let (keeper, orders) = Keeper::new();
        let mut boot = [0; 4];
        getrandom::fill(&mut boot).map_err(|error| cannot(&error))?;
        let shared = Arc::new(Shared {
            catalog_number: AtomicU64::new(catalog.number),
            catalog: ArcSwap::from_pointee(catalog),
            keeper,
            prometheus: options.prometheus,
            monitor: OnceLock::new(),
            tls: OnceLock::new(),
            log: log.transpose()?,
            runtime: runtime.handle().clone(),
            counters: (0..options.thread_count)
                .map(|_| Counters::default())
                .collect(),
            waiting: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
            wakers: Mutex::default(),
            project,
            console_policy: console_policy(),
            started: Instant::now(),
            boot: u32::from_ne_bytes(boot),
            body_size_max: config.body_size_max,
            answers_size_max: config.answers_size_max,
            places: options
                .listen
                .iter()
                .map(|(place, _)| place.clone())
                .collect(),
            knowledge,
        });
        let (server, tls) = listen(&shared, &config, options.listen, options.thread_count)?;
        // Nobody else sets it.
        let _ = shared.monitor.set(server.monitor());
        let is_tls = tls.is_some();
        if let Some(tls) = tls {
            let _ = shared.tls.set(tls);
        }
        let keeper = KeeperThread::start(&shared, orders, file, config);
        Ok(Self {
            keeper: keeper.map_err(|error| cannot(&error))?,
            shared,
            server,
            runtime,
            is_tls,
        })
    }

    /// Where it listens, in words that a client takes: URLs, and `unix:PATH`.
    pub(crate) fn places(&self) -> impl Iterator<Item = String> {
        let scheme = if self.is_tls { "https" } else { "http" };
        self.server
            .addresses()
            .iter()
            .map(move |address| match address {
                Address::Tcp(address) => format!("{scheme}://{address}"),
                unix => unix.to_string(),
            })
    }

    /// What is served now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.load_full()
    }

    /// What loads everything again, from any thread.
    pub(crate) fn reloader(&self) -> impl Fn() + Send + Sync + 'static {
        let keeper = self.shared.keeper.clone();
        // What comes of it stands in the log.
        move || keeper.reload(|_| {})
    }

    /// Takes no more connections, answers what is here, and ends.
    ///
    /// # Errors
    /// When a thread failed.
    pub(crate) fn drain(self) -> Result<(), Failure> {
        self.shared.is_draining.store(true, Ordering::Relaxed);
        self.server.stop();
        let ended = self
            .server
            .join()
            .map_err(|error| Failure::from_error(&error));
        // The keeper may ask for a server that is away.
        self.shared.knowledge.leave_providers();
        drop(self.keeper);
        // What still waits for a database has nobody to answer to.
        self.runtime.shutdown_timeout(Duration::from_millis(100));
        ended
    }
}

/// What people call a project: its folder's name.
fn project_name(file: &Path) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().and_then(Path::file_name);
    folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Starts the I/O threads on all places that can be had.
fn listen(
    shared: &Arc<Shared>,
    config: &ServerConfig,
    mut places: Vec<(Place, Needed)>,
    thread_count: usize,
) -> Result<(Server, Option<Tls>), Failure> {
    let tls = config.load_tls()?;
    loop {
        let listens = places.iter().map(|(place, _)| match (place, &tls) {
            (Place::Tcp(address), Some(tls)) => Listen::tcp(*address).tls(tls.clone()),
            (Place::Tcp(address), None) => Listen::tcp(*address),
            // Who reads what goes through a socket's file reads the key as well.
            (Place::Unix(path), _) => Listen::unix(path),
        });
        let options = Options {
            threads: thread_count,
            body_size_max: config.body_size_max,
            drain_timeout: config.drain_timeout,
            ..Options::default()
        };
        let thread = {
            let shared = shared.clone();
            move |io: &mut lookaside_http::Io| Thread::new(shared.clone(), io)
        };
        let error = match Server::start(options, listens.collect(), thread) {
            Ok(server) => return Ok((server, tls)),
            Err(error) => error,
        };
        // The message names the place.
        let text = error.to_string();
        let at_fault = places.iter().position(|(place, needed)| {
            *needed == Needed::May && text.contains(&place.to_string())
        });
        match at_fault {
            Some(index) => {
                tracing::warn!(place = %places[index].0, %error, "not listening there");
                places.remove(index);
            }
            None => {
                let help =
                    "another program may have the address; `--listen 8301` takes another one";
                return Err(Failure::from_error(&error).with_help(help));
            }
        }
    }
}
