//! `--metrics`: the metrics of a run for Prometheus, and whether it is alive and ready, over HTTP.
//!
//! The exporter crate only renders the text; its own listener would add hyper and an asynchronous
//! runtime for one response every few seconds. So one thread serves one connection at a time, with
//! a deadline, and refuses all requests but a small GET.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lookaside_connect::{LagReader, PartitionLag};
use lookaside_knowledge::{Knowledge, MetricsTelemetry};
use lookaside_stream::{Progress, StopFlag};
use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use crate::failure::Failure;
use crate::models::transform::Tally;
use crate::models::waiting::Outages;

/// Scrapers send a few hundred bytes.
const REQUEST_SIZE_MAX: usize = 8 << 10;

/// The time that one connection may delay the next.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(2);

/// The interval at which collected histogram samples are folded, so that they stay few when metrics
/// are not scraped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Bounds of the histograms in seconds: a query takes microseconds, a reload up to minutes.
const QUERY_SECONDS: [f64; 10] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];
const RELOAD_SECONDS: [f64; 8] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// A change is visible soon after its commit, unless a standby has to confirm it.
const GATE_WAIT_SECONDS: [f64; 10] = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1.0, 10.0];

/// Descriptions of the counters of [`publish`].
const DESCRIPTIONS: [(&str, &str); 12] = [
    (
        "lookaside_events_in_total",
        "Events read, including rejects.",
    ),
    ("lookaside_events_out_total", "Events written."),
    (
        "lookaside_events_dropped_total",
        "Events that the model assigned to no output, and events with an empty array to split.",
    ),
    (
        "lookaside_bytes_in_total",
        "Bytes of the events read, uncompressed.",
    ),
    (
        "lookaside_bytes_out_total",
        "Bytes of the events written, uncompressed.",
    ),
    (
        "lookaside_rejects_total",
        "Lines that cannot be parsed, and events that are rejected or cannot be written.",
    ),
    (
        "lookaside_datagrams_lost_total",
        "UDP datagrams that the system discarded because they were not read in time.",
    ),
    (
        "lookaside_lookup_failures_total",
        "Lookups that failed and left their fields absent.",
    ),
    (
        "lookaside_lookup_waits_total",
        "How often lookups began to wait until a database is available.",
    ),
    (
        "lookaside_lookups_total",
        "Lookups, one per statement and event.",
    ),
    (
        "lookaside_lookups_asked_total",
        "Lookups that were executed; equal ones of a batch are executed once.",
    ),
    ("lookaside_lookups_absent_total", "Lookups without a row."),
];

/// `9464` or `127.0.0.1:9464`; a port alone means the loopback interface.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| "write a port, or an address and a port such as 127.0.0.1:9464".to_owned())
}

/// What the metrics of a run are read from.
pub(crate) struct RunObserver {
    pub(crate) knowledge: Knowledge,
    pub(crate) progress: Progress,
    pub(crate) tally: Arc<Tally>,
    pub(crate) outages: Arc<Outages>,
    pub(crate) lag: Option<Arc<Mutex<LagReader>>>,
    /// Raised when the run is to end.
    pub(crate) stop: StopFlag,
}

impl RunObserver {
    /// The reason why the run processes no events at the moment, or `None` if it does.
    fn not_ready_reason(&self) -> Option<String> {
        if self.stop.is_raised() {
            return Some("the run is ending".to_owned());
        }
        match self.outages.figures().waiting {
            0 => None,
            1 => Some("1 worker waits until a database is available".to_owned()),
            count => Some(format!(
                "{count} workers wait until a database is available"
            )),
        }
    }
}

