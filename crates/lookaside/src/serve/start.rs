//! Startup and shutdown of the service.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use lookaside_http::{Address, Builder, CaughtPanic, Listen, Options, Server, Tls};
use lookaside_knowledge::Knowledge;
use lookaside_stream::{StopFlag, worker_count};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;

use super::access_log::AccessLog;
use super::catalog::{Catalog, Parts};
use super::counters::Counters;
use super::counts::ModelCounts;
use super::files::Files;
use super::reloader::Reloader;
use super::reloader_thread::{DESCRIBE_TIMEOUT, ReloaderThread};
use super::service::{DocumentThread, Shared, Thread, console_policy, held_size_max};
use crate::config::{ListenAddress, ServerConfig};
use crate::failure::Failure;

/// The number of blocking threads, for batches of a provider and ad-hoc queries. They sleep nearly
/// always, and more of them would need more connections than a database has.
const BLOCKING_THREAD_COUNT_MAX: usize = 32;

/// The number of concurrent single lookups of SQLite: the rows of each are in memory before they
/// are accounted, and more of them than cores only take turns.
const OWN_QUERY_COUNT_MAX: usize = 64;

/// The number of deferred requests of one connection: each answer may be large, and is sent after
/// those before it.
const DEFERRED_COUNT_MAX: usize = 4;

/// The default number of concurrent event streams per core; each has its own thread and session.
const STREAMS_A_CORE: usize = 4;

/// The part of `drain_timeout` that is reserved for what ends after the connections: providers, a
/// reload, the log.
const END: Duration = Duration::from_millis(500);

/// Options from the command line.
pub(crate) struct StartOptions {
    /// Where to listen; an optional place is skipped if it is not available.
    pub(crate) listen: Vec<(ListenAddress, Needed)>,
    /// I/O threads, from 1.
    pub(crate) thread_count: usize,
    /// Where to log requests, overriding the file.
    pub(crate) access_log: Option<String>,
    pub(crate) prometheus: PrometheusHandle,
    /// Raised when a thread fails that the service depends on.
    pub(crate) stop: StopFlag,
}

/// Whether the server needs a place to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    Must,
    May,
}

/// A running service. Dropping it ends it.
pub(crate) struct Service {
    shared: Arc<Shared>,
    server: Server,
    reloader: ReloaderThread,
    runtime: tokio::runtime::Runtime,
    is_tls: bool,
    drain_timeout: Duration,
}

