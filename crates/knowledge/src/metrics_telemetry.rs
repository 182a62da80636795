//! Telemetry by the crate `metrics`.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use metrics::Histogram;

use crate::counters::Counts;
use crate::event::{Outcome, QueryKind};
use crate::feed::FeedState;
use crate::remote::ProviderStatus;
use crate::snapshot::Snapshot;
use crate::telemetry::Telemetry;

/// The descriptions of the counters that are not in [`Counts`].
const COUNTERS: [(&str, &str); 12] = [
    (
        "lookaside_reloads_total",
        "Loads of the tables after the first one, by outcome.",
    ),
    (
        "lookaside_pool_opened_total",
        "Connections to a provider that were opened.",
    ),
    (
        "lookaside_pool_open_failures_total",
        "Connections to a provider that could not be opened.",
    ),
    (
        "lookaside_pool_lost_total",
        "Connections to a provider that were lost.",
    ),
    (
        "lookaside_pool_waits_total",
        "Requests that waited for a connection to a provider.",
    ),
    (
        "lookaside_pool_wait_milliseconds_total",
        "Total time that requests waited for a connection to a provider.",
    ),
    (
        "lookaside_pool_wait_timeouts_total",
        "Requests that timed out while they waited for a connection to a provider.",
    ),
    (
        "lookaside_feed_rows_total",
        "Changed rows that invalidated answers of a provider.",
    ),
    (
        "lookaside_feed_transactions_total",
        "Transactions that invalidated answers of a provider.",
    ),
    (
        "lookaside_feed_resets_total",
        "Invalidations of all answers of a provider, by reason.",
    ),
    (
        "lookaside_feed_refused_fills_total",
        "Answers of a provider that were outdated when they arrived, and are not reused.",
    ),
    (
        "lookaside_feed_probes_total",
        "Statements of the change feed that asked a provider what it shows.",
    ),
];

const GAUGES: [(&str, &str); 18] = [
    (
        "lookaside_generation",
        "The generation of the tables in use; 1 at the start.",
    ),
    ("lookaside_sessions", "Sessions that are open."),
    ("lookaside_statements", "Statements that are known."),
    ("lookaside_l1_entries", "Answers in the shared cache."),
    (
        "lookaside_l1_bytes",
        "Bytes of the answers in the shared cache.",
    ),
    ("lookaside_l0_bytes", "Bytes of the caches of all sessions."),
    (
        "lookaside_stale_entries",
        "Last good answers of providers, kept for stale_if_error_ms.",
    ),
    (
        "lookaside_stale_bytes",
        "Bytes of the last good answers of providers.",
    ),
    (
        "lookaside_store_bytes",
        "Bytes of the SQLite databases in memory.",
    ),
    (
        "lookaside_packed_bytes",
        "Bytes of the tables that were loaded without SQLite.",
    ),
    (
        "lookaside_pool_connections",
        "Connections to a provider, by state.",
    ),
    (
        "lookaside_pool_in_flight",
        "Requests to a provider that are in progress.",
    ),
    (
        "lookaside_pool_waiting",
        "Requests that wait for a connection to a provider.",
    ),
    (
        "lookaside_feed_state",
        "The state of the change feed of a provider: 1 for the current one.",
    ),
    (
        "lookaside_feed_lag_seconds",
        "The maximal age of the answers of a provider that the change feed keeps valid.",
    ),
    (
        "lookaside_feed_queue_transactions",
        "Received transactions that wait until the provider shows them.",
    ),
    (
        "lookaside_feed_statements",
        "Statements whose answers are invalidated by changes of rows.",
    ),
    (
        "lookaside_feed_slot_wal_bytes",
        "Bytes of WAL that the replication slot of the change feed holds back.",
    ),
];

