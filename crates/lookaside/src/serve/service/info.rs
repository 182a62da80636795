//! Documents about the server itself, and the reload request.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use lookaside_http::{Reply, Request};
use lookaside_knowledge::MetricsTelemetry;
use serde_json::json;

use super::super::counters::{head, line, write_metrics};
use super::super::problem::Problem;
use super::super::reloader::{ONLY_TABLES, Reloaded};
use super::head::Head;
use super::wait::Ready;
use super::{RequestContext, Responder, Shared, Thread};

pub(super) const JSON: &str = "application/json";

/// The text format of Prometheus.
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Responder {
    /// Sends a document of the catalog.
    pub(super) fn document(
        &self,
        context: RequestContext,
        body: &[u8],
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        self.send(context, Some(request), reply, &Head::new(200, JSON), body);
    }

    /// Liveness: the process answers.
    pub(super) fn health(&self, context: RequestContext, request: &Request<'_>, reply: Reply<'_>) {
        self.document(context, b"{\"status\":\"ok\"}\n", request, reply);
    }

    /// Readiness: not ready while the server ends, nor while there are lookups or models and all of
    /// them wait for providers that have never responded. A provider that becomes unavailable
    /// later, or only one of several, fails its own lookups and models only, so it does not affect
    /// readiness; it is reported where no key is needed.
    pub(super) fn ready_state(
        &self,
        context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let is_draining = self.shared.is_draining.load(Ordering::Relaxed);
        let word = match self.catalog.is_waiting() {
            _ if is_draining => "draining",
            true => "waiting",
            false => "ready",
        };
        let mut state = json!({
            "status": word,
            "generation": self.shared.knowledge.generation(),
        });
        if !self.catalog.access.has_keys() {
            let providers = self.shared.knowledge.providers().into_iter();
            let providers: Vec<_> = providers
                .map(|provider| {
                    let open = provider.pool.connection_count;
                    json!({"name": provider.name, "open_connections": open})
                })
                .collect();
            let models = self.catalog.models.waiting_names();
            state["providers"] = providers.into();
            state["lookups_not_ready"] = self.catalog.waiting_lookups().collect();
            state["models_not_ready"] = models.collect();
        }
        let body = format!("{state}\n");
        let status = if word == "ready" { 200 } else { 503 };
        self.send(
            context,
            Some(request),
            reply,
            &Head::new(status, JSON),
            body.as_bytes(),
        );
    }
}

impl Thread {
    /// Answers with the document that `write` makes of the state. Adding up counters takes locks
    /// that lookups take, too, so it runs on another thread.
    pub(super) fn document_of(
        &mut self,
        mut context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
        content_type: &'static str,
        write: fn(&Shared) -> String,
    ) {
        let responder = &self.responder;
        // Not limited by the number of waiting requests: the operator needs the numbers most when
        // many requests wait.
        responder.shared.waiting.fetch_add(1, Ordering::Relaxed);
        responder.keep_log_fields(&mut context, request);
        let shared = responder.shared.clone();
        let deferred = self.responder.deferred_answer(context, reply.defer());
        self.responder.shared.document_thread.run(move || {
            deferred.answer(Ok(Ready {
                content_type,
                body: write(&shared).into_bytes(),
                layer: None,
                age: None,
                extra: None,
            }));
        });
    }

    /// Reloads everything; the answer is sent when it is done, and other requests are answered
    /// meanwhile.
    pub(super) fn reload(
        &mut self,
        mut context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        if let Err(problem) = responder.begin_waiting(0) {
            return responder.refuse(context, Some(request), reply, &problem);
        }
        responder.keep_log_fields(&mut context, request);
        let deferred = self.responder.deferred_answer(context, reply.defer());
        self.responder.shared.reloader.reload(move |result| {
            deferred.answer(match result {
                Ok(Reloaded {
                    generation,
                    elapsed,
                    warnings,
                }) => {
                    let done = json!({
                        "generation": generation,
                        "ms": elapsed.as_millis() as u64,
                        "warnings": warnings,
                    });
                    Ok(Ready {
                        content_type: JSON,
                        body: format!("{done}\n").into_bytes(),
                        layer: None,
                        age: None,
                        extra: None,
                    })
                }
                Err(failure) => {
                    let title = match failure.has_new_tables {
                        true => ONLY_TABLES,
                        false => "the reload failed; the previous state stays in use",
                    };
                    Err(Problem::new(409, title).cause(failure.reason))
                }
            });
        });
    }
}

/// The metrics for Prometheus.
pub(super) fn metrics(shared: &Shared) -> String {
    MetricsTelemetry::publish(&shared.knowledge.snapshot());
    let providers = shared.knowledge.providers();
    MetricsTelemetry::publish_pools(&providers);
    MetricsTelemetry::publish_feeds(&providers);
    let mut text = shared.prometheus.render();
    let catalog = shared.catalog.load();
    let waiting = shared.waiting.load(Ordering::Relaxed);
    let served = (&*catalog.lookups, &catalog.models);
    let counts = &shared.model_counts;
    write_metrics(&shared.counters, served, counts, waiting, &mut text);
    head(
        &mut text,
        "lookaside_http_held_bytes",
        "gauge",
        "Bytes of answers that are being produced, or that clients have not received.",
    );
    line(&mut text, "lookaside_http_held_bytes", shared.held_size());
    let Some(monitor) = shared.monitor.get() else {
        return text;
    };
    let counters = monitor.counters();
    for (name, count, help) in [
        (
            "connections",
            counters.accepted,
            "Connections that were accepted.",
        ),
        (
            "refused",
            counters.refused,
            "Requests that were malformed or too slow.",
        ),
        (
            "write_timeouts",
            counters.write_timeouts,
            "Connections that were closed because the client did not read its answers.",
        ),
        (
            "panics",
            counters.panics,
            "Panics (defects of the server) that ended a connection or a request.",
        ),
        ("received_bytes", counters.bytes_in, "Bytes received."),
        ("sent_bytes", counters.bytes_out, "Bytes sent."),
    ] {
        let name = format!("lookaside_http_{name}_total");
        head(&mut text, &name, "counter", help);
        line(&mut text, &name, count);
    }
    head(
        &mut text,
        "lookaside_http_open_connections",
        "gauge",
        "Connections that are open.",
    );
    line(
        &mut text,
        "lookaside_http_open_connections",
        counters.open(),
    );
    if let Some(log) = &shared.log {
        head(
            &mut text,
            "lookaside_access_log_dropped_total",
            "counter",
            "Lines of the access log that were dropped because the disk was too slow.",
        );
        line(
            &mut text,
            "lookaside_access_log_dropped_total",
            log.dropped(),
        );
    }
    head(
        &mut text,
        "lookaside_uptime_seconds",
        "gauge",
        "Seconds since the start.",
    );
    let uptime = shared.started.elapsed().as_secs_f64();
    writeln!(text, "lookaside_uptime_seconds {uptime:.3}").expect("a string takes any text");
    text
}
