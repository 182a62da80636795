//! A server that takes lines of JSON.

use super::client::{Client, Response};
use super::message::Outgoing;
use super::options::SinkOptions;
use super::target::{BatchOutcome, Target, append_lines, classify_status, describe, refuse_topic};
use crate::Result;

/// A path that takes batches of lines by POST.
pub(super) struct Plain {
    /// The path and the query.
    path: String,
}

impl Plain {
    pub(super) fn new(options: &SinkOptions) -> Self {
        Self {
            path: options.query.after(&options.path, &[]),
        }
    }
}

impl Target for Plain {
    fn check(&mut self, client: &Client) -> Result<String> {
        // Many servers do not know OPTIONS, so that any response shows that there is one.
        let response = client.request("OPTIONS", &self.path)?;
        Ok(match response.status {
            200..=299 => "a server answers".to_owned(),
            _ => format!("a server answers, to OPTIONS with {}", describe(&response)),
        })
    }

    fn problem_of(&self, message: &Outgoing) -> Option<&'static str> {
        refuse_topic(message)
    }

    fn request(&self, messages: &[Outgoing], body: &mut Vec<u8>) -> String {
        append_lines(messages, body);
        self.path.clone()
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn classify(&self, response: &Response, _: &[Outgoing]) -> BatchOutcome {
        classify_status(response)
    }
}