impl Service {
    /// Starts the service.
    ///
    /// # Errors
    /// When a lookup cannot be prepared or an address is not available.
    pub(crate) fn start(
        files: Files,
        knowledge: Knowledge,
        options: StartOptions,
    ) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::error::Error| Failure::new("cannot serve").because(error);
        let project = project_name(&files.project.config.file);
        let (file, config) = (files.project.config.file.clone(), files.server.clone());
        let parts = files.into_parts()?;
        // Errors in models, and in lookups of own tables, are found before it listens.
        let catalog = Catalog::new(parts.clone(), &knowledge, None, Duration::ZERO)?;
        catalog.log_notes(None);
        let has_waiting = catalog.has_waiting();
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
        let (reloader, commands) = Reloader::new();
        let mut boot = [0; 4];
        getrandom::fill(&mut boot).map_err(|error| cannot(&error))?;
        let shared = Arc::new(Shared {
            catalog_number: AtomicU64::new(catalog.number),
            catalog: ArcSwap::from_pointee(catalog),
            reloader,
            prometheus: options.prometheus.clone(),
            monitor: OnceLock::new(),
            tls: OnceLock::new(),
            log: log.transpose()?,
            runtime: runtime.handle().clone(),
            counters: (0..options.thread_count)
                .map(|_| Counters::default())
                .collect(),
            waiting: AtomicU64::new(0),
            held_size: AtomicU64::new(0),
            held_size_max: held_size_max(config.body_size_max),
            own_queries: Semaphore::new(OWN_QUERY_COUNT_MAX),
            document_thread: DocumentThread::start().map_err(|error| cannot(&error))?,
            model_counts: ModelCounts::default(),
            streams: AtomicU64::new(0),
            stream_count_max: config
                .stream_count_max
                .unwrap_or((worker_count() * STREAMS_A_CORE) as u64),
            is_draining: AtomicBool::new(false),
            wakers: Mutex::default(),
            project,
            console_policy: console_policy(),
            started: Instant::now(),
            boot: u32::from_ne_bytes(boot),
            body_size_max: config.body_size_max,
            answers_size_max: config.answers_size_max,
            listen_addresses: options
                .listen
                .iter()
                .map(|(address, _)| address.clone())
                .collect(),
            knowledge,
        });
        let drain_timeout = config.drain_timeout;
        let stop = options.stop.clone();
        let (server, tls) = listen(&shared, &config, options)?;
        // It is set only here.
        let _ = shared.monitor.set(server.monitor());
        let is_tls = tls.is_some();
        if let Some(tls) = tls {
            let _ = shared.tls.set(tls);
        }
        if has_waiting {
            prepare_waiting(&shared, parts)?;
        }
        let reloader = ReloaderThread::start(&shared, commands, file, config, stop);
        Ok(Self {
            reloader: reloader.map_err(|error| cannot(&error))?,
            shared,
            server,
            runtime,
            is_tls,
            drain_timeout,
        })
    }

    /// The addresses that it listens on, as URLs or `unix:PATH`.
    pub(crate) fn listen_addresses(&self) -> impl Iterator<Item = String> {
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

    /// Returns a function that reloads everything, callable from any thread.
    pub(crate) fn reloader(&self) -> impl Fn() + Send + Sync + 'static {
        let reloader = self.shared.reloader.clone();
        // The result is logged.
        move || reloader.reload(|_| {})
    }

    /// Returns a function that cancels all queries and answers the requests that wait for one,
    /// callable from any thread.
    pub(crate) fn canceller(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        // If the service has ended, no request waits any more.
        move || shared.upgrade().iter().for_each(|it| it.cancel_queries())
    }

    /// Accepts no more connections, answers the requests that have arrived, and ends within
    /// `drain_timeout`. All waits for threads are bounded: one that is blocked in a query ends with
    /// the process.
    ///
    /// # Errors
    /// When a thread failed.
    pub(crate) fn drain(self) -> Result<(), Failure> {
        let begun = Instant::now();
        let left = |part: Duration| part.saturating_sub(begun.elapsed());
        self.shared.is_draining.store(true, Ordering::Relaxed);
        self.server.stop();
        // The connections are closed when `answering` is over; the I/O threads end right after
        // that.
        let end = self.drain_timeout - answering(self.drain_timeout);
        let ended = join(self.server, left(self.drain_timeout - end / 2));
        // The reloader may wait for a provider that is unavailable.
        self.shared.knowledge.leave_providers();
        // Their answers can no longer be sent.
        self.shared.knowledge.cancel_queries();
        let kept = self.reloader.end_within(left(self.drain_timeout) / 2);
        // Tasks that still wait for a database have no client any more.
        self.runtime.shutdown_timeout(left(self.drain_timeout) / 4);
        ended.and(kept)
    }
}

/// A server that raises `stop` when one of its threads fails.
fn builder(options: Options, stop: &StopFlag) -> Builder {
    let stop = stop.clone();
    Server::builder(options).on_failure(move || stop.raise())
}

/// Waits for the threads of a server that stops, at most for `timeout`.
fn join(server: Server, timeout: Duration) -> Result<(), Failure> {
    let joined = server.join_within(timeout);
    joined.map_err(|error| Failure::from_error(&error))
}

/// The part of the drain timeout in which requests are still answered.
fn answering(drain_timeout: Duration) -> Duration {
    drain_timeout - END.min(drain_timeout / 8)
}

/// Logs a panic that ended one connection or one request.
fn log_panic(caught: &CaughtPanic<'_>) {
    let CaughtPanic { stage, peer, .. } = caught;
    // The message may quote what the client sent; the panic itself has put it on standard error.
    tracing::error!(?stage, ?peer, "a panic ended a connection");
}

