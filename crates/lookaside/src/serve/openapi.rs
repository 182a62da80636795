//! The description of the server's lookups in OpenAPI 3.1.

mod columns;
mod fixed;
mod freshness;
mod lookup;

use lookaside_stream::{InputFormat, OutputFormat};
use serde_json::{Map, Value as Json, json};

use self::fixed::fixed;
use self::lookup::{batch, one};
use super::access::Access;
use super::endpoint::{Endpoint, FIXED};
use super::lookup::Lookup;
use super::models::Models;
use super::problem::PROBLEM_TYPE;
use crate::config::ClientFreshness;

/// The body of `GET /openapi.json`; `has_queries` is whether ad-hoc queries are allowed, and `limit`
/// how fresh an answer a client may demand.
pub(super) fn openapi(
    (lookups, limit): (&[Lookup], ClientFreshness),
    models: &Models,
    access: &Access,
    has_queries: bool,
) -> Vec<u8> {
    let mut paths = Map::new();
    for lookup in lookups {
        if let Some(prepared) = &lookup.prepared {
            let path = format!("/v1/lookup/{}", lookup.name());
            paths.insert(
                path,
                json!({"get": one(lookup, prepared, limit), "post": batch(lookup, prepared, limit)}),
            );
        }
    }
    for model in models.names() {
        paths.insert(format!("/v1/enrich/{model}"), enrich(model, limit));
    }
    for (path, endpoint) in FIXED {
        let is_query = matches!(endpoint, Endpoint::Query | Endpoint::Explain);
        let is_served = !is_query || has_queries;
        if let Some((method, mut operation)) = fixed(endpoint).filter(|_| is_served) {
            if endpoint.is_open() && access.has_keys() {
                operation["security"] = json!([]);
            }
            paths.insert(path.to_owned(), json!({method: operation}));
        }
    }
    paths.insert("/v1/tables/{name}".to_owned(), fixed::table());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lookaside",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Lookups of reference data.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem()},
            "responses": {"Problem": answer(
                "The reason why there is no answer",
                &[PROBLEM_TYPE],
                &json!({"$ref": "#/components/schemas/Problem"}),
            )},
        },
    });
    if access.has_keys() {
        document["components"]["securitySchemes"] = json!({
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        });
        document["security"] = json!([{"bearer": []}, {"header": []}]);
    }
    let mut body = serde_json::to_vec(&document).expect("names and texts are JSON");
    body.push(b'\n');
    body
}

/// A parameter of a query.
fn enrich_param(name: &str, description: &str, schema: Json) -> Json {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// The header with the coding of a request's body.
fn content_encoding() -> Json {
    json!({"name": "Content-Encoding", "in": "header",
           "description": "The compression of the body",
           "schema": {"type": "string", "enum": ["gzip", "br", "zstd"]}})
}

/// A header with a number.
fn count_header(description: &str) -> Json {
    json!({"description": description, "schema": {"type": "integer", "minimum": 0}})
}

/// Generators derive function names from operation ids, so only letters, digits, `_` and `-` are
/// kept. Other characters are replaced by their code, a slash by two `_`.
fn operation_id(kind: &str, name: &str) -> String {
    let mut id = format!("{kind}_");
    for character in name.chars() {
        match character {
            // Two in a row would mean a slash.
            '_' if id.ends_with('_') => id.push_str("5f_"),
            '_' | '-' => id.push(character),
            '/' => id.push_str("__"),
            _ if character.is_ascii_alphanumeric() => id.push(character),
            _ => id.push_str(&format!("_{:x}_", u32::from(character))),
        }
    }
    id
}

fn enrich(model: &str, limit: ClientFreshness) -> Json {
    let any = |types: &[&str]| -> Json {
        let types = types.iter();
        let content: Map<String, Json> = types
            .map(|name| ((*name).to_owned(), json!({"schema": {}})))
            .collect();
        content.into()
    };
    let mut operation = json!({"post": {
        "operationId": operation_id("enrich", model),
        "summary": format!("Stream events through the model {model}"),
        "parameters": [
            enrich_param(
                "format",
                "The format of the events; by default according to Content-Type or [enrich], \
                 otherwise JSON lines",
                json!({"type": "string", "enum": InputFormat::NAMES}),
            ),
            enrich_param(
                "output_format",
                "The format of the answer; by default according to Accept or [enrich], otherwise \
                 JSON lines",
                json!({"type": "string", "enum": OutputFormat::NAMES}),
            ),
            enrich_param(
                "columns",
                "For answers in CSV: the names of the columns, separated by commas; by default \
                 those of the first event",
                json!({"type": "string"}),
            ),
            enrich_param(
                "extra",
                "For answers in CSV: whether an event with a field that has no column is rejected, \
                 or the field is omitted",
                json!({"type": "string", "enum": ["reject", "ignore"], "default": "reject"}),
            ),
            enrich_param(
                "strict",
                "Whether the first event that is rejected, or whose lookup fails, ends the stream",
                json!({"type": "boolean", "default": false}),
            ),
            enrich_param(
                "summary",
                "For answers in JSON lines: whether a last line contains the numbers of events, \
                 rejected events and failed lookups",
                json!({"type": "boolean", "default": false}),
            ),
            content_encoding(),
        ],
        "requestBody": {"required": true, "content": any(&["application/x-ndjson", "text/csv", "text/plain"])},
        "responses": {
            "200": {"description": "The events that the model produces, in order",
                    "headers": {
                        "X-Events": count_header(
                            "The number of events in the answer; like the other counts, a trailer \
                             if the answer is long"),
                        "X-Dropped": count_header("Events that the model drops; absent if none"),
                        "X-Rejected": count_header(
                            "Lines that do not parse, and events that do not fit the CSV or are rejected because of their lookups; absent if none"),
                        "X-Failed": count_header("Failed lookups; absent if none"),
                        "X-Reject-Reason": {"description": "The reason of the first reject; absent if there is none",
                                            "schema": {"type": "string"}},
                        "X-Failure-Reason": {"description": "The reason of the first failed lookup; absent if there is none",
                                             "schema": {"type": "string"}},
                    },
                    "content": any(&["application/x-ndjson", "text/csv", "text/plain"])},
            "415": {"$ref": "#/components/responses/Problem"},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }});
    let parameters = operation["post"]["parameters"].as_array_mut();
    let parameters = parameters.expect("an operation has a list of parameters");
    parameters.extend(freshness::model_headers(limit));
    operation
}

fn answer(description: &str, types: &[&str], schema: &Json) -> Json {
    let content = types.iter().map(|name| {
        let is_json = name.ends_with("json") && !name.contains("ndjson");
        let schema = if is_json { schema.clone() } else { json!({}) };
        ((*name).to_owned(), json!({"schema": schema}))
    });
    let content: Map<String, Json> = content.collect();
    json!({"description": description, "content": content})
}

fn problem() -> Json {
    json!({
        "type": "object",
        "required": ["title", "status"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "set": {"type": "integer", "description": "The parameter set that is wrong, from 0"},
            "parameters": {"type": "array", "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "problem": {"type": "string"}},
            }},
        },
    })
}
