//! `POST /v1/lookup/NAME`: thousands of lookups at once, answered in order.
//!
//! Short batches that the tables answer natively run on the I/O thread. All others run on a
//! blocking thread, where the queries of a provider are sent in few pipelined batches.

use std::ops::ControlFlow;

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Extent, Session, StaleAnswers, Value};

use super::super::catalog::Catalog;
use super::super::counters::{Counters, Layer};
use super::super::encode::{BodyFormat, Encoder, Item};
use super::super::lookup::Lookup;
use super::super::params::read_batch;
use super::super::problem::Problem;
use super::decoding::{Coding, content_coding, decode};
use super::freshness::{self, Requirement, check_position};
use super::head::negotiate_format;
use super::lookup::{no_lookup, too_many_rows};
use super::share::{ANSWER_GROWTH_MAX, Share};
use super::wait::Ready;
use super::{RequestContext, Thread};

/// The largest body that is answered on the I/O thread: a thousand addresses, a third of a
/// millisecond.
const BODY_AT_HAND_SIZE_MAX: usize = 32 << 10;

/// Space that is reserved for the answer to one set before it is written, so that the body need not
/// be reallocated meanwhile.
const ROOM_SIZE: usize = 64 << 10;

/// Header with the number of sets whose answer is an error.
const FAILED: &str = "X-Failed";

impl Thread {
    pub(super) fn batch(
        &mut self,
        mut context: RequestContext,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        let Some(index) = responder.catalog.position(name) else {
            let problem = no_lookup(&responder.catalog, name);
            return responder.refuse(context, Some(request), reply, &problem);
        };
        let lookup = &responder.catalog.lookups[index];
        let Some(prepared) = &lookup.prepared else {
            let problem = responder.not_ready(lookup);
            return responder.refuse(context, Some(request), reply, &problem);
        };
        let body = request.body();
        let body_size_max = responder.shared.body_size_max;
        let reading = content_coding(request).and_then(|coding| {
            Ok(Reading {
                coding,
                formats: BatchFormats::of(request, coding.is_none().then_some(body))?,
                body_size_max,
                requirement: freshness::required(
                    lookup,
                    &self.session.coverage(&prepared.statement),
                    responder.catalog.client_freshness,
                    request,
                )?,
            })
        });
        let reading = match reading {
            Ok(reading) => reading,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        let is_short = body.len() <= BODY_AT_HAND_SIZE_MAX && reading.coding.is_none();
        if prepared.is_native() && is_short {
            let counting = Counting {
                index: responder.index,
                counters: responder.counters(),
            };
            let answer = answer(
                &mut self.session,
                (&responder.catalog, counting),
                index,
                body,
                reading,
                &mut Share::new(&responder.shared),
            );
            return match answer {
                Ok(ready) => {
                    let head = super::head::Head {
                        layer: ready.layer,
                        extra: ready.extra,
                        ..super::head::Head::new(200, ready.content_type)
                    };
                    responder.send(context, Some(request), reply, &head, &ready.body);
                }
                Err(problem) => responder.refuse(context, Some(request), reply, &problem),
            };
        }
        if let Err(problem) = responder.begin_waiting(body.len()) {
            return responder.refuse(context, Some(request), reply, &problem);
        }
        responder.keep_log_fields(&mut context, request);
        let (shared, catalog, thread) = (
            responder.shared.clone(),
            responder.catalog.clone(),
            responder.index,
        );
        let body = body.to_vec();
        let ticket = reply.defer();
        let mut deferred = self.responder.deferred_answer(context, ticket);
        deferred.share().set(body.len());
        self.hand_over(ticket, move |session| {
            let counting = Counting {
                index: thread,
                counters: &shared.counters[thread],
            };
            let ready = answer(
                session,
                (&catalog, counting),
                index,
                &body,
                reading,
                deferred.share(),
            );
            drop(body);
            deferred.answer(ready);
        });
    }
}

/// How a batch is read and written.
#[derive(Clone, Copy)]
struct Reading {
    coding: Option<Coding>,
    formats: BatchFormats,
    /// The limit of the body in bytes, both encoded and decoded.
    body_size_max: usize,
    requirement: Requirement,
}

/// The formats of the request and the answer.
#[derive(Clone, Copy)]
struct BatchFormats {
    to_lines: BodyFormat,
    to_array: BodyFormat,
}

impl BatchFormats {
    const TO_LINES: [BodyFormat; 3] = [
        BodyFormat::JsonLines,
        BodyFormat::Json,
        BodyFormat::MessagePack,
    ];
    const TO_ARRAY: [BodyFormat; 3] = [
        BodyFormat::Json,
        BodyFormat::JsonLines,
        BodyFormat::MessagePack,
    ];