/// Updates the metrics of a run.
fn publish(run: &RunObserver, lags: &mut Lags) {
    let RunObserver {
        knowledge,
        progress,
        tally,
        outages,
        lag,
        ..
    } = run;
    MetricsTelemetry::publish(&knowledge.snapshot());
    let providers = knowledge.providers();
    MetricsTelemetry::publish_pools(&providers);
    MetricsTelemetry::publish_feeds(&providers);
    let (figures, lookups) = (progress.figures(), tally.figures());
    counter!("lookaside_events_in_total").absolute(figures.events_in);
    counter!("lookaside_events_out_total").absolute(figures.events_out);
    counter!("lookaside_events_dropped_total").absolute(figures.events_dropped);
    counter!("lookaside_bytes_in_total").absolute(figures.bytes_in);
    counter!("lookaside_bytes_out_total").absolute(figures.bytes_out);
    counter!("lookaside_rejects_total").absolute(figures.rejects);
    counter!("lookaside_datagrams_lost_total").absolute(figures.datagrams_lost);
    counter!("lookaside_lookup_failures_total").absolute(figures.failures);
    let outages = outages.figures();
    counter!("lookaside_lookup_waits_total").absolute(outages.count);
    gauge!("lookaside_lookup_waiting_workers").set(outages.waiting as f64);
    counter!("lookaside_lookups_total").absolute(lookups.wanted);
    counter!("lookaside_lookups_asked_total").absolute(lookups.asked);
    counter!("lookaside_lookups_absent_total").absolute(lookups.absent);
    if let Some(lag) = lag {
        let mut lag = lag.lock().unwrap_or_else(PoisonError::into_inner);
        lags.publish(lag.read());
    }
}

/// The partitions whose lag was published. One that moves to another process is 0 here from then
/// on, so that the sum over all processes is right.
#[derive(Default)]
struct Lags(HashSet<(String, i32)>);

impl Lags {
    fn publish(&mut self, lags: &[PartitionLag]) {
        let gauge = |topic: &str, partition: i32| {
            let labels = [
                ("topic", topic.to_owned()),
                ("partition", partition.to_string()),
            ];
            gauge!("lookaside_source_lag_messages", &labels)
        };
        for (topic, partition) in &self.0 {
            gauge(topic, *partition).set(0.0);
        }
        for lag in lags {
            gauge(&lag.topic, lag.partition).set(lag.messages as f64);
            self.0.insert((lag.topic.clone(), lag.partition));
        }
    }
}

/// Installs the recorder of metrics; once per process, and before tables are loaded: a histogram is
/// registered in the recorder that is installed when the histogram is first used.
pub(crate) fn recorder() -> Result<PrometheusHandle, Failure> {
    install().map_err(|error| Failure::new("cannot collect metrics").because(&error))
}

fn install() -> Result<PrometheusHandle, BuildError> {
    let buckets = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(buckets("lookaside_query_seconds"), &QUERY_SECONDS)?
        .set_buckets_for_metric(buckets("lookaside_flight_seconds"), &QUERY_SECONDS)?
        .set_buckets_for_metric(buckets("lookaside_reload_seconds"), &RELOAD_SECONDS)?
        .set_buckets_for_metric(
            buckets("lookaside_feed_gate_wait_seconds"),
            &GATE_WAIT_SECONDS,
        )?
        .install_recorder()?;
    MetricsTelemetry::describe();
    for (name, text) in DESCRIPTIONS {
        describe_counter!(name, text);
    }
    describe_gauge!(
        "lookaside_lookup_waiting_workers",
        "Workers that wait until a database is available."
    );
    describe_gauge!(
        "lookaside_source_lag_messages",
        "Messages of a partition that are not delivered yet."
    );
    Ok(handle)
}

