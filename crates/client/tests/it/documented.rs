//! `docs/TYPES.md` says what is so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lookaside_client::types::postgres::{Format, PgType};
use lookaside_value::Value;

use crate::raw::RawParam;
use crate::session::{Session, session};

/// The cells of the tables of the document, those of one header.
fn rows(document: &str, header: &str) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        inside = line == header || (inside && line.starts_with('|'));
        if inside && line.starts_with("| `") {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let code = |cell: &str| cell.trim_matches('`').to_owned();
            let cells: [&str; 4] = cells.try_into().unwrap_or_else(|_| panic!("{line}"));
            rows.push(cells.map(code));
        }
    }
    rows
}

pub(crate) fn document() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TYPES.md");
    fs::read_to_string(file).unwrap()
}

pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    value.write_json(&mut out);
    out
}

/// JSON is how examples of parameters are written.
pub(crate) fn value_of_json(text: &str) -> Value {
    if text == "null" {
        return Value::Null;
    }
    let json = PgType::of(114);
    json.decode(Format::Text, text.as_bytes()).unwrap()
}

fn value_of(session: &Session, sql: &str) -> (PgType, Value) {
    let pg_type = session.binary(sql, &[]).pg_type;
    let value = match pg_type.result_format() {
        Format::Binary => session.binary(sql, &[]).values(Format::Binary).remove(0),
        Format::Text => {
            let text = session.text(sql).remove(0).unwrap();
            pg_type.decode(Format::Text, text.as_bytes()).unwrap()
        }
    };
    (pg_type, value)
}

#[test]
fn results_are_as_documented() {
    let Some(session) = session() else { return };
    session.execute("SET lc_monetary = 'C'");
    let rows = rows(&document(), "| type | becomes | for example | shown |");
    assert!(rows.len() > 70, "{}", rows.len());
    let mut documented = BTreeSet::new();
    for [name, becomes, example, shown] in rows {
        let (pg_type, value) = value_of(&session, &format!("SELECT {example}"));
        let found = (pg_type.name(), value.type_of().name(), json(&value));
        assert_eq!(found, (name.clone(), becomes.as_str(), shown), "{example}");
        documented.insert(name);
    }
    // Numbers below this are the same in each database. A result is never `unknown`.
    let known = (1..16_384)
        .map(PgType::of)
        .filter(|pg_type| !pg_type.name().starts_with("type "));
    let names: BTreeSet<_> = known
        .map(PgType::name)
        .filter(|name| !name.ends_with("[]"))
        .collect();
    let missing: Vec<_> = names.difference(&documented).collect();
    assert_eq!(missing, ["unknown"]);
}

#[test]
fn the_numbers_of_types_are_those_of_the_server() {
    let Some(session) = session() else { return };
    for oid in 1..16_384 {
        let name = PgType::of(oid).name();
        if !name.starts_with("type ") {
            let sql = format!(
                "SELECT coalesce((SELECT e.typname || '[]' FROM pg_type e WHERE e.typarray = t.oid), \
                 typname) FROM pg_type t WHERE oid = {oid}"
            );
            let theirs = session.text(&sql).remove(0).unwrap();
            assert_eq!(name.replace('"', ""), theirs, "{oid}");
        }
    }
}

#[test]
fn parameters_are_as_documented() {
    let Some(session) = session() else { return };
    let rows = rows(
        &document(),
        "| declared | takes | for example | comes back as |",
    );
    assert!(rows.len() > 15, "{}", rows.len());
    for [name, _, example, expected] in rows {
        let sql = format!("SELECT $1::{name}");
        let declared = session.declared(&sql)[0];
        assert_eq!(PgType::of(declared).name(), name);
        let example = value_of_json(&example);
        let params = [RawParam::of(&example, declared)];
        let column = session.binary(&sql, &params);
        let value = match column.pg_type.result_format() {
            Format::Binary => column.values(Format::Binary).remove(0),
            Format::Text => {
                let sql = format!("SELECT ($1::{name})::text");
                session
                    .binary(&sql, &params)
                    .values(Format::Binary)
                    .remove(0)
            }
        };
        assert_eq!(json(&value), expected, "{name}");
    }
}
