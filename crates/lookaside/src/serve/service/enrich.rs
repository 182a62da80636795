//! `POST /v1/enrich/MODEL`: events through a model, as a stream.
//!
//! A stream runs on its own thread, connected with the I/O thread by bounded pipes; so if a client
//! does not read, its body is not read either. A short answer is sent as a whole, with the counts
//! of rejected events in its headers; a longer one is sent as it is produced.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use jiff::tz::TimeZone;
use lookaside_http::negotiate::Encoding;
use lookaside_http::{BodyReader, Reply, Request, Response, SlowBody};
use lookaside_knowledge::Session;
use lookaside_stream::{
    End, ErrorKind, Flow, FormatOptions, InputFormat, OutputFormat, RunOptions, Sink, Source,
    Strictness, Summary,
};

use super::super::access_log::AccessLog;
use super::super::encode::{BodyFormat, Encoder, Item};
use super::super::endpoint::model_name;
use super::super::models::BoundModel;
use super::super::problem::{PROBLEM_TYPE, Problem, chain};
use super::coding::{BodyCompressor, CODED_SIZE_MIN};
use super::decoding::{Coding, LiveBody, content_coding};
use super::event_body::{Out, Progress, lock};
use super::freshness;
use super::head::{EXPOSED, vary};
use super::lookups_seen::{LookupsSeen, at_line};
use super::waiters::Cancel;
use super::{LogFields, RequestContext, Shared, Thread, log_line};
use crate::config::EnrichSettings;
use crate::models::options::timezone;
use crate::models::transform::{ModelTransform, WorkerModel};
use crate::suggestion::did_you_mean;

/// The size up to which an answer is sent as a whole, if the request has a content length.
const WHOLE_SIZE_MAX: usize = 64 << 10;

/// The member of the summary line at the end, if a request asks for one. No field of an event has
/// this name by accident.
const SUMMARY_MEMBER: &str = "$summary";

/// The parameters of a request.
const PARAMS: [&str; 6] = [
    "format",
    "output_format",
    "strict",
    "summary",
    "columns",
    "extra",
];

/// The length at which a parameter's name or value is truncated in a message.
const TEXT_SHOWN_MAX: usize = 64;

/// The length at which a reason is truncated in a header.
const REASON_LENGTH_MAX: usize = 200;

impl Thread {
    pub(super) fn enrich(
        &mut self,
        mut context: RequestContext,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        let name = model_name(name);
        let found = name
            .as_deref()
            .and_then(|it| responder.catalog.models.find(it));
        let prepared = match found {
            Some(model) => content_coding(request).and_then(|coding| {
                let limit = responder.catalog.client_freshness;
                let demanded = freshness::required_of_model(limit, request)?;
                Ok((model.clone(), coding, wanted(request, responder)?, demanded))
            }),
            None => Err(not_found(responder, name.as_deref().unwrap_or_default())),
        };
        let (model, body_coding, wanted, demanded) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        let Some(slot) = Slot::take(&responder.shared) else {
            let problem = Problem::new(503, "too many concurrent streams")
                .detail(format!(
                    "stream_count_max of [server] is {}",
                    responder.shared.stream_count_max
                ))
                .retry_after(1);
            return responder.refuse(context, Some(request), reply, &problem);
        };
        responder.keep_log_fields(&mut context, request);
        let allow_origin = context.origin.clone();
        let varies_by_origin = responder.catalog.access.has_cors();
        // A client that sends a content length sends everything at once. A client without one may
        // wait for each answer, which a compressor would hold back.
        let is_sized = request.content_length().is_some();
        let coding = context.coding;
        let (reader, deferred) = reply.receive_remote();
        let mut session = responder.shared.knowledge.session();
        session.set_freshness(responder.catalog.enrich.contract.and(demanded).into());
        let cancel = Cancel::Session(session.cancel_handle());
        self.waiters.add(deferred.ticket().into(), cancel);
        let responder = &self.responder;
        let stream = Stream {
            slot,
            index: responder.index,
            context,
            model,
            body_coding,
            wanted,
            // Only chunked bodies have trailers.
            has_trailers: request.version_minor() > 0,
            answer: Arc::new(Mutex::new(Progress::Begun {
                deferred,
                body: Vec::new(),
            })),
            allow_origin,
            varies_by_origin,
            error_detail: responder.catalog.error_detail,
            coding: is_sized.then_some(coding),
            whole_size_max: if is_sized { WHOLE_SIZE_MAX } else { 0 },
        };
        let thread = thread::Builder::new().name("enrich".into());
        // If the thread cannot be started, the closure is dropped with the request, which sends 500.
        let _ = thread.spawn(move || stream.run(reader, session));
    }
}

