//! `POST /v1/enrich/MODEL`: events through a model, as a stream.
//!
//! A stream runs on a thread of its own. What it reads and writes lies in bounded pipes between that
//! and the I/O thread, so a client that does not read is not read from. An answer that is short is
//! sent whole, with what was left out in its headers; from then on it is sent as it comes.

use std::io::{self, Read as _};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lookaside_http::negotiate::Encoding;
use lookaside_http::{BodyReader, Reply, Request, Response};
use lookaside_stream::{
    Flow, FormatOptions, InputFormat, LiveRead, OutputFormat, Reject, RunOptions, Sink, Source,
    Strictness, Summary, worker_count,
};

use super::super::access_log::AccessLog;
use super::super::models::Served;
use super::super::problem::{PROBLEM_TYPE, Problem, chain};
use super::coding::{CODED_SIZE_MIN, Press};
use super::head::{EXPOSED, vary};
use super::outflow::{Out, Progress, lock};
use super::{Noted, Shared, Thread, Visit, log_line};
use crate::cli::enrich::{ModelTransform, Tally};
use crate::cli::failure::did_you_mean;

/// Bytes of an answer before it is sent as it comes, to a request that says how long it is.
const WHOLE_SIZE_MAX: usize = 64 << 10;

/// Characters of the reason that a header gives.
const REASON_LENGTH_MAX: usize = 200;

/// Streams at once for each core; each has a thread and a session.
const STREAMS_A_CORE_MAX: usize = 4;

impl Thread {
    pub(super) fn enrich(
        &mut self,
        mut visit: Visit,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let face = &self.face;
        let prepared = match face.catalog.models.find(name) {
            Some(model) => formats(request, face).map(|formats| (model.clone(), formats)),
            None => Err(no_model(face, name)),
        };
        let (model, (input, output, strictness)) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return face.refuse(visit, Some(request), reply, &problem),
        };
        let Some(slot) = Slot::take(&face.shared) else {
            let problem = Problem::new(503, "as many streams run as may run").retry_after(1);
            return face.refuse(visit, Some(request), reply, &problem);
        };
        face.note(&mut visit, request);
        let allow_origin = visit.origin.clone();
        let varies_by_origin = face.catalog.access.has_cors();
        // Who says how much there is sends it at once; who does not may wait for each answer, which
        // a coding would hold back.
        let is_sized = request.content_length().is_some();
        let coding = visit.coding;
        let (reader, deferred) = reply.receive_remote();
        let stream = Stream {
            slot,
            index: face.index,
            visit,
            model,
            input,
            output,
            strictness,
            answer: Arc::new(Mutex::new(Progress::Begun {
                deferred,
                body: Vec::new(),
            })),
            allow_origin,
            varies_by_origin,
            coding: is_sized.then_some(coding),
            whole_size_max: if is_sized { WHOLE_SIZE_MAX } else { 0 },
        };
        let thread = thread::Builder::new().name("enrich".into());
        // Without a thread the request is dropped with the closure, which answers 500.
        let _ = thread.spawn(move || stream.run(reader));
    }
}

fn no_model(face: &super::Face, name: &str) -> Problem {
    let hint = did_you_mean(name, face.catalog.models.names());
    let problem = Problem::new(404, "there is no model of that name");
    problem.detail(format!("GET /v1/lookups lists them{hint}"))
}

