//! Strict parsing of request heads and chunked bodies.

mod chunked;
mod head;
mod scan;

pub(crate) use chunked::{ChunkDecoder, Progress};
pub(crate) use head::{Framing, Head, HeadLimits, HeadOutcome, parse_head};
pub(crate) use scan::{Header, is_text};

/// The status of a refused request. The connection closes, since it is unknown where the next
/// request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16);

pub(crate) const BAD_REQUEST: Refusal = Refusal(400);
