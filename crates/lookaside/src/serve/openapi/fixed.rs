//! The paths that do not depend on the project.

use serde_json::{Map, Value as Json, json};

use super::super::encode::BodyFormat;
use super::super::endpoint::Endpoint;
use super::{answer, content_encoding, count_header};

/// The method and the operation of an endpoint with a fixed path; `None` for the console, which is
/// a page for people.
pub(super) fn fixed(endpoint: Endpoint) -> Option<(&'static str, Json)> {
    let json = "application/json";
    Some(match endpoint {
        Endpoint::Console
        | Endpoint::Lookup
        | Endpoint::Table
        | Endpoint::Enrich
        | Endpoint::Unknown => return None,
        Endpoint::Query => ("post", query()),
        Endpoint::Explain => ("post", explain()),
        Endpoint::Project => parameterless(
            "project",
            "Tables, lookups with their plans, and models",
            json,
            &project_schema(),
        ),
        Endpoint::Reload => ("post", reload()),
        Endpoint::Status => parameterless(
            "status",
            "The numbers behind the console",
            json,
            &status_schema(),
        ),
        Endpoint::Lookups => {
            parameterless("lookups", "The lookups and models", json, &lookups_schema())
        }
        Endpoint::OpenApi => {
            parameterless("openapi", "This document", json, &json!({"type": "object"}))
        }
        Endpoint::Metrics => parameterless(
            "metrics",
            "Numbers for Prometheus",
            "text/plain",
            &json!({}),
        ),
        Endpoint::Health => parameterless(
            "healthz",
            "Whether the process is running",
            json,
            &status_word(&["ok"]),
        ),
        Endpoint::Ready => {
            let state = status_word(&["ready", "waiting", "draining"]);
            let summary = "Whether the server is ready, and the state of its providers";
            let (method, mut operation) = parameterless("readyz", summary, json, &state);
            let why =
                "The server ends, or all lookups and models wait for providers that never answered";
            operation["responses"]["503"] = answer(why, &[json], &state);
            (method, operation)
        }
    })
}

/// The operation of an endpoint without parameters.
fn parameterless(
    id: &str,
    summary: &str,
    content_type: &str,
    schema: &Json,
) -> (&'static str, Json) {
    let operation = json!({
        "operationId": id,
        "summary": summary,
        "responses": {"200": answer("The answer", &[content_type], schema),
                      "default": {"$ref": "#/components/responses/Problem"}},
    });
    ("get", operation)
}

/// The schema of an object with a `status` of one word.
fn status_word(words: &[&str]) -> Json {
    json!({"type": "object", "required": ["status"],
           "properties": {"status": {"type": "string", "enum": words}}})
}

fn lookups_schema() -> Json {
    let text = json!({"type": "string"});
    let named = json!({"type": "object", "required": ["name", "type", "nullable"],
                       "properties": {"name": text, "type": text,
                                      "nullable": {"type": "boolean", "description": "Whether it may be omitted"}}});
    let lookup = json!({
        "type": "object",
        "required": ["name", "url", "many", "params", "ready"],
        "properties": {
            "name": text,
            "url": {"type": "string", "description": "With {name} for each parameter"},
            "many": {"type": "boolean", "description": "Whether the answer contains all rows"},
            "description": {"type": ["string", "null"]},
            "example": {"type": ["string", "null"], "description": "A URL that has an answer"},
            "params": {"type": "array", "items": named},
            "columns": {"type": "array", "items": text},
            "answered_by": {"type": "string", "description": "An index, sqlite or a provider"},
            "ready": {"type": "boolean", "description": "Whether its provider has answered since \
                                                         the start"},
        },
    });
    json!({
        "type": "object",
        "required": ["lookups", "models", "models_not_ready"],
        "properties": {
            "lookups": {"type": "array", "items": lookup},
            "models": {"type": "array", "items": text},
            "models_not_ready": {"type": "array", "items": text,
                                 "description": "Those that wait for a provider"},
        },
    })
}

