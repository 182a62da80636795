//! `docs/knowdb.schema.json`, which editors use to complete and check `knowdb.toml`: it has exactly
//! the keys that the program accepts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::Project;

/// A key that no section has, and that is not similar to any.
const ABSURD: &str = "zzqqxx";

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/knowdb.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Where each section is in the schema, and a file whose section contains the absurd key.
const SECTIONS: [(&str, &str); 18] = [
    ("", "zzqqxx = 1\n"),
    ("/properties/default", "[default]\nzzqqxx = 1\n"),
    ("/properties/csv", "[csv]\nzzqqxx = 1\n"),
    ("/properties/cache", "[cache]\nzzqqxx = 1\n"),
    ("/properties/local", "[local]\nzzqqxx = 1\n"),
    (
        "/properties/tables/items",
        "[[tables]]\nname = 't'\nzzqqxx = 1\n",
    ),
    (
        "/properties/tables/items/properties/csv",
        "[[tables]]\nname = 't'\ncsv.zzqqxx = 1\n",
    ),
    (
        "/properties/tables/items/properties/columns",
        "[[tables]]\nname = 't'\ncolumns.zzqqxx = 1\n",
    ),
    (
        "/properties/tables/items/properties/expected_rows",
        "[[tables]]\nname = 't'\nexpected_rows.zzqqxx = 1\n",
    ),
    (
        "/properties/provider/properties/sqldb/anyOf/0",
        "[provider.sqldb]\nkind = 'postgres'\nzzqqxx = 1\n",
    ),
    (
        "/properties/provider/properties/sqldb/anyOf/1/items/properties/postgres_session",
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\npostgres_session.zzqqxx = 1\n",
    ),
    ("/properties/intranet_nets", "[intranet_nets]\nzzqqxx = 1\n"),
    ("/properties/enrich", "[enrich]\nzzqqxx = 1\n"),
    (
        "/properties/enrich/properties/output/anyOf/1/items",
        "[[enrich.output]]\nname = 'a'\ntarget = 'b'\nzzqqxx = 1\n",
    ),
    (
        "/properties/lookups/additionalProperties",
        "[lookups.a]\nsql = 'select 1'\nzzqqxx = 1\n",
    ),
    ("/properties/server", "[server]\nzzqqxx = 1\n"),
    (
        "/properties/server/properties/keys/items",
        "[[server.keys]]\nzzqqxx = 1\n",
    ),
    (
        "/properties/server/properties/tls",
        "[server.tls]\nzzqqxx = 1\n",
    ),
];

#[test]
fn the_schema_has_the_programs_keys() {
    let schema = schema();
    for (pointer, text) in SECTIONS {
        let section = schema
            .pointer(pointer)
            .unwrap_or_else(|| panic!("no {pointer}"));
        assert_eq!(section["additionalProperties"], false, "{pointer}");
        let written: BTreeSet<&str> = section["properties"]
            .as_object()
            .unwrap_or_else(|| panic!("{pointer} has no properties"))
            .keys()
            .map(String::as_str)
            .collect();
        let project = Project::with(&[("knowdb.toml", &format!("version = 2\n{text}"))]);
        let said = project.run(&["check", "."]).ended(1).err;
        assert!(said.contains(ABSURD), "{pointer}: {said}");
        // Messages are wrapped.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = said.replace("│ ", "");
        let known = ["the known keys are ", "] are "]
            .iter()
            .find_map(|begin| said.split_once(begin))
            .unwrap_or_else(|| panic!("{pointer} does not say what it knows: {said}"))
            .1;
        let known: BTreeSet<&str> = known
            .split(", ")
            .map(|word| word.split(' ').next().unwrap_or(word))
            .collect();
        assert_eq!(written, known, "{pointer}");
    }
}
