//! The head of an answer: status, type, validators and provenance.

use std::fmt::Write as _;
use std::time::Duration;

use lookaside_http::negotiate::Encoding;
use lookaside_http::{Method, Reply, Request};

use super::super::counters::Layer;
use super::super::encode::BodyFormat;
use super::super::endpoint::allow;
use super::super::problem::{PROBLEM_TYPE, Problem};
use super::super::tag::Tag;
use super::RequestContext;
use super::decoding::CODINGS;
use super::freshness::Claim;

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'h> {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) tag: Option<&'h str>,
    pub(super) layer: Option<Layer>,
    /// The age and the remaining lifetime of an answer that depends on the time.
    pub(super) freshness: Option<(Duration, Duration)>,
    /// What an answer of a provider with a change feed includes.
    pub(super) claim: Option<Claim>,
    /// Whether the answer does not include what is required.
    pub(super) is_behind: bool,
    pub(super) is_negotiated: bool,
    /// The coding of the body, if it was negotiated.
    pub(super) coding: Option<Encoding>,
    pub(super) retry_after: Option<u64>,
    pub(super) allow: Option<&'static [Method]>,
    /// One more header with a number.
    pub(super) extra: Option<(&'static str, u64)>,
}

/// A head that is sent later.
pub(super) struct KeptHead {
    tag: Option<Tag>,
    /// All of it but the validator.
    head: Head<'static>,
}

impl KeptHead {
    pub(super) fn as_head(&self) -> Head<'_> {
        Head {
            tag: self.tag.as_ref().map(Tag::as_str),
            ..self.head
        }
    }
}

impl Head<'_> {
    pub(super) fn new(status: u16, content_type: &'static str) -> Self {
        Self {
            status,
            content_type,
            tag: None,
            layer: None,
            freshness: None,
            claim: None,
            is_behind: false,
            is_negotiated: false,
            coding: None,
            retry_after: None,
            allow: None,
            extra: None,
        }
    }

    /// Copies the head for an answer that is sent later.
    pub(super) fn kept(&self) -> KeptHead {
        KeptHead {
            tag: self.tag.map(Tag::copied),
            head: Head { tag: None, ..*self },
        }
    }

    pub(super) fn problem(problem: &Problem) -> Self {
        Self {
            retry_after: problem.retry_after,
            allow: problem.allow,
            ..Self::new(problem.status, PROBLEM_TYPE)
        }
    }

    /// Writes all headers except those of the body.
    pub(super) fn write<'a>(
        &self,
        reply: Reply<'a>,
        context: &RequestContext,
        varies_by_origin: bool,
        text: &mut String,
    ) -> Reply<'a> {
        let mut reply = reply.status(self.status);
        let coding = self.coding.and_then(Encoding::name);
        reply = match (self.tag, coding) {
            (Some(tag), Some(_)) => {
                text.clear();
                text.push_str(WEAK);
                text.push_str(tag);
                reply.header("ETag", text.as_str())
            }
            (Some(tag), None) => reply.header("ETag", tag),
            (None, _) => reply,
        };
        if let Some(name) = coding
            && self.status != 304
        {
            reply = reply.header("Content-Encoding", name);
        }
        if let Some(layer) = self.layer {
            text.clear();
            text.push_str(layer.name());
            if let Some((age, _)) = self.freshness {
                write!(text, "; age={}.{:03}", age.as_secs(), age.subsec_millis())
                    .expect("a string takes any text");
                reply = reply.header_number("Age", age.as_secs());
            }
            if self.claim.is_some_and(|claim| claim.is_live()) {
                text.push_str("; feed=live");
            }
            if self.is_behind {
                text.push_str("; behind");
            }
            reply = reply.header("X-Cache", text.as_str());
            if let Some(claim) = &self.claim {
                reply = claim.write(reply, text);
            }
            text.clear();
            let elapsed = context.begun.elapsed();
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
                    // `max-age` includes the age.
                    let seconds = age.as_secs() + rest.as_secs();
                    write!(text, "private, max-age={seconds}").expect("a string takes any text");
                    reply.header("Cache-Control", text.as_str())
                }
                _ => reply.header("Cache-Control", OF_TABLES),
            };
        } else if self.status == 304 {
            // No query was run, and the answer depends on the tables only: the same value as with
            // the answer itself.
            reply = reply.header("Cache-Control", OF_TABLES);
        }
        let vary = vary(self.is_negotiated, self.coding.is_some(), varies_by_origin);
        if let Some(vary) = vary {
            reply = reply.header("Vary", vary);
        }
        if let Some(seconds) = self.retry_after {
            reply = reply.header_number("Retry-After", seconds);
        }
        if let Some(methods) = self.allow {
            reply = reply.header("Allow", allow(methods));
        }
        if self.status == 415 {
            reply = reply.header("Accept-Encoding", CODINGS);
        }
        if self.status == 401 {
            reply = reply.header("WWW-Authenticate", "Bearer");
        }
        if let Some((name, number)) = self.extra {
            reply = reply.header_number(name, number);
        }
        if let Some(origin) = &context.origin {
            reply = reply
                .header("Access-Control-Allow-Origin", origin)
                .header("Access-Control-Expose-Headers", EXPOSED);
        }
        reply
    }
}

