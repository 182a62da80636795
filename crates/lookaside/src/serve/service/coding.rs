//! Answers in the coding that their client likes best (RFC 9110, section 12.5.3).
//!
//! Short ones go as they are, so that nothing is asked of their requests. A compressed answer has the
//! weak form of its validator: it means the same as the plain one, and its bytes are others.
//!
//! A size tells how much an answer repeats itself. Nobody can send requests in the name of somebody
//! else here, which it takes to learn a secret that way (BREACH): keys are not cookies.

use std::cell::RefCell;

use lookaside_http::encoding::{Compressor, EncodingOptions, choose};
use lookaside_http::negotiate::Encoding;
use lookaside_http::{Reply, Request};

use super::head::Head;
use super::{RequestContext, Responder};

/// A shorter answer fills one packet with its head, compressed or not.
pub(super) const CODED_SIZE_MIN: usize = 1024;

/// A larger answer is compressed beside the I/O threads: it takes a millisecond or more.
const AT_HAND_SIZE_MAX: usize = 128 << 10;

/// A buffer that has grown larger is not kept.
const SCRATCH_SIZE_MAX: usize = 128 << 10;

/// I/O threads compress, too, so speed counts for more than the last percents.
pub(super) const OPTIONS: EncodingOptions = EncodingOptions {
    gzip_level: 4,
    brotli_quality: 4,
    size_min: CODED_SIZE_MIN,
};

/// The coding that a request likes best. Who refuses all of them is answered nevertheless, plainly.
pub(super) fn coding(request: &Request<'_>) -> Encoding {
    let accepted = request.header_values("Accept-Encoding");
    choose(accepted).unwrap_or(Encoding::Identity)
}

/// What one thread compresses with.
#[derive(Default)]
pub(super) struct BodyCompressor(RefCell<Option<Tools>>);

struct Tools {
    compressor: Compressor,
    scratch: Vec<u8>,
}

impl BodyCompressor {
    /// Lets somebody have a body in a coding.
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
        // A server whose answers are short never needs them.
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
    /// The coding for an answer to a request that is here, or that was put off.
    pub(super) fn coding(
        &self,
        context: &RequestContext,
        request: Option<&Request<'_>>,
    ) -> Encoding {
        request.map_or(context.coding, coding)
    }

    /// Sends an answer, in the coding that its client likes best if it is long enough for one.
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
            let mut later = self.later(context, reply.defer());
            later.share().set(body.len());
            let (head, body) = (head.kept(), body.to_vec());
            let runtime = &self.shared.runtime;
            runtime.spawn_blocking(move || later.compress(head, coding, &body));
            return;
        }
        self.compressor.with(coding, body, |body| {
            self.send_encoded(context, request, reply, &head, body);
        });
    }
}
