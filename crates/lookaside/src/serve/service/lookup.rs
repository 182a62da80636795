//! `GET /v1/lookup/NAME`: one question.
//!
//! What a table or a cache has is answered on the I/O thread; anything else waits elsewhere and comes
//! back to it.

use std::time::{Duration, Instant};

use lookaside_http::negotiate::Encoding;
use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Extent, Provenance, Text, Value};

use super::super::answers::{Answer, Answers, Key, Moment};
use super::super::catalog::Catalog;
use super::super::counters::Layer;
use super::super::encode::{Encoder, Form};
use super::super::lookup::{Lookup, Validity};
use super::super::params::read_query;
use super::super::problem::{PROBLEM_TYPE, Problem};
use super::super::tag::Tag;
use super::coding::{CODED_SIZE_MIN, coding};
use super::head::{Head, Held, form, held, is_any};
use super::wait::Question;
use super::{Face, Thread, Visit};
use crate::suggestion::did_you_mean;

impl Thread {
    pub(super) fn lookup(
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
        let form = match form(request, &Form::ALL) {
            Ok(form) => form,
            Err(problem) => return face.refuse(visit, Some(request), reply, &problem),
        };
        let now = reply.now();
        let generation = self.session.generation();
        let key = Key {
            // A file holds fewer.
            lookup: index as u32,
            form,
            coding: Encoding::Identity,
            query: request.query().unwrap_or_default(),
        };
        let if_none_match = request.header("If-None-Match");
        let asked = Asked {
            key,
            generation,
            if_none_match,
            now,
        };
        let Some(prepared) = &lookup.prepared else {
            let problem = face.not_ready(lookup);
            return face.refuse(visit, Some(request), reply, &problem);
        };
        if lookup.keeps_bodies(prepared)
            && let Some(answer) = self.answers.find(key, generation, now)
        {
            lookup.counts.add(face.index, answer.is_found);
            return match answer.body.len() < CODED_SIZE_MIN {
                true => face.answer(visit, &asked, answer, Layer::Body, Some(request), reply),
                false => self.answer_long(visit, asked, request, reply),
            };
        }
        self.values.clear();
        if let Err(faults) = read_query(key.query, &prepared.params, &mut self.values) {
            return face.refuse(visit, Some(request), reply, &Problem::params(faults));
        }
        if prepared.validity == Validity::Tables
            && let Some(known) = if_none_match
        {
            let tag = face.tables_tag(generation, form);
            if let Some(held) = held(known, tag.as_str()) {
                // What has this validator has it as long as the tables: nothing needs to be asked.
                return face.not_modified(visit, (&tag, held), None, Some(request), reply);
            }
        }
        let (extent, ttl) = (lookup.extent(), lookup.config.ttl);
        let found = self
            .session
            .try_local(&prepared.statement, &self.values, extent, ttl);
        match found {
            Ok(Some(served)) => {
                let paper = (&mut self.encoders[index], &mut self.body);
                let (rows, provenance) = (served.rows, served.provenance);
                let encoded = encode(lookup, form, rows.columns(), rows.iter(), paper);
                let given = Given {
                    provenance,
                    at: now,
                    encoded,
                    body: &mut self.body,
                };
                face.give(
                    visit,
                    &asked,
                    given,
                    &mut self.answers,
                    Some(request),
                    reply,
                );
            }
            Ok(None) => {
                if let Err(problem) = face.begin_waiting(0) {
                    return face.refuse(visit, Some(request), reply, &problem);
                }
                face.note(&mut visit, request);
                let question = Question {
                    catalog: face.catalog.clone(),
                    index,
                    form,
                    query: key.query.into(),
                    generation,
                    if_none_match: if_none_match.map(Into::into),
                };
                let params = self.values.clone();
                let ticket = reply.defer();
                self.wait_for_answer(visit, question, params, ticket);
            }
            Err(error) => {
                lookup.counts.add_failed(face.index, 1);
                let problem = face.failed(lookup, &error);
                face.refuse(visit, Some(request), reply, &problem);
            }
        }
    }
}

