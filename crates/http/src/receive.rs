//! From received bytes to calls of the service.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::connection::{Answer, Pending, State};
use crate::parse::{ChunkDecoder, Framing, Head, Outcome, Progress, Refusal, headers, parse_head};
use crate::remote::Feed;
use crate::render::Manner;
use crate::request::Request;
use crate::slab::Key;
use crate::worker::Worker;
use crate::{BodyMode, Io, Method, Reply, Route, Service, Ticket};

/// A body that nobody wants is read to its end if it is no longer than this; the connection is
/// worth that much. After a longer one it closes.
const DISCARD_SIZE_MAX: u64 = 64 << 10;

/// What a chunked body has room for at first; one with a length gets that much at most.
const BODY_SIZE: usize = 64 << 10;

/// A body that is on its way.
pub(crate) struct Receiving {
    decoder: Decoder,
    /// Bytes so far, and at most.
    size: u64,
    size_max: u64,
    /// In ticks; since when its pace is measured, and how large it was then.
    since: u64,
    size_then: u64,
    /// Whether there is no room for more.
    pub(crate) is_paused: bool,
    /// Whether the connection closes after the reply if the body is received.
    close: bool,
    /// Whether the client waits to be told to send it.
    is_expected: bool,
    target: Target,
}

/// Who gets a body.
pub(crate) enum Target {
    /// The call that follows, with the head that is kept until then.
    Call {
        head: Vec<u8>,
        body: Vec<u8>,
        route: Route,
    },
    Sink {
        sink: Box<dyn BodySink>,
        ticket: u64,
    },
    Feed {
        feed: Feed,
        ticket: u64,
    },
    /// The request is called and has not said.
    Unknown,
    /// The request is answered, or will be, without it.
    Nobody,
}

/// Who gets the body of a [streamed](Route::streamed) route on its I/O thread.
///
/// When the client goes, is too slow or breaks the rules, it is dropped, and the client is told.
pub trait BodySink {
    /// Takes a piece.
    fn data(&mut self, io: &mut Io, piece: &[u8]);

    /// Answers, as the body is whole.
    fn end(self: Box<Self>, reply: Reply<'_>);
}

#[derive(Clone)]
enum Decoder {
    Length(u64),
    Chunked(ChunkDecoder),
}

impl Decoder {
    fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(ChunkDecoder::new()),
        }
    }

    fn next(&mut self, bytes: &[u8], at: usize) -> Result<Progress, Refusal> {
        match self {
            Self::Chunked(decoder) => decoder.next(bytes, at),
            Self::Length(0) => Ok(Progress::End { at }),
            Self::Length(_) if at == bytes.len() => Ok(Progress::More),
            Self::Length(left) => {
                let here = (bytes.len() - at) as u64;
                let size = here.min(*left);
                *left -= size;
                let to = at + size as usize;
                Ok(Progress::Data { from: at, to })
            }
        }
    }
}

impl Receiving {
    fn new(head: &Head<'_>, size_max: u64, tick: u64) -> Self {
        Self {
            decoder: Decoder::new(head.framing),
            size: 0,
            size_max,
            since: tick,
            size_then: 0,
            is_paused: false,
            close: !head.keep_alive,
            is_expected: head.expects_continue,
            target: Target::Unknown,
        }
    }

    /// When a body that goes on at this pace is given up; never while we make it wait.
    pub(crate) fn deadline(&self, io: &Io) -> u64 {
        if self.is_paused {
            return u64::MAX;
        }
        let options = &io.options;
        let size = self.size - self.size_then;
        let granted = size.saturating_mul(1000) / options.body_rate_min;
        let timeout = u64::try_from(options.body_timeout.as_millis()).unwrap_or(u64::MAX);
        self.since.saturating_add(timeout).saturating_add(granted)
    }

    /// Takes what is here of the body; how many bytes those are when it has ended.
    fn take(&mut self, io: &mut Io, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut at = 0;
        loop {
            match self.decoder.next(bytes, at)? {
                Progress::Data { from, to } => {
                    self.size += (to - from) as u64;
                    if self.size > self.size_max {
                        return Err(Refusal(413));
                    }
                    self.deliver(io, &bytes[from..to])?;
                    at = to;
                }
                Progress::More => return Ok(None),
                Progress::End { at } => return Ok(Some(at)),
            }
        }
    }

    fn deliver(&mut self, io: &mut Io, piece: &[u8]) -> Result<(), Refusal> {
        match &mut self.target {
            Target::Call { body, .. } => body.extend_from_slice(piece),
            Target::Sink { sink, .. } => {
                let result = catch_unwind(AssertUnwindSafe(|| sink.data(io, piece)));
                if result.is_err() {
                    io.counters.panics += 1;
                    return Err(Refusal(500));
                }
            }
            Target::Feed { feed, .. } => self.is_paused = !feed.push(piece),
            Target::Unknown | Target::Nobody => {}
        }
        Ok(())
    }
}

