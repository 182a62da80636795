//! The server's counters for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lookaside_knowledge::{AnsweredBy, Provenance};

use super::counts::{LookupCounts, ModelCounts};
use super::lookup::Lookup;
use super::models::Models;

/// The kind of endpoint of a request, as a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Lookup,
    Batch,
    Enrich,
    Query,
    Reload,
    /// Information about the server itself.
    Info,
    Other,
}

impl Path {
    const ALL: [Self; 7] = [
        Self::Lookup,
        Self::Batch,
        Self::Enrich,
        Self::Query,
        Self::Reload,
        Self::Info,
        Self::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Batch => "batch",
            Self::Enrich => "enrich",
            Self::Query => "query",
            Self::Reload => "reload",
            Self::Info => "info",
            Self::Other => "other",
        }
    }
}

/// The layer that had an answer, as `X-Cache` and metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The cache of encoded bodies.
    Body,
    Native,
    L0,
    L1,
    Sqlite,
    Provider,
    /// A stale answer, sent because the provider did not respond.
    Stale,
}

impl Layer {
    const ALL: [Self; 7] = [
        Self::Body,
        Self::Native,
        Self::L0,
        Self::L1,
        Self::Sqlite,
        Self::Provider,
        Self::Stale,
    ];

    /// The layer that an answer came from.
    pub(crate) fn of(provenance: &Provenance) -> Self {
        if provenance.is_stale {
            return Self::Stale;
        }
        match provenance.by {
            AnsweredBy::Native => Self::Native,
            AnsweredBy::L0 => Self::L0,
            AnsweredBy::L1 => Self::L1,
            AnsweredBy::Sqlite => Self::Sqlite,
            _ => Self::Provider,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Native => "native",
            Self::L0 => "l0",
            Self::L1 => "l1",
            Self::Sqlite => "sqlite",
            Self::Provider => "provider",
            Self::Stale => "stale",
        }
    }
}

/// Bounds of the histogram in nanoseconds: a table's answer takes microseconds, a provider's
/// milliseconds, a stream of events as long as the client sends.
const BOUNDS_NS: [u64; 14] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    25_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// The counters of one thread. Each thread has its own, so that cores do not share cache lines; all
/// accesses are `Relaxed`, since the counters synchronize nothing else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// By path and status class, from 2xx on.
    requests: [[AtomicU64; 4]; Path::ALL.len()],
    /// By path and bound, the last one unbounded.
    seconds: [[AtomicU64; BOUNDS_NS.len() + 1]; Path::ALL.len()],
    seconds_sum_ns: [AtomicU64; Path::ALL.len()],
    layers: [AtomicU64; Layer::ALL.len()],
    not_modified: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    /// Counts a request that was answered.
    #[inline]
    pub(crate) fn answered(&self, path: Path, status: u16, elapsed: Duration) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        add(&self.requests[path as usize][class], 1);
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanos);
        add(&self.seconds[path as usize][bucket], 1);
        add(&self.seconds_sum_ns[path as usize], nanos);
        if status == 304 {
            add(&self.not_modified, 1);
        }
    }

    /// Counts answers by layer.
    #[inline]
    pub(crate) fn layer(&self, layer: Layer, count: u64) {
        add(&self.layers[layer as usize], count);
    }
}

/// The sums of all threads that the console shows.
pub(crate) struct Sums {
    pub(crate) requests: u64,
    /// The number of answers by layer.
    pub(crate) answers: [(Layer, u64); Layer::ALL.len()],
    /// The histogram of single lookups: bounds in seconds. There is one more count than bounds.
    pub(crate) lookup_bounds_s: [f64; BOUNDS_NS.len()],
    pub(crate) lookup_counts: [u64; BOUNDS_NS.len() + 1],
}

