//! `GET /v1/lookup/NAME`: one lookup.
//!
//! Answers from tables and caches are sent by the I/O thread; other queries wait without blocking
//! it, and their answers come back to it.

use std::time::{Duration, Instant};

use lookaside_http::negotiate::Encoding;
use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Coverage, Extent, Freshness, Provenance, Text, Value};

use super::super::answers::{Answer, AnswerCache, Expiry, Key};
use super::super::catalog::Catalog;
use super::super::counters::Layer;
use super::super::encode::{BodyFormat, Encoder};
use super::super::lookup::{Lookup, Validity};
use super::super::params::read_query;
use super::super::problem::{PROBLEM_TYPE, Problem};
use super::super::tag::Tag;
use super::coding::{CODED_SIZE_MIN, coding};
use super::freshness::{self, Claim, Requirement};
use super::head::{Head, ValidatorStrength, is_any, matching_validator, negotiate_format};
use super::wait::Question;
use super::{RequestContext, Responder, Thread};
use crate::config::OnBehind;
use crate::suggestion::did_you_mean;

impl Thread {
    pub(super) fn lookup(
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
        let format = match negotiate_format(request, &BodyFormat::ALL) {
            Ok(format) => format,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        let now = reply.now();
        let generation = self.session.generation();
        let key = Key {
            // A configuration has fewer lookups than that.
            lookup: index as u32,
            format,
            coding: Encoding::Identity,
            query: request.query().unwrap_or_default(),
        };
        let if_none_match = request.header("If-None-Match");
        let Some(prepared) = &lookup.prepared else {
            let problem = responder.not_ready(lookup);
            return responder.refuse(context, Some(request), reply, &problem);
        };
        // Before any cache is searched.
        let coverage = self.session.coverage(&prepared.statement);
        let mut lookup_request = LookupRequest {
            key,
            generation,
            if_none_match,
            now,
            coverage,
            is_behind: false,
        };
        let limit = responder.catalog.client_freshness;
        let requirement = freshness::required(lookup, &coverage, limit, request);
        let Requirement {
            freshness: required,
            unconfirmed,
        } = match requirement {
            Ok(requirement) => requirement,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        let session = &self.session;
        let may_reuse = |expiry: &Expiry| {
            let age = expiry.age(now);
            session.may_reuse(&prepared.statement, expiry.version, age, required)
        };
        if lookup.keeps_bodies(prepared)
            && let Some(answer) = self.answers.find(key, generation, now, may_reuse)
        {
            lookup.counts.add(responder.index, answer.is_found);
            return match answer.body.len() < CODED_SIZE_MIN {
                true => responder.answer(
                    context,
                    &lookup_request,
                    answer,
                    Layer::Body,
                    Some(request),
                    reply,
                ),
                false => self.answer_long(context, lookup_request, required, request, reply),
            };
        }
        self.values.clear();
        if let Err(faults) = read_query(key.query, &prepared.params, &mut self.values) {
            return responder.refuse(context, Some(request), reply, &Problem::params(faults));
        }
        if prepared.validity == Validity::Tables
            && let Some(known) = if_none_match
        {
            let tag = responder.tables_tag(generation, format);
            if let Some(strength) = matching_validator(known, tag.as_str()) {
                // An answer with this validator is valid as long as the tables: no query is needed.
                return responder.not_modified(
                    context,
                    (&tag, strength),
                    None,
                    Some(request),
                    reply,
                );
            }
        }
        let extent = lookup.extent();
        let without_contract = freshness::behind(lookup, prepared, &self.session, required);
        let mut found = self
            .session
            .try_local(&prepared.statement, &self.values, extent, required);
        if let (Ok(None), Some(without_contract)) = (&found, without_contract) {
            found =
                self.session
                    .try_local(&prepared.statement, &self.values, extent, without_contract);
            match (&found, lookup.config.on_behind) {
                // It replaces the answer of a server that fails, which is another matter.
                (Ok(Some(served)), _) if served.provenance.is_stale => found = Ok(None),
                (Ok(Some(_)), OnBehind::Refuse) => {
                    lookup.counts.add_failed(responder.index, 1);
                    return responder.refuse(context, Some(request), reply, &freshness::refused());
                }
                (Ok(Some(_)), _) => lookup_request.is_behind = true,
                _ => {}
            }
        }
        match found {
            Ok(Some(served)) => {
                let paper = (&mut self.encoders[index], &mut self.body);
                let (rows, provenance) = (served.rows, served.provenance);
                let encoded = encode(lookup, format, rows.columns(), rows.iter(), paper);
                let result = LookupResult {
                    provenance,
                    at: now,
                    encoded,
                    body: &mut self.body,
                };
                responder.send_result(
                    context,
                    &lookup_request,
                    result,
                    &mut self.answers,
                    Some(request),
                    reply,
                );
            }
            Ok(None) => {
                if let Err(problem) = responder.begin_waiting(0) {
                    return responder.refuse(context, Some(request), reply, &problem);
                }
                responder.keep_log_fields(&mut context, request);
                let question = Question {
                    catalog: responder.catalog.clone(),
                    index,
                    format,
                    query: key.query.into(),
                    generation,
                    if_none_match: if_none_match.map(Into::into),
                    freshness: required,
                    unconfirmed,
                    coverage,
                };
                let ticket = reply.defer();
                self.wait_for_answer(context, question, ticket);
            }
            Err(error) => {
                lookup.counts.add_failed(responder.index, 1);
                let problem = responder.failed(lookup, &error);
                responder.refuse(context, Some(request), reply, &problem);
            }
        }
    }
}

impl Thread {
    /// Sends a cached body that is long enough to be compressed; the compressed body is cached,
    /// too.
    fn answer_long(
        &mut self,
        context: RequestContext,
        lookup_request: LookupRequest<'_>,
        required: Freshness,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let (responder, answers) = (&self.responder, &mut self.answers);
        let lookup = &responder.catalog.lookups[lookup_request.key.lookup as usize];
        let (generation, now) = (lookup_request.generation, lookup_request.now);
        let key = Key {
            coding: coding(request),
            ..lookup_request.key
        };
        let coded_lookup = LookupRequest {
            key,
            ..lookup_request
        };
        let may_reuse = |expiry: &Expiry| {
            lookup.prepared.as_ref().is_some_and(|prepared| {
                let age = expiry.age(now);
                (self.session).may_reuse(&prepared.statement, expiry.version, age, required)
            })
        };
        if let Some(answer) = answers.find(key, generation, now, may_reuse) {
            return responder.answer(
                context,
                &coded_lookup,
                answer,
                Layer::Body,
                Some(request),
                reply,
            );
        }
        // Its data may have changed since it was found, after the request came.
        let plain = answers.find(lookup_request.key, generation, now, |_| true);
        let plain = plain.expect("it was found a moment ago");
        let coded = responder
            .compressor
            .with(key.coding, &plain.body, |body| Answer {
                body: body.to_vec(),
                ..*plain
            });
        responder.answer(
            context,
            &coded_lookup,
            &coded,
            Layer::Body,
            Some(request),
            reply,
        );
        answers.keep(key, &coded, now);
    }
}

/// The parts of a request that the answer of a lookup depends on.
#[derive(Clone, Copy)]
pub(super) struct LookupRequest<'a> {
    pub(super) key: Key<'a>,
    /// The generation of the tables that were served when the request came.
    pub(super) generation: u64,
    pub(super) if_none_match: Option<&'a [u8]>,
    pub(super) now: Instant,
    /// How far the change feed had brought the caches before they were searched, for an answer that
    /// is still valid.
    pub(super) coverage: Coverage,
    /// Whether the answer does not include what is required.
    pub(super) is_behind: bool,
}

/// What answered, and how fresh the answer is; see [`Head`].
#[derive(Clone, Copy)]
struct Origin {
    layer: Layer,
    freshness: Option<(Duration, Duration)>,
    claim: Option<Claim>,
    is_behind: bool,
}

/// The rows of a lookup, encoded.
pub(super) struct LookupResult<'b> {
    pub(super) provenance: Provenance,
    /// The time at which it had the age of its provenance.
    pub(super) at: Instant,
    /// Whether there is a row.
    pub(super) encoded: Result<bool, Problem>,
    pub(super) body: &'b mut Vec<u8>,
}

