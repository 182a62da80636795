//! What the server tells about its lookups in OpenAPI 3.1.

use lookaside_stream::{InputFormat, OutputFormat};
use serde_json::{Map, Value as Json, json};

use super::catalog::Catalog;
use super::encode::{ERROR_MEMBER, Form};
use super::lookup::{Lookup, Prepared};
use super::overview::columns;
use super::params::{Param, ParamType};
use super::problem::PROBLEM_TYPE;
use super::service::{FIXED, Target};

/// The body of `GET /openapi.json`.
pub(super) fn openapi(catalog: &Catalog) -> Vec<u8> {
    let mut paths = Map::new();
    for lookup in &catalog.lookups {
        if let Some(prepared) = &lookup.prepared {
            let path = format!("/v1/lookup/{}", lookup.name());
            paths.insert(
                path,
                json!({"get": one(lookup, prepared), "post": batch(lookup, prepared)}),
            );
        }
    }
    for model in catalog.models.names() {
        paths.insert(format!("/v1/enrich/{model}"), enrich(model));
    }
    for (path, target) in FIXED {
        let is_served = target != Target::Query || catalog.query_rows_max.is_some();
        if let Some((method, mut operation)) = fixed(target).filter(|_| is_served) {
            if target.is_open() && catalog.access.has_keys() {
                operation["security"] = json!([]);
            }
            paths.insert(path.to_owned(), json!({method: operation}));
        }
    }
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
                "Why there is no answer",
                &[PROBLEM_TYPE],
                &json!({"$ref": "#/components/schemas/Problem"}),
            )},
        },
    });
    if catalog.access.has_keys() {
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

/// The method and the operation of a path that is the same whatever is served; none of the console,
/// which is a page for people.
fn fixed(target: Target<'_>) -> Option<(&'static str, Json)> {
    let json = "application/json";
    Some(match target {
        Target::Console | Target::Lookup(_) | Target::Enrich(_) | Target::Unknown => return None,
        Target::Query => ("post", query()),
        Target::Reload => ("post", reload()),
        Target::Status => told(
            "status",
            "The numbers behind the console",
            json,
            &status_schema(),
        ),
        Target::Lookups => told("lookups", "The lookups and models", json, &lookups_schema()),
        Target::OpenApi => told("openapi", "This document", json, &json!({"type": "object"})),
        Target::Metrics => told(
            "metrics",
            "Numbers for Prometheus",
            "text/plain",
            &json!({}),
        ),
        Target::Health => told(
            "healthz",
            "Whether the process lives",
            json,
            &status_word(&["ok"]),
        ),
        Target::Ready => {
            let state = status_word(&["ready", "draining"]);
            let summary = "Whether it answers, and how its providers are";
            let (method, mut operation) = told("readyz", summary, json, &state);
            operation["responses"]["503"] = answer("The server ends", &[json], &state);
            (method, operation)
        }
    })
}

/// What is asked by its path alone.
fn told(id: &str, summary: &str, content_type: &str, schema: &Json) -> (&'static str, Json) {
    let operation = json!({
        "operationId": id,
        "summary": summary,
        "responses": {"200": answer("The answer", &[content_type], schema),
                      "default": {"$ref": "#/components/responses/Problem"}},
    });
    ("get", operation)
}

/// An object that says in a word how things are.
fn status_word(words: &[&str]) -> Json {
    json!({"type": "object", "required": ["status"],
           "properties": {"status": {"type": "string", "enum": words}}})
}

fn lookups_schema() -> Json {
    let text = json!({"type": "string"});
    let named = json!({"type": "object", "required": ["name", "type"],
                       "properties": {"name": text, "type": text}});
    let lookup = json!({
        "type": "object",
        "required": ["name", "url", "many", "params", "ready"],
        "properties": {
            "name": text,
            "url": {"type": "string", "description": "With {name} for each parameter"},
            "many": {"type": "boolean", "description": "Whether all rows are the answer"},
            "description": {"type": ["string", "null"]},
            "example": {"type": ["string", "null"], "description": "A URL that has an answer"},
            "params": {"type": "array", "items": named},
            "columns": {"type": "array", "items": text},
            "answered_by": {"type": "string", "description": "An index, sqlite or a provider"},
            "ready": {"type": "boolean", "description": "Whether its provider was there once"},
        },
    });
    json!({
        "type": "object",
        "required": ["lookups", "models"],
        "properties": {
            "lookups": {"type": "array", "items": lookup},
            "models": {"type": "array", "items": text},
        },
    })
}

fn status_schema() -> Json {
    let count = json!({"type": "integer", "minimum": 0});
    let provider = json!({
        "type": "object",
        "required": ["name", "kind", "place", "health", "connections", "last_error"],
        "properties": {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "place": {"type": "string", "description": "Where it is, without a password"},
            "health": {"type": "string", "enum": ["up", "idle", "down"]},
            "connections": count,
            "last_error": {"type": ["string", "null"], "description": "Of one that is down"},
        },
    });
    let members = [
        ("project", json!({"type": "string"})),
        ("version", json!({"type": "string"})),
        (
            "ready",
            json!({"type": "boolean", "description": "false while the server ends"}),
        ),
        ("uptime_s", json!({"type": "number"})),
        (
            "generation",
            json!({"type": "integer", "description": "The number of the tables"}),
        ),
        ("memory_bytes", json!({"type": ["integer", "null"]})),
        ("tables", count.clone()),
        ("rows", count.clone()),
        ("cache_bytes", count.clone()),
        ("requests", count.clone()),
        (
            "answers",
            json!({"type": "object", "additionalProperties": count,
                   "description": "Answers of lookups by who had them"}),
        ),
        (
            "latency",
            json!({
                "type": "object",
                "description": "A histogram of the time of lookups",
                "required": ["bounds_s", "counts"],
                "properties": {
                    "bounds_s": {"type": "array", "items": {"type": "number"}},
                    "counts": {"type": "array", "items": count},
                },
            }),
        ),
        ("providers", json!({"type": "array", "items": provider})),
    ];
    let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let mut schema = json!({"type": "object", "required": required});
    schema["properties"] = Map::from_iter(members.map(|(name, of)| (name.to_owned(), of))).into();
    schema
}

fn reload() -> Json {
    let reloaded = json!({
        "type": "object",
        "required": ["generation", "ms", "warnings"],
        "properties": {
            "generation": {"type": "integer", "description": "The number of the tables"},
            "ms": {"type": "integer", "description": "How long it took"},
            "warnings": {"type": "array", "items": {"type": "string"},
                         "description": "What someone should look at"},
        },
    });
    json!({
        "operationId": "reload",
        "summary": "Load the tables, lookups and keys again",
        "responses": {"200": answer("It is done", &["application/json"], &reloaded),
                      "default": {"$ref": "#/components/responses/Problem"}},
    })
}

fn one(lookup: &Lookup, prepared: &Prepared) -> Json {
    let params: Vec<Json> = prepared
        .params
        .iter()
        .map(|param| {
            json!({"name": param.name.as_str(), "in": "query", "required": true,
                   "schema": text_schema(param.kind)})
        })
        .collect();
    let row = row_schema(prepared);
    let schema = match lookup.config.many {
        true => json!({"type": "array", "items": row}),
        false => row,
    };
    let types = Form::ALL.map(Form::media_type);
    let mut found = answer(
        if lookup.config.many {
            "All rows"
        } else {
            "The row"
        },
        &types,
        &schema,
    );
    found["headers"] = json!({
        "ETag": {"schema": {"type": "string"}},
        "X-Cache": {
            "description": "Who had the answer, and for a provider's how many seconds ago it was asked",
            "schema": {"type": "string"},
        },
        "Server-Timing": {"schema": {"type": "string"}},
    });
    let mut responses = json!({
        "200": found,
        "304": {"description": "It is as the If-None-Match says"},
        "400": {"$ref": "#/components/responses/Problem"},
        "default": {"$ref": "#/components/responses/Problem"},
    });
    if !lookup.config.many {
        responses["404"] = json!({"$ref": "#/components/responses/Problem"});
    }
    operation(
        lookup,
        "lookup",
        json!({"parameters": params, "responses": responses}),
    )
}

fn batch(lookup: &Lookup, prepared: &Prepared) -> Json {
    let mut properties = Map::new();
    for param in &prepared.params {
        properties.insert(param.name.to_string(), value_schema(param.kind));
    }
    let names: Vec<&str> = prepared
        .params
        .iter()
        .map(|param| param.name.as_str())
        .collect();
    let set = json!({"type": "object", "properties": properties, "required": names,
                     "additionalProperties": false});
    let set = match &prepared.params[..] {
        [Param { kind, .. }] => json!({"anyOf": [set, value_schema(*kind)]}),
        _ => set,
    };
    let row = row_schema(prepared);
    let failed = json!({"type": "object", "required": [ERROR_MEMBER],
                        "properties": {ERROR_MEMBER: {"$ref": "#/components/schemas/Problem"}}});
    let item = match lookup.config.many {
        true => json!({"anyOf": [{"type": "array", "items": row}, failed]}),
        false => json!({"anyOf": [row, {"type": "null"}, failed]}),
    };
    let list = json!({"type": "array", "items": item});
    let types = [
        "application/json",
        "application/x-ndjson",
        "application/vnd.msgpack",
    ];
    let mut answered = answer("An answer for each set, in their order", &types, &list);
    answered["headers"] = json!({
        "X-Failed": count_header("Sets whose answer is an error; absent if none"),
    });
    operation(
        lookup,
        "batch",
        json!({
            "requestBody": {"required": true, "content": {
                "application/json": {"schema": {"type": "array", "items": set}},
                "application/x-ndjson": {"schema": {}},
            }},
            "responses": {
                "200": answered,
                "400": {"$ref": "#/components/responses/Problem"},
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }),
    )
}

fn operation(lookup: &Lookup, kind: &str, mut operation: Json) -> Json {
    operation["operationId"] = format!("{kind}_{}", lookup.name()).into();
    operation["tags"] = json!([lookup.name()]);
    let summary = match kind {
        "batch" => format!("Many questions to {} at once", lookup.name()),
        _ => format!("Look up {}", lookup.name()),
    };
    operation["summary"] = summary.into();
    if let Some(description) = &lookup.config.description {
        operation["description"] = description.as_str().into();
    }
    operation
}

/// A parameter of a query, or one that a header of an answer is like.
fn enrich_param(name: &str, description: &str, schema: Json) -> Json {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// A header with a number.
fn count_header(description: &str) -> Json {
    json!({"description": description, "schema": {"type": "integer", "minimum": 0}})
}

fn enrich(model: &str) -> Json {
    let any = |types: &[&str]| -> Json {
        let types = types.iter();
        let content: Map<String, Json> = types
            .map(|name| ((*name).to_owned(), json!({"schema": {}})))
            .collect();
        content.into()
    };
    json!({"post": {
        "operationId": format!("enrich_{model}"),
        "summary": format!("Stream events through the model {model}"),
        "parameters": [
            enrich_param(
                "format",
                "How events are read; else as Content-Type or [enrich] says, else as JSON lines",
                json!({"type": "string", "enum": InputFormat::NAMES}),
            ),
            enrich_param(
                "output_format",
                "How events are written; else as Accept or [enrich] says, else as JSON lines",
                json!({"type": "string", "enum": OutputFormat::NAMES}),
            ),
            enrich_param(
                "columns",
                "Of answers in CSV: the names of the columns, parted by commas; else those of the \
                 first event",
                json!({"type": "string"}),
            ),
            enrich_param(
                "extra",
                "Of answers in CSV: whether an event with a field that has no column is rejected, or \
                 the field is left out",
                json!({"type": "string", "enum": ["reject", "ignore"], "default": "reject"}),
            ),
            enrich_param(
                "strict",
                "Whether the first event that is rejected, or whose lookup fails, ends the stream",
                json!({"type": "boolean", "default": false}),
            ),
        ],
        "requestBody": {"required": true, "content": any(&["application/x-ndjson", "text/csv", "text/plain"])},
        "responses": {
            "200": {"description": "Events as they leave the model, in their order",
                    "headers": {
                        "X-Events": count_header(
                            "Events in the answer; as the others, of an answer that is short"),
                        "X-Rejected": count_header(
                            "Lines that do not parse, and events that do not fit the CSV; absent if none"),
                        "X-Failed": count_header("Failed lookups; absent if none"),
                        "X-Reject-Reason": {"description": "Why the first of the rejected was so; absent if none",
                                            "schema": {"type": "string"}},
                    },
                    "content": any(&["application/x-ndjson", "text/csv", "text/plain"])},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }})
}

fn query() -> Json {
    let rows = json!({"type": "array", "items": {"type": "object"}});
    let mut answered = answer("Its rows", &Form::ALL.map(Form::media_type), &rows);
    answered["headers"] = json!({
        "X-Rows-Cut": count_header("How many rows there are at most, where there are more"),
    });
    json!({
        "operationId": "query",
        "summary": "Ask a statement that is no lookup",
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object",
            "required": ["sql"],
            "properties": {"sql": {"type": "string"}, "params": {"type": "object"}},
        }}}},
        "responses": {
            "200": answered,
            "default": {"$ref": "#/components/responses/Problem"},
        },
    })
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

/// A parameter in a URL.
fn text_schema(kind: ParamType) -> Json {
    match kind {
        ParamType::Any => json!({"type": "string"}),
        kind => value_schema(kind),
    }
}

/// A parameter in JSON.
fn value_schema(kind: ParamType) -> Json {
    match kind {
        ParamType::Any => json!({"type": ["string", "number", "boolean", "null"]}),
        ParamType::Int => json!({"type": "integer", "format": "int64"}),
        ParamType::Float => json!({"type": "number"}),
        ParamType::Bool => json!({"type": "boolean"}),
        ParamType::Uuid => json!({"type": "string", "format": "uuid"}),
        ParamType::Ipv4 => json!({"type": "string", "format": "ipv4"}),
        ParamType::Ipv6 => json!({"type": "string", "format": "ipv6"}),
        ParamType::Time => json!({"type": "string", "format": "date-time"}),
        ParamType::Text | ParamType::Decimal | ParamType::Ip | ParamType::Net => {
            json!({"type": "string"})
        }
    }
}

fn row_schema(prepared: &Prepared) -> Json {
    let types = prepared
        .explanation
        .provider
        .as_ref()
        .map(|provider| &provider.column_types);
    let mut properties = Map::new();
    for (index, column) in columns(prepared).enumerate() {
        let declared = types
            .and_then(|types| types.get(index))
            .map(|it| it.as_str());
        let schema = match declared {
            Some("int2" | "int4" | "int8" | "oid" | "smallint" | "int" | "bigint") => {
                json!({"type": ["integer", "null"]})
            }
            Some("float4" | "float8" | "float" | "double") => json!({"type": ["number", "null"]}),
            Some("bool") => json!({"type": ["boolean", "null"]}),
            // SQLite's columns hold any type.
            _ => json!({}),
        };
        properties.insert(column.to_owned(), schema);
    }
    let names: Vec<&str> = columns(prepared).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths that the server answers and that the document does not describe, with the reason.
    const LEFT_OUT: [(&str, &str); 1] = [("/", "a page for people")];

    #[test]
    fn every_path_of_the_server_is_described() {
        for (path, target) in FIXED {
            let is_left_out = LEFT_OUT.iter().any(|(other, _)| *other == path);
            assert_eq!(fixed(target).is_none(), is_left_out, "{path}");
        }
    }
}