impl<S: Service> Worker<S> {
    /// Consumes what it can of the bytes that came, and says how many. The rest has to be shown
    /// again together with what follows.
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
            if connection.state != State::Open {
                return bytes.len();
            }
            if connection.pending.len() >= self.io.options.pipeline_count_max
                || connection.output_size() >= self.io.options.output_size_max
            {
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

    /// Reads a head, and the body if that is here, and calls the service. Says how many bytes that
    /// took; `None` when the head is not whole.
    fn begin(&mut self, key: Key, bytes: &[u8]) -> Option<usize> {
        let mut space = headers();
        let head = match parse_head(bytes, &mut space, self.io.head_limits) {
            Ok(Outcome::Whole(head)) => head,
            Ok(Outcome::Partial) => return None,
            Err(refusal) => {
                self.io.refuse(key, refusal);
                return Some(bytes.len());
            }
        };
        self.io.counters.requests += 1;
        let connection = self.io.connections.get_mut(key)?;
        connection.was_used = true;
        let origin = connection.origin;
        let nothing = Route::buffered();
        let first = Request::new(&head, &[], &nothing, origin);
        let service = &mut self.service;
        let route = catch_unwind(AssertUnwindSafe(|| service.route(&first)));
        let Ok(route) = route else {
            self.io.counters.panics += 1;
            self.io.refuse(key, Refusal(500));
            return Some(bytes.len());
        };
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
                self.io.refuse(key, Refusal(413));
                return Some(bytes.len());
            }
            // What is here as a whole is called with at once, without a copy.
            Framing::Length(length) if length <= rest.len() as u64 => length as usize,
            Framing::Length(_) | Framing::Chunked => {
                return Some(self.begin_body(key, &head, route, bytes, size_max));
            }
        };
        if let BodyMode::Streamed { .. } = route.body
            && body_size > 0
        {
            return Some(self.begin_body(key, &head, route, bytes, size_max));
        }
        let request = Request::new(&head, &rest[..body_size], &route, origin);
        self.call(key, &request, &head, false);
        Some(head.bytes.len() + body_size)
    }

    /// Begins to receive a body that is chunked, or not here as a whole, or streamed.
    fn begin_body(
        &mut self,
        key: Key,
        head: &Head<'_>,
        route: Route,
        bytes: &[u8],
        size_max: u64,
    ) -> usize {
        let mut receiving = Box::new(Receiving::new(head, size_max, self.io.clock.tick()));
        let Some(connection) = self.io.connections.get_mut(key) else {
            return bytes.len();
        };
        let origin = connection.origin;
        if let BodyMode::Streamed { .. } = route.body {
            connection.receiving = Some(receiving);
            let request = Request::new(head, &[], &route, origin);
            let keeps = is_short(head) && !head.expects_continue;
            self.call(key, &request, head, !keeps);
            self.io.leave_body(key, keeps);
            return head.bytes.len();
        }
        let mut body = self.io.pool.take();
        if let Framing::Length(length) = head.framing {
            // What is only promised reserves little.
            body.reserve(BODY_SIZE.min(length as usize));
        }
        receiving.target = Target::Call {
            head: Vec::new(),
            body,
            route,
        };
        let rest = &bytes[head.bytes.len()..];
        let taken = receiving.take(&mut self.io, rest);
        let Target::Call {
            head: kept,
            body,
            route,
        } = &mut receiving.target
        else {
            unreachable!("it was just set");
        };
        match taken {
            Ok(Some(size)) => {
                // It is here as a whole: a chunked body in one piece.
                let request = Request::new(head, body, route, origin);
                self.call(key, &request, head, false);
                self.io.pool.give(std::mem::take(body));
                return head.bytes.len() + size;
            }
            Ok(None) => {
                *kept = self.io.pool.take();
                kept.extend_from_slice(head.bytes);
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

    /// Goes on with a body. Says how many bytes it took; `None` when it took all and there is no
    /// more to do.
    fn go_on(&mut self, key: Key, mut receiving: Box<Receiving>, bytes: &[u8]) -> Option<usize> {
        match receiving.take(&mut self.io, bytes) {
            Err(refusal) => {
                self.io.refuse_body(key, *receiving, refusal);
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
                    Target::Call { head, body, route } => {
                        self.call_kept(key, &head, &body, &route);
                        self.io.pool.give(head);
                        self.io.pool.give(body);
                    }
                    Target::Sink { sink, ticket } => {
                        let ended = catch_unwind(AssertUnwindSafe(|| {
                            if let Some(reply) = self.io.reply(Ticket::from_u64(ticket)) {
                                sink.end(reply);
                            }
                        }));
                        self.io.counters.panics += u64::from(ended.is_err());
                    }
                    Target::Feed { feed, .. } => feed.end(),
                    Target::Unknown | Target::Nobody => {}
                }
                Some(size)
            }
        }
    }

    /// Calls the service with a head that was kept.
    fn call_kept(&mut self, key: Key, bytes: &[u8], body: &[u8], route: &Route) {
        let mut space = headers();
        let parsed = parse_head(bytes, &mut space, self.io.head_limits);
        let Ok(Outcome::Whole(head)) = parsed else {
            unreachable!("the same bytes were a head before");
        };
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let request = Request::new(&head, body, route, connection.origin);
        self.call(key, &request, &head, false);
    }

    /// Calls the service. The connection closes after the reply if the client wants that, or if
    /// `closes` says so and the call does not receive the body.
    fn call(&mut self, key: Key, request: &Request<'_>, head: &Head<'_>, closes: bool) {
        let manner = Manner {
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
            return self.io.depart(key, request, head, manner, tag);
        }
        let sequence = self.io.sequence;
        let Self { io, service } = self;
        let result = catch_unwind(AssertUnwindSafe(|| {
            service.call(request, Reply::of_call(io, key, manner));
        }));
        if result.is_err() {
            self.io.counters.panics += 1;
            self.io.fail_since(key, sequence);
        }
    }
}

/// Whether a body that nobody wants is worth to be read.
fn is_short(head: &Head<'_>) -> bool {
    matches!(head.framing, Framing::Length(size) if size <= DISCARD_SIZE_MAX)
}

impl Io {
    /// Answers with an error behind what is to be answered before, and reads no more.
    pub(crate) fn refuse(&mut self, key: Key, refusal: Refusal) {
        self.counters.refused += 1;
        let manner = Manner {
            close: true,
            ..Manner::default()
        };
        Reply::of_call(self, key, manner).refuse(refusal.0);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.receiving = None;
            connection.end(true);
        }
    }

    /// Tells the client to send its body (RFC 9110, 10.1.1), after the replies before it.
    pub(crate) fn interim(&mut self, key: Key) {
        const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.pending.is_empty() {
            if connection.output.capacity() == 0 {
                connection.output = self.pool.take();
            }
            connection.output.extend_from_slice(INTERIM);
            return;
        }
        let mut bytes = self.pool.take();
        bytes.extend_from_slice(INTERIM);
        connection.pending.push_back(Pending {
            sequence: u64::MAX,
            manner: Manner::default(),
            progress: Answer::Done,
            bytes,
        });
    }

    /// Refuses a request in the middle of its body.
    pub(crate) fn refuse_body(&mut self, key: Key, receiving: Receiving, refusal: Refusal) {
        let ticket = match receiving.target {
            Target::Sink { ticket, .. } | Target::Feed { ticket, .. } => Ticket::from_u64(ticket),
            Target::Call { .. } => return self.refuse(key, refusal),
            Target::Unknown | Target::Nobody => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.end(true);
                }
                return;
            }
        };
        self.counters.refused += 1;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
        }
        if let Some(reply) = self.reply(ticket) {
            reply.close().refuse(refusal.0);
        } else if self.stream(ticket).is_some() {
            // The reply has begun, so only its end can say that something went wrong.
            self.close(key);
        }
    }

    /// The body of the request that is being called: whether the connection closes after it, and
    /// whether the client waits for leave to send it. `None` when there is none.
    pub(crate) fn claim_body(&mut self, key: Key) -> Option<(bool, bool)> {
        let receiving = self.connections.get_mut(key)?.receiving.as_mut()?;
        Some((receiving.close, receiving.is_expected))
    }

    /// Says who gets the body of the request that is being called.
    pub(crate) fn deliver_to(&mut self, key: Key, target: Target) {
        let receiving = self
            .connections
            .get_mut(key)
            .and_then(|found| found.receiving.as_mut());
        receiving.expect("the body was claimed").target = target;
    }

    /// There is room for more of a body.
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        let tick = self.clock.tick();
        let Some(key) = self.connections.key_at(ticket.index()) else {
            return;
        };
        let connection = self.connections.get_mut(key);
        if let Some(receiving) = connection.and_then(|found| found.receiving.as_mut())
            && let Target::Feed { ticket: other, .. } = receiving.target
            && other == u64::from(ticket)
        {
            receiving.is_paused = false;
            (receiving.since, receiving.size_then) = (tick, receiving.size);
            self.mark(key);
        }
    }

    /// Decides what becomes of a streamed body that the call did not want.
    fn leave_body(&mut self, key: Key, keeps: bool) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Some(receiving) = &mut connection.receiving else {
            return;
        };
        if let Target::Unknown = receiving.target {
            receiving.target = Target::Nobody;
            // Who waits for leave and gets another answer sends no body, or sends it all the same.
            if !keeps {
                connection.receiving = None;
                connection.end(true);
            }
        }
    }

    /// A call panicked: what it began and did not answer is answered with 500.
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
            Answer::Streaming { .. } if is_new => self.close(key),
            _ => {}
        }
    }
}
