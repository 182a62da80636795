//! The stage that sees the requests of all I/O threads one after another, and so owns its state
//! without a lock.
//!
//! What a connection's read brings for it travels as one job: request after request in, reply after
//! reply out. Its buffers come from the pool of the connection's I/O thread and go back there.

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

/// Requests of one job, so that a connection that sends without end lets others in between.
pub(crate) const REQUEST_COUNT_MAX: usize = 64;

/// What answers the requests of routes that are [serial](crate::Route::serial), of all I/O threads
/// one after another, on a thread of its own.
///
/// It must not wait: all such requests wait behind it. A panic is answered with 500 and closes
/// that connection.
pub trait SerialStage: Send + 'static {
    /// Answers a request.
    fn call(&mut self, request: &SerialRequest<'_>, reply: SerialReply<'_>);

    /// Ends a batch of requests: their replies go out after this, and not before. What has to be
    /// done once for all of them is done here; when that panics, their connections close instead.
    fn batch_end(&mut self) {}
}

impl<F: FnMut(&SerialRequest<'_>, SerialReply<'_>) + Send + 'static> SerialStage for F {
    fn call(&mut self, request: &SerialRequest<'_>, reply: SerialReply<'_>) {
        self(request, reply);
    }
}

/// The requests of one read of a connection, on their way. It is moved often, so it is small.
#[derive(Debug, Default)]
pub(crate) struct Job(Box<Load>);

impl Deref for Job {
    type Target = Load;

    fn deref(&self) -> &Load {
        &self.0
    }
}

impl DerefMut for Job {
    fn deref_mut(&mut self) -> &mut Load {
        &mut self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The I/O thread that it goes back to.
    pub(crate) thread: usize,
    /// Whom the replies are for.
    pub(crate) ticket: u64,
    pub(crate) input: Vec<u8>,
    pub(crate) requests: Vec<Item>,
    pub(crate) output: Vec<u8>,
    /// Whether the connection closes after the replies.
    pub(crate) close: bool,
    /// What the replies add to the thread's counters.
    pub(crate) counters: Counters,
}

/// A request, by where it lies in the input.
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
    /// Forgets all but the room for requests.
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
            let start = base + (part.as_ptr() as usize - head.as_ptr() as usize);
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
            // The reply answers for itself when it is dropped.
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

/// A request, as a [`SerialStage`] sees it.
pub struct SerialRequest<'a> {
    input: &'a [u8],
    item: &'a Item,
}

impl<'a> SerialRequest<'a> {
    /// What [`Route::serial`](crate::Route::serial) was told: which route it is.
    pub fn tag(&self) -> u32 {
        self.item.tag
    }

    /// What is to be done.
    pub fn method(&self) -> Method {
        self.item.method
    }

    /// The path as it was sent.
    pub fn path(&self) -> &'a str {
        self.text(&self.item.path)
    }

    /// What stands behind the question mark, as it was sent.
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
        // It was parsed before, so each line behind the first is a header that is well-formed.
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

    /// Who sent it.
    pub fn peer(&self) -> Peer {
        self.item.peer
    }

    fn text(&self, range: &Range<usize>) -> &'a str {
        std::str::from_utf8(&self.input[range.clone()]).expect("it was a text before it was copied")
    }
}

/// The answer of a [`SerialStage`]. As with [`Reply`](crate::Reply), one that is dropped is a 500.
pub struct SerialReply<'a> {
    job: &'a mut Load,
    draft: Draft,
    stamp: &'a Stamp,
    is_done: bool,
}

impl SerialReply<'_> {
    /// The status, 200 if it is not said. It comes before the headers.
    pub fn status(mut self, status: u16) -> Self {
        self.draft.status(status);
        self
    }

    /// A header, see [`Reply::header`](crate::Reply::header).
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.draft.header(self.stamp, name, value.as_ref());
        self
    }

    /// A header with a number.
    pub fn header_number(mut self, name: &str, value: u64) -> Self {
        self.draft.header_number(self.stamp, name, value);
        self
    }

    /// Closes the connection after this reply.
    pub fn close(mut self) -> Self {
        self.draft.framing.close = true;
        self
    }

    /// Ends it with a body of a type.
    pub fn send(mut self, content_type: &str, body: &[u8]) {
        let stamp = self.stamp;
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body(stamp, body);
        self.finish();
    }

    /// Ends it with a text.
    pub fn text(self, body: &str) {
        self.send("text/plain; charset=utf-8", body.as_bytes());
    }

    /// Ends it with a body that is JSON already.
    pub fn json(self, body: &[u8]) {
        self.send("application/json", body);
    }

    /// Ends it with a body.
    pub fn body(mut self, body: &[u8]) {
        self.draft.body(self.stamp, body);
        self.finish();
    }

    /// Ends it with a body that is appended to what is sent; its length is filled in.
    pub fn body_with(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.draft.body_with(self.stamp, write);
        self.finish();
    }

    /// Ends it without a body.
    pub fn empty(self) {
        self.body(&[]);
    }

    /// Ends it with a status and its name, see [`Reply::refuse`](crate::Reply::refuse).
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
            // The connection closes without a word.
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