/// The problem for a name without a usable model.
fn not_found(responder: &super::Responder, name: &str) -> Problem {
    if let Some(waiting) = responder.catalog.models.find_waiting(name) {
        let silent = waiting.silent.iter().map(|silent| &silent.error);
        return Problem::model_not_ready(name, silent);
    }
    let hint = did_you_mean(name, responder.catalog.models.names());
    let problem = Problem::new(404, "no model has this name");
    problem.detail(format!("GET /v1/lookups lists them{hint}"))
}

/// The options of a request.
struct Wanted {
    input: InputFormat,
    output: OutputFormat,
    strictness: Strictness,
    /// Whether to append a summary line.
    has_summary: bool,
}

/// How events are read and written: by the request's media types, else by `[enrich]`, else JSON.
fn wanted(request: &Request<'_>, responder: &super::Responder) -> Result<Wanted, Problem> {
    let settings = &responder.catalog.enrich;
    let bad = |error: &lookaside_stream::Error| {
        Problem::new(400, "unknown format, or an option is missing").detail(chain(error))
    };
    let (mut input, mut output, mut strictness) = (None, None, Strictness::Lenient);
    let mut has_summary = false;
    let mut output_options = Vec::new();
    for (name, value) in request.query_pairs() {
        match (&*name, &*value) {
            ("format", value) => input = Some(value.to_owned()),
            ("output_format", value) => output = Some(value.to_owned()),
            ("strict", "true") => strictness = Strictness::Strict,
            ("summary", "true") => has_summary = true,
            ("strict" | "summary", "false") => {}
            ("columns" | "extra", value) => {
                output_options.push((name.to_string(), value.to_owned()));
            }
            (name @ ("strict" | "summary"), value) => {
                let value: String = value.chars().take(TEXT_SHOWN_MAX).collect();
                return Err(Problem::new(400, "a parameter has an unknown value")
                    .detail(format!("{name} is {value:?}; it must be true or false")));
            }
            (name, _) => {
                let hint = match did_you_mean(name, PARAMS) {
                    hint if hint.is_empty() => format!("; there are {}", PARAMS.join(", ")),
                    hint => hint,
                };
                let name: String = name.chars().take(TEXT_SHOWN_MAX).collect();
                return Err(Problem::new(400, "a parameter is unknown")
                    .detail(format!("unknown parameter {name:?}{hint}")));
            }
        }
    }
    let content_type = request.header_str("Content-Type").unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let input = input.or_else(|| {
        let known = match media_type.to_ascii_lowercase().as_str() {
            "application/json" | "application/x-ndjson" | "application/jsonl" => Some("json"),
            "text/csv" => Some("csv"),
            _ => settings.format.as_deref(),
        };
        known.map(str::to_owned)
    });
    let input = input.unwrap_or_else(|| "json".to_owned());
    let output = match output {
        Some(name) => name,
        None => {
            let usual = settings.output_format.as_deref().unwrap_or("json");
            let accept = request.header_str("Accept").unwrap_or("*/*");
            match () {
                () if accept.contains("text/csv") => "csv".to_owned(),
                () if accept.contains("json") => "json".to_owned(),
                () => usual.to_owned(),
            }
        }
    };
    // Options belong to a format: those of the file do not apply to another one.
    let is_usual = settings.format.as_ref() == Some(&input);
    let options = settings.options.iter().filter(|_| is_usual);
    let input = InputFormat::new(&input, &all(options));
    let input = input.map_err(|error| bad(&error))?;
    // Output formats share some options, with the same meaning.
    let known = OutputFormat::option_names(&output);
    let options = settings.output_options.iter();
    let options = options.filter(|(name, _)| known.contains(&name.as_str()));
    let options = all(options.chain(&output_options)).advised_as("?");
    let output = OutputFormat::new(&output, &options);
    let output = output.map_err(|error| bad(&error))?;
    if has_summary && output.name() != "json" {
        let problem = Problem::new(400, "a summary is available in JSON lines only");
        return Err(problem.detail(
            "omit summary=true, or set output_format=json; for other formats, the header or \
             trailer X-Events has the number of events",
        ));
    }
    Ok(Wanted {
        input: typed(input, settings),
        output,
        strictness,
        has_summary,
    })
}

