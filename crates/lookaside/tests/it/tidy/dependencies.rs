//! The dependencies of the program: licences, and packages with several versions.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::Command;

use serde_json::Value as Json;

use super::{assert_none, root};

/// Licences under which a package may be part of the program: each permits redistribution, changed
/// or not, with a notice.
const LICENCES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "PostgreSQL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that the program has in several versions, with the package that requires the old one.
/// Obsolete entries must be removed.
const DOUBLED: [(&str, &str); 6] = [
    ("base64", "metrics-exporter-prometheus wants 0.22"),
    ("getrandom", "ring wants 0.2, rand of metrics-util 0.3"),
    ("hashbrown", "metrics-util wants 0.16"),
    (
        "rand_core",
        "metrics-util wants 0.9; 0.10 is a feature of getrandom that only tests turn on",
    ),
    (
        "syn",
        "derive macros of jiff, miette and tracing want 2; it is not in the program itself",
    ),
    ("unicode-width", "miette wants 0.1"),
];

/// A package of the program: name, version, licence.
type Package = (String, String, String);

/// All packages that the program is built of on this machine, with those that build scripts and macros
/// run.
fn packages() -> Vec<Package> {
    let host = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output();
    let host = String::from_utf8(host.expect("rustc runs").stdout).expect("a name");
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // The program has been built, so all packages are available offline.
    let arguments = ["metadata", "--format-version=1", "--locked", "--offline"];
    let said = Command::new(cargo)
        .args(arguments)
        .args(["--filter-platform", host.trim()])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let metadata: Json = serde_json::from_slice(&said.stdout).expect("JSON");
    let list = |of: &Json| of.as_array().expect("a list").clone();
    let text = |of: &Json| of.as_str().unwrap_or_default().to_owned();
    let by_id: BTreeMap<String, Package> = list(&metadata["packages"])
        .iter()
        .map(|it| {
            (
                text(&it["id"]),
                (
                    text(&it["name"]),
                    text(&it["version"]),
                    text(&it["license"]),
                ),
            )
        })
        .collect();
    let needs: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let of_program =
                |it: &&Json| list(&it["dep_kinds"]).iter().any(|it| it["kind"] != "dev");
            let needed = list(&node["deps"]);
            let needed = needed.iter().filter(of_program).map(|it| text(&it["pkg"]));
            (text(&node["id"]), needed.collect())
        })
        .collect();
    let mut open: Vec<&String> = by_id
        .iter()
        .filter(|(_, package)| package.0 == "lookaside")
        .map(|(id, _)| id)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(&needs[id]);
        }
    }
    seen.into_iter().map(|id| by_id[id].clone()).collect()
}

/// Whether a licence expression can be satisfied by those above: one side of an `or`, both sides of
/// an `and`.
fn is_allowed(expression: &str) -> bool {
    // `MIT/Apache-2.0` is an older notation of `or`.
    let expression = expression.replace('/', " OR ");
    let expression = expression.trim();
    let (mut depth, mut parts, mut start) = (0, Vec::new(), 0);
    for (at, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" AND ") => {
                parts.push(&expression[start..at]);
                start = at + " AND ".len();
            }
            _ => {}
        }
    }
    parts.push(&expression[start..]);
    if parts.len() > 1 {
        return parts.into_iter().all(is_allowed);
    }
    let inner = expression
        .strip_prefix('(')
        .and_then(|it| it.strip_suffix(')'));
    inner
        .unwrap_or(expression)
        .split(" OR ")
        .any(|it| LICENCES.contains(&it.trim()))
}

#[test]
fn licences_are_understood() {
    for (expression, expected) in [
        ("MIT", true),
        ("MIT/GPL-3.0", true),
        ("GPL-3.0", false),
        ("", false),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("(GPL-2.0 OR GPL-3.0) AND MIT", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
    ] {
        assert_eq!(is_allowed(expression), expected, "{expression}");
    }
}

#[test]
fn dependencies_have_known_licences_and_are_there_once() {
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    let unknown = packages
        .iter()
        .filter(|(_, _, licence)| !is_allowed(licence))
        .map(|(name, version, licence)| format!("{name} {version}: {licence:?}"));
    assert_none(
        unknown.collect(),
        "a package with a licence that is not among LICENCES",
    );
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version, _) in &packages {
        versions.entry(name).or_default().insert(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let known = DOUBLED.map(|(name, _)| name);
    let new = versions.iter().filter(|(name, _)| !known.contains(name));
    let new = new.map(|(name, versions)| format!("{name}: {versions:?}"));
    assert_none(
        new.collect(),
        "a package in several versions without a reason in DOUBLED",
    );
    let gone = known.iter().filter(|name| !versions.contains_key(**name));
    let gone = gone.map(|name| (*name).to_owned());
    assert_none(
        gone.collect(),
        "a package in one version that DOUBLED still names",
    );
}
