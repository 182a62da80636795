//! The endpoints that need neither data nor a database.

use std::time::Duration;

use lookaside_http::encoding::BodyEncoding;
use lookaside_http::{BodySink, Io, Reply, Request};

use super::{Arena, dataset};

/// The most that `/delay` waits.
const DELAY_MS_MAX: u64 = 60_000;

/// The undecoded value of a name in the query; only numbers are looked up.
pub(super) fn query<'a>(request: &Request<'a>, name: &str) -> Option<&'a str> {
    let pairs = request.query()?.split('&');
    let mut values = pairs.filter_map(|pair| pair.split_once('='));
    values
        .find(|(other, _)| *other == name)
        .map(|(_, value)| value)
}

/// A number of the query, or its default; `None` if it is not a number.
pub(super) fn query_number(request: &Request<'_>, name: &str, default: i64) -> Option<i64> {
    match query(request, name) {
        Some(value) => value.parse().ok(),
        None => Some(default),
    }
}

pub(super) fn refuse(reply: Reply<'_>, what: &str) {
    reply.status(400).send("text/plain", what.as_bytes());
}

/// Answers with `a + b` plus the number in the body.
pub(super) fn sum(request: &Request<'_>, reply: Reply<'_>) {
    let body = match request.body().trim_ascii() {
        b"" => Some(0),
        body => std::str::from_utf8(body)
            .ok()
            .and_then(|body| body.parse().ok()),
    };
    let a = query_number(request, "a", 0);
    let b = query_number(request, "b", 0);
    let (Some(a), Some(b), Some(body)) = (a, b, body) else {
        return refuse(reply, "a, b and the body have to be numbers");
    };
    let body: i64 = body;
    let sum = i128::from(a) + i128::from(b) + i128::from(body);
    reply.send("text/plain", itoa::Buffer::new().format(sum).as_bytes());
}

/// Counts the bytes of the body as it arrives.
pub(super) fn count(reply: Reply<'_>) {
    reply.receive(Box::new(Count(0)));
}

struct Count(u64);

impl BodySink for Count {
    fn data(&mut self, _io: &mut Io, piece: &[u8]) {
        self.0 += piece.len() as u64;
    }

    fn end(self: Box<Self>, reply: Reply<'_>) {
        send_number(reply, self.0);
    }
}

fn send_number(reply: Reply<'_>, number: u64) {
    reply.send("text/plain", itoa::Buffer::new().format(number).as_bytes());
}

impl Arena {
    /// Answers with the first things, each with its total, serialized and compressed for this
    /// request.
    pub(super) fn json(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let count = request.param("count").and_then(|count| count.parse().ok());
        let things = count.and_then(|count: usize| self.shared.things.get(..count));
        let (Some(things), Some(factor)) = (things, query_number(request, "m", 1)) else {
            return refuse(reply, "there are not so many, or m is not a number");
        };
        let encoding = BodyEncoding::of(request);
        self.compressor
            .send_with(encoding, reply, "application/json", |out| {
                dataset::write(things, factor, out);
            });
    }

    /// Answers after the requested number of milliseconds, with that number.
    pub(super) fn delay(&mut self, request: &Request<'_>, mut reply: Reply<'_>) {
        let ms = request.param("ms").and_then(|ms| ms.parse().ok());
        let Some(ms) = ms.filter(|ms: &u64| *ms <= DELAY_MS_MAX) else {
            return refuse(reply, "the delay has to be a number of milliseconds");
        };
        if ms == 0 {
            return send_number(reply, 0);
        }
        self.delay_count += 1;
        let at = reply.now() + Duration::from_millis(ms);
        reply.io().timer(at, self.delay_count);
        self.delays.insert(self.delay_count, (reply.defer(), ms));
    }

    pub(super) fn delay_over(&mut self, io: &mut Io, number: u64) {
        if let Some((ticket, ms)) = self.delays.remove(&number)
            && let Some(reply) = io.reply(ticket)
        {
            send_number(reply, ms);
        }
    }
}
