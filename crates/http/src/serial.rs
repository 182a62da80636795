//! The stage that handles the requests of all I/O threads one after another, and so owns its state
//! without a lock.
//!
//! The requests of one read of a connection form one job, with all requests as input and all
//! replies as output. Its buffers are taken from the pool of the connection's I/O thread and return
//! there.

use std::borrow::Cow;
use std::mem;
use std::ops::{Deref, DerefMut, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Method;
use crate::clock::Stamp;
use crate::counters::Counters;
use crate::peer::Peer;
use crate::query::QueryPairs;
use crate::render::{Draft, ResponseFraming};
use crate::request::Request;
use crate::route::Params;
use crate::status::problem;

/// The limit of requests per job, so that a connection that sends continuously does not starve
/// others.
pub(crate) const REQUEST_COUNT_MAX: usize = 64;

/// Answers the requests of [serial](crate::Route::serial) routes of all I/O threads one after
/// another.
///
/// It must not block: all requests of serial routes wait for it. A panic is answered with 500 and
/// closes that connection.
pub trait SerialStage: Send + 'static {
    /// Answers a request.
    fn call(&mut self, request: &SerialRequest<'_>, reply: SerialReply<'_>);

    /// Ends a batch of requests: their replies are sent after this, not before. It can do work once
    /// for all of them; if it panics, their connections close instead.
    fn batch_end(&mut self) {}
}

impl<F: FnMut(&SerialRequest<'_>, SerialReply<'_>) + Send + 'static> SerialStage for F {
    fn call(&mut self, request: &SerialRequest<'_>, reply: SerialReply<'_>) {
        self(request, reply);
    }
}

/// The requests of one read of a connection. It is moved often, so it is small.
#[derive(Debug, Default)]
pub(crate) struct SerialJob(Box<Load>);

impl Deref for SerialJob {
    type Target = Load;

    fn deref(&self) -> &Load {
        &self.0
    }
}

impl DerefMut for SerialJob {
    fn deref_mut(&mut self) -> &mut Load {
        &mut self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The I/O thread that it returns to.
    pub(crate) thread: usize,
    /// The ticket that the replies are for.
    pub(crate) ticket: u64,
    pub(crate) input: Vec<u8>,
    pub(crate) requests: Vec<Item>,
    pub(crate) output: Vec<u8>,
    /// Whether the connection closes after the replies.
    pub(crate) close: bool,
    /// The replies' increments of the thread's counters.
    pub(crate) counters: Counters,
}

/// A request, as positions in the input.
#[derive(Debug)]
pub(crate) struct Item {
    tag: u32,
    framing: ResponseFraming,
    method: Method,
    head: Range<usize>,
    path: Range<usize>,
    query: Option<Range<usize>>,
    body: Range<usize>,
    params: Params,
    peer: Peer,
}

impl Load {
    /// Resets the job, keeping the capacity for requests.
    pub(crate) fn reset(&mut self) {
        self.requests.clear();
        self.close = false;
        self.counters = Counters::default();
    }

    /// Appends a request.
    pub(crate) fn push(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        framing: ResponseFraming,
        tag: u32,
    ) {
        let base = self.input.len();
        self.input.extend_from_slice(head);
        self.input.extend_from_slice(request.body());
        let place = |part: &str| {
            let offset = part.as_ptr() as usize - head.as_ptr() as usize;
            assert!(
                part.len() <= head.len() - offset,
                "the target of a request is in its head"
            );
            let start = base + offset;
            start..start + part.len()
        };
        let body = base + head.len();
        self.requests.push(Item {
            tag,
            framing,
            method: request.method(),
            head: base..body,
            path: place(request.path()),
            query: request.query().map(place),
            body: body..body + request.body().len(),
            params: request.route().params.clone(),
            peer: request.peer(),
        });
    }

    pub(crate) fn run(&mut self, stage: &mut dyn SerialStage, stamp: &Stamp) {
        let requests = mem::take(&mut self.requests);
        let input = mem::take(&mut self.input);
        for item in &requests {
            let request = SerialRequest {
                input: &input,
                item,
            };
            let out = mem::take(&mut self.output);
            let reply = SerialReply {
                draft: Draft::new(out, item.framing),
                job: self,
                stamp,
                is_done: false,
            };
            // A reply that is dropped sends 500 by itself.
            let result = catch_unwind(AssertUnwindSafe(|| stage.call(&request, reply)));
            if result.is_err() {
                self.counters.panics += 1;
                self.close = true;
            }
            if self.close {
                break;
            }
        }
        (self.requests, self.input) = (requests, input);
    }
}

/// A request, as passed to a [`SerialStage`].
pub struct SerialRequest<'a> {
    input: &'a [u8],
    item: &'a Item,
}