/// How events are read and written: by the request's types, else as `[enrich]` says, else JSON.
fn formats(
    request: &Request<'_>,
    face: &super::Face,
) -> Result<(InputFormat, OutputFormat, Strictness), Problem> {
    let settings = &face.catalog.enrich;
    let bad = |error: &lookaside_stream::Error| {
        Problem::new(400, "this format is not known, or lacks an option").detail(chain(error))
    };
    let (mut input, mut output, mut strictness) = (None, None, Strictness::Lenient);
    let mut output_options = Vec::new();
    for (name, value) in request.query_pairs() {
        match (&*name, &*value) {
            ("format", value) => input = Some(value.to_owned()),
            ("output_format", value) => output = Some(value.to_owned()),
            ("strict", "true") => strictness = Strictness::Strict,
            ("strict", "false") => {}
            ("columns" | "extra", value) => {
                output_options.push((name.to_string(), value.to_owned()));
            }
            _ => {
                return Err(Problem::new(400, "a parameter is unknown").detail(
                    "there are format, output_format and strict=true, and for answers in CSV \
                     columns=a,b,c and extra=ignore",
                ));
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
    // Options belong to their format: those of the file are of no use to another one.
    let is_usual = settings.format.as_ref() == Some(&input);
    let options = settings.options.iter().filter(|_| is_usual);
    let input = InputFormat::new(&input, &all(options));
    // Of outputs, formats share some, which mean the same in each.
    let known = OutputFormat::option_names(&output);
    let options = settings.output_options.iter();
    let options = options.filter(|(name, _)| known.contains(&name.as_str()));
    let options = all(options.chain(&output_options)).advised_as("?");
    let output = OutputFormat::new(&output, &options);
    Ok((
        input.map_err(|error| bad(&error))?,
        output.map_err(|error| bad(&error))?,
        strictness,
    ))
}

/// Options, of which a later one counts in place of an earlier one.
fn all<'o>(options: impl Iterator<Item = &'o (String, String)>) -> FormatOptions {
    options.fold(FormatOptions::new(), |all, (name, value)| {
        all.set(name, value)
    })
}

/// A place among the streams that run.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        // Relaxed: the number bounds threads and orders nothing.
        let running = shared.streams.fetch_add(1, Ordering::Relaxed);
        let slot = Self(shared.clone());
        (running < (worker_count() * STREAMS_A_CORE_MAX) as u64).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request on its way through a model.
struct Stream {
    slot: Slot,
    /// The I/O thread that it came from.
    index: usize,
    visit: Visit,
    model: Arc<Served>,
    input: InputFormat,
    output: OutputFormat,
    strictness: Strictness,
    answer: Arc<Mutex<Progress>>,
    allow_origin: Option<Box<[u8]>>,
    varies_by_origin: bool,
    /// What a long answer is in, where one may be chosen.
    coding: Option<Encoding>,
    /// Bytes of the answer before it is sent as it comes.
    whole_size_max: usize,
}

impl Stream {
    fn run(self, reader: BodyReader) {
        let shared = &self.slot.0;
        let flow = Flow::with_names(
            self.model.names.clone(),
            self.input.clone(),
            self.output.clone(),
        );
        let source = Source::new().with_live("request", Events(reader));
        let out = Out::new(
            &self.answer,
            self.head(self.coding),
            self.coding.unwrap_or(Encoding::Identity),
            self.whole_size_max,
        );
        let sink = Sink::writer("answer", out, Out::finish);
        let transform = ModelTransform::new(
            self.model.program.evaluator(),
            shared.knowledge.session(),
            Arc::new(Tally::default()),
            self.model.file_name.clone(),
        );
        let options = RunOptions {
            strictness: self.strictness,
            ..RunOptions::default()
        };
        let run = flow.run(source, vec![transform], sink, options);
        let progress = std::mem::replace(&mut *lock(&self.answer), Progress::Over);
        let (status, size) = match (run, progress) {
            (Ok(summary), Progress::Begun { deferred, body }) => {
                let coding = self.coding.filter(|_| body.len() >= CODED_SIZE_MIN);
                let body = match coding {
                    None | Some(Encoding::Identity) => body,
                    Some(coding) => Press::default().with(coding, &body, <[u8]>::to_vec),
                };
                let size = body.len();
                deferred.respond(self.counted(coding, &summary).body(body));
                (200, size as u64)
            }
            (Ok(_), Progress::Sending { writer, size }) => {
                writer.finish();
                (200, size)
            }
            (Err(error), Progress::Begun { deferred, .. }) => {
                let problem = Problem::new(422, "the events could not be read to their end");
                let mut body = Vec::new();
                problem.detail(chain(&error)).write(&mut body);
                let vary = vary(false, false, self.varies_by_origin);
                let head = self.with_origin(Response::new(422), vary);
                deferred.respond(head.header("Content-Type", PROBLEM_TYPE).body(body));
                (422, 0)
            }
            // Dropping the writer breaks the connection: the client sees that something is missing.
            (Err(error), Progress::Sending { size, .. }) => {
                tracing::warn!(model = self.model.name, %error, "a stream of events broke off");
                (500, size)
            }
            (_, Progress::Over) => (500, 0),
        };
        let elapsed = self.visit.begun.elapsed();
        shared.counters[self.index].answered(self.visit.path, status, elapsed);
        if let (Some(log), Some(noted)) = (
            shared.log.as_ref().map(AccessLog::writer),
            &self.visit.noted,
        ) {
            let mut log = log;
            let noted: &Noted = noted;
            log_line(&mut log, &self.visit, noted, status, size as usize);
            log.flush();
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

    /// The head of an answer in a coding, if one was chosen.
    fn head(&self, coding: Option<Encoding>) -> Response {
        let content_type = match self.output.name() {
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

    /// The head of an answer that is whole, so that all is counted.
    fn counted(&self, coding: Option<Encoding>, summary: &Summary) -> Response {
        let counts = [
            ("X-Events", summary.events_out),
            ("X-Rejected", summary.rejects.count()),
            ("X-Failed", summary.failures.count()),
        ];
        let head = counts
            .into_iter()
            .filter(|(name, count)| *name == "X-Events" || *count > 0)
            .fold(self.head(coding), |head, (name, count)| {
                head.header(name, count.to_string())
            });
        match summary.rejects.first().first() {
            Some(reject) => head.header("X-Reject-Reason", reason(reject)),
            None => head,
        }
    }
}

/// Why an event was rejected, as a header takes it.
fn reason(reject: &Reject) -> String {
    let text = format!("line {}: {}", reject.line, reject.reason);
    text.chars()
        .take(REASON_LENGTH_MAX)
        .map(|c| match c {
            ' '..='~' => c,
            _ => '?',
        })
        .collect()
}

/// Where events come from.
struct Events(BodyReader);

impl LiveRead for Events {
    fn read_within(
        &mut self,
        room: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        match patience {
            Some(patience) => self.0.read_within(room, patience),
            None => self.0.read(room).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_short_line_of_ascii() {
        let reject = |reason: &str| Reject {
            source: Arc::default(),
            line: 7,
            reason: reason.to_owned().into(),
            excerpt: String::new(),
        };
        assert_eq!(reason(&reject("no \"a\"")), "line 7: no \"a\"");
        assert_eq!(reason(&reject("\r\nX: \u{e9}\u{7f}")), "line 7: ??X: ??");
        assert_eq!(reason(&reject(&"x".repeat(999))).len(), REASON_LENGTH_MAX);
    }
}
