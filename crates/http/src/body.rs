//! Bodies of requests that are not here as a whole, and who gets them.

use std::time::Duration;

use crate::caught;
use crate::channel::{Feed, Pushed, SlowBody};
use crate::parse::{ChunkDecoder, Framing, Head, Progress, Refusal};
use crate::slab::Key;
use crate::{Io, PanicStage, Peer, Reply, Route, Ticket};

/// A body that nobody wants is read to its end if it is no longer than this; the connection is
/// worth that much. After a longer one it closes.
const DISCARD_SIZE_MAX: u64 = 64 << 10;

/// A body that is on its way.
pub(crate) struct Receiving {
    decoder: Decoder,
    /// Bytes so far, and at most.
    size: u64,
    size_max: u64,
    /// In ticks; since when its pace is measured, and how large it was then.
    since: u64,
    size_then: u64,
    /// In ticks; when something of it came last.
    last_at: u64,
    /// Whether it is sent as things happen, so that it has limits of its own.
    is_live: bool,
    pub(crate) peer: Peer,
    /// Whether there is no room for more.
    pub(crate) is_paused: bool,
    /// Whether the connection closes after the reply if the body is received.
    close: bool,
    /// Whether the client waits to be told to send it.
    is_expected: bool,
    pub(crate) target: Target,
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
            Self::Chunked(decoder) => {
                #[cfg(test)]
                caught::inject(bytes);
                decoder.next(bytes, at)
            }
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
    pub(crate) fn new(
        head: &Head<'_>,
        size_max: u64,
        is_live: bool,
        peer: Peer,
        tick: u64,
    ) -> Self {
        Self {
            decoder: Decoder::new(head.framing),
            size: 0,
            size_max,
            since: tick,
            size_then: 0,
            last_at: tick,
            is_live,
            peer,
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
        if !self.is_live {
            return self.deadline_at_rate(options.body_timeout, options.body_rate_min);
        }
        let idle = self.idle_deadline(io);
        match options.stream_rate_min {
            0 => idle,
            rate_min => idle.min(self.deadline_at_rate(options.stream_idle_timeout, rate_min)),
        }
    }

    fn idle_deadline(&self, io: &Io) -> u64 {
        after(self.last_at, io.options.stream_idle_timeout)
    }

    fn deadline_at_rate(&self, timeout: Duration, rate_min: u64) -> u64 {
        let size = self.size - self.size_then;
        after(self.since, timeout).saturating_add(size.saturating_mul(1000) / rate_min)
    }

    /// Takes what is here of the body; how many bytes those are when it has ended.
    pub(crate) fn take(&mut self, io: &mut Io, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut at = 0;
        self.last_at = io.clock.tick();
        loop {
            let progress = match caught::catch(|| self.decoder.next(bytes, at)) {
                Ok(progress) => progress?,
                Err(caught) => {
                    io.note_panic(PanicStage::Parser, self.peer, &caught);
                    return Err(Refusal(500));
                }
            };
            match progress {
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

    /// Whether its request has not been called.
    pub(crate) fn is_for_call(&self) -> bool {
        matches!(self.target, Target::Call { .. })
    }

    fn deliver(&mut self, io: &mut Io, piece: &[u8]) -> Result<(), Refusal> {
        match &mut self.target {
            Target::Call { body, .. } => body.extend_from_slice(piece),
            Target::Sink { sink, .. } => {
                if let Err(caught) = caught::catch(|| sink.data(io, piece)) {
                    io.note_panic(PanicStage::Service, self.peer, &caught);
                    return Err(Refusal(500));
                }
            }
            Target::Feed { feed, .. } => match feed.push(piece) {
                Pushed::HasRoom => self.is_paused = false,
                Pushed::Full => self.is_paused = true,
                Pushed::Unwanted => {
                    self.is_paused = false;
                    self.size_max = self.size_max.min(self.size + DISCARD_SIZE_MAX);
                    self.target = Target::Nobody;
                }
            },
            Target::Unknown | Target::Nobody => {}
        }
        Ok(())
    }
}

/// When so much time has gone since a tick.
pub(crate) fn after(since: u64, timeout: Duration) -> u64 {
    since.saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
}

/// Whether a body that nobody wants is worth to be read.
pub(crate) fn is_short(head: &Head<'_>) -> bool {
    matches!(head.framing, Framing::Length(size) if size <= DISCARD_SIZE_MAX)
}

impl Io {
    /// Refuses a request in the middle of its body.
    pub(crate) fn refuse_body(&mut self, key: Key, receiving: Receiving, refusal: Refusal) {
        let ticket = match receiving.target {
            Target::Sink { ticket, .. } | Target::Feed { ticket, .. } => Ticket::from_u64(ticket),
            Target::Call { .. } if refusal == Refusal(413) => {
                return self.refuse_long(key, None, receiving.size_max);
            }
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
            reply.close().refuse_request(refusal);
        } else if let Some(stream) = self.stream(ticket) {
            // The reply has begun, so only its end can say that something went wrong.
            stream.abort();
        }
    }

    /// Refuses a request whose body does not come fast enough. Another thread that reads that of a
    /// live route is told why, and answers: how long such a body may pause is a matter of the
    /// service, and so are the words for it.
    pub(crate) fn refuse_slow_body(&mut self, key: Key, receiving: Receiving) {
        let is_idle = receiving.idle_deadline(self) <= self.clock.tick();
        let (feed, ticket) = match receiving {
            Receiving {
                is_live: true,
                target: Target::Feed { feed, ticket },
                ..
            } => (feed, ticket),
            receiving => return self.refuse_body(key, receiving, Refusal(408)),
        };
        self.counters.refused += 1;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
            let position = connection.position(Ticket::from_u64(ticket).sequence());
            if let Some(pending) = position.and_then(|at| connection.pending.get_mut(at)) {
                pending.manner.close = true;
            }
        }
        feed.give_up(match is_idle {
            true => SlowBody::Idle(self.options.stream_idle_timeout),
            false => SlowBody::Rate(self.options.stream_rate_min),
        });
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
            receiving.last_at = tick;
            self.mark(key);
        }
    }

    /// Decides what becomes of a streamed body that the call did not want.
    pub(crate) fn leave_body(&mut self, key: Key, keeps: bool) {
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
}