    /// Negotiates the formats; the body is considered only if it is available already.
    fn of(request: &Request<'_>, body: Option<&[u8]>) -> Result<Self, Problem> {
        let is_lines = body.map(is_lines);
        let format = |offers, is_needed| match is_needed {
            true => negotiate_format(request, offers),
            // Never used.
            false => Ok(offers[0]),
        };
        Ok(Self {
            to_lines: format(&Self::TO_LINES, is_lines != Some(false))?,
            to_array: format(&Self::TO_ARRAY, is_lines != Some(true))?,
        })
    }
}

/// Whether the body has one set per line. Without a content type the first character decides.
fn is_lines(body: &[u8]) -> bool {
    body.trim_ascii_start().first() != Some(&b'[')
}

/// The counters for the answers: those of the I/O thread that received the request.
#[derive(Clone, Copy)]
struct Counting<'c> {
    index: usize,
    counters: &'c Counters,
}

/// Reads the sets, queries them, and writes the answers.
fn answer(
    session: &mut Session,
    (catalog, counting): (&Catalog, Counting<'_>),
    index: usize,
    body: &[u8],
    reading: Reading,
    share: &mut Share,
) -> Result<Ready, Problem> {
    let Reading {
        coding,
        formats,
        body_size_max,
        requirement,
    } = reading;
    let body = match coding {
        Some(coding) => &*decode(coding, body, body_size_max)?,
        None => body,
    };
    share.grow(body.len())?;
    let cancel = session.cancel_handle();
    let is_lines = is_lines(body);
    let format = match is_lines {
        true => formats.to_lines,
        false => formats.to_array,
    };
    let lookup = &catalog.lookups[index];
    let prepared = lookup.prepared.as_ref();
    let prepared = prepared.expect("it was asked whether it is");
    let params = &prepared.params;
    let is_cancelled = || cancel.is_cancelled();
    let sets = read_batch(body, is_lines, params, &is_cancelled);
    let sets = sets.map_err(|fault| Problem::batch(fault, params))?;
    share.grow(sets.len() * params.len() * size_of::<Value>())?;
    let statement = &prepared.statement;
    if let Some(position) = requirement.unconfirmed
        && let Some(end) = session.log_end(statement)
    {
        check_position(position, end)?;
    }
    let mut writer = Writer {
        lookup,
        share,
        is_native: prepared.is_native(),
        counting,
        format,
        encoder: Encoder::default(),
        body: Vec::new(),
        size_max: body_size_max.saturating_mul(ANSWER_GROWTH_MAX),
        index: 0,
        found: 0,
        failed: 0,
        error_detail: catalog.error_detail,
        problem: None,
    };
    // Answers are usually longer than their sets.
    writer.reserve(2 * body.len())?;
    Encoder::batch_begin(format, sets.len(), &mut writer.body);
    let (extent, freshness) = (lookup.extent(), requirement.freshness);
    let asked = session.answer_each(statement, &sets, extent, freshness, |rows| {
        writer.write(rows)
    });
    let stand_ins = asked.map_err(|error| {
        lookup.tell_failure(&error);
        lookup.counts.add_failed(counting.index, sets.len() as u64);
        Problem::of_error(&error)
    })?;
    writer.finish(sets.len() as u64, stand_ins)
}

struct Writer<'c> {
    lookup: &'c Lookup,
    /// The memory that is accounted to the answer, including what is needed to build it.
    share: &'c mut Share,
    is_native: bool,
    counting: Counting<'c>,
    format: BodyFormat,
    encoder: Encoder,
    body: Vec<u8>,
    size_max: usize,
    index: usize,
    found: u64,
    failed: u64,
    error_detail: bool,
    /// The problem that is sent instead of an answer.
    problem: Option<Problem>,
}