/// A server on its own thread, which ends when this is dropped.
pub(crate) struct MetricsServer {
    stop: StopFlag,
    run: Arc<OnceLock<RunObserver>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Starts to listen, and responds with what the recorder has collected.
    pub(crate) fn start(address: SocketAddr, handle: PrometheusHandle) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::error::Error| {
            Failure::new(format!("cannot serve metrics on {address}")).because(error)
        };
        let listener = TcpListener::bind(address).map_err(|error| cannot(&error))?;
        let local = listener.local_addr().map_err(|error| cannot(&error))?;
        // A connection may be closed again between the poll and the accept.
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.map_err(|error| cannot(&error))?;
        let stop = StopFlag::new().map_err(|error| cannot(&error))?;
        let thread = thread::Builder::new().name("metrics".into());
        let run = Arc::new(OnceLock::new());
        let thread = thread.spawn({
            let (stop, run) = (stop.clone(), run.clone());
            move || serve(&listener, &stop, &handle, &run)
        });
        let thread = thread.map_err(|error| cannot(&error))?;
        info!(address = %local, "serves metrics");
        Ok(Self {
            stop,
            run,
            thread: Some(thread),
        })
    }

    /// Responds with the metrics of a run from now on. It is called once, when the tables are
    /// loaded and the input is open: before that, the process is not ready.
    pub(crate) fn observe(&self, run: RunObserver) {
        let set = self.run.set(run);
        assert!(set.is_ok(), "a process has one run");
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread was already reported there, and nothing depends on it here.
            let _ = thread.join();
        }
    }
}

fn serve(
    listener: &TcpListener,
    stop: &StopFlag,
    handle: &PrometheusHandle,
    run: &OnceLock<RunObserver>,
) {
    let mut lags = Lags::default();
    let interval = Timespec {
        tv_sec: UPKEEP_INTERVAL.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    while !stop.is_raised() {
        let mut polled = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.wake_fd(), PollFlags::IN),
        ];
        if let Err(error) = poll(&mut polled, Some(&interval))
            && error != rustix::io::Errno::INTR
        {
            warn!(%error, "metrics are no longer served");
            return;
        }
        handle.run_upkeep();
        if let Ok((stream, _)) = listener.accept() {
            let metrics = || {
                if let Some(run) = run.get() {
                    publish(run, &mut lags);
                }
                handle.render()
            };
            let not_ready_reason = || match run.get() {
                Some(run) => run.not_ready_reason(),
                None => Some(
                    "tables are being loaded, or the input and the output are being opened"
                        .to_owned(),
                ),
            };
            // A scraper that disconnected, or was too slow, will retry.
            let _ = answer(stream, metrics, not_ready_reason);
        }
    }
}

fn answer(
    mut stream: TcpStream,
    metrics: impl FnOnce() -> String,
    not_ready_reason: impl FnOnce() -> Option<String>,
) -> io::Result<()> {
    let deadline = Instant::now() + CONNECTION_TIME_MAX;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CONNECTION_TIME_MAX))?;
    let request = read_request(&mut stream, deadline)?;
    let (status, body) = match route(&request) {
        MetricsRoute::Metrics => ("200 OK", metrics()),
        MetricsRoute::Health => ("200 OK", "alive\n".to_owned()),
        MetricsRoute::Ready => match not_ready_reason() {
            None => ("200 OK", "ready\n".to_owned()),
            Some(reason) => ("503 Service Unavailable", format!("{reason}\n")),
        },
        MetricsRoute::NotFound => (
            "404 Not Found",
            "there are /metrics, /healthz and /readyz\n".to_owned(),
        ),
        MetricsRoute::BadMethod => ("405 Method Not Allowed", "only GET\n".to_owned()),
        MetricsRoute::BadRequest => (
            "400 Bad Request",
            "this is not an HTTP/1.1 request\n".to_owned(),
        ),
    };
    let allow = match status {
        "405 Method Not Allowed" => "Allow: GET\r\n",
        _ => "",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads up to the empty line that ends the head.
fn read_request(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut room = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_SIZE_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            size => request.extend_from_slice(&room[..size]),
        }
    }
    Ok(request)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsRoute {
    Metrics,
    Health,
    Ready,
    NotFound,
    BadMethod,
    BadRequest,
}