/// Adds the threads up.
pub(crate) fn sums(threads: &[Counters]) -> Sums {
    let sum = |of: &dyn Fn(&Counters) -> u64| -> u64 { threads.iter().map(of).sum() };
    let lookups = Path::Lookup as usize;
    Sums {
        requests: sum(&|counters| counters.requests.iter().flatten().map(read).sum()),
        answers: Layer::ALL.map(|layer| {
            (
                layer,
                sum(&|counters| read(&counters.layers[layer as usize])),
            )
        }),
        lookup_bounds_s: BOUNDS_NS.map(|bound| bound as f64 / 1e9),
        lookup_counts: std::array::from_fn(|bucket| {
            sum(&|counters| read(&counters.seconds[lookups][bucket]))
        }),
    }
}

/// Appends the sums of all threads in the text format of Prometheus.
pub(crate) fn write_metrics(
    threads: &[Counters],
    (lookups, models): (&[Lookup], &Models),
    model_counts: &ModelCounts,
    waiting: u64,
    text: &mut String,
) {
    let sum = |of: &dyn Fn(&Counters) -> &AtomicU64| -> u64 {
        threads.iter().map(|counters| read(of(counters))).sum()
    };
    head(
        text,
        "lookaside_http_requests_total",
        "counter",
        "Requests, by path and class of the status.",
    );
    for path in Path::ALL {
        for class in 0..4 {
            let count = sum(&|counters| &counters.requests[path as usize][class]);
            let (path, class) = (path.name(), class + 2);
            line(
                text,
                &format!("lookaside_http_requests_total{{path=\"{path}\",status=\"{class}xx\"}}"),
                count,
            );
        }
    }
    head(
        text,
        "lookaside_http_not_modified_total",
        "counter",
        "Answers that the client already has (304).",
    );
    line(
        text,
        "lookaside_http_not_modified_total",
        sum(&|counters| &counters.not_modified),
    );
    head(
        text,
        "lookaside_http_answers_total",
        "counter",
        "Answers, by the layer that answered.",
    );
    for layer in Layer::ALL {
        let count = sum(&|counters| &counters.layers[layer as usize]);
        line(
            text,
            &format!("lookaside_http_answers_total{{layer=\"{}\"}}", layer.name()),
            count,
        );
    }
    head(
        text,
        "lookaside_http_lookups_total",
        "counter",
        "Answers by lookup or model and outcome, one per parameter set or event.",
    );
    let mut outcomes = |label: &str, name: &str, counts: &LookupCounts| {
        for (outcome, count) in counts.named() {
            let metric =
                format!("lookaside_http_lookups_total{{{label}=\"{name}\",outcome=\"{outcome}\"}}");
            line(text, &metric, count);
        }
    };
    for lookup in lookups {
        outcomes("lookup", lookup.name(), &lookup.counts);
    }
    for model in models.names() {
        outcomes("model", model, &model_counts.of(model));
    }
    head(
        text,
        "lookaside_http_request_seconds",
        "histogram",
        "How long requests took, from the whole request to the answer.",
    );
    for path in Path::ALL {
        let mut total = 0;
        for bucket in 0..=BOUNDS_NS.len() {
            total += sum(&|counters| &counters.seconds[path as usize][bucket]);
            // The conversion is accurate to all digits that are shown.
            let bound = BOUNDS_NS.get(bucket).map(|bound| *bound as f64 / 1e9);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let path = path.name();
            line(
                text,
                &format!("lookaside_http_request_seconds_bucket{{path=\"{path}\",le=\"{bound}\"}}"),
                total,
            );
        }
        let nanos = sum(&|counters| &counters.seconds_sum_ns[path as usize]);
        let path = path.name();
        writeln!(
            text,
            "lookaside_http_request_seconds_sum{{path=\"{path}\"}} {}",
            nanos as f64 / 1e9
        )
        .expect("a string takes any text");
        line(
            text,
            &format!("lookaside_http_request_seconds_count{{path=\"{path}\"}}"),
            total,
        );
    }
    head(
        text,
        "lookaside_http_waiting",
        "gauge",
        "Requests that wait for a database.",
    );
    line(text, "lookaside_http_waiting", waiting);
}

/// Appends the `HELP` and `TYPE` lines of the next metric.
pub(crate) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("a string takes any text");
}

/// Appends one sample.
pub(crate) fn line(text: &mut String, metric: &str, number: u64) {
    writeln!(text, "{metric} {number}").expect("a string takes any text");
}