impl Thread {
    /// Sends a body that is kept and is long enough to be compressed; that, too, is done once.
    fn answer_long(
        &mut self,
        visit: Visit,
        asked: Asked<'_>,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let (face, answers) = (&self.face, &mut self.answers);
        let (generation, now) = (asked.generation, asked.now);
        let key = Key {
            coding: coding(request),
            ..asked.key
        };
        let asked_coded = Asked { key, ..asked };
        if let Some(answer) = answers.find(key, generation, now) {
            return face.answer(
                visit,
                &asked_coded,
                answer,
                Layer::Body,
                Some(request),
                reply,
            );
        }
        let plain = answers.find(asked.key, generation, now);
        let plain = plain.expect("it was found a moment ago");
        let coded = face.press.with(key.coding, &plain.body, |body| Answer {
            body: body.to_vec(),
            ..*plain
        });
        face.answer(
            visit,
            &asked_coded,
            &coded,
            Layer::Body,
            Some(request),
            reply,
        );
        answers.keep(key, &coded, now);
    }
}

/// What was asked for, as far as its answer depends on it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) key: Key<'a>,
    /// The tables that were served when it was asked.
    pub(super) generation: u64,
    pub(super) if_none_match: Option<&'a [u8]>,
    pub(super) now: Instant,
}

/// What came back.
pub(super) struct Given<'b> {
    pub(super) provenance: Provenance,
    /// When it was as old as its provenance says.
    pub(super) at: Instant,
    /// Whether there is a row.
    pub(super) encoded: Result<bool, Problem>,
    pub(super) body: &'b mut Vec<u8>,
}

impl Face {
    /// Sends an answer, and keeps it if it would cost more to find again.
    pub(super) fn give(
        &self,
        visit: Visit,
        asked: &Asked<'_>,
        given: Given<'_>,
        answers: &mut Answers,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        let lookup = &self.catalog.lookups[asked.key.lookup as usize];
        let is_found = match given.encoded {
            Ok(is_found) => is_found,
            Err(problem) => {
                lookup.counts.add_failed(self.index, 1);
                return self.refuse(visit, request, reply, &problem);
            }
        };
        lookup.counts.add(self.index, is_found);
        if !is_found {
            given.body.extend_from_slice(NO_ROW);
        }
        let provenance = given.provenance;
        let is_of_tables = lookup
            .prepared
            .as_ref()
            .is_some_and(|prepared| prepared.validity == Validity::Tables);
        let moment = (!is_of_tables).then(|| {
            let ttl = lookup.config.ttl.unwrap_or(self.catalog.cache_ttl);
            // One that stands in is older than that, and kept as long as the cache of the tables does.
            let lifetime = match provenance.is_stale {
                true => provenance.fresh_for.min(ttl),
                false => ttl.saturating_sub(provenance.age),
            };
            let tag = || Tag::of_body(given.body, asked.key.form);
            Moment {
                age: provenance.age,
                at: given.at,
                expires: given.at + lifetime,
                tag: (!provenance.is_stale && is_found).then(tag),
            }
        });
        let answer = Answer {
            body: std::mem::take(given.body),
            is_found,
            generation: asked.generation,
            moment,
        };
        self.answer(
            visit,
            asked,
            &answer,
            Layer::of(&provenance),
            request,
            reply,
        );
        if let Some(prepared) = &lookup.prepared
            && lookup.keeps_bodies(prepared)
        {
            answers.keep(asked.key, &answer, asked.now);
        }
        *given.body = answer.body;
    }

    /// Sends an answer that is right.
    fn answer(
        &self,
        visit: Visit,
        asked: &Asked<'_>,
        answer: &Answer,
        layer: Layer,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        self.counters().layer(layer, 1);
        let form = asked.key.form;
        let (tag, freshness) = match &answer.moment {
            None => (
                answer
                    .is_found
                    .then(|| self.tables_tag(asked.generation, form)),
                None,
            ),
            Some(moment) => (moment.tag, Some(moment.freshness(asked.now))),
        };
        if let (Some(tag), Some(known)) = (&tag, asked.if_none_match)
            && let Some(held) = match is_any(known) {
                true => Some(self.held_now(&visit, asked, answer, request)),
                false => held(known, tag.as_str()),
            }
        {
            let from = Some((layer, freshness));
            return self.not_modified(visit, (tag, held), from, request, reply);
        }
        let head = match answer.is_found {
            true => Head::new(200, form.content_type()),
            false => Head::new(404, PROBLEM_TYPE),
        };
        let head = Head {
            tag: tag.as_ref().map(Tag::as_str),
            layer: Some(layer),
            freshness,
            is_negotiated: true,
            // A short one says so, too: a 304 says what the answer would say, and does not know how
            // long that is.
            coding: Some(Encoding::Identity),
            ..head
        };
        match asked.key.coding {
            Encoding::Identity => self.send(visit, request, reply, &head, &answer.body),
            coding => {
                let coding = Some(coding);
                let head = Head { coding, ..head };
                self.send_as_is(visit, request, reply, &head, &answer.body);
            }
        }
    }

