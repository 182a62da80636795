//! From bytes to requests: heads and chunked bodies, strictly.

mod chunked;
mod head;
mod scan;

pub(crate) use chunked::{ChunkDecoder, Progress};
pub(crate) use head::{Framing, Head, HeadLimits, Outcome, parse_head};
pub(crate) use scan::{Header, is_text};

/// Why bytes are not a request that is answered: the status that says so. The connection closes, as
/// nobody knows where the next request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16);

pub(crate) const BAD_REQUEST: Refusal = Refusal(400);