impl Responder {
    /// Sends an answer, and caches it if computing it again would cost more.
    pub(super) fn send_result(
        &self,
        context: RequestContext,
        lookup_request: &LookupRequest<'_>,
        result: LookupResult<'_>,
        answers: &mut AnswerCache,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        let lookup = &self.catalog.lookups[lookup_request.key.lookup as usize];
        let is_found = match result.encoded {
            Ok(is_found) => is_found,
            Err(problem) => {
                lookup.counts.add_failed(self.index, 1);
                return self.refuse(context, request, reply, &problem);
            }
        };
        lookup.counts.add(self.index, is_found);
        if !is_found {
            result.body.extend_from_slice(NO_ROW);
        }
        let provenance = result.provenance;
        let is_of_tables = lookup
            .prepared
            .as_ref()
            .is_some_and(|prepared| prepared.validity == Validity::Tables);
        let expiry = (!is_of_tables).then(|| {
            let ttl = lookup.config.ttl.unwrap_or(self.catalog.cache_ttl);
            // A stale answer is older than the lifetime; it is kept as long as the engine's cache
            // keeps it.
            let lifetime = match provenance.is_stale {
                true => provenance.fresh_for.min(ttl),
                false => ttl.saturating_sub(provenance.age),
            };
            let tag = || Tag::of_body(result.body, lookup_request.key.format);
            // The age may have been computed a while before the rows arrived here.
            let at = provenance.at.map_or(result.at, |at| at.min(result.at));
            Expiry {
                age: provenance.age,
                at,
                expires: at + lifetime,
                tag: (!provenance.is_stale && is_found).then(tag),
                version: provenance.version,
                is_stale: provenance.is_stale,
                fresh_as_of: provenance.fresh_as_of(),
            }
        });
        let answer = Answer {
            body: std::mem::take(result.body),
            is_found,
            generation: lookup_request.generation,
            expiry,
        };
        self.answer(
            context,
            lookup_request,
            &answer,
            Layer::of(&provenance),
            request,
            reply,
        );
        if let Some(prepared) = &lookup.prepared
            && lookup.keeps_bodies(prepared)
        {
            answers.keep(lookup_request.key, &answer, lookup_request.now);
        }
        *result.body = answer.body;
    }

