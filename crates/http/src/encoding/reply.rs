//! Replies in the coding that the client prefers.

use super::{Compressor, choose, is_compressible};
use crate::negotiate::{self, Encoding};
use crate::{Reply, Request};

/// A buffer that has grown beyond this is freed.
const SCRATCH_SIZE_MAX: usize = 1 << 20;

/// The coding of a generated body. It is chosen from the request, and may be kept until the body is
/// available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyEncoding {
    /// `None` if the client accepts none of the supported codings.
    chosen: Option<Encoding>,
    /// Whether the client accepts an uncompressed body.
    is_plain_accepted: bool,
}

impl BodyEncoding {
    /// Chooses the coding by the request's `Accept-Encoding`.
    pub fn of(request: &Request<'_>) -> Self {
        let accepted = || request.header_values("Accept-Encoding");
        let plain = negotiate::encoding(accepted(), &[Encoding::Identity]);
        Self {
            chosen: choose(accepted()),
            is_plain_accepted: plain.is_some(),
        }
    }

    fn compressed(self, content_type: &str) -> Option<Encoding> {
        let encoding = self.chosen.filter(|chosen| *chosen != Encoding::Identity)?;
        // Incompressible bodies are sent uncompressed, if the client accepts that.
        (is_compressible(content_type) || !self.is_plain_accepted).then_some(encoding)
    }
}

impl Compressor {
    /// Ends a reply with a body of a type, in the coding that the client prefers. Writes `Vary`,
    /// and `Content-Encoding` if the body is compressed; short ones are not. A client that accepts
    /// no coding gets 406.
    ///
    /// An `ETag` of the reply has to differ for each coding, or be a weak one.
    pub fn send(
        &mut self,
        encoding: BodyEncoding,
        reply: Reply<'_>,
        content_type: &str,
        body: &[u8],
    ) {
        self.send_with(encoding, reply, content_type, |output| {
            output.extend_from_slice(body);
        });
    }

    /// As [`send`](Self::send), with a body that is appended to a buffer.
    pub fn send_with(
        &mut self,
        encoding: BodyEncoding,
        reply: Reply<'_>,
        content_type: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if encoding.chosen.is_none() {
            return reply.status(406).header("Vary", "Accept-Encoding").empty();
        }
        let reply = reply.header("Vary", "Accept-Encoding");
        let Some(wanted) = encoding.compressed(content_type) else {
            return reply.send_with(content_type, write);
        };
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        write(&mut body);
        if body.len() < self.options.size_min && encoding.is_plain_accepted {
            reply.send(content_type, &body);
        } else {
            let name = wanted.name().expect("only a body as it is has none");
            reply
                .header("Content-Encoding", name)
                .send_with(content_type, |output| {
                    self.compress(wanted, &body, output);
                });
        }
        body.shrink_to(SCRATCH_SIZE_MAX);
        self.scratch = body;
    }
}