/// Sets the types of fields, if there are any.
fn typed(input: InputFormat, settings: &EnrichSettings) -> InputFormat {
    if settings.types.is_empty() {
        return input;
    }
    // The models of the project were refused if the zone was unknown.
    let zone = timezone(settings.timezone.as_ref()).unwrap_or(TimeZone::UTC);
    input.with_types(settings.types.clone(), &zone)
}

/// Collects options; later ones override earlier ones.
fn all<'o>(options: impl Iterator<Item = &'o (String, String)>) -> FormatOptions {
    options.fold(FormatOptions::new(), |all, (name, value)| {
        all.set(name, value)
    })
}

/// A permit for a running stream, released on drop.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        // Relaxed: the number limits threads and synchronizes nothing.
        let running = shared.streams.fetch_add(1, Ordering::Relaxed);
        let slot = Self(shared.clone());
        (running < shared.stream_count_max).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request that streams events through a model.
struct Stream {
    slot: Slot,
    /// The I/O thread that received the request.
    index: usize,
    context: RequestContext,
    model: Arc<BoundModel>,
    body_coding: Option<Coding>,
    wanted: Wanted,
    has_trailers: bool,
    answer: Arc<Mutex<Progress>>,
    allow_origin: Option<Box<[u8]>>,
    varies_by_origin: bool,
    /// Whether clients see the causes of failures.
    error_detail: bool,
    /// The coding of a long answer, if the request allows one.
    coding: Option<Encoding>,
    /// The size up to which the answer is sent as a whole.
    whole_size_max: usize,
}

impl Stream {
    fn run(self, reader: BodyReader, session: Session) {
        let shared = &self.slot.0;
        let flow = Flow::with_names(
            self.model.names.clone(),
            self.wanted.input.clone(),
            self.wanted.output.clone(),
        )
        .with_any_output();
        let body = match LiveBody::new(reader, self.body_coding) {
            Ok(body) => body,
            // A request that is dropped without an answer gets 500.
            Err(error) => return tracing::warn!(%error, "no memory to decode a body"),
        };
        let source = Source::new().with_live("request", body);
        let head = match self.has_trailers {
            true => self.head(self.coding).header("Trailer", TRAILERS),
            false => self.head(self.coding),
        };
        let out = Out::new(
            &self.answer,
            head,
            self.coding.unwrap_or(Encoding::Identity),
            self.whole_size_max,
        );
        // The end is sent below, with the counts.
        let sink = Sink::writer("answer", out, |_| Ok(()));
        let counts = shared.model_counts.of(&self.model.name);
        let model = self.model.clone();
        let lookups = LookupsSeen::new(model, counts, self.index, self.error_detail);
        let lookups = Arc::new(lookups);
        // No lookup waits for a database: a request does not last longer than its client waits.
        let model = WorkerModel {
            evaluator: self.model.program.evaluator(),
            observer: lookups.clone(),
            file_name: self.model.file_name.clone(),
        };
        let transform = ModelTransform::new(model, session);
        let options = RunOptions {
            strictness: self.wanted.strictness,
            ..RunOptions::default()
        };
        let run = flow.run(source, vec![transform], sink, options);
        let progress = std::mem::replace(&mut *lock(&self.answer), Progress::Over);
        let (status, size) = match (run, progress) {
            // Its queries were cancelled: dropping the writer aborts the connection.
            (Ok(summary), Progress::Begun { deferred, .. }) if summary.end == End::Stopped => {
                let mut body = Vec::new();
                Problem::cancelled().write(self.error_detail, &mut body);
                let vary = vary(false, false, self.varies_by_origin);
                let head = self.with_origin(Response::new(503), vary);
                deferred.respond(head.header("Content-Type", PROBLEM_TYPE).body(body));
                (503, 0)
            }
            (Ok(summary), Progress::Sending(sending)) if summary.end == End::Stopped => {
                (503, sending.size())
            }
            (Ok(summary), Progress::Begun { deferred, mut body }) => {
                let summary = self.outcome(&summary, &lookups);
                if self.wanted.has_summary {
                    summary.write(&mut body);
                }
                let coding = self.coding.filter(|_| body.len() >= CODED_SIZE_MIN);
                let body = match coding {
                    None | Some(Encoding::Identity) => body,
                    Some(coding) => BodyCompressor::default().with(coding, &body, <[u8]>::to_vec),
                };
                let size = body.len();
                deferred.respond(self.counted(coding, &summary).body(body));
                (200, size as u64)
            }
            (Ok(summary), Progress::Sending(sending)) => {
                let summary = self.outcome(&summary, &lookups);
                let mut last = Vec::new();
                if self.wanted.has_summary {
                    summary.write(&mut last);
                }
                match sending.finish(&last, &summary.trailers()) {
                    Ok(size) => (200, size),
                    Err(error) => {
                        self.tell_broken(&error);
                        (500, 0)
                    }
                }
            }
            (Err(error), Progress::Begun { deferred, .. }) => {
                if slow_body(&error).is_some() || error.kind() == ErrorKind::Defect {
                    self.tell_broken(&error);
                }
                let problem = self.problem(&error, &lookups);
                let mut body = Vec::new();
                problem.write(self.error_detail, &mut body);
                let vary = vary(false, false, self.varies_by_origin);
                let head = self.with_origin(Response::new(problem.status), vary);
                deferred.respond(head.header("Content-Type", PROBLEM_TYPE).body(body));
                (problem.status, 0)
            }
            // The body is left unterminated, so that the client notices that events are missing.
            (Err(error), Progress::Sending(sending)) => {
                self.tell_broken(&error);
                let problem = self.problem(&error, &lookups);
                let mut last = Vec::new();
                if self.wanted.output.name() == "json" {
                    let detail = problem.visible_detail(self.error_detail);
                    let item = Item::Failed(problem.status, problem.title(), detail);
                    Encoder::default().batch_item(BodyFormat::JsonLines, item, &mut last);
                }
                (500, sending.break_off(&last))
            }
            (_, Progress::Over) => (500, 0),
        };
        let elapsed = self.context.begun.elapsed();
        shared.counters[self.index].answered(self.context.path, status, elapsed);
        if let (Some(log), Some(log_fields)) = (
            shared.log.as_ref().map(AccessLog::writer),
            &self.context.log_fields,
        ) {
            let mut log = log;
            let log_fields: &LogFields = log_fields;
            log_line(&mut log, &self.context, log_fields, status, size as usize);
            log.flush();
        }
    }