    /// Sends a successful answer.
    fn answer(
        &self,
        context: RequestContext,
        lookup_request: &LookupRequest<'_>,
        answer: &Answer,
        layer: Layer,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        let layer = match &answer.expiry {
            Some(expiry) if expiry.is_stale => Layer::Stale,
            _ => layer,
        };
        self.counters().layer(layer, 1);
        let claim = answer.expiry.as_ref();
        let claim = claim.and_then(|expiry| Claim::of(&lookup_request.coverage, expiry));
        let format = lookup_request.key.format;
        let (tag, freshness) = match &answer.expiry {
            None => (
                answer
                    .is_found
                    .then(|| self.tables_tag(lookup_request.generation, format)),
                None,
            ),
            Some(expiry) => {
                let (age, rest) = expiry.freshness(lookup_request.now);
                let lookup = &self.catalog.lookups[lookup_request.key.lookup as usize];
                // A client must not keep an answer for longer than it would be given out here, nor
                // one that a change may end soon, if the feed is down now.
                let rest = match lookup.config.contract.within {
                    _ if lookup_request.coverage.is_followed => Duration::ZERO,
                    None => rest,
                    Some(age_max) => rest.min(age_max.saturating_sub(age)),
                };
                (expiry.tag, Some((age, rest)))
            }
        };
        if let (Some(tag), Some(known)) = (&tag, lookup_request.if_none_match)
            && let Some(strength) = match is_any(known) {
                true => Some(self.validator_strength(&context, lookup_request, answer, request)),
                false => matching_validator(known, tag.as_str()),
            }
        {
            let origin = Some(Origin {
                layer,
                freshness,
                claim,
                is_behind: lookup_request.is_behind,
            });
            return self.not_modified(context, (tag, strength), origin, request, reply);
        }
        let head = match answer.is_found {
            true => Head::new(200, format.content_type()),
            false => Head::new(404, PROBLEM_TYPE),
        };
        let head = Head {
            tag: tag.as_ref().map(Tag::as_str),
            layer: Some(layer),
            freshness,
            claim,
            is_behind: lookup_request.is_behind,
            is_negotiated: true,
            // A short answer gets the header as well: a 304 has the headers of the full answer,
            // whose length it does not know.
            coding: Some(Encoding::Identity),
            ..head
        };
        match lookup_request.key.coding {
            Encoding::Identity => self.send(context, request, reply, &head, &answer.body),
            coding => {
                let coding = Some(coding);
                let head = Head { coding, ..head };
                self.send_encoded(context, request, reply, &head, &answer.body);
            }
        }
    }