/// Waits for providers to describe their statements, while the server already listens, and serves
/// the lookups and models of those that respond.
///
/// # Errors
/// When a statement is refused.
fn prepare_waiting(shared: &Shared, parts: Parts) -> Result<(), Failure> {
    let first = shared.catalog.load_full();
    let next = Catalog::new(parts, &shared.knowledge, Some(&first), DESCRIBE_TIMEOUT)?;
    next.log_waiting(None);
    next.log_notes(Some(&first));
    shared.publish(Arc::new(next));
    first.release(&shared.knowledge);
    Ok(())
}

/// The display name of a project: its folder's name.
fn project_name(file: &Path) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().and_then(Path::file_name);
    folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Starts the I/O threads on all available places.
fn listen(
    shared: &Arc<Shared>,
    config: &ServerConfig,
    options: StartOptions,
) -> Result<(Server, Option<Tls>), Failure> {
    let tls = config.load_tls()?;
    let mut addresses = options.listen;
    loop {
        let listens = addresses.iter().map(|(address, _)| match (address, &tls) {
            (ListenAddress::Tcp(address), Some(tls)) => Listen::tcp(*address).tls(tls.clone()),
            (ListenAddress::Tcp(address), None) => Listen::tcp(*address),
            // No TLS on Unix sockets: a user who could read their traffic could read the private
            // key as well.
            (ListenAddress::Unix(path), _) => Listen::unix(path),
        });
        let server = config.timeouts.apply(Options {
            threads: options.thread_count,
            body_size_max: config.body_size_max,
            deferred_count_max: DEFERRED_COUNT_MAX,
            drain_timeout: answering(config.drain_timeout),
            on_panic: Some(log_panic),
            ..Options::default()
        });
        let server = listens.fold(builder(server, &options.stop), Builder::listen);
        let thread = {
            let shared = shared.clone();
            move |io: &mut lookaside_http::Io| Thread::new(shared.clone(), io)
        };
        let error = match server.start(thread) {
            Ok(server) => return Ok((server, tls)),
            Err(error) => error,
        };
        // The message names the place.
        let text = error.to_string();
        let at_fault = addresses.iter().position(|(address, needed)| {
            *needed == Needed::May && text.contains(&address.to_string())
        });
        match at_fault {
            Some(index) => {
                tracing::warn!(place = %addresses[index].0, %error, "not listening there");
                addresses.remove(index);
            }
            None => {
                let help = "another program may use the address; choose another one, such as \
                            `--listen 8301`";
                return Err(Failure::from_error(&error).with_help(help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use lookaside_http::Router;
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::failure::Exit;

    /// A panic that no request caused ends the program with an error, so that a supervisor restarts
    /// it.
    #[test]
    fn issue_12_a_thread_that_fails_ends_the_service_with_an_error() {
        let stop = StopFlag::new().unwrap();
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        let server = builder(options, &stop)
            .listen(Listen::tcp(([127, 0, 0, 1], 0).into()))
            .start(|_io| {
                let mut router = Router::new(false);
                router
                    .get("/", |is_broken, _, reply| {
                        *is_broken = true;
                        reply.empty();
                    })
                    .on_batch_end(|is_broken, _| assert!(!*is_broken, "a test wants it"));
                router
            })
            .unwrap();
        let Address::Tcp(address) = server.addresses()[0].clone() else {
            panic!("it listens on an address");
        };
        let mut client = TcpStream::connect(address).unwrap();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap();
        // The descriptor that the program waits for.
        let mut polled = [PollFd::from_borrowed_fd(stop.wake_fd(), PollFlags::IN)];
        poll(&mut polled, None).unwrap();
        let failure = join(server, Duration::from_secs(60)).unwrap_err();
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(failure.message().contains("panicked"), "{failure:?}");
    }

    #[test]
    fn what_ends_behind_the_connections_has_a_part_of_the_time() {
        let parts = [1, 100, 2_000, 10_000, 60_000].map(|ms| {
            let timeout = Duration::from_millis(ms);
            (timeout - answering(timeout)).as_micros()
        });
        assert_eq!(parts, [125, 12_500, 250_000, 500_000, 500_000]);
    }
}
