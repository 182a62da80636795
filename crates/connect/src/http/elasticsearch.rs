//! Indices of Elasticsearch or OpenSearch, by the bulk interface:
//! <https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk>.
//!
//! Each message is an `index` action with an `_id`, which replaces a document with the same: a
//! message that is sent again leaves one document.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::client::{Client, Response};
use super::message::Outgoing;
use super::options::SinkOptions;
use super::target::{
    BatchOutcome, MessageOutcome, PERMIT, Target, classify_status, describe, unexpected,
};
use crate::{Error, Result};

/// The parts of a response that are read.
const FILTER: (&str, &str) = ("filter_path", "errors,items.*.status,items.*.error");

/// The type of an error of an index that is read-only for the moment, such as that of a full disk.
const BLOCKED: &str = "cluster_block_exception";

/// The type of an error of a user that may not write.
const NOT_PERMITTED: &str = "security_exception";

/// The type of an error of an index that is not created by the first document.
const NO_INDEX: &str = "index_not_found_exception";

/// An index.
pub(super) struct Elasticsearch {
    name: String,
    index: String,
    index_path: String,
    bulk_path: String,
    id_is_key: bool,
}

impl Elasticsearch {
    pub(super) fn new(options: &SinkOptions) -> Result<Self> {
        let index = &options.path;
        if index.is_empty() || index.contains(['/', ',']) {
            let example = "elasticsearch://localhost:9200/clicks";
            return Err(Error::no_path(&options.name, "index", example));
        }
        Ok(Self {
            name: options.name.clone(),
            index: index.clone(),
            index_path: options.query.after(index, &[]),
            bulk_path: options.query.after(&format!("{index}/_bulk"), &[FILTER]),
            id_is_key: options.id_is_key,
        })
    }

    /// The `_id` of a message; the key was checked to be text.
    fn id<'a>(&self, message: &'a Outgoing) -> &'a str {
        let key = message.key.as_deref().filter(|_| self.id_is_key);
        let key = key.and_then(|key| str::from_utf8(key).ok());
        key.unwrap_or(&message.id)
    }

    /// The outcomes of the items of a response, which are in the order of the actions.
    fn classify_items(
        &self,
        items: &[Json],
        messages: &[Outgoing],
    ) -> Result<Vec<MessageOutcome>, BatchOutcome> {
        let mut outcomes = Vec::with_capacity(items.len());
        // Documents that are not written yet; a later one with the same id has to follow them.
        let mut waiting = HashSet::new();
        for (item, message) in items.iter().zip(messages) {
            let item = &item["index"];
            let kind = item["error"]["type"].as_str().unwrap_or_default();
            let reason = reason_of(item);
            let is_own = message.topic.is_none();
            let outcome = match (item["status"].as_u64().unwrap_or_default(), kind) {
                (_, BLOCKED) => MessageOutcome::Retry(reason),
                (_, NOT_PERMITTED) => {
                    return Err(BatchOutcome::Failed(format!("{reason}; {PERMIT}")));
                }
                (404, NO_INDEX) if is_own => {
                    let hint = "create the index, or permit the cluster to create it";
                    return Err(BatchOutcome::Failed(format!("{reason}; {hint}")));
                }
                (200..=299, _) => MessageOutcome::Delivered,
                (429 | 500..=599, _) => MessageOutcome::Retry(reason),
                (400..=499, _) => MessageOutcome::Refused(reason),
                _ => return Err(not_bulk("an item has no status")),
            };
            let document = (&message.topic, self.id(message));
            outcomes.push(match outcome {
                MessageOutcome::Retry(_) => {
                    waiting.insert(document);
                    outcome
                }
                MessageOutcome::Delivered if waiting.contains(&document) => {
                    MessageOutcome::Retry("it follows a document that was not written".to_owned())
                }
                outcome => outcome,
            });
        }
        Ok(outcomes)
    }
}

impl Target for Elasticsearch {
    fn check(&mut self, client: &Client) -> Result<String> {
        let response = client.request("HEAD", &self.index_path)?;
        match response.status {
            200 => Ok(format!("index {}", self.index)),
            404 => Ok(format!("index {}, to be created", self.index)),
            _ => Err(unexpected(&self.name, &response)),
        }
    }

    fn problem_of(&self, message: &Outgoing) -> Option<&'static str> {
        let key = message.key.as_deref().filter(|_| self.id_is_key);
        let is_text = key.is_none_or(|key| str::from_utf8(key).is_ok());
        (!is_text).then_some("the key is not text, so that it cannot be an _id")
    }

    fn request(&self, messages: &[Outgoing], body: &mut Vec<u8>) -> String {
        for message in messages {
            let mut action = serde_json::Map::new();
            // The index of the path needs no permission to name others.
            if let Some(topic) = &message.topic {
                action.insert("_index".to_owned(), Json::from(&**topic));
            }
            action.insert("_id".to_owned(), Json::from(self.id(message)));
            let action = serde_json::json!({ "index": action });
            body.extend_from_slice(action.to_string().as_bytes());
            body.push(b'\n');
            body.extend_from_slice(&message.payload);
            body.push(b'\n');
        }
        self.bulk_path.clone()
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn classify(&self, response: &Response, messages: &[Outgoing]) -> BatchOutcome {
        if response.status != 200 {
            return classify_status(response);
        }
        let Ok(json) = serde_json::from_slice::<Json>(&response.body) else {
            return not_bulk(&describe(response));
        };
        match json["items"].as_array() {
            Some(items) if items.len() == messages.len() => {
                match self.classify_items(items, messages) {
                    Ok(outcomes) => BatchOutcome::Each(outcomes),
                    Err(outcome) => outcome,
                }
            }
            _ => not_bulk(&describe(response)),
        }
    }
}

fn not_bulk(reason: &str) -> BatchOutcome {
    let reason = format!("the response is not one to a bulk request: {reason}");
    BatchOutcome::Retry(reason, None)
}

/// The status, the type and the reason of an item, with the cause that says which value is wrong.
fn reason_of(item: &Json) -> String {
    let error = &item["error"];
    let texts = [
        &error["type"],
        &error["reason"],
        &error["caused_by"]["reason"],
    ];
    let texts: Vec<_> = texts.into_iter().filter_map(Json::as_str).collect();
    format!("status {}: {}", item["status"], texts.join(": "))
}
