//! The console: one page, and the data of its plots.

use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use lookaside_http::{Reply, Request};
use lookaside_knowledge::FeedStatus;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use super::super::counters::sums;
use super::super::problem::chain;
use super::coding::coding;
use super::{RequestContext, Responder, Shared};

/// The page without its style and its script.
const FRAME: &str = include_str!("../console/page.html");

const STYLE: &str = include_str!("../console/style.css");

/// The parts of the script, in their order.
const SCRIPT: [&str; 5] = [
    include_str!("../console/base.js"),
    include_str!("../console/plots.js"),
    include_str!("../console/lookups.js"),
    include_str!("../console/project.js"),
    include_str!("../console/main.js"),
];

/// The page with its style and scripts inlined: it needs no Internet access and no build step.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    FRAME
        .replace("<style></style>", &format!("<style>{STYLE}</style>"))
        .replace(
            "<script></script>",
            &format!("<script>{}</script>", SCRIPT.concat()),
        )
});

/// The Content-Security-Policy of the page: it may use its own script and style and send requests
/// to this server. Text from a table can never run as a script.
pub(in crate::serve) fn policy() -> String {
    let hash = |text: &str| {
        let digest = Sha256::digest(text.as_bytes());
        base64::engine::general_purpose::STANDARD.encode(digest)
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(&SCRIPT.concat()),
        hash(STYLE)
    )
}

impl Responder {
    /// Sends the page. The page itself contains no data; it requests what it shows, with a key if
    /// one is needed.
    pub(super) fn console(&self, context: RequestContext, request: &Request<'_>, reply: Reply<'_>) {
        let coding = coding(request);
        let reply = match coding.name() {
            Some(name) => reply.header("Content-Encoding", name),
            None => reply,
        };
        let reply = reply
            .header("Vary", "Accept-Encoding")
            .header("Content-Security-Policy", &self.shared.console_policy)
            .header("X-Content-Type-Options", "nosniff")
            .header("Referrer-Policy", "no-referrer")
            .header("Cache-Control", "no-cache");
        self.compressor.with(coding, PAGE.as_bytes(), |page| {
            reply.send("text/html; charset=utf-8", page);
            self.count(&context, Some(request), 200, page.len());
        });
    }
}

/// The status that the page polls every second: counters, from which the page computes rates, and
/// current values.
pub(super) fn status(shared: &Shared) -> String {
    let knowledge = &shared.knowledge;
    let snapshot = knowledge.snapshot();
    let report = knowledge.load_report();
    let sums = sums(&shared.counters);
    let answers: serde_json::Map<String, Json> = sums
        .answers
        .iter()
        .map(|(layer, count)| (layer.name().to_owned(), (*count).into()))
        .collect();
    let catalog = shared.catalog.load();
    // Host names, too, are shown only with `error_detail`.
    let shown = |text: String| catalog.error_detail.then_some(text);
    let providers = knowledge.providers().into_iter();
    let providers: Vec<Json> = providers
        .map(|provider| {
            let pool = provider.pool;
            // The last error is kept after the pool has recovered.
            let health = match (pool.connection_count, &pool.last_error) {
                (0, None) => "idle",
                (0, Some(_)) => "down",
                _ => "up",
            };
            let last_error = pool.last_error.filter(|_| health == "down");
            json!({
                "name": provider.name,
                "kind": provider.kind.to_string(),
                "place": shown(provider.place),
                "health": health,
                "connections": pool.connection_count,
                "last_error": last_error.and_then(|error| shown(error.to_string())),
                "feed": provider.feed.map(|status| feed(status, &shown)),
            })
        })
        .collect();
    let waiting = catalog.waiting().into_iter();
    let waiting: Vec<Json> = waiting
        .map(|(provider, (waiting, error))| {
            json!({
                "provider": provider,
                "lookups": waiting.lookups,
                "models": waiting.models,
                "error": shown(chain(error)),
            })
        })
        .collect();
    let status = json!({
        "project": shared.project,
        "version": env!("CARGO_PKG_VERSION"),
        "ready": !shared.is_draining.load(Ordering::Relaxed) && !catalog.is_waiting(),
        "uptime_s": shared.started.elapsed().as_secs_f64(),
        "generation": snapshot.generation,
        "memory_bytes": resident_size(),
        "tables": report.tables.len(),
        "rows": report.tables.iter().map(|table| table.rows).sum::<u64>(),
        "cache_bytes": snapshot.l0_size + snapshot.l1_size + snapshot.stale_size,
        "requests": sums.requests,
        "answers": answers,
        "latency": {"bounds_s": sums.lookup_bounds_s, "counts": sums.lookup_counts},
        "providers": providers,
        "lookups_not_ready": catalog.waiting_lookups().collect::<Vec<_>>(),
        "models_not_ready": catalog.models.waiting_names().collect::<Vec<_>>(),
        "waiting": waiting,
    });
    format!("{status}\n")
}

/// The state of the change feed of a provider. `shown` hides texts with host names.
fn feed(status: FeedStatus, shown: &impl Fn(String) -> Option<String>) -> Json {
    let resets: serde_json::Map<String, Json> = status
        .resets()
        .map(|(reason, count)| (reason.name().to_owned(), count.into()))
        .collect();
    json!({
        "state": status.state.name(),
        "reason": status.reason.and_then(shown),
        "lag_s": status.lag.map(|lag| lag.as_secs_f64()),
        "statements": status.statement_count,
        "queue": status.queue_len,
        "transactions": status.transaction_count,
        "rows": status.row_count,
        "refused_fills": status.refused_fill_count,
        "slot_wal_bytes": status.slot_wal_size,
        "resets": resets,
    })
}

/// The resident size of this process in bytes; `None` if the system does not report it.
fn resident_size() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else_and_its_policy_names_its_parts() {
        for part in ["<script>", "</script>", "<style>", "</style>"] {
            assert_eq!(PAGE.matches(part).count(), 1, "{part}");
        }
        // The policy blocks inline styles and handlers.
        assert!(!PAGE.contains(" style=\"") && !PAGE.contains(" onclick"));
        for elsewhere in [
            "src=\"http",
            "href=\"http",
            "import ",
            "@import",
            "url(http",
        ] {
            assert!(!PAGE.contains(elsewhere), "{elsewhere}");
        }
        assert_eq!(policy().matches("'sha256-").count(), 2);
    }
}
