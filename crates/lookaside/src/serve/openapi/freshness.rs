//! The headers by which a client demands how fresh an answer is, and those that tell it.

use serde_json::{Value as Json, json};

use super::super::lookup::Lookup;
use crate::config::ClientFreshness;

/// As the position of a server's log is written.
const POSITION: &str = "^pg:[0-9]+:[0-9]+:[0-9A-F]+/[0-9A-F]+$";

/// The headers of requests to a lookup, if they have an effect.
pub(super) fn request_headers(lookup: &Lookup, limit: ClientFreshness) -> Vec<Json> {
    if !lookup.is_remote() || limit == ClientFreshness::Off {
        return Vec::new();
    }
    let mut headers = model_headers(limit);
    headers.push(request_header(
        "Lookaside-Min-Position",
        "A position as in Lookaside-Position: the answer includes all that was committed up to \
         it. One of another server, or beyond the end of its log, is refused with 412",
        json!({"type": "string", "pattern": POSITION}),
    ));
    headers
}

fn request_header(name: &str, description: &str, schema: Json) -> Json {
    json!({"name": name, "in": "header", "description": description, "schema": schema})
}

/// The headers of requests to a lookup or a model that demand a time, if they have an effect.
pub(super) fn model_headers(limit: ClientFreshness) -> Vec<Json> {
    if limit == ClientFreshness::Off {
        return Vec::new();
    }
    vec![
        request_header(
            "Cache-Control",
            "no-cache and max-age=0: the answer includes all changes that were committed before \
             the request; max-age=SECONDS: those that were visible so long before it. Other \
             directives have no effect",
            json!({"type": "string"}),
        ),
        request_header(
            "Lookaside-Max-Staleness",
            "How long before the request a change may have become visible without being in the \
             answer: now, any, or a time such as 50ms or 2s",
            json!({"type": "string", "pattern": "^(any|now|[0-9]+(ms|s|m|h))$"}),
        ),
    ]
}

/// The headers of an answer, in addition to those of its body.
pub(super) fn response_headers(lookup: &Lookup) -> Json {
    let header =
        |description: &str, schema: Json| json!({"description": description, "schema": schema});
    let text = json!({"type": "string"});
    let mut headers = json!({
        "X-Cache": header(
            "The layer that answered; for a provider with the age of the answer in seconds, with \
             feed=live if its change feed keeps the answer valid, and with behind if it does not \
             include what is required",
            text.clone(),
        ),
        "Cache-Control": header("How long a client may keep the answer", text.clone()),
        "Server-Timing": {"schema": text},
    });
    if lookup.is_remote() {
        headers["Age"] = super::count_header("The age of the answer in seconds");
        headers["Lookaside-Fresh-As-Of"] = header(
            "The answer includes all changes that were visible in the database at this time; \
             within is the number of milliseconds since then. Absent without a change feed, and \
             for a stale answer",
            json!({"type": "string", "pattern": "^[0-9-]+T[0-9:.]+Z; within=[0-9]+$"}),
        );
        headers["Lookaside-Position"] = header(
            "The answer includes all that was committed up to this position of the server's log. \
             Absent if the change feed does not tell it",
            json!({"type": "string", "pattern": POSITION}),
        );
    }
    headers
}
