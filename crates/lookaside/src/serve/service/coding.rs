//! Compresses answers with the coding that their client prefers (RFC 9110, section 12.5.3).
//!
//! Short answers are sent uncompressed, and `Accept-Encoding` is not even parsed for them. A
//! compressed answer has the weak form of its validator: it is equivalent to the plain one, but not
//! identical in bytes.
//!
//! The size of a compressed answer reveals how repetitive it is. To learn a secret from that
//! (BREACH), an attacker must send requests with the credentials of another user, which is not
//! possible here: keys are not cookies.

use std::cell::RefCell;

use lookaside_http::encoding::{Compressor, EncodingOptions, choose};
use lookaside_http::negotiate::Encoding;
use lookaside_http::{Reply, Request};

use super::head::Head;
use super::{RequestContext, Responder};

/// A shorter answer fits into one packet with its head, compressed or not.
pub(super) const CODED_SIZE_MIN: usize = 1024;

/// A larger answer is compressed on another thread, since that takes a millisecond or more.
const AT_HAND_SIZE_MAX: usize = 128 << 10;

/// A buffer that has grown beyond this is freed.
const SCRATCH_SIZE_MAX: usize = 128 << 10;

/// I/O threads compress, too, so speed matters more than the last few percent of size.
pub(super) const OPTIONS: EncodingOptions = EncodingOptions {
    gzip_level: 4,
    brotli_quality: 4,
    size_min: CODED_SIZE_MIN,
};

/// The coding that a request prefers. If it accepts none of them, the answer is sent uncompressed.
pub(super) fn coding(request: &Request<'_>) -> Encoding {
    let accepted = request.header_values("Accept-Encoding");
    choose(accepted).unwrap_or(Encoding::Identity)
}

/// The compressor of one thread, with its buffer.
#[derive(Default)]
pub(super) struct BodyCompressor(RefCell<Option<Tools>>);

struct Tools {
    compressor: Compressor,
    scratch: Vec<u8>,
}

impl BodyCompressor {
    /// Passes the compressed body to a function.
    pub(super) fn with<T>(
        &self,
        coding: Encoding,
        body: &[u8],
        then: impl FnOnce(&[u8]) -> T,
    ) -> T {
        if coding == Encoding::Identity {
            return then(body);
        }
        let mut tools = self.0.borrow_mut();
        // Created on first use: a server with short answers never needs them.
        let tools = tools.get_or_insert_with(|| Tools {
            compressor: Compressor::new(OPTIONS),
            scratch: Vec::new(),
        });
        tools.scratch.clear();
        tools.compressor.compress(coding, body, &mut tools.scratch);
        let result = then(&tools.scratch);
        tools.scratch.shrink_to(SCRATCH_SIZE_MAX);
        result
    }
}

impl Responder {
    /// The coding for an answer to a current or a deferred request.
    pub(super) fn coding(
        &self,
        context: &RequestContext,
        request: Option<&Request<'_>>,
    ) -> Encoding {
        request.map_or(context.coding, coding)
    }

    /// Sends an answer, compressed with the coding that its client prefers if it is long enough.
    pub(super) fn send(
        &self,
        mut context: RequestContext,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
        head: &Head<'_>,
        body: &[u8],
    ) {
        if body.len() < CODED_SIZE_MIN {
            return self.send_encoded(context, request, reply, head, body);
        }
        let coding = self.coding(&context, request);
        let head = Head {
            coding: Some(coding),
            ..*head
        };
        if coding != Encoding::Identity && body.len() > AT_HAND_SIZE_MAX {
            if let Err(problem) = self.begin_waiting(body.len()) {
                return self.refuse(context, request, reply, &problem);
            }
            if let Some(request) = request {
                self.keep_log_fields(&mut context, request);
            }
            let mut deferred = self.deferred_answer(context, reply.defer());
            deferred.share().set(body.len());
            let (head, body) = (head.kept(), body.to_vec());
            let runtime = &self.shared.runtime;
            runtime.spawn_blocking(move || deferred.compress(head, coding, &body));
            return;
        }
        self.compressor.with(coding, body, |body| {
            self.send_encoded(context, request, reply, &head, body);
        });
    }
}
