//! What the kinds of servers have in common: requests, and what their responses mean.

use std::time::Duration;

use super::client::{Client, Response};
use super::message::Outgoing;
use crate::{Error, Result};

/// How much of a response is quoted in messages.
const EXCERPT_SIZE: usize = 300;

/// A kind of server.
pub(super) trait Target: Send + Sync {
    /// Connects to the server and says what it found. What it finds out of the server determines
    /// later requests.
    fn check(&mut self, client: &Client) -> Result<String>;

    /// Why a message cannot be sent to this kind of server.
    fn problem_of(&self, message: &Outgoing) -> Option<&'static str>;

    /// The path and the query of the request that writes messages; the body is appended to `body`.
    fn request(&self, messages: &[Outgoing], body: &mut Vec<u8>) -> String;

    /// The type of the body.
    fn content_type(&self) -> &'static str;

    /// What a response means for the messages of the request.
    fn classify(&self, response: &Response, messages: &[Outgoing]) -> BatchOutcome;
}

/// What becomes of the messages of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchOutcome {
    Delivered,
    /// All are sent again, after the time that the server wants.
    Retry(String, Option<Duration>),
    /// At least one is not acceptable.
    Refused(String),
    /// Each has an outcome of its own.
    Each(Vec<MessageOutcome>),
    /// Nothing can be written at all.
    Failed(String),
}

/// What becomes of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    Delivered,
    Retry(String),
    Refused(String),
}

/// The meaning of a status for all messages of a request.
pub(super) fn classify_status(response: &Response) -> BatchOutcome {
    let reason = describe(response);
    match response.status {
        200..=299 => BatchOutcome::Delivered,
        300..=399 => BatchOutcome::Failed(match &response.location {
            Some(to) => format!(
                "{reason}; redirects are not followed: write the URL that it leads to, {to}"
            ),
            None => format!("{reason}; {NOT_EXPECTED}"),
        }),
        401 | 407 => BatchOutcome::Failed(format!("{reason}; {LOG_IN}")),
        403 => BatchOutcome::Failed(format!("{reason}; {PERMIT}")),
        404 | 405 => BatchOutcome::Failed(format!(
            "{reason}; correct the host and the path of the URL"
        )),
        408 | 425 | 429 | 500..=599 => BatchOutcome::Retry(reason, response.retry_after),
        400..=499 => BatchOutcome::Refused(reason),
        _ => BatchOutcome::Failed(format!("{reason}; {NOT_EXPECTED}")),
    }
}

/// About a status that no POST request has.
const NOT_EXPECTED: &str = "correct the host and the path of the URL: no server that takes events \
                            responds like this";

/// What to do if the user is not known.
pub(super) const LOG_IN: &str =
    "correct the user and the password of the URL, or its option `header.Authorization`";

/// What to do if the user may not write.
pub(super) const PERMIT: &str =
    "permit the user of the URL to write, or correct its user and password";

/// The status and the beginning of the body.
pub(super) fn describe(response: &Response) -> String {
    let text = excerpt(&response.body);
    match text.is_empty() {
        true => format!("status {}", response.status),
        false => format!("status {}: {text}", response.status),
    }
}

/// The beginning of a response as a line of text.
pub(super) fn excerpt(body: &[u8]) -> String {
    let body = &body[..body.len().min(4 * EXCERPT_SIZE)];
    let text = String::from_utf8_lossy(body);
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    let is_shown = |char: &char| !char.is_control();
    line.chars().filter(is_shown).take(EXCERPT_SIZE).collect()
}

/// The error of a check whose response is not one of success.
pub(super) fn unexpected(name: &str, response: &Response) -> Error {
    let (reason, hint) = (
        describe(response),
        match response.status {
            300..=399 => "write the URL that the redirect leads to, as redirects are not followed",
            401 | 407 => LOG_IN,
            403 => PERMIT,
            404 | 405 => "correct the host and the path of the URL",
            _ => "try again later, or look into the log of the server",
        },
    );
    Error::unavailable(name, &reason, hint)
}

/// A message that has no topic of its own, for servers that have one place for all.
pub(super) fn refuse_topic(message: &Outgoing) -> Option<&'static str> {
    let problem = "the model sets @meta/topic, and this output has a single destination";
    message.topic.is_some().then_some(problem)
}

/// Appends each message as a line.
pub(super) fn append_lines(messages: &[Outgoing], body: &mut Vec<u8>) {
    for message in messages {
        body.extend_from_slice(&message.payload);
        body.push(b'\n');
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn response(status: u16, body: &str) -> Response {
        Response {
            status,
            retry_after: None,
            location: None,
            exception_code: None,
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn statuses_decide_what_becomes_of_messages() {
        for (status, expected) in [
            (200, "Delivered"),
            (204, "Delivered"),
            (301, "Failed"),
            (400, "Refused"),
            (401, "Failed"),
            (403, "Failed"),
            (404, "Failed"),
            (405, "Failed"),
            (408, "Retry"),
            (413, "Refused"),
            (422, "Refused"),
            (425, "Retry"),
            (429, "Retry"),
            (500, "Retry"),
            (503, "Retry"),
            (999, "Failed"),
        ] {
            let outcome = format!("{:?}", classify_status(&response(status, "")));
            assert!(outcome.starts_with(expected), "{status}: {outcome}");
        }
    }

    #[test]
    fn an_answer_is_quoted_as_a_short_line() {
        let long = format!("<p>\r\n  no\u{7}\t{}", "x".repeat(1000));
        let text = describe(&response(400, &long));
        assert!(text.starts_with("status 400: <p> no xxx"), "{text}");
        assert!(text.len() < 2 * EXCERPT_SIZE, "{text}");
        assert_eq!(describe(&response(503, "")), "status 503");
    }
}
