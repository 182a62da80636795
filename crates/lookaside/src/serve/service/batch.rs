//! `POST /v1/lookup/NAME`: thousands of questions at once, answered in order.
//!
//! What tables answer by themselves is answered on the I/O thread while it is short; anything else
//! goes to a thread that may wait, where all that a provider has to answer goes in one flight.

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Extent, Session, StandIns};

use super::super::catalog::Catalog;
use super::super::counters::{Counters, Layer};
use super::super::encode::{Encoder, Form, Item};
use super::super::lookup::Lookup;
use super::super::params::read_batch;
use super::super::problem::Problem;
use super::head::form;
use super::lookup::{no_lookup, too_many_rows};
use super::wait::Ready;
use super::{Thread, Visit};

/// A body that is answered on the I/O thread: a thousand addresses, a third of a millisecond.
const BODY_AT_HAND_SIZE_MAX: usize = 32 << 10;

/// What one batch writes at most.
const ANSWER_SIZE_MAX: usize = 256 << 20;

/// Header with the number of sets whose answer is an error.
const FAILED: &str = "X-Failed";

impl Thread {
    pub(super) fn batch(
        &mut self,
        mut visit: Visit,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let face = &self.face;
        let Some(index) = face.catalog.position(name) else {
            let problem = no_lookup(&face.catalog, name);
            return face.refuse(visit, Some(request), reply, &problem);
        };
        let lookup = &face.catalog.lookups[index];
        let Some(prepared) = &lookup.prepared else {
            let problem = face.not_ready(lookup);
            return face.refuse(visit, Some(request), reply, &problem);
        };
        let body = request.body();
        // Whoever says nothing of a type means what the first character says.
        let is_lines = body.trim_ascii_start().first() != Some(&b'[');
        let offers = match is_lines {
            true => [Form::JsonLines, Form::Json, Form::MessagePack],
            false => [Form::Json, Form::JsonLines, Form::MessagePack],
        };
        let form = match form(request, &offers) {
            Ok(form) => form,
            Err(problem) => return face.refuse(visit, Some(request), reply, &problem),
        };
        if prepared.is_native() && body.len() <= BODY_AT_HAND_SIZE_MAX {
            let counting = Counting {
                index: face.index,
                counters: face.counters(),
            };
            let answer = answer(
                &mut self.session,
                (&face.catalog, counting),
                index,
                body,
                (is_lines, form),
            );
            return match answer {
                Ok(ready) => {
                    let head = super::head::Head {
                        layer: ready.layer,
                        extra: ready.extra,
                        ..super::head::Head::new(200, ready.content_type)
                    };
                    face.send(visit, Some(request), reply, &head, &ready.body);
                }
                Err(problem) => face.refuse(visit, Some(request), reply, &problem),
            };
        }
        if let Err(problem) = face.begin_waiting() {
            return face.refuse(visit, Some(request), reply, &problem);
        }
        face.note(&mut visit, request);
        let (shared, catalog, thread) = (face.shared.clone(), face.catalog.clone(), face.index);
        let body = body.to_vec();
        let later = self.face.later(visit, reply.defer());
        self.face.shared.runtime.spawn_blocking(move || {
            let mut session = shared.knowledge.session();
            let counting = Counting {
                index: thread,
                counters: &shared.counters[thread],
            };
            let how = (is_lines, form);
            later.answer(answer(
                &mut session,
                (&catalog, counting),
                index,
                &body,
                how,
            ));
        });
    }
}

/// Where answers are counted: with the I/O thread that the request came from.
#[derive(Clone, Copy)]
struct Counting<'c> {
    index: usize,
    counters: &'c Counters,
}

/// Reads the sets, asks, and writes the answers.
fn answer(
    session: &mut Session,
    (catalog, counting): (&Catalog, Counting<'_>),
    index: usize,
    body: &[u8],
    (is_lines, form): (bool, Form),
) -> Result<Ready, Problem> {
    let lookup = &catalog.lookups[index];
    let prepared = lookup.prepared.as_ref();
    let prepared = prepared.expect("it was asked whether it is");
    let params = &prepared.params;
    let sets = read_batch(body, is_lines, params).map_err(|fault| Problem::batch(fault, params))?;
    let mut writer = Writer {
        lookup,
        is_native: prepared.is_native(),
        counting,
        form,
        encoder: Encoder::default(),
        // Answers are most often longer than their questions.
        body: Vec::with_capacity(2 * body.len()),
        index: 0,
        found: 0,
        failed: 0,
        shows_detail: catalog.error_detail,
        problem: None,
    };
    Encoder::batch_begin(form, sets.len(), &mut writer.body);
    let (statement, ttl) = (&prepared.statement, lookup.config.ttl);
    let asked = session.answer_each(statement, &sets, lookup.extent(), ttl, |rows| {
        writer.write(rows);
    });
    let stand_ins = asked.map_err(|error| {
        lookup.tell_failure(&error);
        lookup.counts.add_failed(counting.index, sets.len() as u64);
        Problem::of_error(&error, catalog.error_detail)
    })?;
    writer.finish(sets.len() as u64, stand_ins)
}

struct Writer<'c> {
    lookup: &'c Lookup,
    is_native: bool,
    counting: Counting<'c>,
    form: Form,
    encoder: Encoder,
    body: Vec<u8>,
    index: usize,
    found: u64,
    failed: u64,
    shows_detail: bool,
    /// Why there will be no answer at all.
    problem: Option<Problem>,
}

impl Writer<'_> {
    fn write(&mut self, rows: lookaside_knowledge::Result<lookaside_knowledge::Rows<'_>>) {
        if self.problem.is_some() {
            return;
        }
        let form = self.form;
        let set = self.index;
        Encoder::batch_next(form, set, &mut self.body);
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
                        return;
                    }
                    self.encoder.batch_rows(form, rows.iter(), &mut self.body);
                } else {
                    let item = rows.iter().next().map_or(Item::Absent, Item::Row);
                    self.encoder.batch_item(form, item, &mut self.body);
                }
            }
            Err(error) => {
                // One line a batch: its sets most often fail for one reason.
                if self.failed == 0 {
                    self.lookup.tell_failure(&error);
                }
                self.failed += 1;
                let problem = Problem::of_error(&error, self.shows_detail);
                let item = Item::Failed(problem.status, problem.title());
                self.encoder.batch_item(form, item, &mut self.body);
            }
        }
        if self.body.len() > ANSWER_SIZE_MAX {
            let problem = Problem::new(413, "the answers together are too large");
            self.problem = Some(problem.detail("send fewer parameter sets in one request"));
        }
    }

    fn finish(mut self, count: u64, stand_ins: Option<StandIns>) -> Result<Ready, Problem> {
        let (counts, thread) = (&self.lookup.counts, self.counting.index);
        if let Some(problem) = self.problem {
            counts.add_failed(thread, count);
            return Err(problem);
        }
        Encoder::batch_end(self.form, &mut self.body);
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
            content_type: self.form.content_type(),
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