    fn tell_broken(&self, error: &dyn std::error::Error) {
        let error = match slow_body(error) {
            Some(slow) => limit_of(slow),
            None => chain(error),
        };
        tracing::warn!(
            model = self.model.name,
            error,
            "an event stream was interrupted"
        );
    }

    /// The problem of a stream that failed.
    fn problem(&self, error: &lookaside_stream::Error, lookups: &LookupsSeen) -> Problem {
        let rejects = error.summary().and_then(|it| it.rejects.first().first());
        // If it rejects its event, the reject has the same line.
        let failure = lookups
            .first()
            .filter(|_| error.kind() == ErrorKind::Input)
            .filter(|(line, _)| rejects.is_none_or(|reject| *line <= reject.line));
        if let Some((line, failure)) = failure {
            let text = |error_detail| {
                at_line(
                    line,
                    failure
                        .visible_detail(error_detail)
                        .unwrap_or(failure.title()),
                )
            };
            return Problem::new(422, "a lookup failed")
                .detail(text(false))
                .cause(text(true));
        }
        if let Some(slow) = slow_body(error) {
            return Problem::new(408, "the stream was sent too slowly").detail(limit_of(slow));
        }
        match error.kind() {
            ErrorKind::Defect => Problem::new(
                500,
                "an internal error occurred while this request was processed",
            )
            .cause(chain(error)),
            _ => {
                Problem::new(422, "the events could not be read to their end").detail(chain(error))
            }
        }
    }

    /// The outcome of a run, as clients get it.
    fn outcome(&self, summary: &Summary, lookups: &LookupsSeen) -> RunOutcome {
        let reject = summary.rejects.first().first();
        let failure = lookups.first_failure();
        let failure = failure.filter(|_| summary.failures.count() > 0);
        RunOutcome {
            counts: [
                (EVENTS, summary.events_out),
                (DROPPED, summary.events_dropped),
                (REJECTED, summary.rejects.count()),
                (FAILED, summary.failures.count()),
            ],
            reject_reason: reject.map(|it| header_text(&at_line(it.line, &it.reason))),
            failure_reason: failure
                .map(|(line, it)| header_text(&at_line(line, &it.line(self.error_detail)))),
        }
    }

    fn with_origin(&self, mut response: Response, vary: Option<&str>) -> Response {
        if let Some(origin) = &self.allow_origin {
            response = response
                .header("Access-Control-Allow-Origin", origin)
                .header("Access-Control-Expose-Headers", EXPOSED);
        }
        match vary {
            Some(vary) => response.header("Vary", vary),
            None => response,
        }
    }

