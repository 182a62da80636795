//! The JSON schema of a column by its type, following docs/TYPES.md.

use lookaside_knowledge::{ProviderKind, Type};
use serde_json::{Value as Json, json};

/// The schema of a column of the project's own tables.
pub(super) fn own_column(known: Option<Type>) -> Json {
    match known {
        Some(Type::Int) => or_null("integer", Some("int64")),
        Some(Type::Float) => or_null("number", Some("double")),
        Some(Type::Text) => or_null("string", None),
        // It is computed or not declared, or has values of several types.
        _ => json!({}),
    }
}

/// The schema of a provider's column, by the type name of its server.
pub(super) fn provider_column(server: ProviderKind, declared: &str) -> Json {
    match server {
        ProviderKind::Postgres | ProviderKind::Embedded => postgres_column(declared),
        ProviderKind::Mysql => mysql_column(declared),
        _ => json!({}),
    }
}

fn postgres_column(declared: &str) -> Json {
    match declared {
        "int2" | "int4" | "oid" | "xid" | "cid" => or_null("integer", None),
        "int8" => or_null("integer", Some("int64")),
        // NaN and the infinities are null.
        "float4" | "float8" => or_null("number", Some("double")),
        "bool" => or_null("boolean", None),
        // A string keeps all digits, which most readers lose in JSON numbers.
        "numeric" => or_null("string", Some("decimal")),
        "uuid" => or_null("string", Some("uuid")),
        // Years beyond four digits and the infinities are strings as well, but do not match the
        // format.
        "timestamptz" => or_null("string", Some("date-time")),
        "date" => or_null("string", Some("date")),
        "json" | "jsonb" => json!({}),
        // A user-defined type is named by its number; its values are strings or arrays of strings.
        name if name.is_empty() || name.starts_with("type ") => json!({}),
        name if name.ends_with("[]") => json!({"type": ["array", "string", "null"]}),
        _ => or_null("string", None),
    }
}

fn mysql_column(declared: &str) -> Json {
    match declared {
        "tinyint" | "tinyint unsigned" | "smallint" | "smallint unsigned" | "mediumint"
        | "mediumint unsigned" | "int" | "int unsigned" | "year" => or_null("integer", None),
        "bigint" => or_null("integer", Some("int64")),
        // Values beyond the signed 64-bit range are decimals.
        "bigint unsigned" | "bit" => json!({"type": ["integer", "string", "null"]}),
        "float" | "double" => or_null("number", Some("double")),
        "decimal" => or_null("string", Some("decimal")),
        "uuid" => or_null("string", Some("uuid")),
        "date" => or_null("string", Some("date")),
        "json" | "unknown" | "unknown text" | "null" | "" => json!({}),
        _ => or_null("string", None),
    }
}

fn or_null(name: &str, format: Option<&str>) -> Json {
    let mut schema = json!({"type": [name, "null"]});
    if let Some(format) = format {
        schema["format"] = format.into();
    }
    schema
}
