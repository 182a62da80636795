//! The answers: JSON with the number of events, or a problem as those of `lookaside serve`.

use std::time::Duration;

use lookaside_http::{Method, Reply};
use metrics::counter;

use crate::serve::{PROBLEM_TYPE, Problem};

/// After how many seconds a client tries again whose request was refused at the limit: what is under
/// way is usually delivered within a fraction of a second.
const RETRY_AT_LIMIT: u64 = 1;

/// After how many seconds a client tries again when the sink does not deliver, or the run is ending:
/// brokers and processes need some seconds to restart.
const RETRY_LATER: u64 = 5;

/// How clients send the token.
const HOW: &str = "send the token of the option `token` as `Authorization: Bearer TOKEN`";

/// Answers a request whose events are delivered.
pub(super) fn delivered(reply: Reply<'_>, event_count: u64) {
    reply.send_with("application/json", |body| {
        body.extend_from_slice(format!("{{\"events\":{event_count}}}\n").as_bytes());
    });
}

/// Counts a request that is refused.
pub(super) fn count_refusal(status: u16) {
    counter!("lookaside_requests_refused_total", "status" => status.to_string()).increment(1);
}

/// Answers with a problem.
pub(super) fn refuse(reply: Reply<'_>, problem: &Problem) {
    count_refusal(problem.status);
    let mut reply = reply.status(problem.status);
    if let Some(seconds) = problem.retry_after {
        reply = reply.header_number("Retry-After", seconds);
    }
    for method in problem.allow.into_iter().flatten() {
        reply = reply.header("Allow", method.name());
    }
    match problem.status {
        401 => reply = reply.header("WWW-Authenticate", "Bearer"),
        415 => reply = reply.header("Accept-Encoding", "gzip"),
        _ => {}
    }
    reply.send_with(PROBLEM_TYPE, |body| problem.write(false, body));
}

/// Answers a request that arrives when the run is ending.
pub(super) fn refuse_at_end(reply: Reply<'_>) {
    let problem = Problem::new(503, "the run is ending")
        .detail("no event of this request was processed; send it again")
        .retry_after(RETRY_LATER);
    refuse(reply.close(), &problem);
}

pub(super) fn unknown_path(path: &str) -> Problem {
    Problem::new(404, "no such path").detail(format!("events are sent to {path}"))
}

pub(super) fn wrong_method() -> Problem {
    Problem::new(405, "method not allowed")
        .allow(&[Method::Post])
        .detail("events are sent by POST")
}

pub(super) fn missing_token() -> Problem {
    Problem::new(401, "a token is required").detail(HOW)
}

pub(super) fn wrong_token() -> Problem {
    Problem::new(401, "unknown token").detail(HOW)
}

pub(super) fn unsupported_coding() -> Problem {
    Problem::new(415, "the coding of the body is not supported")
        .detail("Content-Encoding may be gzip")
}

/// The limit of the bytes under way is reached.
pub(super) fn at_limit(buffer_max: u64) -> Problem {
    Problem::new(503, "too many events are under way")
        .detail(format!(
            "at most {buffer_max} bytes (buffer_max) wait for their delivery; no event of this \
             request was processed; send it again"
        ))
        .retry_after(RETRY_AT_LIMIT)
}

/// The events were not delivered within the time.
pub(super) fn not_delivered(timeout: Duration) -> Problem {
    Problem::new(503, "the events were not delivered in time")
        .detail(format!(
            "the limit is {} ms (timeout_ms); they may still be delivered, so that events that are \
             sent again may be delivered twice",
            timeout.as_millis()
        ))
        .retry_after(RETRY_LATER)
}

/// The run ended before the events were delivered.
pub(super) fn not_delivered_at_end() -> Problem {
    Problem::new(503, "the run ended before the events were delivered")
        .detail(
            "some of them may have been delivered, so that events that are sent again may be \
             delivered twice",
        )
        .retry_after(RETRY_LATER)
}
