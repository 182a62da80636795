//! A server that takes lines of JSON.

use super::client::{Answer, Client};
use super::message::Outgoing;
use super::options::SinkOptions;
use super::target::{Target, Verdict, append_lines, describe, judge_status, refuse_topic};
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
        // Many servers do not know OPTIONS, so that any answer shows that there is one.
        let answer = client.ask("OPTIONS", &self.path)?;
        Ok(match answer.status {
            200..=299 => "a server answers".to_owned(),
            _ => format!("a server answers, to OPTIONS with {}", describe(&answer)),
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

    fn judge(&self, answer: &Answer, _: &[Outgoing]) -> Verdict {
        judge_status(answer)
    }
}