    /// How the validator of an answer would be written if it were sent.
    fn held_now(
        &self,
        visit: &Visit,
        asked: &Asked<'_>,
        answer: &Answer,
        request: Option<&Request<'_>>,
    ) -> Held {
        let coding = match asked.key.coding {
            Encoding::Identity if answer.body.len() < CODED_SIZE_MIN => Encoding::Identity,
            Encoding::Identity => self.coding(visit, request),
            coding => coding,
        };
        match coding.name() {
            Some(_) => Held::Weak,
            None => Held::Strong,
        }
    }

    fn not_modified(
        &self,
        visit: Visit,
        (tag, held): (&Tag, Held),
        from: Option<(Layer, Option<(Duration, Duration)>)>,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        let head = Head {
            tag: Some(tag.as_str()),
            layer: from.map(|(layer, _)| layer),
            freshness: from.and_then(|(_, freshness)| freshness),
            is_negotiated: true,
            // A client that has a compressed answer is told the validator of that one.
            coding: Some(match held {
                Held::Strong => Encoding::Identity,
                Held::Weak => Encoding::Gzip,
            }),
            ..Head::new(304, "")
        };
        self.send(visit, request, reply, &head, &[]);
    }

    /// The validator of what this catalog makes of the tables of a generation; the last one is kept,
    /// since it is nearly always the next one, too.
    fn tables_tag(&self, generation: u64, form: Form) -> Tag {
        let of = (generation, self.catalog.number, form);
        if let Some((known, tag)) = self.tag.get()
            && known == of
        {
            return tag;
        }
        let tag = Tag::of_tables(self.shared.boot, generation, self.catalog.number, form);
        self.tag.set(Some((of, tag)));
        tag
    }
}

/// Writes rows into an empty body and says whether there are any; a list may be empty, too.
pub(super) fn encode<'r>(
    lookup: &Lookup,
    form: Form,
    columns: &[Text],
    mut rows: impl ExactSizeIterator<Item = &'r [Value]>,
    (encoder, body): (&mut Encoder, &mut Vec<u8>),
) -> Result<bool, Problem> {
    body.clear();
    encoder.set_columns(columns);
    if lookup.extent() == Extent::All {
        let rows_max = lookup.config.rows_max;
        if rows.len() > rows_max {
            return Err(too_many_rows(rows.len(), rows_max));
        }
        encoder.rows(form, rows, body);
        return Ok(true);
    }
    let row = rows.next();
    if let Some(row) = row {
        encoder.row(form, row, body);
    }
    Ok(row.is_some())
}

/// What [`no_row`] writes; as common as a row, so it is written once.
const NO_ROW: &[u8] =
    b"{\"type\":\"about:blank\",\"title\":\"there is no row for these parameters\",\"status\":404}\n";

pub(super) fn no_row() -> Problem {
    Problem::new(404, "there is no row for these parameters")
}

pub(super) fn too_many_rows(count: usize, rows_max: usize) -> Problem {
    Problem::new(422, "the answer has more rows than this lookup may give").detail(format!(
        "{count} rows, and rows_max is {rows_max}; ask for less, or let the statement have a limit"
    ))
}

pub(super) fn no_lookup(catalog: &Catalog, name: &str) -> Problem {
    let names = catalog.lookups.iter().map(Lookup::name);
    let hint = did_you_mean(name, names);
    let problem = Problem::new(404, "there is no lookup of that name");
    problem.detail(format!("GET /v1/lookups lists them{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_written_as_the_problem_that_it_is() {
        let mut body = Vec::new();
        no_row().write(false, &mut body);
        assert_eq!(body, NO_ROW);
    }
}