const HISTOGRAMS: [(&str, &str); 6] = [
    (
        "lookaside_query_seconds",
        "How long databases took for queries.",
    ),
    (
        "lookaside_reload_seconds",
        "How long loads of the tables took.",
    ),
    (
        "lookaside_flight_seconds",
        "How long requests to a provider took.",
    ),
    (
        "lookaside_flight_queries",
        "Queries in one request to a provider.",
    ),
    (
        "lookaside_stale_answer_age_seconds",
        "The age of stale answers that were used while a provider failed.",
    ),
    (
        "lookaside_feed_gate_wait_seconds",
        "The time from the arrival of a transaction until its changes were applied.",
    ),
];

/// Records through the [`metrics`] facade; the program chooses the exporter.
///
/// | metric | kind | labels |
/// | --- | --- | --- |
/// | `lookaside_query_seconds` | histogram | `kind` = `first`, `all`; `outcome` = `success`, `failure` |
/// | `lookaside_reload_seconds` | histogram | `outcome` |
/// | `lookaside_flight_seconds`, `lookaside_flight_queries` | histogram | `provider` |
/// | `lookaside_stale_answer_age_seconds` | histogram | `provider` |
/// | `lookaside_feed_gate_wait_seconds` | histogram | `provider` |
///
/// Events of every lookup are counted by the sessions and published by [`Self::publish`], so that
/// no lookup waits for a metric:
///
/// | metric | kind | labels |
/// | --- | --- | --- |
/// | `lookaside_<name>_total` | counter | – ; one for each field of [`Counts`](crate::Counts) |
/// | `lookaside_reloads_total` | counter | `outcome` |
/// | `lookaside_generation`, `lookaside_sessions`, `lookaside_statements` | gauge | – |
/// | `lookaside_l0_bytes`, `lookaside_l1_entries`, `lookaside_l1_bytes`, `lookaside_store_bytes`, `lookaside_packed_bytes` | gauge | – |
/// | `lookaside_stale_entries`, `lookaside_stale_bytes` | gauge | – |
///
/// [`Self::publish_pools`] does the same for the connections of providers:
///
/// | metric | kind | labels |
/// | --- | --- | --- |
/// | `lookaside_pool_connections` | gauge | `provider`; `state` = `idle`, `busy`, `opening` |
/// | `lookaside_pool_in_flight`, `lookaside_pool_waiting` | gauge | `provider` |
/// | `lookaside_pool_opened_total`, `lookaside_pool_open_failures_total`, `lookaside_pool_lost_total` | counter | `provider` |
/// | `lookaside_pool_waits_total`, `lookaside_pool_wait_milliseconds_total`, `lookaside_pool_wait_timeouts_total` | counter | `provider` |
///
/// [`Self::publish_feeds`] does the same for their change feeds:
///
/// | metric | kind | labels |
/// | --- | --- | --- |
/// | `lookaside_feed_state` | gauge | `provider`; `state` = `idle`, `starting`, `live`, `down` |
/// | `lookaside_feed_lag_seconds`, `lookaside_feed_queue_transactions`, `lookaside_feed_statements`, `lookaside_feed_slot_wal_bytes` | gauge | `provider` |
/// | `lookaside_feed_rows_total`, `lookaside_feed_transactions_total`, `lookaside_feed_refused_fills_total`, `lookaside_feed_probes_total` | counter | `provider` |
/// | `lookaside_feed_resets_total` | counter | `provider`; `reason`, as [`FeedResetReason::name`](crate::FeedResetReason::name) |
///
/// A histogram of queries is registered when it is used for the first time, and is kept: install the
/// recorder before that.
#[derive(Debug, Default)]
pub struct MetricsTelemetry {
    /// By kind and outcome.
    queries: [OnceLock<Histogram>; 4],
    /// A provider's name and its histograms; there are few providers.
    flights: RwLock<Vec<(Box<str>, FlightHistograms)>>,
}

#[derive(Debug)]
struct FlightHistograms {
    elapsed: Histogram,
    query_count: Histogram,
}

