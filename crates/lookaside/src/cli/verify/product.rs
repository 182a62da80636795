//! The product under test: a project folder with the server as its provider, opened as every
//! program does it, and its HTTP service.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::{FeedState, FeedStatus, Knowledge};
use lookaside_stream::StopFlag;
use metrics_exporter_prometheus::PrometheusHandle;
use tempfile::TempDir;
use toml::{Table, Value};

use super::read::ThreadTelemetry;
use super::registers::{LOOKUPS, PUBLICATION};
use super::server::PRODUCT_NAME;
use crate::config::ListenAddress;
use crate::failure::Failure;
use crate::project::LoadOptions;
use crate::serve::{Files, Needed, Service, StartOptions};

/// How long a query of the product may take, and how long it waits for a connection: long beside a fault
/// that blocks the link, and short beside a run.
const QUERY_TIMEOUT_MS: i64 = 3_000;

/// How often to look whether the change feed is live.
const FEED_POLL: Duration = Duration::from_millis(5);

/// How long a change feed that is down may try again.
const FEED_RETRY_TIME: Duration = Duration::from_secs(5);

/// How long a request with a position waits for the change feed before the database is queried.
const POSITION_WAIT_MS: u64 = 2;

/// The threads of the HTTP service.
const HTTP_THREAD_COUNT: usize = 2;

/// The configuration of the product.
#[derive(Clone, Debug)]
pub(super) struct ProductOptions {
    /// How old a cached answer may be; zero for no caches.
    pub(super) ttl: Duration,
    /// How many keys the caches have to hold.
    pub(super) key_count: u32,
    /// Whether requests over HTTP are made.
    pub(super) is_served: bool,
    /// Whether the provider has a change feed.
    pub(super) has_feed: bool,
}

/// The product, until it is dropped.
pub(super) struct Product {
    pub(super) knowledge: Knowledge,
    service: Option<Service>,
    _folder: TempDir,
}

impl Product {
    /// Opens a project whose provider is at `url`.
    pub(super) fn start(
        url: &str,
        options: &ProductOptions,
        prometheus: &PrometheusHandle,
    ) -> Result<Self, Failure> {
        let cannot =
            |error: &dyn std::error::Error| Failure::new("cannot create a project").because(error);
        let folder = tempfile::tempdir().map_err(|error| cannot(&error))?;
        let file = folder.path().join("knowdb.toml");
        fs::write(file, knowdb(url, options)).map_err(|error| cannot(&error))?;
        let files = Files::read(folder.path())?;
        let knowledge = (files.project.builder(LoadOptions::default()))
            .telemetry(Arc::new(ThreadTelemetry))
            .open()
            .map_err(|error| Failure::from_error(&error))?;
        let service = match options.is_served {
            true => Some(serve(files, &knowledge, prometheus)?),
            false => None,
        };
        Ok(Self {
            knowledge,
            service,
            _folder: folder,
        })
    }

    /// Where its HTTP service listens.
    pub(super) fn http_address(&self) -> Option<SocketAddr> {
        let service = self.service.as_ref()?;
        let url = service.listen_addresses().next()?;
        url.strip_prefix("http://")?.parse().ok()
    }

    /// Waits until the change feed invalidates answers, which it may never do.
    pub(super) fn wait_for_feed(&self, limit: Duration) -> Option<FeedStatus> {
        let begin = Instant::now();
        loop {
            let status = self.knowledge.providers().into_iter().next()?.feed?;
            let is_live = status.statement_count > 0 && status.lag.is_some();
            // What the server lacks does not come by itself.
            let is_refused = status.state == FeedState::Down && begin.elapsed() > FEED_RETRY_TIME;
            if is_live || is_refused || begin.elapsed() > limit {
                return Some(status);
            }
            thread::sleep(FEED_POLL);
        }
    }

    /// Loads everything again, which drops all cached answers.
    pub(super) fn reload(&self) -> lookaside_knowledge::Result<u64> {
        self.knowledge.reload()
    }

    /// Ends it.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.knowledge.leave_providers();
        self.service.map_or(Ok(()), Service::drain)
    }
}

fn serve(
    files: Files,
    knowledge: &Knowledge,
    prometheus: &PrometheusHandle,
) -> Result<Service, Failure> {
    let stop = StopFlag::new().map_err(|error| Failure::new("cannot serve").because(&error))?;
    let address = ListenAddress::Tcp(([127, 0, 0, 1], 0).into());
    let options = StartOptions {
        listen: vec![(address, Needed::Must)],
        thread_count: HTTP_THREAD_COUNT,
        access_log: None,
        prometheus: prometheus.clone(),
        stop,
    };
    Service::start(files, knowledge.clone(), options)
}

/// The text of the project's configuration.
fn knowdb(url: &str, options: &ProductOptions) -> String {
    let table = |pairs: Vec<(&str, Value)>| {
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Value::Table(pairs.collect::<Table>())
    };
    let int = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    // Statements of both lookups, of first rows and of all rows; and new ones, of which few are read.
    let capacity = u64::from(options.key_count) * 8 + 1024;
    let cache = match options.ttl.is_zero() {
        true => table(vec![("enabled", false.into())]),
        false => table(vec![
            ("capacity", int(capacity)),
            ("ttl_ms", int(options.ttl.as_millis() as u64)),
        ]),
    };
    let feed = if options.has_feed { "auto" } else { "off" };
    let provider = table(vec![
        ("name", "verify".into()),
        ("feed", feed.into()),
        ("feed_publication", PUBLICATION.into()),
        ("kind", "postgres".into()),
        ("connection_uri", url.into()),
        ("query_timeout_ms", QUERY_TIMEOUT_MS.into()),
        ("acquire_timeout_ms", QUERY_TIMEOUT_MS.into()),
        (
            "postgres_session",
            table(vec![("application_name", PRODUCT_NAME.into())]),
        ),
    ]);
    let lookups = LOOKUPS.map(|(name, sql)| {
        let params = table(vec![("id", "int".into())]);
        let wait = ("wait_ms", int(POSITION_WAIT_MS));
        (
            name,
            table(vec![("sql", sql.into()), ("params", params), wait]),
        )
    });
    let root = table(vec![
        ("version", 2.into()),
        ("cache", cache),
        ("provider", table(vec![("sqldb", vec![provider].into())])),
        ("lookups", table(lookups.into())),
        (
            "server",
            table(vec![
                ("drain_timeout_ms", 2_000.into()),
                ("client_freshness", "now".into()),
            ]),
        ),
    ]);
    toml::to_string(&root).expect("a table of texts and numbers is TOML")
}
