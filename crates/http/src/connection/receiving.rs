//! A body that is being received: its size so far, its rate, and its receiver.

use std::time::Duration;

#[cfg(test)]
use crate::caught;
use crate::channel::Feed;
use crate::clock::after;
use crate::parse::{ChunkDecoder, Framing, Head, Progress, Refusal};
use crate::{Options, Peer, Route};

/// An unwanted body up to this size is read and discarded to keep the connection; after a longer
/// one the connection closes.
const DISCARD_SIZE_MAX: u64 = 64 << 10;

/// A body that is being received.
///
/// `B` is the type that receives bodies on the I/O thread.
pub(crate) struct Receiving<B> {
    decoder: Decoder,
    /// Bytes received so far.
    size: u64,
    /// The limit in bytes.
    pub(crate) size_max: u64,
    /// The start of the rate measurement in ticks, and the size at that time.
    since: u64,
    size_then: u64,
    /// When bytes arrived last, in ticks.
    last_at: u64,
    /// Whether it belongs to a live route, which has its own limits.
    pub(crate) is_live: bool,
    pub(crate) peer: Peer,
    /// Whether there is no room for more.
    pub(crate) is_paused: bool,
    /// Whether the connection closes after the reply if the body is received.
    pub(crate) close: bool,
    /// Whether the client waits for a `100 Continue`.
    pub(crate) is_expected: bool,
    pub(crate) target: BodyTarget<B>,
}

/// The receiver of a body.
pub(crate) enum BodyTarget<B> {
    /// The call of the request, with its head, which is kept until then.
    Call {
        head: Vec<u8>,
        body: Vec<u8>,
        route: Route,
    },
    Sink {
        sink: B,
        ticket: u64,
    },
    Feed {
        feed: Feed,
        ticket: u64,
    },
    /// The request has been called and has not decided yet.
    Unknown,
    /// The request is answered, or will be, without it.
    Discarded,
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
        assert!(at <= bytes.len(), "consumed bytes were received");
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

impl<B> Receiving<B> {
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
            target: BodyTarget::Unknown,
        }
    }

    /// Records the tick of an arrival.
    pub(crate) fn note_arrival(&mut self, tick: u64) {
        self.last_at = tick;
    }

    /// Decodes the next part of received bytes.
    pub(crate) fn next(&mut self, bytes: &[u8], at: usize) -> Result<Progress, Refusal> {
        let progress = self.decoder.next(bytes, at)?;
        if let Progress::Data { from, to } = progress {
            assert!(from <= to, "a piece does not end before it begins");
            assert!(to <= bytes.len(), "a piece of the body was received");
            self.size += (to - from) as u64;
            if self.size > self.size_max {
                return Err(Refusal(413));
            }
        }
        Ok(progress)
    }

    /// Continues to receive, at a tick.
    pub(crate) fn resume(&mut self, tick: u64) {
        self.is_paused = false;
        (self.since, self.size_then) = (tick, self.size);
        self.last_at = tick;
    }

    /// Discards the rest.
    pub(crate) fn discard(&mut self) {
        self.is_paused = false;
        self.size_max = self.size_max.min(self.size + DISCARD_SIZE_MAX);
        self.target = BodyTarget::Discarded;
    }

    /// When the body is given up if it continues at this rate; never while it is paused by us.
    pub(crate) fn deadline(&self, options: &Options) -> u64 {
        if self.is_paused {
            return u64::MAX;
        }
        if !self.is_live {
            return self.deadline_at_rate(options.body_timeout, options.body_rate_min);
        }
        let idle = self.idle_deadline(options);
        match options.stream_rate_min {
            0 => idle,
            rate_min => idle.min(self.deadline_at_rate(options.stream_idle_timeout, rate_min)),
        }
    }

    /// When the body of a live route is given up if no more bytes arrive.
    pub(crate) fn idle_deadline(&self, options: &Options) -> u64 {
        after(self.last_at, options.stream_idle_timeout)
    }

    fn deadline_at_rate(&self, timeout: Duration, rate_min: u64) -> u64 {
        assert!(self.size_then <= self.size, "a body does not shrink");
        let size = self.size - self.size_then;
        after(self.since, timeout).saturating_add(size.saturating_mul(1000) / rate_min)
    }

    /// Whether its request has not been called.
    pub(crate) fn is_for_call(&self) -> bool {
        matches!(self.target, BodyTarget::Call { .. })
    }
}

/// Whether an unwanted body is short enough to be read.
pub(crate) fn is_short(head: &Head<'_>) -> bool {
    matches!(head.framing, Framing::Length(size) if size <= DISCARD_SIZE_MAX)
}