fn status_schema() -> Json {
    let count = json!({"type": "integer", "minimum": 0});
    let names = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    let feed = json!({
        "type": ["object", "null"],
        "description": "Its change feed, if knowdb.toml sets one",
        "required": ["state", "reason", "lag_s", "statements", "queue", "transactions", "rows",
                     "refused_fills", "slot_wal_bytes", "resets"],
        "properties": {
            "state": {"type": "string", "enum": ["idle", "starting", "live", "down"]},
            "reason": {"type": ["string", "null"],
                       "description": "Why it is down, or was before it started again, if error_detail is set"},
            "lag_s": {"type": ["number", "null"],
                      "description": "The maximal age of the answers that it keeps valid; null while it is not live"},
            "statements": {"type": "integer", "minimum": 0,
                           "description": "Statements whose answers it invalidates"},
            "queue": {"type": "integer", "minimum": 0,
                      "description": "Received transactions that wait until the server shows them"},
            "transactions": {"type": "integer", "minimum": 0,
                             "description": "Transactions that invalidated answers"},
            "rows": {"type": "integer", "minimum": 0,
                     "description": "Changed rows that invalidated answers"},
            "refused_fills": {"type": "integer", "minimum": 0,
                              "description": "Answers that were outdated when they arrived"},
            "slot_wal_bytes": {"type": ["integer", "null"], "minimum": 0,
                               "description": "Bytes of WAL that its slot holds back; null if unknown"},
            "resets": {"type": "object", "additionalProperties": count,
                       "description": "Invalidations of all answers, by reason"},
        },
    });
    let provider = json!({
        "type": "object",
        "required": ["name", "kind", "place", "health", "connections", "last_error", "feed"],
        "properties": {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "place": {"type": ["string", "null"],
                      "description": "Its address without the password, if error_detail is set"},
            "health": {"type": "string", "enum": ["up", "idle", "down"]},
            "connections": count,
            "last_error": {"type": ["string", "null"], "description": "The error of an unavailable provider, if error_detail is set"},
            "feed": feed,
        },
    });
    let waiting = json!({
        "type": "object",
        "required": ["provider", "lookups", "models", "error"],
        "properties": {
            "provider": {"type": "string"},
            "lookups": names("Those that wait for it"),
            "models": names("Those that wait for it"),
            "error": {"type": ["string", "null"], "description": "The reason, if error_detail shows it"},
        },
    });
    let members = [
        ("project", json!({"type": "string"})),
        ("version", json!({"type": "string"})),
        (
            "ready",
            json!({"type": "boolean", "description": "The state that /readyz reports"}),
        ),
        ("uptime_s", json!({"type": "number"})),
        (
            "generation",
            json!({"type": "integer", "description": "The generation of the tables"}),
        ),
        ("memory_bytes", json!({"type": ["integer", "null"]})),
        ("tables", count.clone()),
        ("rows", count.clone()),
        ("cache_bytes", count.clone()),
        ("requests", count.clone()),
        (
            "answers",
            json!({"type": "object", "additionalProperties": count,
                   "description": "Answers of lookups, by the layer that answered"}),
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
        (
            "lookups_not_ready",
            names("Lookups that wait for a provider"),
        ),
        ("models_not_ready", names("Models that wait for a provider")),
        ("waiting", json!({"type": "array", "items": waiting})),
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
            "generation": {"type": "integer", "description": "The generation of the tables"},
            "ms": {"type": "integer", "description": "How long it took"},
            "warnings": {"type": "array", "items": {"type": "string"},
                         "description": "Warnings that may need attention"},
        },
    });
    json!({
        "operationId": "reload",
        "summary": "Reload the tables, lookups and keys",
        "responses": {"200": answer("The reload succeeded", &["application/json"], &reloaded),
                      "default": {"$ref": "#/components/responses/Problem"}},
    })
}

