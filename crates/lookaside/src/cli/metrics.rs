//! `--metrics`: the metrics of a run for Prometheus, and whether it is alive and ready, over HTTP.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use lookaside_connect::{LagReader, PartitionLag};
use lookaside_http::{Deferred, Listen, Options, Response, Router, Server};
use lookaside_knowledge::{Knowledge, MetricsTelemetry};
use lookaside_stream::{Progress, StopFlag};
use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::info;

use crate::failure::Failure;
use crate::models::routes::Routes;
use crate::models::transform::Tallies;
use crate::models::waiting::Outages;

/// The scrapes that may wait for an answer.
const SCRAPE_COUNT_MAX: usize = 16;

/// How long the end of the process waits for responses to be received.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The content type of the text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The interval at which collected histogram samples are folded, so that they stay few when metrics
/// are not scraped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Bounds of the histograms in seconds: a query takes microseconds, a reload up to minutes.
const QUERY_SECONDS: [f64; 10] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];
const RELOAD_SECONDS: [f64; 8] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// A change is visible soon after its commit, unless a standby has to confirm it.
const GATE_WAIT_SECONDS: [f64; 10] = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1.0, 10.0];

/// Descriptions of the counters of [`publish`], and of those that the HTTP source counts itself.
const DESCRIPTIONS: [(&str, &str); 18] = [
    (
        "lookaside_events_in_total",
        "Events read, including rejects.",
    ),
    ("lookaside_events_out_total", "Events written."),
    (
        "lookaside_events_dropped_total",
        "Events that the model dropped or assigned to no output, and events with an empty array to split.",
    ),
    (
        "lookaside_output_events_total",
        "Events written, by output; only in runs with several outputs.",
    ),
    (
        "lookaside_model_events_total",
        "Events that were transformed, by model.",
    ),
    (
        "lookaside_model_dropped_total",
        "Events that the model dropped, by model.",
    ),
    (
        "lookaside_unmatched_events_total",
        "Events without a model that has a rule for them, or without an output whose condition holds.",
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
        "lookaside_requests_refused_total",
        "HTTP requests that were not answered with 200, by status.",
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
    (
        "lookaside_time_failures_total",
        "Values that functions of times in models could not use.",
    ),
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
    pub(crate) tallies: Arc<Tallies>,
    /// What counts the events that are not assigned, if there can be any.
    pub(crate) routes: Option<Arc<Routes>>,
    /// The names of all outputs, the default one first.
    pub(crate) output_names: Vec<String>,
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
        tallies,
        routes,
        output_names,
        outages,
        lag,
        ..
    } = run;
    MetricsTelemetry::publish(&knowledge.snapshot());
    let providers = knowledge.providers();
    MetricsTelemetry::publish_pools(&providers);
    MetricsTelemetry::publish_feeds(&providers);
    let (figures, lookups) = (progress.figures(), tallies.lookups());
    counter!("lookaside_events_in_total").absolute(figures.events_in);
    counter!("lookaside_events_out_total").absolute(figures.events_out);
    counter!("lookaside_events_dropped_total").absolute(figures.events_dropped);
    if output_names.len() > 1 {
        for (name, count) in output_names.iter().zip(progress.output_events()) {
            counter!("lookaside_output_events_total", "output" => name.clone()).absolute(count);
        }
    }
    for model in tallies.models() {
        let name = model.name;
        counter!("lookaside_model_events_total", "model" => name.clone()).absolute(model.events);
        counter!("lookaside_model_dropped_total", "model" => name).absolute(model.dropped);
    }
    if let Some(routes) = routes {
        let figures = routes.figures();
        for (without, count) in [
            ("model", figures.without_model),
            ("output", figures.without_output),
        ] {
            counter!("lookaside_unmatched_events_total", "without" => without).absolute(count);
        }
    }
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
    counter!("lookaside_time_failures_total").absolute(tallies.time_failures());
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

/// Answers requests until it is dropped.
pub(crate) struct MetricsServer {
    server: Option<Server>,
    run: Arc<OnceLock<RunObserver>>,
}

impl MetricsServer {
    /// Starts to listen, and responds with what the recorder has collected.
    pub(crate) fn start(address: SocketAddr, handle: PrometheusHandle) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::error::Error| {
            Failure::new(format!("cannot serve metrics on {address}")).because(error)
        };
        let run = Arc::new(OnceLock::new());
        let (queue, scrapes) = mpsc::sync_channel(SCRAPE_COUNT_MAX);
        let thread = thread::Builder::new().name("metrics".into()).spawn({
            let run = run.clone();
            move || answer(&scrapes, &handle, &run)
        });
        thread.map_err(|error| cannot(&error))?;
        let options = Options {
            threads: 1,
            body_size_max: 0,
            drain_timeout: DRAIN_TIMEOUT,
            ..Options::default()
        };
        let server = Server::start(options, vec![Listen::tcp(address)], {
            let run = run.clone();
            move |_| routes(queue.clone(), run.clone())
        });
        let server = server.map_err(|error| cannot(&error))?;
        info!(address = %server.addresses()[0], "serves metrics");
        Ok(Self {
            server: Some(server),
            run,
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
        if let Some(server) = self.server.take() {
            server.stop();
            // The run has ended; scrapers try again.
            let _ = server.join();
        }
    }
}

/// The scrapes that wait to be answered, and the run.
type State = (SyncSender<Deferred>, Arc<OnceLock<RunObserver>>);

fn routes(queue: SyncSender<Deferred>, run: Arc<OnceLock<RunObserver>>) -> Router<State> {
    let mut router = Router::new((queue, run));
    router.get("/metrics", |(queue, _), _, reply| {
        // They are sent by the other thread, which may wait for a broker: probes must not.
        if let Err(TrySendError::Full(reply) | TrySendError::Disconnected(reply)) =
            queue.try_send(reply.defer_remote())
        {
            let text = "too many requests are waiting\n";
            reply.respond(Response::new(503).body(text));
        }
    });
    router.get("/healthz", |_, _, reply| reply.text("alive\n"));
    router.get("/readyz", |(_, run), _, reply| {
        let reason = match run.get() {
            Some(run) => run.not_ready_reason(),
            None => Some(
                "tables are being loaded, or the input and the output are being opened".to_owned(),
            ),
        };
        match reason {
            None => reply.text("ready\n"),
            Some(reason) => reply.status(503).text(&format!("{reason}\n")),
        }
    });
    router.fallback(|_, _, reply| {
        reply
            .status(404)
            .text("there are /metrics, /healthz and /readyz\n");
    });
    router
}

/// Answers scrapes until the server has ended.
fn answer(scrapes: &Receiver<Deferred>, handle: &PrometheusHandle, run: &OnceLock<RunObserver>) {
    let mut lags = Lags::default();
    loop {
        match scrapes.recv_timeout(UPKEEP_INTERVAL) {
            Ok(reply) => {
                if let Some(run) = run.get() {
                    publish(run, &mut lags);
                }
                let text = handle.render();
                reply.respond(Response::new(200).content_type(CONTENT_TYPE).body(text));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