impl MetricsTelemetry {
    /// Describes each metric to the installed recorder; call it once, before the metrics are read.
    pub fn describe() {
        for (name, text) in Counts::described() {
            metrics::describe_counter!(format!("lookaside_{name}_total"), text);
        }
        for (name, text) in COUNTERS {
            metrics::describe_counter!(name, text);
        }
        for (name, text) in GAUGES {
            metrics::describe_gauge!(name, text);
        }
        for (name, text) in HISTOGRAMS {
            metrics::describe_histogram!(name, text);
        }
    }

    /// Publishes the numbers of a snapshot; call it before the exporter reads them, or on a timer.
    pub fn publish(snapshot: &Snapshot) {
        for (name, count) in snapshot.counts.named() {
            metrics::counter!(format!("lookaside_{name}_total")).absolute(count);
        }
        for (outcome, count) in [
            ("success", snapshot.reload_successes),
            ("failure", snapshot.reload_failures),
        ] {
            metrics::counter!("lookaside_reloads_total", "outcome" => outcome).absolute(count);
        }
        // Gauges are floating-point; all of these are far below 2^53.
        for (name, number) in [
            ("lookaside_generation", snapshot.generation),
            ("lookaside_sessions", snapshot.session_count as u64),
            ("lookaside_statements", snapshot.statement_count as u64),
            ("lookaside_l1_entries", snapshot.l1_len as u64),
            ("lookaside_l1_bytes", snapshot.l1_size),
            ("lookaside_l0_bytes", snapshot.l0_size),
            ("lookaside_stale_entries", snapshot.stale_len as u64),
            ("lookaside_stale_bytes", snapshot.stale_size),
            ("lookaside_store_bytes", snapshot.store_size),
            ("lookaside_packed_bytes", snapshot.packed_size),
        ] {
            metrics::gauge!(name).set(number as f64);
        }
    }

    /// Publishes the state of the connections of providers, like [`Self::publish`].
    pub fn publish_pools(providers: &[ProviderStatus]) {
        for ProviderStatus { name, pool, .. } in providers {
            let busy_count = pool.connection_count.saturating_sub(pool.idle_count);
            for (state, count) in [
                ("idle", pool.idle_count),
                ("busy", busy_count),
                ("opening", pool.opening_count),
            ] {
                let labels = [("provider", name.clone()), ("state", state.to_owned())];
                metrics::gauge!("lookaside_pool_connections", &labels).set(count as f64);
            }
            let labels = [("provider", name.clone())];
            for (metric, count) in [
                ("lookaside_pool_in_flight", pool.in_flight_count),
                ("lookaside_pool_waiting", pool.waiting_count),
            ] {
                metrics::gauge!(metric, &labels).set(count as f64);
            }
            let waited_ms = u64::try_from(pool.wait_time_total.as_millis()).unwrap_or(u64::MAX);
            for (metric, count) in [
                ("lookaside_pool_opened_total", pool.opened_total),
                ("lookaside_pool_open_failures_total", pool.open_failed_total),
                ("lookaside_pool_lost_total", pool.lost_total),
                ("lookaside_pool_waits_total", pool.wait_total),
                ("lookaside_pool_wait_milliseconds_total", waited_ms),
                (
                    "lookaside_pool_wait_timeouts_total",
                    pool.wait_timeout_total,
                ),
            ] {
                metrics::counter!(metric, &labels).absolute(count);
            }
        }
    }

