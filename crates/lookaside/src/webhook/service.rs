//! The request handler of one I/O thread.
//!
//! A body is decompressed, checked and counted on the thread that received it, which takes some
//! hundredths of a second for the largest ones.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lookaside_http::{Io, Method, Reply, Request, Route, Service};
use percent_encoding::percent_decode_str;

use super::answer;
use super::body::Body;
use super::buffer::Reservation;
use super::events::BodyKind;
use super::pending::{PendingRequests, REQUEST_SIZE};
use super::queue::Metadata;
use super::shared::Shared;
use crate::keys::{KeyHash, presented};
use crate::serve::{Coding, Problem, content_coding};

/// The route of requests that may have events.
const EVENTS: u32 = 1;

/// The service of a thread.
pub(super) struct WebhookService {
    /// Shared with the bodies that are being received.
    pending: Rc<PendingRequests>,
}

impl WebhookService {
    pub(super) fn new(shared: Arc<Shared>, io: &Io) -> Self {
        let pending = PendingRequests::new(shared, io.waker(0));
        Self {
            pending: Rc::new(pending),
        }
    }

    /// The body of a request that is admitted.
    fn admit(&self, request: &Request<'_>) -> Result<Body, Problem> {
        let shared = &self.pending.shared;
        let options = &shared.options;
        if let Some(token) = options.token {
            let sent = presented(request.header("Authorization"), None);
            let sent = sent.ok_or_else(answer::missing_token)?;
            let found = KeyHash::of(sent).find([token].into_iter());
            found.ok_or_else(answer::wrong_token)?;
        }
        let coding = match content_coding(request) {
            Ok(coding @ (None | Some(Coding::Gzip))) => coding,
            Ok(Some(_)) | Err(_) => return Err(answer::unsupported_coding()),
        };
        let metadata = metadata(request, shared);
        let mut reservation = Reservation::new(&shared.buffer);
        let length = request.content_length().unwrap_or(0);
        if !reservation.grow(REQUEST_SIZE + metadata.size()) || !shared.buffer.has_room(length) {
            return Err(answer::at_limit(shared.buffer.max()));
        }
        let kind = BodyKind::of(request, options.framing, shared.is_json);
        let pending = Rc::clone(&self.pending);
        Ok(Body::new(pending, kind, coding, metadata, reservation))
    }
}

/// The metadata of a request's events.
fn metadata(request: &Request<'_>, shared: &Shared) -> Metadata {
    let options = &shared.options;
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    let headers = options.headers.iter().enumerate();
    let headers = headers.filter_map(|(index, name)| Some((index, request.header(name)?.into())));
    let key = options.key_header.as_ref();
    Metadata {
        // A clock before 1970 is not set.
        arrived_ms: elapsed.map_or(0, |elapsed| {
            i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
        }),
        key: key.and_then(|name| Some(request.header(name)?.into())),
        headers: headers.collect(),
    }
}

impl Service for WebhookService {
    fn route(&mut self, head: &Request<'_>) -> Route {
        let options = &self.pending.shared.options;
        let is_known = percent_decode_str(head.path()).eq(options.path.bytes());
        // Other requests are answered without their bodies.
        let mut route = Route::streamed();
        if is_known && head.method() == Method::Post {
            route = route.limit(options.body_max);
            route.id = EVENTS;
        }
        route
    }

    fn call(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let shared = &self.pending.shared;
        if request.route().id != EVENTS {
            let path = &shared.options.path;
            let problem = match percent_decode_str(request.path()).eq(path.bytes()) {
                true => answer::wrong_method(),
                false => answer::unknown_path(path),
            };
            return answer::refuse(reply, &problem);
        }
        if shared.is_ending() {
            return answer::refuse_at_end(reply);
        }
        match self.admit(request) {
            Ok(body) => reply.receive(Box::new(body)),
            Err(problem) => answer::refuse(reply, &problem),
        }
    }

    fn timer(&mut self, io: &mut Io, token: u64) {
        self.pending.time_out(io, token);
    }

    fn woken(&mut self, io: &mut Io, _: u64) {
        self.pending.answer(io);
    }
}