fn project_schema() -> Json {
    let text = json!({"type": "string"});
    let maybe_text = json!({"type": ["string", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    let counts = |mut members: Json| {
        for name in ["found", "absent", "failed"] {
            members[name] = count.clone();
        }
        members
    };
    let list = |members: Json| {
        let required: Vec<String> = members
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect();
        json!({"type": "array", "items": {"type": "object", "required": required, "properties": members}})
    };
    let table = json!({
        "name": text,
        "kind": {"type": "string", "enum": ["table", "view"]},
        "rows": {"type": ["integer", "null"], "description": "null for a view"},
        "columns": list(json!({"name": text, "type": text})),
        "warnings": {"type": "array", "items": text},
    });
    let lookup = counts(json!({
        "name": text,
        "sql": text,
        "summary": maybe_text,
        "plan": maybe_text,
        "tables": {"type": "array", "items": text, "description": "The tables of the folder that it reads"},
    }));
    let model = counts(json!({
        "name": text,
        "ready": {"type": "boolean"},
        "waits": maybe_text,
        "example": {"type": ["string", "null"], "description": "The first event of its tests"},
        "last_failure": maybe_text,
    }));
    json!({
        "type": "object",
        "required": ["generation", "query_rows_max", "tables", "lookups", "models"],
        "properties": {
            "generation": {"type": "integer"},
            "query_rows_max": {"type": ["integer", "null"]},
            "tables": list(table),
            "lookups": list(lookup),
            "models": list(model),
        },
    })
}

fn explain() -> Json {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let freshness = json!({
        "type": "object",
        "description": "Which answers the provider's change feed invalidates, if it has one",
        "required": ["class", "tables", "key_columns", "reason", "help"],
        "properties": {
            "class": {"type": "string", "enum": ["key", "table", "none", "unknown"]},
            "tables": texts,
            "key_columns": texts,
            "reason": {"type": ["string", "null"]},
            "help": {"type": ["string", "null"]},
        },
    });
    let plan = json!({
        "type": "object",
        "required": ["summary", "plan"],
        "properties": {
            "summary": {"type": "string"},
            "plan": {"type": "string"},
            "freshness": freshness,
        },
    });
    json!({
        "operationId": "explain",
        "summary": "Explain how a statement would be answered",
        "parameters": [content_encoding()],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object",
            "required": ["sql"],
            "properties": {"sql": {"type": "string"}},
        }}}},
        "responses": {
            "200": answer("Its plan", &["application/json"], &plan),
            "415": {"$ref": "#/components/responses/Problem"},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    })
}

/// The operation that returns the first rows of a table.
pub(super) fn table() -> Json {
    let rows = json!({"type": "array", "items": {"type": "object"}});
    let mut answered = answer(
        "Its rows",
        &BodyFormat::ALL.map(BodyFormat::media_type),
        &rows,
    );
    answered["headers"] = json!({
        "X-Rows-Cut": count_header("The limit on rows, if the answer was truncated"),
    });
    json!({"get": {
        "operationId": "table",
        "summary": "The first rows of a table or view",
        "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {"200": answered, "default": {"$ref": "#/components/responses/Problem"}},
    }})
}

fn query() -> Json {
    let rows = json!({"type": "array", "items": {"type": "object"}});
    let mut answered = answer(
        "Its rows",
        &BodyFormat::ALL.map(BodyFormat::media_type),
        &rows,
    );
    answered["headers"] = json!({
        "X-Rows-Cut": count_header("The limit on rows, if the answer was truncated"),
    });
    json!({
        "operationId": "query",
        "summary": "Run a statement that is not a lookup",
        "parameters": [content_encoding()],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object",
            "required": ["sql"],
            "properties": {"sql": {"type": "string"}, "params": {"type": "object"}},
        }}}},
        "responses": {
            "200": answered,
            "415": {"$ref": "#/components/responses/Problem"},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::endpoint::FIXED;
    use super::*;

    /// Paths that the document leaves out on purpose, with the reason.
    const LEFT_OUT: [(&str, &str); 1] = [("/", "a page for people")];

    #[test]
    fn every_path_of_the_server_is_described() {
        for (path, endpoint) in FIXED {
            let is_left_out = LEFT_OUT.iter().any(|(other, _)| *other == path);
            assert_eq!(fixed(endpoint).is_none(), is_left_out, "{path}");
        }
    }
}
