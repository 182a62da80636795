//! The list of lookups for people and programs.

use lookaside_knowledge::PlanKind;
use serde_json::{Value as Json, json};

use super::lookup::{Lookup, Prepared};
use super::models::Models;
use crate::config::ParamType;

/// The body of `GET /v1/lookups`.
pub(super) fn overview(lookups: &[Lookup], models: &Models) -> Vec<u8> {
    let lookups: Vec<Json> = lookups.iter().map(lookup).collect();
    let all = json!({
        "lookups": lookups,
        "models": models.names(),
        "models_not_ready": models.waiting_names().collect::<Vec<_>>(),
    });
    let mut body = serde_json::to_vec(&all).expect("names and texts are JSON");
    body.push(b'\n');
    body
}

fn lookup(lookup: &Lookup) -> Json {
    let config = &lookup.config;
    let mut json = json!({
        "name": config.name,
        "url": url(lookup),
        "many": config.many,
        "description": config.description,
        "example": example(lookup),
    });
    let params = params(lookup).map(|(name, kind, is_nullable)| {
        json!({"name": name, "type": kind.name(), "nullable": is_nullable})
    });
    json["params"] = params.collect();
    match &lookup.prepared {
        Some(prepared) => {
            json["columns"] = columns(prepared).collect();
            json["answered_by"] = answered_by(prepared).into();
            json["ready"] = true.into();
        }
        None => json["ready"] = false.into(),
    }
    json
}

/// The parameters; for a lookup whose provider has never responded, those that the file declares.
fn params(lookup: &Lookup) -> impl Iterator<Item = (&str, ParamType, bool)> {
    let prepared = lookup.prepared.iter().flat_map(|prepared| &prepared.params);
    let declared = match lookup.prepared {
        Some(_) => &[][..],
        None => &lookup.config.params[..],
    };
    let declared = declared
        .iter()
        .map(|param| (param.name.as_str(), param.kind, param.is_nullable));
    prepared
        .map(|param| (param.name.as_str(), param.kind, param.is_nullable))
        .chain(declared)
}

/// The URL with placeholders for the parameters.
pub(super) fn url(lookup: &Lookup) -> String {
    let params: Vec<String> = params(lookup)
        .map(|(name, ..)| format!("{name}={{{name}}}"))
        .collect();
    let mark = if params.is_empty() { "" } else { "?" };
    format!("/v1/lookup/{}{mark}{}", lookup.name(), params.join("&"))
}

/// The URL with the values of the example, if there is a value for each required parameter.
pub(crate) fn example(lookup: &Lookup) -> Option<String> {
    let prepared = lookup.prepared.as_ref()?;
    let mut url = format!("/v1/lookup/{}", lookup.name());
    let mut mark = '?';
    for param in &prepared.params {
        let mut examples = lookup.config.example.iter();
        let Some((_, text)) = examples.find(|(name, _)| param.name == name.as_str()) else {
            if param.is_nullable {
                continue;
            }
            return None;
        };
        url.push(mark);
        mark = '&';
        url.push_str(&encode(&param.name));
        url.push('=');
        url.push_str(&encode(text));
    }
    Some(url)
}

/// Percent-encodes the characters that are not allowed in a query.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(byte.into());
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// What answers: `hash`, `interval`, `sqlite`, or the name of a provider.
fn answered_by(prepared: &Prepared) -> String {
    let explanation = &prepared.explanation;
    match (&explanation.provider, explanation.kind) {
        (Some(provider), _) => format!("provider {}", provider.name),
        (None, PlanKind::Hash | PlanKind::Interval) => format!("{} index", explanation.kind),
        (None, kind) => kind.to_string(),
    }
}

/// The names of its columns.
pub(super) fn columns(prepared: &Prepared) -> impl Iterator<Item = &str> {
    prepared
        .explanation
        .columns
        .iter()
        .map(|column| column.as_str())
}