/// `Cache-Control` of answers that may be stored but must be revalidated each time.
const OF_TABLES: &str = "private, no-cache";

/// The headers that scripts of an allowed page may read, in addition to the safelisted ones.
pub(super) const EXPOSED: &str = "Age, Allow, ETag, Lookaside-Fresh-As-Of, Lookaside-Position, \
                                  Retry-After, Server-Timing, WWW-Authenticate, X-Cache, X-Dropped, \
                                  X-Events, X-Failed, X-Failure-Reason, X-Reject-Reason, X-Rejected, X-Rows-Cut";

/// The prefix of a weak validator.
const WEAK: &str = "W/";

/// The value of `Vary`: the request headers that an answer depends on.
pub(super) fn vary(by_form: bool, by_coding: bool, by_origin: bool) -> Option<&'static str> {
    Some(match (by_form, by_coding, by_origin) {
        (true, false, false) => "Accept",
        (true, true, false) => "Accept, Accept-Encoding",
        (true, false, true) => "Accept, Origin",
        (true, true, true) => "Accept, Accept-Encoding, Origin",
        (false, true, false) => "Accept-Encoding",
        (false, true, true) => "Accept-Encoding, Origin",
        (false, false, true) => "Origin",
        (false, false, false) => return None,
    })
}

/// The format that a client prefers; the first one if it has no preference.
pub(super) fn negotiate_format(
    request: &Request<'_>,
    offers: &[BodyFormat],
) -> Result<BodyFormat, Problem> {
    let Some(first) = request.header("Accept") else {
        return Ok(offers[0]);
    };
    // The usual header of programs.
    if first == b"*/*" {
        return Ok(offers[0]);
    }
    let exact = offers
        .iter()
        .find(|format| format.media_type().as_bytes() == first);
    if let Some(format) = exact {
        return Ok(*format);
    }
    let accept: Vec<&[u8]> = request
        .headers()
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value)
        .collect();
    let types: Vec<&str> = offers.iter().map(|format| format.media_type()).collect();
    let found = lookaside_http::negotiate::media_type(accept, &types);
    found.map(|index| offers[index]).ok_or_else(|| {
        Problem::new(406, "none of the accepted types is available")
            .detail(format!("there are {}", types.join(", ")))
    })
}

/// How a client sent the validator of its stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidatorStrength {
    /// A strong validator: it has the identical bytes.
    Strong,
    /// A weak validator: it has the answer in some coding.
    Weak,
}

/// Whether an `If-None-Match` contains a validator, by the weak comparison that RFC 9110
/// prescribes.
pub(super) fn matching_validator(value: &[u8], tag: &str) -> Option<ValidatorStrength> {
    value.split(|byte| *byte == b',').find_map(|part| {
        let part = part.trim_ascii();
        let (part, strength) = match part.strip_prefix(WEAK.as_bytes()) {
            Some(part) => (part, ValidatorStrength::Weak),
            None => (part, ValidatorStrength::Strong),
        };
        (part == tag.as_bytes()).then_some(strength)
    })
}

/// Whether an `If-None-Match` is `*`.
pub(super) fn is_any(value: &[u8]) -> bool {
    value.trim_ascii() == b"*"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_found_in_lists() {
        for (value, expected) in [
            ("\"a\"", Some(ValidatorStrength::Strong)),
            ("W/\"a\"", Some(ValidatorStrength::Weak)),
            ("\"b\", \"a\"", Some(ValidatorStrength::Strong)),
            ("\"b\",W/\"a\"", Some(ValidatorStrength::Weak)),
            ("*", None),
            ("\"b\"", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(
                matching_validator(value.as_bytes(), "\"a\""),
                expected,
                "{value}"
            );
        }
    }
}