    /// The head of an answer, with its coding if one was chosen.
    fn head(&self, coding: Option<Encoding>) -> Response {
        let content_type = match self.wanted.output.name() {
            "json" => "application/x-ndjson",
            "csv" => "text/csv; charset=utf-8",
            _ => "text/plain; charset=utf-8",
        };
        let vary = vary(true, coding.is_some(), self.varies_by_origin);
        let head = self.with_origin(Response::new(200), vary);
        let head = head.header("Content-Type", content_type);
        match coding.and_then(Encoding::name) {
            Some(name) => head.header("Content-Encoding", name),
            None => head,
        }
    }

    /// The head of a complete answer, with all counts.
    fn counted(&self, coding: Option<Encoding>, outcome: &RunOutcome) -> Response {
        let counts = outcome.counts.into_iter();
        let head = counts
            .filter(|(name, count)| *name == EVENTS || *count > 0)
            .fold(self.head(coding), |head, (name, count)| {
                head.header(name, count.to_string())
            });
        outcome
            .reasons()
            .fold(head, |head, (name, reason)| head.header(name, reason))
    }
}

/// The body limit that ended a stream, if one did.
fn slow_body(error: &dyn std::error::Error) -> Option<SlowBody> {
    let error = error.source()?.downcast_ref::<io::Error>()?;
    error.get_ref()?.downcast_ref().copied()
}

/// The limit as text, with the configuration key that sets it.
fn limit_of(slow: SlowBody) -> String {
    match slow {
        SlowBody::Idle(timeout) => format!(
            "{slow}: stream_idle_timeout_ms of [server] ({}); send events more often, or increase it",
            timeout.as_millis()
        ),
        SlowBody::Rate(rate_min) => {
            format!("{slow}: stream_rate_min of [server] ({rate_min}); send faster, or decrease it")
        }
    }
}

const EVENTS: &str = "X-Events";
const DROPPED: &str = "X-Dropped";
const REJECTED: &str = "X-Rejected";
const FAILED: &str = "X-Failed";
const REJECT_REASON: &str = "X-Reject-Reason";
const FAILURE_REASON: &str = "X-Failure-Reason";

/// The trailers that a long answer may have.
const TRAILERS: &str =
    "X-Events, X-Dropped, X-Rejected, X-Failed, X-Reject-Reason, X-Failure-Reason";

/// The outcome of a run.
struct RunOutcome {
    /// By the names of headers and trailers.
    counts: [(&'static str, u64); 4],
    /// The reason of the first rejected event.
    reject_reason: Option<String>,
    /// The reason of the first failed lookup.
    failure_reason: Option<String>,
}

impl RunOutcome {
    fn reasons(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reject = self.reject_reason.iter().map(|it| (REJECT_REASON, &**it));
        let failure = self.failure_reason.iter().map(|it| (FAILURE_REASON, &**it));
        reject.chain(failure)
    }

    /// The trailers of a long answer: all counts, and the reasons if any.
    fn trailers(&self) -> Vec<(&'static str, String)> {
        let counts = self.counts.map(|(name, count)| (name, count.to_string()));
        let reasons = self.reasons().map(|(name, it)| (name, it.to_owned()));
        counts.into_iter().chain(reasons).collect()
    }

    /// Writes the summary line.
    fn write(&self, body: &mut Vec<u8>) {
        let [(_, events), (_, dropped), (_, rejected), (_, failed)] = self.counts;
        let mut counted = serde_json::json!({
            "events": events,
            "dropped": dropped,
            "rejected": rejected,
            "failed": failed,
        });
        for (member, reason) in [
            ("reject_reason", &self.reject_reason),
            ("failure_reason", &self.failure_reason),
        ] {
            if let Some(reason) = reason {
                counted[member] = reason.as_str().into();
            }
        }
        let line = serde_json::json!({SUMMARY_MEMBER: counted});
        body.extend_from_slice(format!("{line}\n").as_bytes());
    }
}

/// A reason as the value of a header.
fn header_text(text: &str) -> String {
    text.chars()
        .take(REASON_LENGTH_MAX)
        .map(|c| match c {
            ' '..='~' => c,
            _ => '?',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_short_line_of_ascii() {
        let reason = |text: &str| header_text(&at_line(7, text));
        assert_eq!(reason("no \"a\""), "line 7: no \"a\"");
        assert_eq!(reason("\r\nX: \u{e9}\u{7f}"), "line 7: ??X: ??");
        assert_eq!(reason(&"x".repeat(999)).len(), REASON_LENGTH_MAX);
    }
}