/// Parses the first line of a request; the rest of the head is ignored.
fn route(request: &[u8]) -> MetricsRoute {
    let Some(line) = request.split(|byte| *byte == b'\r').next() else {
        return MetricsRoute::BadRequest;
    };
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let &[method, target, b"HTTP/1.1" | b"HTTP/1.0"] = words.as_slice() else {
        return MetricsRoute::BadRequest;
    };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
    match (method, path) {
        (b"GET", b"/metrics") => MetricsRoute::Metrics,
        (b"GET", b"/healthz") => MetricsRoute::Health,
        (b"GET", b"/readyz") => MetricsRoute::Ready,
        (b"GET", [b'/', ..]) => MetricsRoute::NotFound,
        (_, [b'/', ..]) => MetricsRoute::BadMethod,
        _ => MetricsRoute::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_a_known_path_is_answered() {
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", MetricsRoute::Metrics),
            ("GET /metrics?x=1 HTTP/1.0", MetricsRoute::Metrics),
            ("GET /healthz HTTP/1.1", MetricsRoute::Health),
            ("GET /readyz HTTP/1.1", MetricsRoute::Ready),
            ("GET / HTTP/1.1", MetricsRoute::NotFound),
            ("GET /metrics/ HTTP/1.1", MetricsRoute::NotFound),
            ("POST /metrics HTTP/1.1", MetricsRoute::BadMethod),
            ("GET  /metrics HTTP/1.1", MetricsRoute::BadRequest),
            ("GET /metrics HTTP/2", MetricsRoute::BadRequest),
            ("GET metrics HTTP/1.1", MetricsRoute::BadRequest),
            ("\u{16}\u{3}", MetricsRoute::BadRequest),
            ("", MetricsRoute::BadRequest),
        ] {
            let request = format!("{line}\r\nHost: x\r\n\r\n");
            assert_eq!(route(request.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn the_lag_of_a_partition_that_moved_away_is_0() {
        let lag = |partition, messages| {
            let mut lag = PartitionLag::default();
            lag.topic = "clicks".to_owned();
            (lag.partition, lag.messages) = (partition, messages);
            lag
        };
        let recorder = PrometheusBuilder::new().build_recorder();
        let mut lags = Lags::default();
        let mut publish = |found: &[PartitionLag]| {
            metrics::with_local_recorder(&recorder, || lags.publish(found));
            recorder.handle().render()
        };
        publish(&[lag(0, 7), lag(1, 8)]);
        let text = publish(&[lag(1, 9)]);
        for line in [
            "lookaside_source_lag_messages{topic=\"clicks\",partition=\"0\"} 0",
            "lookaside_source_lag_messages{topic=\"clicks\",partition=\"1\"} 9",
        ] {
            assert!(text.contains(line), "no {line:?} in\n{text}");
        }
    }

    #[test]
    fn a_port_alone_is_of_the_loopback_interface() {
        for (text, expected) in [
            ("9464", Some("127.0.0.1:9464")),
            ("0.0.0.0:1", Some("0.0.0.0:1")),
            ("[::1]:9464", Some("[::1]:9464")),
            ("localhost", None),
            ("65536", None),
        ] {
            let found = address(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_connections_of_providers_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing listens on port 1.
        let config = "version = 2\n[provider.sqldb]\nname = 'geo'\nkind = 'postgres'\n\
            acquire_timeout_ms = 60000\nconnection_uri = 'postgres://u@127.0.0.1:1/d'\n";
        std::fs::write(folder.path().join("knowdb.toml"), config).unwrap();
        let knowledge = Knowledge::open(folder.path()).unwrap();
        assert!(knowledge.query_first("select a from t", ()).is_err());
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            MetricsTelemetry::publish_pools(&knowledge.providers());
        });
        let text = recorder.handle().render();
        for line in [
            "lookaside_pool_connections{provider=\"geo\",state=\"idle\"} 0",
            "lookaside_pool_connections{provider=\"geo\",state=\"busy\"} 0",
            "lookaside_pool_in_flight{provider=\"geo\"} 0",
            "lookaside_pool_opened_total{provider=\"geo\"} 0",
            "lookaside_pool_waits_total{provider=\"geo\"} 1",
            "lookaside_pool_wait_timeouts_total{provider=\"geo\"} 0",
            "lookaside_pool_open_failures_total{provider=\"geo\"} 1",
        ] {
            assert!(text.contains(line), "no {line:?} in\n{text}");
        }
    }
}
