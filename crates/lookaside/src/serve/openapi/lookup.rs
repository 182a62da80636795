//! The operations of a lookup.

use serde_json::{Map, Value as Json, json};

use super::super::encode::{BodyFormat, ERROR_MEMBER};
use super::super::lookup::{Lookup, Prepared};
use super::super::overview::columns;
use super::super::params::Param;
use super::super::problem::PROBLEM_TYPE;
use super::columns::{own_column, provider_column};
use super::freshness::{request_headers, response_headers};
use super::{answer, content_encoding, count_header};
use crate::config::{ClientFreshness, ParamType};

/// The operation of a single lookup.
pub(super) fn one(lookup: &Lookup, prepared: &Prepared, limit: ClientFreshness) -> Json {
    let mut params: Vec<Json> = prepared
        .params
        .iter()
        .map(|param| {
            json!({"name": param.name.as_str(), "in": "query", "required": !param.is_nullable,
                   "schema": text_schema(param.kind)})
        })
        .collect();
    params.extend(request_headers(lookup, limit));
    let row = row_schema(prepared);
    let schema = match lookup.config.many {
        true => json!({"type": "array", "items": row}),
        false => row,
    };
    let types = BodyFormat::ALL.map(BodyFormat::media_type);
    let mut found = answer(
        if lookup.config.many {
            "All rows"
        } else {
            "The row"
        },
        &types,
        &schema,
    );
    let headers = response_headers(lookup);
    let mut validated = headers.clone();
    validated["ETag"] = json!({"schema": {"type": "string"}});
    found["headers"] = validated.clone();
    let mut responses = json!({
        "200": found,
        "304": {"description": "The client's answer is still valid", "headers": validated},
        "400": {"$ref": "#/components/responses/Problem"},
        "default": {"$ref": "#/components/responses/Problem"},
    });
    if !lookup.config.many {
        let problem = json!({"$ref": "#/components/schemas/Problem"});
        responses["404"] = answer("There is no row", &[PROBLEM_TYPE], &problem);
        responses["404"]["headers"] = headers;
    }
    add_position_refused(lookup, limit, &mut responses);
    operation(
        lookup,
        "lookup",
        json!({"parameters": params, "responses": responses}),
    )
}

/// The operation of a batch.
pub(super) fn batch(lookup: &Lookup, prepared: &Prepared, limit: ClientFreshness) -> Json {
    let mut properties = Map::new();
    for param in &prepared.params {
        properties.insert(param.name.to_string(), value_schema(param));
    }
    let needed = prepared.params.iter().filter(|param| !param.is_nullable);
    let names: Vec<&str> = needed.map(|param| param.name.as_str()).collect();
    let set = json!({"type": "object", "properties": properties, "required": names,
                     "additionalProperties": false});
    let set = match &prepared.params[..] {
        [param] => json!({"anyOf": [set, value_schema(param)]}),
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
    let mut params = vec![content_encoding()];
    params.extend(request_headers(lookup, limit));
    let mut responses = json!({
        "200": answered,
        "400": {"$ref": "#/components/responses/Problem"},
        "415": {"$ref": "#/components/responses/Problem"},
        "default": {"$ref": "#/components/responses/Problem"},
    });
    add_position_refused(lookup, limit, &mut responses);
    operation(
        lookup,
        "batch",
        json!({
            "parameters": params,
            "requestBody": {"required": true, "content": {
                "application/json": {"schema": {"type": "array", "items": set}},
                "application/x-ndjson": {"schema": {}},
            }},
            "responses": responses,
        }),
    )
}

/// Adds the response to a position of another server.
fn add_position_refused(lookup: &Lookup, limit: ClientFreshness, responses: &mut Json) {
    if !request_headers(lookup, limit).is_empty() {
        let problem = json!({"$ref": "#/components/schemas/Problem"});
        let why = "Lookaside-Min-Position is of another server, or not in its log";
        responses["412"] = answer(why, &[PROBLEM_TYPE], &problem);
    }
}

fn operation(lookup: &Lookup, kind: &str, mut operation: Json) -> Json {
    operation["operationId"] = super::operation_id(kind, lookup.name()).into();
    operation["tags"] = json!([lookup.name()]);
    let summary = match kind {
        "batch" => format!("Many parameter sets of {} at once", lookup.name()),
        _ => format!("Look up {}", lookup.name()),
    };
    operation["summary"] = summary.into();
    if let Some(description) = &lookup.config.description {
        operation["description"] = description.as_str().into();
    }
    operation
}

/// The schema of a parameter in a URL.
fn text_schema(kind: ParamType) -> Json {
    match kind {
        ParamType::Any => json!({"type": "string"}),
        kind => typed_schema(kind),
    }
}

/// The schema of a parameter in JSON.
fn value_schema(param: &Param) -> Json {
    let mut schema = typed_schema(param.kind);
    if param.is_nullable
        && let Some(name) = schema["type"].as_str()
    {
        schema["type"] = json!([name, "null"]);
    }
    schema
}

fn typed_schema(kind: ParamType) -> Json {
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
    let explanation = &prepared.explanation;
    let mut properties = Map::new();
    for (index, column) in columns(prepared).enumerate() {
        let schema = match &explanation.provider {
            Some(provider) => {
                let declared = provider.column_types.get(index);
                let declared = declared.map_or("", |declared| declared.as_str());
                provider_column(provider.server, declared)
            }
            None => own_column(explanation.column_types.get(index).copied().flatten()),
        };
        properties.insert(column.to_owned(), schema);
    }
    let names: Vec<&str> = columns(prepared).collect();
    json!({"type": "object", "properties": properties, "required": names})
}
