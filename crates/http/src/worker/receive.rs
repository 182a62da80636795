//! Parses received bytes, and calls the service.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Worker;
use crate::caught::{self, Caught};
use crate::connection::{Answer, BodyTarget, ConnectionState, is_short};
use crate::io::Receiving;
use crate::parse::{Framing, Head, HeadOutcome, Header, Refusal, parse_head};
use crate::peer::Origin;
use crate::render::ResponseFraming;
use crate::request::Request;
use crate::slab::Key;
use crate::{BodyMode, Io, Method, PanicStage, Reply, Route, Service, Ticket};

/// The initial capacity for a chunked body; also the limit for one with a length.
const BODY_SIZE: usize = 64 << 10;

impl<S: Service> Worker<S> {
    /// Consumes received bytes, and returns how many. The rest has to be passed again together with
    /// what follows.
    pub(crate) fn consume(&mut self, key: Key, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let Some(connection) = self.io.connections.get_mut(key) else {
                return bytes.len();
            };
            if let Some(receiving) = connection.receiving.take() {
                match self.go_on(key, receiving, &bytes[at..]) {
                    Some(size) => at += size,
                    None => return bytes.len(),
                }
                continue;
            }
            if connection.state != ConnectionState::Open {
                return bytes.len();
            }
            if !connection.has_room(&self.io.options) {
                connection.is_stalled = true;
                break;
            }
            match self.begin(key, &bytes[at..]) {
                Some(size) => at += size,
                None => break,
            }
        }
        at
    }

    /// Parses a head, and the body if it has arrived, and calls the service. Returns how many bytes
    /// were consumed; `None` if the head is incomplete.
    fn begin(&mut self, key: Key, bytes: &[u8]) -> Option<usize> {
        let mut space = mem::take(&mut self.io.headers);
        let size = self.begin_in(key, bytes, &mut space);
        self.io.headers = space;
        size
    }

    fn begin_in(&mut self, key: Key, bytes: &[u8], space: &mut Vec<Header>) -> Option<usize> {
        let limits = self.io.head_limits;
        let peer = self.io.connections.get(key)?.origin.peer;
        // The stage whose panics are contained, as long as only this request is affected.
        let mut contained = Some(PanicStage::Parser);
        // A head or a route that is returned from the closure would be moved, which costs more than
        // making it.
        let taken = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            caught::inject(bytes);
            let mut head = Head::default();
            let parsed = parse_head(bytes, space, limits, &mut head);
            contained = None;
            match parsed {
                Ok(HeadOutcome::Whole) => {}
                Ok(HeadOutcome::Partial) => return None,
                Err(refusal) => {
                    self.io.refuse(key, refusal);
                    return Some(bytes.len());
                }
            }
            self.io.counters.requests += 1;
            let connection = self.io.connections.get_mut(key)?;
            connection.was_used = true;
            let origin = connection.origin;
            static UNKNOWN: Route = Route::buffered();
            let first = Request::new(&head, &[], &UNKNOWN, &origin);
            contained = Some(PanicStage::Service);
            let route = self.service.route(&first);
            contained = None;
            Some(self.begin_routed(key, &head, route, bytes, &origin))
        }));
        match (taken, contained) {
            (Ok(size), _) => size,
            // Panics of the service are caught separately: this is a bug in the server, and its
            // state may be inconsistent.
            (Err(panic), None) => resume_unwind(panic),
            (Err(panic), Some(stage)) => {
                self.io.note_panic(stage, peer, &Caught::new(&*panic));
                self.io.refuse(key, Refusal(500));
                Some(bytes.len())
            }
        }
    }

    /// Calls the service with a request whose route is known, or begins to receive its body.
    #[inline]
    fn begin_routed(
        &mut self,
        key: Key,
        head: &Head<'_>,
        route: Route,
        bytes: &[u8],
        origin: &Origin,
    ) -> usize {
        let size_max = match route.body {
            BodyMode::Buffered { size_max } => {
                size_max.unwrap_or(self.io.options.body_size_max) as u64
            }
            BodyMode::Streamed { size_max } => size_max.unwrap_or(u64::MAX),
        };
        let rest = &bytes[head.bytes.len()..];
        let body_size = match head.framing {
            Framing::None => 0,
            Framing::Length(length) if length > size_max => {
                self.io.refuse_long(key, Some(length), size_max);
                return bytes.len();
            }
            // A body that has arrived completely is passed at once, without a copy.
            Framing::Length(length) if length <= rest.len() as u64 => length as usize,
            Framing::Length(_) | Framing::Chunked => {
                return self.begin_body(key, head, route, bytes, size_max);
            }
        };
        if let BodyMode::Streamed { .. } = route.body
            && body_size > 0
        {
            return self.begin_body(key, head, route, bytes, size_max);
        }
        let request = Request::new(head, &rest[..body_size], &route, origin);
        self.call(key, &request, head, false);
        head.bytes.len() + body_size
    }

    /// Begins to receive a body that is chunked, incomplete, or streamed.
    fn begin_body(
        &mut self,
        key: Key,
        head: &Head<'_>,
        route: Route,
        bytes: &[u8],
        size_max: u64,
    ) -> usize {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return bytes.len();
        };
        let origin = connection.origin;
        let tick = self.io.clock.tick();
        let receiving = Receiving::new(head, size_max, route.is_live, origin.peer, tick);
        let mut receiving = Box::new(receiving);
        if let BodyMode::Streamed { .. } = route.body {
            connection.receiving = Some(receiving);
            let request = Request::new(head, &[], &route, &origin);
            let keeps = is_short(head) && !head.expects_continue;
            self.call(key, &request, head, !keeps);
            self.io.leave_body(key, keeps);
            return head.bytes.len();
        }
        let mut body = self.io.pool.take();
        if let Framing::Length(length) = head.framing {
            // Only little is reserved before the bytes arrive.
            body.reserve(BODY_SIZE.min(length as usize));
        }
        receiving.target = BodyTarget::Call {
            head: Vec::new(),
            body,
            route,
        };
        let rest = &bytes[head.bytes.len()..];
        let taken = receiving.take(&mut self.io, rest);
        let BodyTarget::Call {
            head: kept,
            body,
            route,
        } = &mut receiving.target
        else {
            unreachable!("it was just set");
        };
        match taken {
            Ok(Some(size)) => {
                // It has arrived completely: a chunked body in one piece.
                let request = Request::new(head, body, route, &origin);
                self.call(key, &request, head, false);
                self.io.pool.give(mem::take(body));
                return head.bytes.len() + size;
            }
            Ok(None) => {
                *kept = self.io.pool.take();
                kept.extend_from_slice(head.bytes);
            }
            Err(Refusal(413)) => {
                self.io.refuse_long(key, None, size_max);
                return bytes.len();
            }
            Err(refusal) => {
                self.io.refuse(key, refusal);
                return bytes.len();
            }
        }
        if head.expects_continue && rest.is_empty() {
            self.io.interim(key);
        }
        if let Some(connection) = self.io.connections.get_mut(key) {
            connection.receiving = Some(receiving);
        }
        bytes.len()
    }

    /// Continues to receive a body. Returns how many bytes it consumed; `None` if it consumed all
    /// and there is no more to do.
    fn go_on(&mut self, key: Key, mut receiving: Box<Receiving>, bytes: &[u8]) -> Option<usize> {
        match receiving.take(&mut self.io, bytes) {
            Err(refusal) => {
                self.io.refuse_body(key, *receiving, refusal);
                None
            }
            Ok(None) if !receiving.is_wanted() => {
                self.io.end_unwanted_body(key, *receiving);
                None
            }
            Ok(None) => {
                if let Some(connection) = self.io.connections.get_mut(key) {
                    connection.receiving = Some(receiving);
                }
                None
            }
            Ok(Some(size)) => {
                match receiving.target {
                    BodyTarget::Call { head, body, route } => {
                        self.call_kept(key, &head, &body, &route);
                        self.io.pool.give(head);
                        self.io.pool.give(body);
                    }
                    BodyTarget::Sink { sink, ticket } => {
                        self.io
                            .end_sink(sink, ticket, receiving.peer, |reply| reply);
                    }
                    BodyTarget::Feed { feed, .. } => feed.end(),
                    BodyTarget::Unknown | BodyTarget::Discarded => {}
                }
                Some(size)
            }
        }
    }

    /// Calls the service with a head that was kept.
    fn call_kept(&mut self, key: Key, bytes: &[u8], body: &[u8], route: &Route) {
        let mut space = mem::take(&mut self.io.headers);
        let mut head = Head::default();
        let parsed = parse_head(bytes, &mut space, self.io.head_limits, &mut head);
        assert!(
            parsed == Ok(HeadOutcome::Whole),
            "the same bytes were a head before"
        );
        if let Some(connection) = self.io.connections.get(key) {
            let origin = connection.origin;
            let request = Request::new(&head, body, route, &origin);
            self.call(key, &request, &head, false);
        }
        self.io.headers = space;
    }

    /// Calls the service. The connection closes after the reply if the client requests that, or if
    /// `closes` is set and the call does not receive the body.
    fn call(&mut self, key: Key, request: &Request<'_>, head: &Head<'_>, closes: bool) {
        let framing = ResponseFraming {
            is_head: head.method == Method::Head,
            is_old: head.minor == 0,
            close: closes || !head.keep_alive,
        };
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        if !head.keep_alive {
            connection.end(false);
        }
        if let Some(tag) = request.route().serial {
            return self.io.submit(key, request, head, framing, tag);
        }
        let sequence = self.io.sequence;
        let Self { io, service } = self;
        let result = caught::catch(|| service.call(request, Reply::of_call(io, key, framing)));
        if let Err(caught) = result {
            self.io
                .note_panic(PanicStage::Service, request.peer(), &caught);
            self.io.fail_since(key, sequence);
        }
    }
}

impl Io {
    /// Handles a panic of a call: requests that it began and did not answer get 500.
    fn fail_since(&mut self, key: Key, sequence: u64) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.receiving = None;
        connection.end(true);
        let Some(last) = connection.pending.back() else {
            return;
        };
        let is_new = last.sequence != u64::MAX && last.sequence > sequence;
        match last.progress {
            Answer::Waiting if is_new => {
                let ticket = Ticket::new(key, last.sequence);
                drop(self.reply(ticket));
            }
            Answer::Streaming { .. } if is_new => {
                let ticket = Ticket::new(key, last.sequence);
                if let Some(stream) = self.stream(ticket) {
                    stream.abort();
                }
            }
            _ => {}
        }
    }
}