impl Writer<'_> {
    /// Writes one answer; breaks if no more answers are needed.
    fn write(
        &mut self,
        rows: lookaside_knowledge::Result<lookaside_knowledge::Rows<'_>>,
    ) -> ControlFlow<()> {
        if let Err(problem) = self.make_room() {
            self.problem = Some(problem);
            return ControlFlow::Break(());
        }
        let format = self.format;
        let set = self.index;
        Encoder::batch_next(format, set, &mut self.body);
        self.index += 1;
        match rows {
            Ok(rows) => {
                self.encoder.set_columns(rows.columns());
                self.found += u64::from(!rows.is_empty());
                if self.lookup.extent() == Extent::All {
                    let rows_max = self.lookup.config.rows_max;
                    if rows.len() > rows_max {
                        let problem = too_many_rows(rows.len(), rows_max);
                        self.problem = Some(problem.of_set(set));
                        return ControlFlow::Break(());
                    }
                    self.encoder.batch_rows(format, rows.iter(), &mut self.body);
                } else {
                    let item = rows.iter().next().map_or(Item::Absent, Item::Row);
                    self.encoder.batch_item(format, item, &mut self.body);
                }
            }
            Err(error) => {
                // One log line per batch: its sets usually fail for the same reason.
                if self.failed == 0 {
                    self.lookup.tell_failure(&error);
                }
                self.failed += 1;
                let problem = Problem::of_error(&error);
                let item = Item::Failed(
                    problem.status,
                    problem.title(),
                    problem.visible_detail(self.error_detail),
                );
                self.encoder.batch_item(format, item, &mut self.body);
            }
        }
        if self.body.len() > self.size_max {
            let problem = Problem::new(413, "the answers together are too large");
            self.problem = Some(problem.detail(format!(
                "the answers to the first {} parameter sets have more than {} bytes, which is \
                 {ANSWER_GROWTH_MAX} times body_size_max; send fewer sets in one request, or \
                 increase body_size_max in [server]",
                self.index, self.size_max
            )));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Grows the body to at most twice its size and at most its limit: a vector that grows by
    /// itself could allocate twice as much, and copy everything once more.
    fn make_room(&mut self) -> Result<(), Problem> {
        let (size, room) = (self.body.len(), self.body.capacity());
        if room - size >= ROOM_SIZE {
            return Ok(());
        }
        let rest = self.size_max.saturating_sub(size);
        self.reserve(size.min(rest).max(ROOM_SIZE))
    }

    /// Reserves `size` more bytes, if the server's limit allows it.
    fn reserve(&mut self, size: usize) -> Result<(), Problem> {
        self.share.grow(size)?;
        self.body.reserve_exact(size);
        Ok(())
    }

    fn finish(mut self, count: u64, stand_ins: Option<StaleAnswers>) -> Result<Ready, Problem> {
        let (counts, thread) = (&self.lookup.counts, self.counting.index);
        if let Some(problem) = self.problem {
            counts.add_failed(thread, count);
            return Err(problem);
        }
        Encoder::batch_end(self.format, &mut self.body);
        let answered = count - self.failed;
        counts.add_many(thread, self.found, answered - self.found);
        counts.add_failed(thread, self.failed);
        if self.is_native {
            self.counting.counters.layer(Layer::Native, answered);
        }
        if let Some(stand_ins) = stand_ins {
            self.counting.counters.layer(Layer::Stale, stand_ins.count);
        }
        Ok(Ready {
            content_type: self.format.content_type(),
            body: self.body,
            layer: match stand_ins {
                Some(_) => Some(Layer::Stale),
                None => self.is_native.then_some(Layer::Native),
            },
            age: stand_ins.map(|it| it.age_max),
            extra: (self.failed > 0).then_some((FAILED, self.failed)),
        })
    }
}
