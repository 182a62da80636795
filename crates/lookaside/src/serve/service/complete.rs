//! Sends the answers of deferred requests, on their I/O threads.

use std::time::Duration;

use lookaside_http::negotiate::Encoding;
use lookaside_http::{Io, Ticket};
use lookaside_knowledge::Freshness;

use super::super::answers::Key;
use super::super::counters::Layer;
use super::Thread;
use super::head::Head;
use super::lookup::{LookupRequest, LookupResult, encode, no_row};
use super::wait::{Completion, WaitOutcome};

impl Thread {
    /// Answers a deferred request, if its client is still connected.
    pub(super) fn complete(&mut self, io: &mut Io, completion: Completion) {
        self.waiters.remove(completion.ticket);
        self.responder.end_waiting();
        let responder = &self.responder;
        let Completion {
            ticket,
            context,
            outcome,
            share,
        } = completion;
        // From here on, the connection accounts for the memory.
        drop(share);
        let now = io.now();
        let Some(reply) = io.reply(Ticket::from_u64(ticket)) else {
            return;
        };
        let (question, rows, at) = match outcome {
            WaitOutcome::Body(Ok((ready, coding))) => {
                let head = Head {
                    layer: ready.layer,
                    // The next answer may be fresh.
                    freshness: ready.age.map(|age| (age, Duration::ZERO)),
                    extra: ready.extra,
                    coding,
                    ..Head::new(200, ready.content_type)
                };
                return responder.send_encoded(context, None, reply, &head, &ready.body);
            }
            WaitOutcome::Coded(head, body) => {
                return responder.send_encoded(context, None, reply, &head.as_head(), &body);
            }
            WaitOutcome::Unanswered => unreachable!("it was replaced when it was sent"),
            WaitOutcome::Body(Err(problem)) => {
                return responder.refuse(context, None, reply, &problem);
            }
            WaitOutcome::Rows(question, rows, at) => (question, rows, at),
        };
        let lookup = &question.catalog.lookups[question.index];
        let (rows, provenance) = match rows {
            Ok(answer) => answer,
            Err(error) => {
                lookup.counts.add_failed(responder.index, 1);
                let problem = responder.failed(lookup, &error);
                return responder.refuse(context, None, reply, &problem);
            }
        };
        // The catalog may have changed, and the lookup with it: then this answer is not cached.
        if question.catalog.number != responder.catalog.number {
            let mut body = Vec::new();
            let paper = (&mut Default::default(), &mut body);
            let encoded = encode(lookup, question.format, rows.columns(), rows.iter(), paper);
            let encoded = encoded.and_then(|is_found| match is_found {
                true => Ok(()),
                false => Err(no_row()),
            });
            return match encoded {
                Ok(()) => {
                    let head = Head {
                        layer: Some(Layer::of(&provenance)),
                        ..Head::new(200, question.format.content_type())
                    };
                    responder.send(context, None, reply, &head, &body);
                }
                Err(problem) => responder.refuse(context, None, reply, &problem),
            };
        }
        let mut coverage = question.coverage;
        let is_current = lookup.prepared.as_ref().is_some_and(|prepared| {
            let (version, age) = (provenance.version, provenance.age);
            (self.session).may_reuse(&prepared.statement, version, age, Freshness::default())
        });
        if !is_current {
            // Its query may have been sent for an earlier request, and a change between the two
            // requests be missing in it: then only its age says what it includes.
            (coverage.horizon, coverage.position) = (None, None);
        }
        let paper = (&mut self.encoders[question.index], &mut self.body);
        let encoded = encode(lookup, question.format, rows.columns(), rows.iter(), paper);
        let lookup_request = LookupRequest {
            key: Key {
                // A configuration has fewer lookups than that.
                lookup: question.index as u32,
                format: question.format,
                coding: Encoding::Identity,
                query: &question.query,
            },
            generation: question.generation,
            if_none_match: question.if_none_match.as_deref(),
            // The batch of events may have begun before the rows arrived.
            now: now.max(at),
            coverage,
            is_behind: false,
        };
        let result = LookupResult {
            provenance,
            at,
            encoded,
            body: &mut self.body,
        };
        responder.send_result(
            context,
            &lookup_request,
            result,
            &mut self.answers,
            None,
            reply,
        );
    }
}