    /// Publishes the state of the change feeds of providers, like [`Self::publish`].
    pub fn publish_feeds(providers: &[ProviderStatus]) {
        for ProviderStatus { name, feed, .. } in providers {
            let Some(feed) = feed else {
                continue;
            };
            for state in FeedState::ALL {
                let is_current = feed.state == state;
                let labels = [
                    ("provider", name.clone()),
                    ("state", state.name().to_owned()),
                ];
                metrics::gauge!("lookaside_feed_state", &labels).set(f64::from(is_current));
            }
            let labels = [("provider", name.clone())];
            // Without a statement, there are no answers that could be old.
            let lag = match feed.state {
                FeedState::Idle => Duration::ZERO,
                _ => feed.horizon_age,
            };
            for (metric, number) in [
                ("lookaside_feed_lag_seconds", lag.as_secs_f64()),
                ("lookaside_feed_queue_transactions", feed.queue_len as f64),
                ("lookaside_feed_statements", feed.statement_count as f64),
                (
                    "lookaside_feed_slot_wal_bytes",
                    feed.slot_wal_size.unwrap_or(0) as f64,
                ),
            ] {
                metrics::gauge!(metric, &labels).set(number);
            }
            for (metric, count) in [
                ("lookaside_feed_rows_total", feed.row_count),
                ("lookaside_feed_transactions_total", feed.transaction_count),
                (
                    "lookaside_feed_refused_fills_total",
                    feed.refused_fill_count,
                ),
                ("lookaside_feed_probes_total", feed.probe_count),
            ] {
                metrics::counter!(metric, &labels).absolute(count);
            }
            for (reason, count) in feed.resets() {
                let labels = [
                    ("provider", name.clone()),
                    ("reason", reason.name().to_owned()),
                ];
                metrics::counter!("lookaside_feed_resets_total", &labels).absolute(count);
            }
        }
    }
}

impl Telemetry for MetricsTelemetry {
    fn on_reload(&self, outcome: Outcome, elapsed: Duration) {
        metrics::histogram!("lookaside_reload_seconds", "outcome" => outcome_name(outcome))
            .record(elapsed);
    }

    fn on_query(&self, kind: QueryKind, outcome: Outcome, elapsed: Duration) {
        let index = match (kind, outcome) {
            (QueryKind::First, Outcome::Success) => 0,
            (QueryKind::First, Outcome::Failure) => 1,
            (QueryKind::All, Outcome::Success) => 2,
            (QueryKind::All, Outcome::Failure) => 3,
        };
        let histogram = self.queries[index].get_or_init(|| query_histogram(kind, outcome));
        histogram.record(elapsed);
    }

    fn on_flight(&self, provider: &str, query_count: usize, elapsed: Duration) {
        let record = |histograms: &FlightHistograms| {
            histograms.elapsed.record(elapsed);
            // Histograms are floating-point; a batch is far below 2^53.
            histograms.query_count.record(query_count as f64);
        };
        let known = self.flights.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, histograms)) = known.iter().find(|(name, _)| **name == *provider) {
            return record(histograms);
        }
        drop(known);
        let histograms = FlightHistograms::of(provider);
        record(&histograms);
        let mut known = self.flights.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added it meanwhile; the two lead to the same histograms.
        known.push((provider.into(), histograms));
    }

    fn on_stale(&self, provider: &str, age: Duration) {
        let name = provider.to_owned();
        metrics::histogram!("lookaside_stale_answer_age_seconds", "provider" => name).record(age);
    }

    fn on_change(&self, provider: &str, wait: Duration) {
        let name = provider.to_owned();
        metrics::histogram!("lookaside_feed_gate_wait_seconds", "provider" => name).record(wait);
    }
}

impl FlightHistograms {
    fn of(provider: &str) -> Self {
        let name = provider.to_owned();
        Self {
            elapsed: metrics::histogram!("lookaside_flight_seconds", "provider" => name.clone()),
            query_count: metrics::histogram!("lookaside_flight_queries", "provider" => name),
        }
    }
}

fn query_histogram(kind: QueryKind, outcome: Outcome) -> Histogram {
    let kind = match kind {
        QueryKind::First => "first",
        QueryKind::All => "all",
    };
    let outcome = outcome_name(outcome);
    metrics::histogram!("lookaside_query_seconds", "kind" => kind, "outcome" => outcome)
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Failure => "failure",
    }
}