    /// How strong the validator of an answer would be if it were sent now.
    fn validator_strength(
        &self,
        context: &RequestContext,
        lookup_request: &LookupRequest<'_>,
        answer: &Answer,
        request: Option<&Request<'_>>,
    ) -> ValidatorStrength {
        let coding = match lookup_request.key.coding {
            Encoding::Identity if answer.body.len() < CODED_SIZE_MIN => Encoding::Identity,
            Encoding::Identity => self.coding(context, request),
            coding => coding,
        };
        match coding.name() {
            Some(_) => ValidatorStrength::Weak,
            None => ValidatorStrength::Strong,
        }
    }

    fn not_modified(
        &self,
        context: RequestContext,
        (tag, strength): (&Tag, ValidatorStrength),
        origin: Option<Origin>,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
    ) {
        let head = Head {
            tag: Some(tag.as_str()),
            layer: origin.map(|origin| origin.layer),
            freshness: origin.and_then(|origin| origin.freshness),
            claim: origin.and_then(|origin| origin.claim),
            is_behind: origin.is_some_and(|origin| origin.is_behind),
            is_negotiated: true,
            // A client with a compressed answer gets the validator of that one.
            coding: Some(match strength {
                ValidatorStrength::Strong => Encoding::Identity,
                ValidatorStrength::Weak => Encoding::Gzip,
            }),
            ..Head::new(304, "")
        };
        self.send(context, request, reply, &head, &[]);
    }

    /// The validator of this catalog's answers from one generation of the tables. The last one is
    /// cached, since the next one is nearly always the same.
    fn tables_tag(&self, generation: u64, format: BodyFormat) -> Tag {
        let of = (generation, self.catalog.number, format);
        if let Some((known, tag)) = self.tag.get()
            && known == of
        {
            return tag;
        }
        let tag = Tag::of_tables(self.shared.boot, generation, self.catalog.number, format);
        self.tag.set(Some((of, tag)));
        tag
    }
}

/// Encodes rows into an empty body and returns whether there are any; a list may be empty.
pub(super) fn encode<'r>(
    lookup: &Lookup,
    format: BodyFormat,
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
        encoder.rows(format, rows, body);
        return Ok(true);
    }
    let row = rows.next();
    if let Some(row) = row {
        encoder.row(format, row, body);
    }
    Ok(row.is_some())
}

/// The output of [`no_row`]; missing rows are as common as rows, so it is precomputed.
const NO_ROW: &[u8] =
    b"{\"type\":\"about:blank\",\"title\":\"no row matches these parameters\",\"status\":404}\n";

pub(super) fn no_row() -> Problem {
    Problem::new(404, "no row matches these parameters")
}

pub(super) fn too_many_rows(count: usize, rows_max: usize) -> Problem {
    Problem::new(422, "the answer has more rows than rows_max").detail(format!(
        "the answer has {count} rows and rows_max is {rows_max}; select fewer rows, or add a limit \
         to the statement"
    ))
}

pub(super) fn no_lookup(catalog: &Catalog, name: &str) -> Problem {
    let names = catalog.lookups.iter().map(Lookup::name);
    let hint = did_you_mean(name, names);
    let problem = Problem::new(404, "no lookup has this name");
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