impl<'a> SerialRequest<'a> {
    /// The tag of its route, see [`Route::serial`](crate::Route::serial).
    pub fn tag(&self) -> u32 {
        self.item.tag
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.item.method
    }

    /// The path as it was sent.
    pub fn path(&self) -> &'a str {
        self.text(&self.item.path)
    }

    /// The part after the question mark, as it was sent.
    pub fn query(&self) -> Option<&'a str> {
        self.item.query.as_ref().map(|query| self.text(query))
    }

    /// The first value of a name in the query, decoded.
    pub fn query_value(&self, name: &str) -> Option<Cow<'a, str>> {
        QueryPairs::new(self.query()?).find(name)
    }

    /// A part of the path, see [`Request::param`].
    pub fn param(&self, name: &str) -> Option<&'a str> {
        self.item.params.find(name, self.path())
    }

    /// The first header of a name. The head is searched for it.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let head = &self.input[self.item.head.clone()];
        // It has been parsed before, so each line after the first is a well-formed header.
        let mut lines = head
            .split(|&byte| byte == b'\n')
            .skip_while(|line| line.len() <= 1);
        lines.next();
        lines.find_map(|line| {
            let (found, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            found
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| value.trim_ascii())
        })
    }

    /// The body.
    pub fn body(&self) -> &'a [u8] {
        &self.input[self.item.body.clone()]
    }

    /// The client.
    pub fn peer(&self) -> Peer {
        self.item.peer
    }

    fn text(&self, range: &Range<usize>) -> &'a str {
        std::str::from_utf8(&self.input[range.clone()]).expect("it was a text before it was copied")
    }
}

/// The reply of a [`SerialStage`]. As with [`Reply`](crate::Reply), dropping it sends a 500.
pub struct SerialReply<'a> {
    job: &'a mut Load,
    draft: Draft,
    stamp: &'a Stamp,
    is_done: bool,
}

impl SerialReply<'_> {
    /// Sets the status, 200 by default. It must be set before the headers.
    pub fn status(mut self, status: u16) -> Self {
        self.draft.status(status);
        self
    }

    /// Adds a header, see [`Reply::header`](crate::Reply::header).
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.draft.header(self.stamp, name, value.as_ref());
        self
    }

    /// Adds a header with a number.
    pub fn header_number(mut self, name: &str, value: u64) -> Self {
        self.draft.header_number(self.stamp, name, value);
        self
    }

    /// Closes the connection after this reply.
    pub fn close(mut self) -> Self {
        self.draft.framing.close = true;
        self
    }

    /// Ends the reply with a body of a content type.
    pub fn send(mut self, content_type: &str, body: &[u8]) {
        let stamp = self.stamp;
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body(stamp, body);
        self.finish();
    }

    /// Ends the reply with a plain text.
    pub fn text(self, body: &str) {
        self.send("text/plain; charset=utf-8", body.as_bytes());
    }

    /// Ends the reply with a body that is serialized JSON.
    pub fn json(self, body: &[u8]) {
        self.send("application/json", body);
    }

    /// Ends the reply with a body, without a `Content-Type`.
    pub fn body(mut self, body: &[u8]) {
        self.draft.body(self.stamp, body);
        self.finish();
    }

    /// Ends the reply with a body that `write` appends directly to the output; its length is filled
    /// in.
    pub fn body_with(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.draft.body_with(self.stamp, write);
        self.finish();
    }

    /// Ends the reply with an empty body.
    pub fn empty(self) {
        self.body(&[]);
    }

    /// Ends the reply with a status and its name, see [`Reply::refuse`](crate::Reply::refuse).
    pub fn refuse(mut self, status: u16) {
        self.draft.problem(self.stamp, status, problem(status));
        self.finish();
    }

    fn finish(&mut self) {
        self.is_done = true;
        self.job.counters.reply(self.draft.sent_status());
        self.job.close |= self.draft.framing.close;
        self.job.output = mem::take(&mut self.draft.out);
        if self.draft.is_lost {
            // The connection closes without a reply.
            self.job.output.clear();
        }
    }
}

impl Drop for SerialReply<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.draft.fail(self.stamp);
            self.finish();
        }
    }
}
