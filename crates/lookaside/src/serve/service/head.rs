//! The head of an answer: status, type, validators, and where the answer is from.

use std::fmt::Write as _;
use std::time::Duration;

use lookaside_http::{Reply, Request};

use super::super::counters::Layer;
use super::super::encode::Form;
use super::super::problem::{PROBLEM_TYPE, Problem};
use super::Visit;

/// What stands before a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'h> {
    pub(super) status: u16,
    pub(super) content_type: &'h str,
    pub(super) tag: Option<&'h str>,
    pub(super) layer: Option<Layer>,
    /// How old an answer of a moment is, and for how long it is still right.
    pub(super) freshness: Option<(Duration, Duration)>,
    pub(super) is_negotiated: bool,
    pub(super) retry_after: Option<u64>,
    pub(super) allow: Option<&'h str>,
    /// One more header with a number.
    pub(super) extra: Option<(&'static str, u64)>,
}

impl<'h> Head<'h> {
    pub(super) fn new(status: u16, content_type: &'h str) -> Self {
        Self {
            status,
            content_type,
            tag: None,
            layer: None,
            freshness: None,
            is_negotiated: false,
            retry_after: None,
            allow: None,
            extra: None,
        }
    }

    pub(super) fn problem(problem: &Problem) -> Self {
        Self {
            retry_after: problem.retry_after,
            allow: problem.allow,
            ..Self::new(problem.status, PROBLEM_TYPE)
        }
    }

    /// Writes all headers but those of the body.
    pub(super) fn write<'a>(
        &self,
        reply: Reply<'a>,
        visit: &Visit,
        varies_by_origin: bool,
        text: &mut String,
    ) -> Reply<'a> {
        let mut reply = reply.status(self.status);
        if let Some(tag) = self.tag {
            reply = reply.header("ETag", tag);
        }
        if let Some(layer) = self.layer {
            text.clear();
            text.push_str(layer.name());
            if let Some((age, _)) = self.freshness {
                write!(text, "; age={}.{:03}", age.as_secs(), age.subsec_millis())
                    .expect("a string takes any text");
                reply = reply.header_number("Age", age.as_secs());
            }
            reply = reply.header("X-Cache", text.as_str());
            text.clear();
            let elapsed = visit.begun.elapsed();
            write!(
                text,
                "lookup;dur={}.{:03}",
                elapsed.as_millis(),
                elapsed.subsec_micros() % 1000
            )
            .expect("a string takes any text");
            reply = reply.header("Server-Timing", text.as_str());
            reply = match self.freshness {
                Some((age, rest)) if !rest.is_zero() => {
                    text.clear();
                    // Caches count the age in.
                    let seconds = age.as_secs() + rest.as_secs();
                    write!(text, "private, max-age={seconds}").expect("a string takes any text");
                    reply.header("Cache-Control", text.as_str())
                }
                _ => reply.header("Cache-Control", "private, no-cache"),
            };
        }
        reply = match (self.is_negotiated, varies_by_origin) {
            (true, true) => reply.header("Vary", "Accept, Origin"),
            (true, false) => reply.header("Vary", "Accept"),
            (false, true) => reply.header("Vary", "Origin"),
            (false, false) => reply,
        };
        if let Some(seconds) = self.retry_after {
            reply = reply.header_number("Retry-After", seconds);
        }
        if let Some(allow) = self.allow {
            reply = reply.header("Allow", allow);
        }
        if self.status == 401 {
            reply = reply.header("WWW-Authenticate", "Bearer");
        }
        if let Some((name, number)) = self.extra {
            reply = reply.header_number(name, number);
        }
        if let Some(origin) = &visit.origin {
            reply = reply.header("Access-Control-Allow-Origin", origin).header(
                "Access-Control-Expose-Headers",
                "Age, ETag, Retry-After, Server-Timing, X-Cache",
            );
        }
        reply
    }
}

/// Which of the forms a client wants most; the first one if it does not say.
pub(super) fn form(request: &Request<'_>, offers: &[Form]) -> Result<Form, Problem> {
    let Some(first) = request.header("Accept") else {
        return Ok(offers[0]);
    };
    // What programs write, who seldom say it twice.
    if first == b"*/*" {
        return Ok(offers[0]);
    }
    let exact = offers
        .iter()
        .find(|form| form.media_type().as_bytes() == first);
    if let Some(form) = exact {
        return Ok(*form);
    }
    let accept: Vec<&[u8]> = request
        .headers()
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value)
        .collect();
    let types: Vec<&str> = offers.iter().map(|form| form.media_type()).collect();
    let found = lookaside_http::negotiate::media_type(accept, &types);
    found.map(|index| offers[index]).ok_or_else(|| {
        Problem::new(406, "none of the types that are accepted can be written")
            .detail(format!("there are {}", types.join(", ")))
    })
}

/// Whether an `If-None-Match` holds a validator. Comparison is the weak one, as RFC 9110 wants it there.
pub(super) fn holds(value: &[u8], tag: &str) -> bool {
    value.split(|byte| *byte == b',').any(|part| {
        let part = part.trim_ascii();
        let part = part.strip_prefix(b"W/").unwrap_or(part);
        // `*` asks whether there is anything at all, which nobody does who reads.
        part == tag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_found_in_lists() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", false),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(holds(value.as_bytes(), "\"a\""), expected, "{value}");
        }
    }
}
